"""Rewriters one after another."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from support.rewriting import filled, names
from triptych import CancelledError, Message, ProviderError, Query, ValidationError
from triptych.records import QueryVariant, Rewriting
from triptych.search import (
    ChainRewriter,
    FollowUpRewriter,
    FragmentRewriter,
    HyDE,
    ParaphraseRewriter,
)
from triptych_testing.fakes import FakeLLM, ScriptedLLM

TALK = [Message("user", "Tell me of porcelain."), Message("assistant", "It keeps tea warm.")]


def rewritten(rewriters: Sequence[object], text: str, **fields: object) -> Rewriting:
    chain = ChainRewriter(rewriters)  # type: ignore[arg-type]
    return chain.rewrite(Query(text=text, dataset_id="d", **fields))  # type: ignore[arg-type]


def test_a_follow_up_is_made_whole_and_then_answered() -> None:
    llm = FakeLLM(
        lambda prompt, text: (
            "Which pot is of porcelain?" if "conversation" in prompt else "A pot of porcelain."
        )
    )
    with filled(rewriter=(FollowUpRewriter(llm), HyDE(llm, documents=2))) as kb:
        found = kb.search("which pot?", dataset_id="d", conversation=TALK)
        assert found.hits[0].doc_name == "teapot.md"
        assert found.warnings == ()
        assert [(each.model, each.calls) for each in found.usage] == [("fake-llm/1", 3)]
        assert llm.texts[1] == "Which pot is of porcelain?"
        kb.search("which pot?", dataset_id="d")
        assert len(llm.requests) == 5  # without a conversation HyDE alone


def test_later_steps_see_the_question_in_full() -> None:
    seen = []

    class Look:
        def depth(self, query: object) -> int:
            return 1

        def __call__(self, query: object, hits: object, reader: object) -> object:
            seen.append(query.text)  # type: ignore[attr-defined]
            return hits

    llm = ScriptedLLM("Which pot is of porcelain?")
    with filled(rewriter=FollowUpRewriter(llm), postprocessors=[Look()]) as kb:
        found = kb.search("which?", dataset_id="d", conversation=TALK)
    assert seen == ["Which pot is of porcelain?"]
    assert "porcelain" in found.hits[0].terms


def test_fragments_are_each_paraphrased_within_their_group() -> None:
    llm = FakeLLM(lambda _, text: f"wording of {text}")
    made = rewritten([FragmentRewriter(), ParaphraseRewriter(llm, n=1)], "tea? pistons")
    assert [(each.text, each.group) for each in made] == [
        ("tea", "0"),
        ("wording of tea", "0"),
        ("pistons", "1"),
        ("wording of pistons", "1"),
    ]
    assert made.usage[0].calls == 2
    both = rewritten([FragmentRewriter(), FragmentRewriter(pattern=" ")], "a b? c")
    assert [(each.text, each.group) for each in both] == [("a", "0/0"), ("b", "0/1"), ("c", "1")]


def test_weights_multiply_and_what_is_embedded_stays() -> None:
    class Halves:
        def rewrite(self, query: Query) -> list[QueryVariant]:
            return [QueryVariant(text=query.text, weight=0.5, embed_text="passage")]

    class Words:
        def rewrite(self, query: Query) -> list[QueryVariant]:
            return [QueryVariant(text=word, weight=0.5) for word in query.text.split()]

    made = rewritten([Halves(), Words(), Halves()], "a b")
    assert [(each.text, each.weight, each.embed_text) for each in made] == [
        ("a", 0.125, "passage"),
        ("b", 0.125, "passage"),
    ]


@attrs.frozen
class Many:
    n: int

    def rewrite(self, query: Query) -> list[QueryVariant]:
        return [QueryVariant(text=f"{query.text} {at}") for at in range(self.n)]


def test_there_are_32_variants_at_most_and_each_keeps_its_first() -> None:
    made = rewritten([Many(10), Many(10)], "q")
    assert len(made) == 32
    assert {f"q {at} 0" for at in range(10)} <= {each.text for each in made}
    assert made.warnings == ("68 wordings of the query were left out: the maximum is 32",)
    assert len(rewritten([Many(32), Many(32)], "q")) == 32


def test_a_step_that_fails_leaves_the_query_to_the_next() -> None:
    class Broken:
        def rewrite(self, query: Query) -> list[QueryVariant]:
            raise RuntimeError("bug")

    llm = ScriptedLLM(ProviderError("away"))
    made = rewritten(
        [Broken(), FollowUpRewriter(llm), FragmentRewriter()], "a? b", conversation=TALK
    )
    assert [each.text for each in made] == ["a", "b"]
    assert made.warnings == (
        "Broken did not rewrite the query (RuntimeError: bug)",
        "FollowUpRewriter did not rewrite the query (ProviderError: away)",
    )
    assert made.usage[0].failures == 1
    with pytest.raises(CancelledError):
        rewritten([FollowUpRewriter(ScriptedLLM(CancelledError("late")))], "a", conversation=TALK)


def test_a_list_of_rewriters_is_a_chain() -> None:
    with filled(rewriter=[FragmentRewriter(), Many(2)]) as kb:
        assert sorted(names(kb.search("porcelain? pistons", dataset_id="d"))[:2]) == [
            "engine.md",
            "teapot.md",
        ]
    with filled(rewriter=[]) as kb:
        assert names(kb.search("porcelain", dataset_id="d"))[0] == "teapot.md"
    with pytest.raises(ValidationError, match="no method rewrite"), filled(rewriter=[object()]):
        pass
    for bad in ([], "ab", [object()], [FragmentRewriter]):
        with pytest.raises(ValidationError):
            ChainRewriter(bad)  # type: ignore[arg-type]


def test_no_rewriter_is_wired_by_itself() -> None:
    llm = FakeLLM()
    with filled(llm=llm) as kb:
        assert kb.options.rewriter is None
        assert kb.search("which pot? which engine", dataset_id="d", conversation=TALK).usage == ()
    assert llm.requests == []
