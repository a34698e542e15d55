"""Names of rerankers in arguments, settings and on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import triptych
from support.provider_server import Asked, Reply, as_json, serving
from support.rows import each_row
from support.trusted import write_trusted
from triptych import Generation, Message, NotAvailableError, Rerank, ValidationError
from triptych.installation import install_command
from triptych.search import LLMReranker
from triptych_factory import Settings
from triptych_factory.llms import build_reranker

KEYS = {
    "CO_API_KEY": "key-of-cohere",
    "JINA_API_KEY": "key-of-jina",
    "VOYAGE_API_KEY": "key-of-voyage",
}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (*KEYS, "TEI_API_KEY", "LLAMA_API_KEY", "TRIPTYCH_TRUSTED_HOSTS"):
        monkeypatch.delenv(name, raising=False)


class Model:
    signature = "model"

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        return Generation(text="[1]")

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        raise AssertionError


@each_row(
    ("name", "signature"),
    [
        ("cohere:rerank-v3.5", "cohere/rerank-v3.5"),
        ("jina:jina-reranker-v2-base-multilingual", "jina/jina-reranker-v2-base-multilingual"),
        ("voyage:rerank-2.5", "voyage/rerank-2.5"),
        ("tei:http://localhost:8080", "tei"),
        ("llamacpp:http://localhost:8080/v1", "llamacpp"),
    ],
)
def test_a_name_is_built(name: str, signature: str) -> None:
    built = build_reranker(name, environ=KEYS)
    assert built is not None
    assert built.signature == signature
    built.close()  # type: ignore[attr-defined]


def test_what_is_missing_is_named_when_the_store_is_opened(tmp_path: Path) -> None:
    for name, said in (
        ("cohere:m", "set CO_API_KEY"),
        ("jina:m", "set JINA_API_KEY"),
        ("voyage:m", "set VOYAGE_API_KEY"),
        ("cohere:", "names no model"),
        ("cohere", "cohere:MODEL.*tei:URL.*onnx:FOLDER, llm, none"),
        ("best:m", "no reranker is called 'best:m'"),
        ("tei:nowhere", "base_url"),
        ("llamacpp:", "names no model"),
        ("llm", r"set llm \(TRIPTYCH_LLM\)"),
    ):
        with pytest.raises(ValidationError, match=said):
            triptych.open(tmp_path / "kb.db", reranker=name)
    assert not (tmp_path / "kb.db").exists()


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(ValidationError, match=r"there is no folder .*models"):
        triptych.open("memory://", reranker="onnx:models")
    (tmp_path / "models").mkdir()
    with pytest.raises(ValidationError, match=r"there is no model\.onnx in"):
        triptych.open("memory://", reranker="onnx:models")


def test_a_folder_is_relative_to_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    from support.onnx_models import write_model

    write_model(tmp_path / "models" / "small")
    write_trusted(
        tmp_path, 'reranker = "onnx:models/small"\nembedder = "none"\nurl = "memory://"\n'
    )
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    with triptych.open("memory://", embedder=None) as kb:
        kb.put_documents("d", {"1.txt": "b x", "2.txt": "b c"})
        found = kb.search("b c", dataset_id="d").hits
        assert [hit.doc_name for hit in found] == ["2.txt", "1.txt"]
        assert "rerank" in found[0].scores
    # A path of an argument is relative to where one is.
    monkeypatch.chdir(tmp_path)
    triptych.open("memory://", embedder=None, reranker="onnx:models/small").close()


def test_the_language_model_that_is_wired_reranks() -> None:
    with triptych.open("memory://", embedder=None, llm=Model(), reranker="llm") as kb:
        (step,) = kb.options.postprocessors
        assert isinstance(step, Rerank)
        assert isinstance(step.reranker, LLMReranker)
        kb.put_document("d", "a.txt", "tea")
        assert kb.search("tea", dataset_id="d").hits[0].scores["rerank"] == 1.0


def test_what_needs_no_language_model_keeps_it_where_it_reranks() -> None:
    assert Settings(llm="openai:m").without_llm().llm == "none"
    assert Settings(llm="openai:m", reranker="llm").without_llm().llm == "openai:m"


def ranks(asked: Asked) -> Reply:
    return as_json([{"index": at, "score": 0.5} for at in range(len(asked.body["texts"]))])


def test_a_key_does_not_go_to_an_address_that_a_file_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_trusted(tmp_path, 'reranker = "tei:https://collector.example"\n')
    monkeypatch.setenv("TEI_API_KEY", "key-of-the-user")
    with pytest.raises(ValidationError, match="the key in TEI_API_KEY is not sent") as caught:
        triptych.open("memory://", embedder=None)
    assert str(file) in str(caught.value)
    assert "key-of-the-user" not in str(caught.value)
    with serving(ranks) as server:
        # This machine is asked without the key, and with it where the user says so.
        write_trusted(tmp_path, f'reranker = "tei:{server.url}"\n')
        for trusted in ("", "127.0.0.1"):
            monkeypatch.setenv("TRIPTYCH_TRUSTED_HOSTS", trusted)
            with triptych.open("memory://", embedder=None) as kb:
                kb.put_document("d", "a.txt", "tea")
                assert kb.search("tea", dataset_id="d").hits[0].score == 0.5
        assert ["authorization" in asked.headers for asked in server.asked] == [False, True]


def test_a_key_of_the_environment_goes_to_an_address_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(ranks) as server:
        monkeypatch.setenv("TEI_API_KEY", "key-of-the-user")
        monkeypatch.setenv("TRIPTYCH_RERANKER", f"tei:{server.url}")
        with triptych.open("memory://", embedder=None) as kb:
            kb.put_document("d", "a.txt", "tea")
            kb.search("tea", dataset_id="d")
        assert server.asked[0].headers["authorization"] == "Bearer key-of-the-user"


def test_a_password_in_an_address_is_not_shown() -> None:
    settings = Settings(reranker="tei:https://user:secret@host")
    shown = {each.name: each.value for each in settings.explain()}
    assert "secret" not in repr(settings) + str(shown)
    assert shown["reranker"].startswith("tei:https://")  # type: ignore[union-attr]
    assert Settings(reranker="voyage:m").explain()


def test_a_reranker_needs_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    from support.onnx_models import write_model

    write_model(tmp_path / "m")
    import sys

    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(NotAvailableError, match=re.escape(install_command(extra="local"))):
        triptych.open("memory://", embedder=None, reranker=f"onnx:{tmp_path / 'm'}")
