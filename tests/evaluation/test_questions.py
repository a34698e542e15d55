"""Golden questions that a model proposes, and answers collected for a judge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import triptych
from triptych import Service
from triptych.errors import NotFoundError, ProviderError, ProviderSetupError
from triptych_evaluation import (
    AbstentionScore,
    Collection,
    JudgedQuery,
    answers_html,
    collect_answers,
    evaluate_answers,
    golden_yaml,
    propose_questions,
    read_golden,
)
from triptych_providers import OpenAILLM
from triptych_testing.fakes import ScriptedLLM

LIMITS = "At most ten requests\nper second are served. Wait, and ask again."


def said(*entries: dict[str, str]) -> str:
    return json.dumps({"questions": list(entries)})


@pytest.fixture
def kb() -> Service:
    service = triptych.open("memory://", embedder="hash")
    service.put_document("manual", "limits.md", LIMITS)
    return service


def test_only_evidence_that_stands_in_the_document_is_kept(kb: Service, tmp_path: Path) -> None:
    good = {
        "question": "How  many requests?",
        "evidence": "At most ten requests per second are served.",
        "answer": "Ten.",
    }
    llm = ScriptedLLM(
        said(
            good,
            {**good, "question": "How fast?", "evidence": "At most twelve requests per second."},
            {**good, "question": "HOW many requests?"},
            {**good, "question": "What?", "evidence": "Wait"},
            {"question": "No evidence?"},
        ),
        said({"question": "What does it cost?"}),
    )
    found = propose_questions(kb, "manual", llm, count=5, unanswerable=1, per_document=5)
    first, last = found.queries
    assert (first.text, first.grades, first.answer) == (
        "How many requests?",
        {"limits.md": 1},
        "Ten.",
    )
    assert first.passages[0].text == "At most ten requests\nper second are served."
    assert (last.text, last.unanswerable) == ("What does it cost?", True)
    assert not any(query.reviewed for query in found.queries)
    assert found.dropped == {
        "the evidence is not in the document": 1,
        "the question was there already": 1,
        "the evidence is too short": 1,
        "a field is missing or empty": 1,
    }
    assert (found.calls, found.failures) == (2, ())
    file = tmp_path / "golden.yaml"
    file.write_text(golden_yaml(found.queries, name="manual"))
    assert read_golden(file).queries == found.queries


def test_the_text_is_fenced_by_a_mark_that_it_cannot_hold(kb: Service) -> None:
    marks = []
    for _ in range(2):
        llm = ScriptedLLM(said(), said())
        propose_questions(kb, "manual", llm, count=1, unanswerable=1)
        for (system, user), _ in llm.requests:
            (mark,) = set(re.findall(r"text-[0-9a-f]{12}", system.content))
            assert f"<{mark}>\n{LIMITS}\n</{mark}>" in user.content
            marks.append(mark)
    assert len(set(marks)) == 4


def test_calls_that_bring_nothing_are_counted(kb: Service) -> None:
    kb.put_document("manual", "other.md", "Another page about nothing at all.")
    llm = ScriptedLLM("I would ask…", ProviderError("busy"), said({"question": "Which colour?"}))
    found = propose_questions(kb, "manual", llm, count=2, unanswerable=1)
    assert [query.text for query in found.queries] == ["Which colour?"]
    assert len(found.failures) == 2
    with pytest.raises(ProviderError, match="busy"):
        propose_questions(kb, "manual", ScriptedLLM(*[ProviderError("busy")] * 4))
    with pytest.raises(NotFoundError):
        propose_questions(kb, "nowhere", ScriptedLLM())


def test_a_long_document_is_read_in_part(kb: Service) -> None:
    kb.put_document("long", "book.md", "".join(f"Line {at} of the book.\n" for at in range(5000)))
    llm = ScriptedLLM(said(), said())
    propose_questions(kb, "long", llm, count=1, unanswerable=1)
    prompts = [messages[1].content for messages, _ in llm.requests]
    assert all(5_500 < len(prompt) < 7_500 for prompt in prompts)
    assert re.search(r"<text-\w+>\nLine \d+ of", prompts[0])


GOLDEN = Collection(
    name="manual",
    queries=(
        JudgedQuery(query_id="a", text="how many requests", grades={"limits.md": 1}, answer="Ten."),
        JudgedQuery(query_id="b", text="how long to wait", grades={"limits.md": 1}),
        JudgedQuery(query_id="c", text="what does it cost", unanswerable=True),
    ),
)


def test_answers_and_abstentions_are_collected(kb: Service) -> None:
    llm = ScriptedLLM("Ten a second [1].", "NO_ANSWER", "NO_ANSWER")
    found = collect_answers(kb, GOLDEN, dataset_id="manual", llm=llm)
    (sample,) = found.samples
    assert (sample.query_id, sample.answer, sample.reference) == ("a", "Ten a second [1].", "Ten.")
    assert sample.contexts == (LIMITS,)
    assert found.abstained == {"b": "model", "c": "model"}
    assert found.score == AbstentionScore(abstained=2, unanswerable=1, precision=0.5, recall=1.0)
    judge = ScriptedLLM("nonsense")
    judged = evaluate_answers(found.samples, judge, metrics=["context_precision"])
    page = answers_html("Answers", judged, found, ["few"])
    assert "context_precision" in page
    assert "nonsense" in page
    failing = ScriptedLLM("Ten [1].", ProviderError("busy"), "NO_ANSWER")
    assert collect_answers(kb, GOLDEN, dataset_id="manual", llm=failing).failures == {"b": "busy"}
    with pytest.raises(ProviderError, match="busy"):
        collect_answers(
            kb, GOLDEN, dataset_id="manual", llm=ScriptedLLM(*[ProviderError("busy")] * 3)
        )


@pytest.mark.llm
def test_a_real_model_answers_judges_and_proposes(kb: Service, llama_chat: str) -> None:
    llm = OpenAILLM("any", base_url=llama_chat)
    collected = collect_answers(kb, GOLDEN, dataset_id="manual", llm=llm, max_tokens=24)
    ids = {sample.query_id for sample in collected.samples}
    assert ids | collected.abstained.keys() | collected.failures.keys() == {"a", "b", "c"}
    if collected.samples:
        judged = evaluate_answers(
            collected.samples, llm, embedder=kb.options.embedder, max_tokens=48
        )
        assert list(judged.values) == [
            *("faithfulness", "answer_relevance", "context_precision", "context_recall")
        ]
        for row in judged.values.values():
            assert all(value is None or -1 <= value <= 1 for value in row)
    found = propose_questions(kb, "manual", llm, count=1, unanswerable=1, max_tokens=48)
    assert found.calls == 2
    for query in found.queries:
        assert query.unanswerable or query.passages[0].text in LIMITS
    llm.close()


def test_a_wrong_key_is_said_after_one_call(kb: Service) -> None:
    class Refused(ScriptedLLM):
        asked = 0

        def generate(self, *given: Any, **named: Any) -> Any:
            self.asked += 1
            raise ProviderSetupError("the key is wrong")

    kb.put_documents("manual", {f"{n}.md": LIMITS for n in range(5)})
    llm = Refused()
    with pytest.raises(ProviderSetupError, match="the key is wrong"):
        propose_questions(kb, "manual", llm, count=1, unanswerable=1)
    assert llm.asked == 1
