"""Names, keys and addresses from settings and the environment, and a missing httpx."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.provider_server import Asked, Reply, as_json, serving, vector
from triptych import Message
from triptych.errors import ProviderError, ValidationError
from triptych.installation import install_command
from triptych_factory.embedders import build_embedder
from triptych_factory.llms import build_llm
from triptych_factory.provider_access import ProviderAccess, access_arguments

pytestmark = pytest.mark.process

KEYS = {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": "sk-a", "VOYAGE_API_KEY": "sk-v"}
MADE: list[object] = []


@pytest.fixture(autouse=True)
def close_all() -> Iterator[None]:
    yield
    while MADE:
        made = MADE.pop()
        assert callable(made.close)
        made.close()


def embedder(name: str, environ: Mapping[str, str] = KEYS, **how: Any) -> triptych.Embedder:
    made = build_embedder(name, environ=environ, **how)
    assert made is not None
    MADE.append(made)
    return made


def llm(name: str, environ: Mapping[str, str] = KEYS, **how: Any) -> triptych.LLM:
    made = build_llm(name, environ=environ, **how)
    assert made is not None
    MADE.append(made)
    return made


def test_names_become_embedders() -> None:
    assert embedder("voyage:voyage-3").signature == "voyage/voyage-3/1024/input-type"
    small = embedder("openai:text-embedding-3-small")
    assert small.signature == "openai/text-embedding-3-small/1536/no-prefix"
    assert embedder("ollama:nomic-embed-text:v1.5", {}).dimension == 768


def test_ollama_alone_is_its_usual_embedding_model() -> None:
    made = embedder("ollama", {"OLLAMA_HOST": "box"})
    assert (made.signature, made.dimension) == (
        embedder("ollama:nomic-embed-text", {}).signature,
        768,
    )
    with triptych.open("memory://", embedder="ollama") as kb:
        assert kb.options.embedder is not None
        assert kb.options.embedder.signature == made.signature
    for name in ("openai", "voyage"):
        with pytest.raises(ValidationError, match=f"no embedder is called '{name}'"):
            embedder(name)
    with pytest.raises(ValidationError, match="no language model is called 'ollama'"):
        build_llm("ollama", environ={})


def test_the_name_of_a_model_alone_is_answered_with_what_it_is_likely_to_mean() -> None:
    for name, meant in {
        "all-MiniLM-L6-v2": "local",
        "text-embedding-3-small": "openai:text-embedding-3-small",
        "nomic-embed-text": "ollama:nomic-embed-text",
    }.items():
        with pytest.raises(ValidationError, match=f"did you mean '{meant}'"):
            embedder(name)
    with pytest.raises(ValidationError) as caught:
        embedder("zzz")
    assert "mean" not in str(caught.value)


def test_names_become_language_models() -> None:
    assert llm("openai:gpt-4o-mini").signature == "openai/gpt-4o-mini"
    assert llm("anthropic:claude-haiku-4-5").signature == "anthropic/claude-haiku-4-5"
    assert llm("ollama:llama3.2:latest", {}).signature == "ollama/llama3.2"
    assert build_llm(None) is None
    assert build_llm("none") is None
    own = llm("ollama:own", {})
    assert build_llm(own) is own


@pytest.mark.parametrize("name", ["openai:", "openai: ", "gpt:x", "lokal", "anthropic:claude", ""])
def test_a_wrong_embedder_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        build_embedder(name, environ=KEYS)


@pytest.mark.parametrize("name", ["openai:", "voyage:voyage-3", "local", "", 3, object])
def test_a_wrong_language_model_is_refused(name: Any) -> None:
    with pytest.raises(ValidationError):
        build_llm(name, environ=KEYS)


@pytest.mark.parametrize(
    ("name", "variable"),
    [("openai:m", "OPENAI_API_KEY"), ("anthropic:m", "ANTHROPIC_API_KEY")],
)
def test_a_missing_key_names_its_variable(name: str, variable: str) -> None:
    for environ in ({}, {variable: ""}, {variable: "  "}):
        with pytest.raises(ValidationError, match=variable):
            build_llm(name, environ=environ)
    with pytest.raises(ValidationError, match="VOYAGE_API_KEY"):
        build_embedder("voyage:voyage-3", environ={})


def test_keys_and_addresses_come_from_the_environment_and_settings_go_before() -> None:
    def answer(asked: Asked) -> Reply:
        return as_json({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})

    ask = [Message(role="user", content="?")]
    with serving(answer) as server:
        environ = {"OPENAI_API_KEY": "sk-env", "OPENAI_BASE_URL": f"{server.url}/v1/"}
        llm("openai:m", environ).generate(ask, max_tokens=5)
        given = {"openai": ProviderAccess(api_key="sk-given", base_url=f"{server.url}/v2")}
        llm("openai:m", environ, access=given).generate(ask, max_tokens=5)
        assert "sk-given" not in repr(given)
        first, second = server.asked
    assert (first.path, first.headers["authorization"]) == ("/v1/chat/completions", "Bearer sk-env")
    assert (second.path, second.headers["authorization"]) == (
        "/v2/chat/completions",
        "Bearer sk-given",
    )


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("box", "http://box:11434"),
        ("box:80", "http://box:80"),
        (":8080", "http://127.0.0.1:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("http://0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("[::]:1234", "http://127.0.0.1:1234"),
        ("https://box/ollama", "https://box/ollama"),
        ("http://box", "http://box"),
    ],
)
def test_ollama_host_is_read_in_each_of_its_forms(host: str, url: str) -> None:
    assert access_arguments("ollama", None, {"OLLAMA_HOST": host})["base_url"] == url


@pytest.mark.parametrize(
    ("provider", "environ", "proxy"),
    [
        ("openai", {}, None),
        ("openai", {"HTTPS_PROXY": "http://p:1"}, "http://p:1"),
        ("openai", {"https_proxy": "http://p:2", "HTTPS_PROXY": "http://p:1"}, "http://p:2"),
        ("openai", {"HTTP_PROXY": "http://p:1"}, None),
        ("openai", {"ALL_PROXY": "http://p:1"}, "http://p:1"),
        ("openai", {"ALL_PROXY": "http://p:1", "NO_PROXY": "a, .openai.com"}, None),
        ("openai", {"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("openai", {"ALL_PROXY": "http://p:1", "NO_PROXY": "enai.com"}, "http://p:1"),
        ("openai", {"ALL_PROXY": "http://p:1", "NO_PROXY": "a  openai.com."}, None),
        *(
            ("openai", {"ALL_PROXY": "http://p:1", "NO_PROXY": name, "OPENAI_BASE_URL": url}, None)
            for name, url in (
                ("openai.com", "https://api.openai.com./v1"),
                ("xn--bcher-kva.example", "https://bücher.example/v1"),
                ("Bücher.example:443", "https://xn--bcher-kva.example/v1"),
                ("*.bücher.example", "https://a.xn--bcher-kva.example/v1"),
            )
        ),
        ("ollama", {"ALL_PROXY": "http://p:1"}, None),
        ("ollama", {"HTTP_PROXY": "http://p:1", "OLLAMA_HOST": "box"}, "http://p:1"),
    ],
)
def test_a_proxy_comes_from_the_environment(
    provider: str, environ: Mapping[str, str], proxy: str | None
) -> None:
    assert access_arguments(provider, None, environ)["connection"].proxy == proxy


def test_as_many_calls_are_let_through_as_are_asked_for() -> None:
    six = threading.Event()

    def answer(asked: Asked) -> Reply:
        if server.under_way >= 6:
            six.set()
        six.wait(10)
        return as_json({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})

    ask = [Message(role="user", content="?")]
    with serving(answer) as server:
        environ = {"OPENAI_BASE_URL": f"{server.url}/v1"}
        model = llm("openai:m", environ, concurrency=6)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: model.generate(ask, max_tokens=5), range(8)))
        assert server.most_at_once == 6
    with pytest.raises(ValidationError, match="concurrency"):
        build_llm("openai:m", environ=environ, concurrency=0)


def test_an_embedder_is_let_through_as_much_too(monkeypatch: pytest.MonkeyPatch) -> None:
    six = threading.Event()

    def answer(asked: Asked) -> Reply:
        if server.under_way >= 6:
            six.set()
        six.wait(10)
        return as_json({"embeddings": [vector(text, 768) for text in asked.body["input"]]})

    with serving(answer) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        with triptych.open(
            "memory://", embedder="ollama:nomic-embed-text", embed_concurrency=6
        ) as kb:
            model = kb.options.embedder
            assert model is not None
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda n: model.embed([f"{n}"], kind="query"), range(8)))
        assert server.most_at_once == 6


def test_a_setting_limits_the_texts_of_a_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Reply:
        return as_json({"embeddings": [vector(text, 768) for text in asked.body["input"]]})

    with serving(answer) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        monkeypatch.setenv("TRIPTYCH_EMBEDDER_BATCH", "10")
        for embedder in ("ollama:nomic-embed-text", "auto"):  # by name, then by what is stored
            with triptych.open(tmp_path / "kb.db", embedder=embedder) as kb:
                model = kb.options.embedder
                assert model is not None
                model.embed([f"{n}" for n in range(25)], kind="document")
                kb.put_documents("d", {"a.md": "text"})
        sizes = [len(asked.body["input"]) for asked in server.asked]
        assert sizes == [10, 10, 5, 1, 10, 10, 5]


def test_what_asks_one_address_shares_its_limit() -> None:
    one = access_arguments("openai", None, KEYS)["connection"]
    assert access_arguments("openai", None, KEYS)["connection"] is one
    other = access_arguments("openai", None, {"OPENAI_BASE_URL": "http://box/v1"})["connection"]
    assert other is not one


def test_a_knowledge_base_opens_with_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Reply:
        return as_json({"embeddings": [vector(text, 768) for text in asked.body["input"]]})

    with serving(answer) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        with triptych.open("memory://", embedder="ollama:nomic-embed-text") as kb:
            kb.put_documents("d", {"a.md": "kites fly", "b.md": "bread rises"})
            assert kb.search("kites", dataset_id="d", mode="vector").hits
            made = kb.options.embedder
        assert made is not None
        with pytest.raises(ProviderError, match="closed"):
            made.embed(["a"], kind="query")  # the service closed what it made


def test_a_missing_httpx_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['httpx'] = sys.modules['httpx2'] = None\n"
        "import triptych, triptych_factory.llms\n"
        "from triptych.errors import NotAvailableError\n"
        "from triptych_factory.embedders import build_embedder\n"
        "for build in (build_embedder, triptych_factory.llms.build_llm):\n"
        "    try: build('ollama:m')\n"
        "    except NotAvailableError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.count(install_command(extra="http")) == 2


def test_httpx_is_imported_only_where_it_is_used() -> None:
    program = (
        "import sys, triptych\n"
        "with triptych.open('memory://', embedder='hash') as kb: kb.put_document('d', 'a', 'b')\n"
        "print({'httpx', 'httpx2'} & {*sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
