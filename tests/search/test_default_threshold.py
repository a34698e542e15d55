"""`DEFAULT_THRESHOLD` keeps what the reference's 0.1 keeps: its scores are k1 + 1 times ours."""

from __future__ import annotations

import math

from hypothesis import given, strategies as st

from triptych import Service
from triptych.search import DEFAULT_THRESHOLD
from triptych.text import corpus_stats, score_text
from triptych_backends.memory import MemoryStore

K1, B = 1.2, 0.75
REFERENCE = 0.1


def test_two_documents_that_match_are_both_kept() -> None:
    with MemoryStore() as store:
        kb = Service(store)
        kb.put_documents("d", {"a.md": "green tea", "b.md": "black tea"})
        found = kb.search("tea", dataset_id="d", min_scores={"bm25": DEFAULT_THRESHOLD})
        assert [hit.doc_name for hit in found.hits] == ["a.md", "b.md"]
        assert found.hits[0].scores["bm25"] < REFERENCE


def test_it_still_drops_what_says_little() -> None:
    """A term of every text, lost in a long one."""
    with MemoryStore() as store:
        kb = Service(store)
        kb.put_documents("d", dict.fromkeys(["a.md", "b.md", "c.md"], "tea"))
        kb.put_document("d", "long.md", "tea " + "milk water " * 30)
        found = kb.search("tea", dataset_id="d", min_scores={"bm25": DEFAULT_THRESHOLD})
        assert [hit.doc_name for hit in found.hits] == ["a.md", "b.md", "c.md"]


@given(
    count=st.integers(1, 10_000),
    share=st.floats(0, 1),
    frequency=st.integers(1, 50),
    length=st.floats(0.01, 100),
)
def test_it_keeps_what_the_reference_keeps(
    count: int, share: float, frequency: int, length: float
) -> None:
    """The reference's formula, written out, with its own threshold."""
    held_by = max(1, round(share * count))
    idf = math.log(1 + (count - held_by + 0.5) / (held_by + 0.5))
    reference = idf * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * length))
    ours = idf * frequency / (frequency + K1 * (1 - B + B * length))
    if not math.isclose(reference, REFERENCE, rel_tol=1e-12):
        assert (ours >= DEFAULT_THRESHOLD) == (reference >= REFERENCE)


def test_score_text_is_on_the_same_scale() -> None:
    stats = corpus_stats([["green", "tea"], ["black", "tea"]])
    ours = score_text(["tea"], ["green", "tea"], stats)
    assert math.isclose(ours * (K1 + 1), 0.18232155679395465)
