"""``triptych context``, and the tool of the same kind for models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from triptych.answers import ESTIMATE
from triptych.errors import ValidationError
from triptych.layers import estimate_tokens
from triptych.service import Service
from triptych.text import tokens as counting
from triptych_adapters.tools import context_tool
from triptych_backends.memory import MemoryStore

GUIDE = "# Guide\n\nRetries back off.\n\n## Limits\n\nTen requests per second.\n"


@pytest.fixture(autouse=True)
def _estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are the same whether tiktoken is installed or not."""
    monkeypatch.setattr(counting, "_found", [ESTIMATE])


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("docs/guide.md", GUIDE)
    shell.write("docs/other.md", "# Other\n\nNothing of the kind.\n")
    shell.write("more/extra.md", "# Extra\n\nRetries elsewhere.\n")
    assert shell("put", "docs").code == 0
    assert shell("put", "more", "--dataset", "more").code == 0
    return shell


def test_stdout_is_the_context_and_nothing_else(shell: Shell) -> None:
    ran = shell("context", "retries", "--mode", "bm25", "--budget", "200", "-d", "default")
    assert ran.code == 0
    assert ran.text == (
        "[1] default/guide.md:1-7 v1 | Guide\n # Guide\n\n Retries back off.\n\n ## Limits\n\n"
        " Ten requests per second.\n"
    )
    assert "1 piece, " in ran.err
    assert "of 200 tokens (estimate)" in ran.err
    assert shell("context", "retries", "--mode", "bm25", "--quiet").err == ""


def test_every_format_and_the_whole_pack_as_json(shell: Shell) -> None:
    for format, start in {"xml": "<context>", "markdown": "**[1]**"}.items():
        assert shell("context", "retries", "--format", format).text.startswith(start)
    assert shell("context", "retries", "--format", "json").code == 2  # --json prints JSON
    ran = shell("context", "retries", "--json", "--budget", "300")
    assert ran.json["budget"] == 300
    assert ran.json["counter"] == "estimate"
    assert ran.json["tokens"] == ESTIMATE.count(ran.json["text"]) <= 300
    best = shell("search", "retries", "--json").json["hits"][0]["doc_name"]
    assert ran.json["pieces"][0]["citation"]["doc_name"] == best
    assert ran.json["warnings"] == []


def test_datasets_filters_and_layers_are_options(shell: Shell) -> None:
    ran = shell("context", "retries", "--json", "--mode", "bm25")
    assert {piece["citation"]["dataset_id"] for piece in ran.json["pieces"]} == {"default", "more"}
    ran = shell("context", "retries", "--json", "--where", "doc_name=other.md")
    assert {piece["citation"]["doc_name"] for piece in ran.json["pieces"]} == {"other.md"}
    assert shell("layers", "build").code == 0
    ran = shell("context", "retries", "--json", "--layer", "L0")
    assert {piece["citation"]["layer"] for piece in ran.json["pieces"]} == {"L0"}


def test_a_small_budget_warns_and_bad_input_is_reported(shell: Shell) -> None:
    ran = shell("context", "retries", "--budget", "3")
    assert (ran.code, ran.out) == (0, b"")
    assert "too small" in ran.err
    assert shell("context", "retries", "--budget", "-3").code == 2
    assert shell("context", "retries", "--dataset", "none").code == 3


def test_a_model_reads_under_its_ceiling() -> None:
    store = MemoryStore()
    with Service(store) as kb:
        empty = json.loads(context_tool(kb, dataset_id="docs")(query="kettle"))
        assert empty["error"]["type"] == "NotFoundError"
        for at in range(40):
            text = f'The "kettle" number {at}\n\nis {"very " * at}hot.\n'
            kb.put_document("docs", f"{at}.md", text)
        kb.put_document("home", "secret.md", "Another kettle altogether.\n")
        answer = context_tool(kb, dataset_id="docs", max_tokens=300)(query="kettle")
        assert estimate_tokens(answer) <= 300
        assert "[1] docs/" in json.loads(answer)["context"]
        assert "secret" not in answer
        everywhere = context_tool(kb)
        assert "secret" in everywhere(query="another altogether")
        assert "secret" not in everywhere(query="another altogether", dataset_id="docs")
        small = everywhere(query="kettle", token_budget=256)
        assert estimate_tokens(small) <= 256
        assert json.loads(everywhere(query="kettle", token_budget=9))["error"]
        with pytest.raises(ValidationError):
            context_tool(kb, max_tokens=10)
