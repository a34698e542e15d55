"""``triptych eval rag`` and ``eval questions`` with models on a server of the test's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from support.provider_server import Asked, ProviderServer, Reply, as_json, serving
from triptych_evaluation import read_golden

GUIDE = "# Limits\n\nAt most ten requests per second are served.\n"
GOLDEN = """\
queries:
  - {id: limits, question: how many requests, expected_files: [guide.md], expected_answer: Ten.}
  - {id: wait, question: how many are served, expected_files: [guide.md]}
  - {id: cost, question: what do requests cost, answerable: false}
"""
PROPOSED = {
    "questions": [
        {
            "question": "How many may I send?",
            "evidence": "At most ten requests per second are served.",
            "answer": "Ten.",
        },
        {"question": "Is it made up?", "evidence": "Of course it is made up.", "answer": "Yes."},
    ]
}


def said(asked: Asked) -> str:
    """What the model of this name says."""
    _, prompt = (each["content"] for each in asked.body["messages"])
    if asked.body["model"] == "writer":
        answered = '"evidence"' in prompt
        return json.dumps(PROPOSED if answered else {"questions": [{"question": "What else?"}]})
    if asked.body["model"] == "answering":
        return "NO_ANSWER" if "cost" in prompt else "Ten requests [1]."
    if "statements" in prompt and '"statements"' in prompt:
        return '{"statements": ["Ten requests are served."]}'
    if '"questions"' in prompt:
        return '{"questions": ["how many requests", "how many", "requests a second"]}'
    return '{"verdicts": [true]}'


def answer(asked: Asked) -> Reply:
    return as_json(
        {
            "choices": [{"message": {"content": said(asked)}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        }
    )


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with serving(answer) as server:
        yield server


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ProviderServer) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    monkeypatch.setenv("TRIPTYCH_LLM", "openai:answering")
    monkeypatch.setenv("TRIPTYCH_LLM_API_KEY", "of-the-tests")
    monkeypatch.setenv("TRIPTYCH_LLM_BASE_URL", f"{server.url}/v1")
    shell.write("docs/guide.md", GUIDE)
    shell.write("golden.yaml", GOLDEN)
    assert shell("put", "docs", "--quiet").code == 0
    return shell


def test_answers_are_given_judged_and_written(shell: Shell, tmp_path: Path) -> None:
    ran = shell(
        *("eval", "rag", "golden.yaml", "--judge", "openai:judge"),
        *("--output", "rag.json", "--html", "rag.html"),
    )
    assert ran.code == 0, ran.both
    assert "2 queries are few" in ran.err
    rows = {row[0]: row[1:] for row in ran.rows}
    assert list(rows) == [
        *("faithfulness", "answer_relevance", "context_precision", "context_recall"),
        *("abstention precision", "abstention recall"),
    ]
    assert rows["faithfulness"] == ["1.0000", "1.0000", "1.0000", "2"]
    # One question has no expected answer.
    assert rows["context_recall"][-1] == "1"
    assert (rows["abstention precision"][0], rows["abstention recall"][0]) == ("1.0000", "1.0000")
    written = json.loads((tmp_path / "rag.json").read_text())
    assert written["abstained"] == {"cost": "model"}
    assert written["judged"]["values"]["context_recall"] == [1.0, None]
    assert written["judged"]["judge"] == "openai/judge"
    assert "Ten requests [1]." in (tmp_path / "rag.html").read_text()


def test_without_a_reference_the_metric_is_not_there(shell: Shell) -> None:
    shell.write("golden.yaml", "- {question: how many requests, expected_files: [guide.md]}\n")
    ran = shell(
        "eval", "rag", "golden.yaml", "--judge", "openai:judge", "--metrics", "context_recall"
    )
    assert ran.code == 0, ran.both
    assert ran.rows == [["context_recall", "N/A", "N/A", "N/A", "0"]]


def test_where_nothing_is_answered_nothing_is_judged(shell: Shell, server: ProviderServer) -> None:
    shell.write("golden.yaml", "- {question: what does it cost, answerable: false}\n")
    ran = shell("eval", "rag", "golden.yaml", "--judge", "openai:judge", "--json")
    assert ran.code == 0, ran.both
    assert ran.json["judged"] is None
    assert ran.json["abstention"]["recall"] == 1.0
    assert "nothing to judge" in ran.err
    assert {asked.body["model"] for asked in server.asked} <= {"answering"}
    assert shell("eval", "rag", "golden.yaml", "--judge", "none").code == 2
    assert shell("eval", "rag", "golden.yaml", "--judge", "nobody:m").code == 2


def test_questions_are_proposed_for_review(shell: Shell, tmp_path: Path) -> None:
    arguments = ("eval", "questions", "default", "--llm", "openai:writer", "-o", "proposed.yaml")
    ran = shell(*arguments, "--count", "2", "--unanswerable", "1", "--json")
    assert ran.code == 0, ran.both
    assert (ran.json["questions"], ran.json["unanswerable"], ran.json["calls"]) == (1, 1, 2)
    assert ran.json["dropped"] == {"the evidence is not in the document": 1}
    first, last = read_golden(tmp_path / "proposed.yaml").queries
    assert first.passages[0].text == "At most ten requests per second are served."
    assert (last.text, last.unanswerable) == ("What else?", True)
    assert not first.reviewed
    assert shell(*arguments).code == 2
    assert "--force" in shell(*arguments).err
    ran = shell("eval", "retrieval", "proposed.yaml", "--modes", "bm25")
    assert "2 of 2 questions are not reviewed" in ran.err
