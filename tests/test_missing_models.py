"""A model that is missing: the error names the setting, whichever door the call came through."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.asgi import Client
from support.cli_run import fresh_shell
from triptych import NotAvailableError, Service, ValidationError
from triptych.contracts import check_llm
from triptych.layers.generation import generate_document_context
from triptych.search import HyDE, LLMReranker
from triptych_adapters.tools import knowledge_tools
from triptych_evaluation import RagSample, evaluate_answers, propose_questions
from triptych_factory.llms import build_reranker
from triptych_server.http import create_app

SAMPLE = RagSample(query_id="q", question="How?", answer="So.", contexts=("So.",))


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="none", llm="none") as kb:
        kb.put_document("default", "kettle.md", "# Kettle\n\nTurn the lid.\n")
        yield kb


@pytest.mark.parametrize(
    ("setting", "call"),
    [
        ("llm", lambda kb: kb.ask("lid")),
        ("llm", lambda kb: kb.ask_stream("lid")),
        ("llm", lambda _: check_llm(None)),
        ("llm", lambda _: HyDE(None)),
        ("llm", lambda _: LLMReranker(None)),
        ("llm", lambda _: build_reranker("llm")),
        ("llm", lambda _: generate_document_context(None, "text")),
        ("llm", lambda kb: propose_questions(kb, "default", None)),
        ("llm", lambda _: evaluate_answers([SAMPLE], None)),
        ("embedder", lambda kb: kb.search("lid", dataset_id="default", mode="vector")),
        ("embedder", lambda kb: kb.search("lid", dataset_id="default", mode="vector", layer="L0")),
        ("embedder", lambda kb: kb.search_documents("lid", dataset_id="default", mode="vector")),
        ("embedder", lambda kb: kb.embed_pending()),
        ("sparse_encoder", lambda kb: kb.search("lid", dataset_id="default", mode="sparse")),
    ],
)
def test_python_names_the_setting(kb: Service, setting: str, call: Callable[[Any], object]) -> None:
    with pytest.raises((NotAvailableError, ValidationError)) as caught:
        call(kb)
    assert f"set {setting} (TRIPTYCH_{setting.upper()}), such as " in str(caught.value)


def test_what_scores_go_without_is_named(kb: Service) -> None:
    kb.put_document("default", "pot.md", "# Pot\n\nTurn the pot.\n")
    assert "TRIPTYCH_EMBEDDER" in kb.search("lid", dataset_id="default", mode="hybrid").warnings[0]


@pytest.mark.parametrize(
    ("setting", "method", "path", "body"),
    [
        ("LLM", "POST", "/v1/ask", {"question": "lid"}),
        (
            "EMBEDDER",
            "POST",
            "/v1/search",
            {"query": "lid", "dataset_id": "default", "mode": "vector"},
        ),
        (
            "SPARSE_ENCODER",
            "POST",
            "/v1/search",
            {"query": "lid", "dataset_id": "default", "mode": "sparse"},
        ),
        ("EMBEDDER", "POST", "/v1/embed-pending", {}),
        ("RERANKER", "POST", "/v1/query", {"text": "lid", "rerank": True}),
    ],
)
def test_http_names_the_setting(
    kb: Service, setting: str, method: str, path: str, body: dict[str, Any]
) -> None:
    answer = Client(create_app(kb, write=True))(
        method, path, json=body, headers={"Authorization": "Bearer any"}
    )
    assert f"(TRIPTYCH_{setting})" in answer.json()["error"]["message"]


def test_a_tool_names_the_setting(kb: Service) -> None:
    search = next(tool for tool in knowledge_tools(kb) if tool.name == "knowledge_search")
    answer = json.loads(search(query="lid", mode="vector"))
    assert "(TRIPTYCH_EMBEDDER)" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [
        ("LLM", ["ask", "lid"]),
        ("LLM", ["eval", "questions", "default", "--output", "golden.yaml"]),
        ("LLM", ["search", "lid", "--reranker", "llm"]),
        ("EMBEDDER", ["search", "lid", "--mode", "vector"]),
        ("SPARSE_ENCODER", ["search", "lid", "--mode", "sparse"]),
        ("EMBEDDER", ["embed"]),
    ],
)
def test_a_command_names_the_setting_also_as_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, arguments: list[str]
) -> None:
    shell = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIPTYCH_EMBEDDER", "none")
    shell.write("kettle.md", "# Kettle\n\nTurn the lid.\n")
    assert shell("put", "kettle.md").code == 0
    assert f"(TRIPTYCH_{setting})" in " ".join(shell(*arguments).err.split())
    assert f"(TRIPTYCH_{setting})" in shell(*arguments, "--json").json["error"]["message"]
