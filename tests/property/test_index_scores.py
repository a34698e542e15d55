"""Scores of the local index are those of plain Python, whatever was changed in which order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from index_model import MemoryFeed, WordAnalyzer, assert_ranked_as, bm25_scores
from triptych_backends.index import LocalIndex, bm25

WORDS = ["a", "b", "c", "dd", "täg", "標題", "a\u0000", "abcdefgh", "abcdefghi", "abcdefghj"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=4)
changes = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.integers(1, 6), texts, st.booleans()), max_size=12
)


@settings(deadline=None, max_examples=150)
@given(changes, st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), st.integers(1, 12))
def test_bm25_equals_the_oracle_after_any_changes(steps, query, limit):
    feed, text = MemoryFeed(), " ".join(query)
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        for dataset, owner, contents, search in steps:
            if contents:
                feed.put(dataset, owner, f"{owner % 3}-{owner}", contents)
            else:
                feed.delete(dataset, owner)
            if search:
                index.bm25([dataset], "chunk", text, limit=3)
        for datasets in (["x"], ["y"], ["x", "y"]):
            corpora = {name: feed.live(name) for name in datasets}
            expected = bm25_scores(corpora, text, WordAnalyzer())
            found = index.bm25(datasets, "chunk", text, limit=limit)
            assert_ranked_as(found, expected, corpora, limit)


@settings(deadline=None, max_examples=50)
@given(changes)
def test_raw_scores_agree_to_nine_decimals(steps):
    feed = MemoryFeed()
    index = LocalIndex(feed, analyzers=WordAnalyzer)
    for _, owner, contents, search in steps:
        feed.put("x", owner, str(owner), contents)
        if search:
            index.bm25(["x"], "chunk", "a", limit=1)
    query = "a b dd a abcdefghi"
    views = index._fresh(["x"])["x"].views("chunk")
    repeats = bm25.count_terms(WordAnalyzer().analyze_query(query))
    weights = bm25.weigh(bm25.statistics(views, list(repeats)), repeats)
    expected = bm25_scores({"x": feed.live("x")}, query, WordAnalyzer())
    seen = {}
    for view in views:
        scores = bm25.score(view, weights)
        for unit in np.flatnonzero(view.live_mask()).tolist():
            seen[int(view.segment.keys[unit])] = scores[unit]
    assert seen.keys() == {unit.key for unit in feed.live("x")}
    for key, score in seen.items():
        assert abs(score - expected.get(("x", key), 0.0)) < 1e-9
