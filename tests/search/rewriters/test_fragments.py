"""A question in fragments: each is a search of its own, and the best score is kept."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import triptych
from support.examples import examples
from support.rewriting import filled, names
from support.rows import each_row
from triptych import ValidationError
from triptych.records import QueryVariant
from triptych.search import FragmentRewriter
from triptych.search.rewriting import fragments


@each_row(
    ("text", "parts"),
    [
        ("How? When; why. Now", ["How", "When", "why", "Now"]),
        ("one", ["one"]),
        ("a.b", ["a", "b"]),
        ("a ... b ;; ?", ["a", "b"]),
        ("a? a?", ["a"]),
        ("怎么安装？端口是什么。谁可以登录", ["怎么安装", "端口是什么", "谁可以登录"]),
        ("...", []),
        ("Yes! No, maybe", ["Yes! No, maybe"]),
    ],
)
def test_a_question_is_split_at_stops_question_marks_and_semicolons(
    text: str, parts: list[str]
) -> None:
    assert fragments(text) == parts


def variants(text: str, **options: Any) -> list[QueryVariant]:
    return FragmentRewriter(**options).rewrite(triptych.Query(text=text, dataset_id="d"))


def test_each_fragment_is_a_group_of_its_own() -> None:
    made = variants("How? When")
    assert [each.text for each in made] == ["How", "When"]
    assert len({each.group for each in made}) == 2
    assert variants("How?") == [QueryVariant(text="How?")]
    assert variants("...") == [QueryVariant(text="...")]
    whole = variants("How? When", include_question=True)
    assert [each.text for each in whole] == ["How? When", "How", "When"]
    assert [each.text for each in variants("a.b c", pattern=r"[.?;]+\s+")] == ["a.b c"]


def test_the_last_fragment_holds_what_is_too_many() -> None:
    made = variants("a. b. c. d. e", maximum=3)
    assert [each.text for each in made] == ["a", "b", "c. d. e"]
    many = variants(". ".join(f"word{n}" for n in range(500)))
    assert len(many) == 8
    assert "word499" in many[-1].text


def test_bad_arguments_are_refused() -> None:
    for bad in ({"pattern": "["}, {"maximum": 0}, {"maximum": 32}, {"maximum": True}):
        with pytest.raises(ValidationError):
            FragmentRewriter(**bad)  # type: ignore[arg-type]


def test_a_question_of_two_parts_finds_both() -> None:
    with filled(rewriter=FragmentRewriter()) as kb:
        found = kb.search("porcelain tea? pistons locomotive", dataset_id="d")
        assert sorted(names(found)[:2]) == ["engine.md", "teapot.md"]
        assert found.warnings == ()
        assert set(found.hits[0].scores) == {"bm25", "vector"}


words = st.sampled_from(
    ["tea", "pot", "lid", "steam", "tide", "lock", "sun", "water", "warm", "climb"]
)
texts = st.lists(words, min_size=1, max_size=8).map(" ".join)


@settings(max_examples=examples(60), deadline=None)
@given(
    documents=st.lists(texts, min_size=1, max_size=12),
    parts=st.lists(
        st.lists(words, min_size=1, max_size=3).map(" ".join),
        min_size=1,
        max_size=4,
        unique=True,
    ),
    mode=st.sampled_from(["bm25", "vector", "hybrid"]),
    ranker=st.sampled_from(["z-score", "rrf", "min-max"]),
)
def test_the_best_score_is_that_of_the_best_fragment_alone(
    documents: list[str], parts: list[str], mode: str, ranker: str
) -> None:
    named = {f"{at:02}.md": text for at, text in enumerate(documents)}
    ask = {"dataset_id": "d", "mode": mode, "top_k": 30}
    options: dict[str, Any] = {"embedder": "hash", "ranker": ranker}
    with (
        triptych.open("memory://", **options) as plain,
        triptych.open("memory://", rewriter=FragmentRewriter(), **options) as kb,
    ):
        for each in (plain, kb):
            each.put_documents("d", named)
        best: dict[str, float] = {}
        lanes: dict[str, dict[str, float]] = {}
        for part in dict.fromkeys(parts):
            for hit in plain.search(part, **ask).hits:  # type: ignore[arg-type]
                best[hit.doc_name] = max(hit.score, best.get(hit.doc_name, hit.score))
                held = lanes.setdefault(hit.doc_name, {})
                for lane, score in hit.scores.items():
                    held[lane] = max(score, held.get(lane, score))
        found = kb.search("? ".join(parts), **ask)  # type: ignore[arg-type]
        wanted = sorted(best.items(), key=lambda each: (-each[1], each[0]))
        assert [(hit.doc_name, hit.score) for hit in found.hits] == wanted
        assert {hit.doc_name: dict(hit.scores) for hit in found.hits} == lanes
