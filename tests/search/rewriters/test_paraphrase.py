"""Other wordings of a question, fused with the question."""

from __future__ import annotations

from typing import Any

import pytest

from support.rewriting import filled, names
from support.rows import each_row
from triptych import ProviderError, Query, ValidationError
from triptych.search import ParaphraseRewriter
from triptych_testing.fakes import FakeLLM, ScriptedLLM


def wordings(answer: str, question: str = "How is tea made?", n: int = 3) -> list[str]:
    made = ParaphraseRewriter(ScriptedLLM(answer), n).rewrite(Query(text=question, dataset_id="d"))
    assert made[0].text == question
    return [each.text for each in made[1:]]


def test_lines_are_wordings() -> None:
    assert wordings("How do I brew tea?\nWays of making tea\n\nHow is tea prepared") == [
        "How do I brew tea?",
        "Ways of making tea",
        "How is tea prepared",
    ]
    answer = 'Here are the wordings:\n1. "How do I brew tea?"\n2) how do I BREW tea\n- tea?\n* more'
    assert wordings(answer) == ["How do I brew tea?", "tea?", "more"]


def test_no_more_than_were_asked_for_and_never_the_question() -> None:
    assert wordings("how is tea made\na b\nc d\ne f\ng h", n=2) == ["a b", "c d"]


def test_a_wording_that_is_an_essay_is_left_out() -> None:
    assert wordings(f"{'tea ' * 200}\nbrewing tea") == ["brewing tea"]


def test_all_wordings_are_fused_with_the_question() -> None:
    llm = FakeLLM(lambda *_: "pistons of the locomotive\nporcelain pot")
    with filled(rewriter=ParaphraseRewriter(llm, n=2)) as kb:
        for mode in ("bm25", "vector", "hybrid"):
            found = kb.search("the kettle", dataset_id="d", mode=mode)
            assert {"kettle.md", "engine.md", "teapot.md"} <= set(names(found))
            assert found.usage[0].calls == 1
            assert found.warnings == ()


def test_weights_are_those_of_the_wordings() -> None:
    made = ParaphraseRewriter(ScriptedLLM("a b"), weight=0.25).rewrite(
        Query(text="q", dataset_id="d")
    )
    assert [each.weight for each in made] == [1.0, 0.25]


@each_row("answer", ["", "I'm sorry, I can't.", "the kettle?", "!!!"])
def test_nonsense_is_a_warning(answer: str) -> None:
    with filled(rewriter=ParaphraseRewriter(ScriptedLLM(answer))) as kb:
        found = kb.search("the kettle", dataset_id="d")
        assert names(found)[0] == "kettle.md"
        (warning,) = found.warnings
        assert warning.startswith("ParaphraseRewriter did not rewrite the query (Unusable")


def test_a_provider_error_is_a_warning() -> None:
    with filled(rewriter=ParaphraseRewriter(ScriptedLLM(ProviderError("away")))) as kb:
        (warning,) = kb.search("the kettle", dataset_id="d").warnings
        assert "ProviderError: away" in warning


@each_row("bad", [{"n": 0}, {"n": 32}, {"weight": 0}, {"max_tokens": 0}])
def test_bad_arguments_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ParaphraseRewriter(ScriptedLLM(), **bad)
