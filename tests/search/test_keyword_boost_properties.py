"""What holds for the keyword boost of any hits."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from triptych import Hit, Layer
from triptych.records import DerivedSig
from triptych.search.postprocessing import boost_scores, query_keywords

pytestmark = pytest.mark.property

WORDS = st.lists(
    st.sampled_from(["kettle", "lid", "of", "茶壶", "カタカナ", "C++", "É"]), max_size=6
)
HITS = st.lists(
    st.builds(
        Hit,
        dataset_id=st.sampled_from("de"),
        doc_name=st.sampled_from("ab"),
        layer=st.just(Layer.DETAIL),
        content=WORDS.map(" ".join),
        score=st.integers(-64, 640).map(lambda part: part / 64),
        chunk_index=st.integers(0, 3),
        sig=st.just(DerivedSig()),
    ),
    max_size=12,
)


@settings(max_examples=examples(200), deadline=None)
@given(HITS, WORDS.map(" ".join), st.integers(0, 8))
def test_hits_are_kept_raised_and_in_order(hits: list[Hit], query: str, eighths: int) -> None:
    # Scores and weights that a float holds exactly.
    weight = eighths / 8
    before = [attrs.evolve(hit) for hit in hits]
    words = query_keywords(query)
    found = boost_scores(hits, words, weight)
    assert hits == before
    places = [(-hit.score, hit.doc_name, hit.chunk_index, hit.dataset_id) for hit in found]
    assert places == sorted(places)
    expected = []
    for hit in hits:
        matches = sum(word in hit.content.casefold() for word in words)
        raised = hit.score * (1 + weight * matches * (1 if hit.score >= 0 else -1))
        expected.append((hit.content, hit.doc_name, hit.chunk_index, raised))
    assert sorted(expected) == sorted(
        (hit.content, hit.doc_name, hit.chunk_index, hit.score) for hit in found
    )


@settings(max_examples=examples(100), deadline=None)
@given(HITS, st.text(max_size=40))
def test_no_word_or_no_weight_changes_no_score(hits: list[Hit], query: str) -> None:
    for found in (boost_scores(hits, (), 0.1), boost_scores(hits, query_keywords(query), 0.0)):
        assert sorted(hit.score for hit in found) == sorted(hit.score for hit in hits)
