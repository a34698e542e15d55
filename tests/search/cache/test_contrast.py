"""Opposites and paraphrases: which questions are another question, though they are near."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, strategies as st

import triptych
from support.rows import each_row
from triptych.search import SemanticCache
from triptych.search.contrast import contrast

LINES = Path(__file__).parents[3].joinpath("bench/data/question-pairs.tsv").read_text("utf-8")
PAIRS = [line.split("\t") for line in LINES.splitlines() if not line.startswith("#")]


def missed(part: str, kind: str) -> list[list[str]]:
    wrong = kind == "paraphrase"
    some = [pair for p, k, *pair in PAIRS if (p, k) == (part, kind)]
    assert len(some) >= 40
    return [pair for pair in some if bool(contrast(*pair)) == wrong]


@each_row(
    ("part", "kind", "most"),
    [
        ("tuned", "opposite", 1),
        ("tuned", "paraphrase", 1),
        ("held-out", "opposite", 10),
        ("held-out", "paraphrase", 1),
    ],
)
def test_opposites_are_told_and_paraphrases_are_not(part: str, kind: str, most: int) -> None:
    assert len(missed(part, kind)) <= most, missed(part, kind)


@each_row(
    ("one", "other", "by"),
    [
        ("can I eat it", "can I not eat it", "negation"),
        ("can I eat it", "can’t I eat it", "negation"),
        ("哪些药物是安全的", "哪些药物是不安全的", "negation"),
        ("the SAFEST drug", "the unsafest drug", "opposites"),
        ("who is older", "who is the youngest", "opposites"),
        ("installing it", "it is uninstalled", "opposites"),
        ("what employees want", "what the employer wants", "opposites"),
        ("Rome Paris", "Paris Rome", "order"),
        ("fly from Rome to Paris", "flying from the Paris to Rome", "order"),
        ("to Paris from Rome", "from Rome to Paris", ""),
        ("from A to B, what does it cost", "what does it cost from A to B", ""),
        ("convert A to B", "convert A into B", ""),
        ("start, then stop", "starting and stopping", ""),
        ("lid of a kettle", "kettle lid", ""),
    ],
)
def test_by_what_two_questions_differ(one: str, other: str, by: str) -> None:
    assert contrast(one, other) == contrast(other, one) == by


WORDS = "on off to safe unsafe not can't Rome Paris 不 ½ ǅ ß\u0307"
words = st.sampled_from(WORDS.split())
questions = st.text() | st.lists(words, max_size=6).map(" ".join)


@given(one=questions, other=questions)
def test_any_two_texts_are_compared_alike_from_both_sides(one: str, other: str) -> None:
    assert contrast(one, one) == ""
    assert contrast(one, other) == contrast(other, one)


def test_the_cache_passes_opposites_by_and_serves_what_lies_behind_them() -> None:
    with triptych.open(
        "memory://", embedder="hash", semantic_cache=SemanticCache(threshold=0.5)
    ) as kb:
        kb.put_document("d", "a.md", "# Dark mode\n\nTurn it on and off in Settings.\n")
        for question in ("how do I turn dark mode on", "how do I turn dark mode off"):
            assert kb.search(question, dataset_id="d").cache_similarity is None
            kb.cache_stats()  # waits until it is kept
        found = kb.search("how do I turn the dark mode off", dataset_id="d")
        assert found.cache_similarity is not None
        assert kb.cache_stats().entries == 2
        assert kb.search("how do I not turn dark mode on", dataset_id="d").cache_similarity is None
