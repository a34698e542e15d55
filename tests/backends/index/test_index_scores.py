"""Scores of the local index are those of plain Python, whatever was changed in which order."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import rank_bm25
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.index_model import MemoryChangeLog, WordAnalyzer, assert_ranked_as, bm25_scores
from triptych_backends.index import LocalIndex, OwnedBy, bm25

pytestmark = pytest.mark.property

WORDS = ["a", "b", "c", "dd", "täg", "標題", "a\u0000", "abcdefgh", "abcdefghi", "abcdefghj"]
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), max_size=4)
changes = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), st.integers(1, 6), texts, st.booleans()), max_size=12
)


@settings(deadline=None, max_examples=examples(80))
@given(changes, st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), st.integers(1, 12))
def test_bm25_equals_the_oracle_after_any_changes(steps, query, limit):
    feed, text = MemoryChangeLog(), " ".join(query)
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        for dataset, owner, contents, search in steps:
            if contents:
                labels = [*contents[1:], "a c"] if owner % 2 else ()
                feed.put(dataset, owner, f"{owner % 3}-{owner}", contents, labels=labels)
            else:
                feed.delete(dataset, owner)
            if search:
                index.bm25([dataset], "chunk", text, limit=3)
        for datasets in (["x"], ["y"], ["x", "y"]):
            corpora = {name: feed.live(name) for name in datasets}
            expected = bm25_scores(corpora, text, WordAnalyzer())
            found = index.bm25(datasets, "chunk", text, limit=limit).rows
            assert_ranked_as(found, expected, corpora, limit)


@settings(deadline=None, max_examples=examples(80))
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), min_size=1, max_size=12),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6),
)
def test_bm25_equals_that_of_rank_bm25(texts, query):
    """A program by others. Two things differ there: the idf, and a factor k1 + 1 of each score."""
    peer = rank_bm25.BM25Okapi(texts, k1=1.2, b=0.75)
    count = {word: sum(word in text for text in texts) for word in WORDS}
    peer.idf = {w: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for w, n in count.items()}
    expected = peer.get_scores(query) / (1.2 + 1)
    feed = MemoryChangeLog()
    feed.put("x", 1, "name", [" ".join(text) for text in texts])
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        rows = index.bm25(["x"], "chunk", " ".join(query), limit=len(texts)).rows
    found = np.zeros(len(texts))
    for row in rows:
        found[row.index] = row.score
    np.testing.assert_allclose(found, expected, atol=1e-6)


@settings(deadline=None, max_examples=examples(50))
@given(changes)
def test_raw_scores_agree_to_nine_decimals(steps):
    feed = MemoryChangeLog()
    index = LocalIndex(feed, analyzers=WordAnalyzer)
    for _, owner, contents, search in steps:
        feed.put("x", owner, str(owner), contents, labels=contents[::-1])
        if search:
            index.bm25(["x"], "chunk", "a", limit=1)
    query = "a b dd a abcdefghi"
    views = index.fresh(["x"])["x"].views("chunk")
    repeats = Counter(WordAnalyzer().analyze_query(query))
    numbers = bm25.find(views, list(repeats))
    variants = {term: (term,) for term in repeats}
    weights = bm25.weigh(bm25.statistics(views, numbers, [None] * len(views)), repeats, variants)
    expected = bm25_scores({"x": feed.live("x")}, query, WordAnalyzer())
    seen = {}
    for view, found in zip(views, numbers, strict=True):
        units, scores = bm25.top(view, found, weights, len(view.segment))
        seen.update(zip(view.segment.keys[units].tolist(), scores.tolist(), strict=True))
    assert seen.keys() == {key for _, key in expected}
    for (_, key), score in expected.items():
        assert abs(seen[key] - score) < 1e-9


@settings(deadline=None, max_examples=examples(40))
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(8, 60), min_size=1, max_size=3),
    st.lists(st.integers(0, 3), min_size=1, max_size=3),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from([0.0, 0.02, 0.1, 0.4]),
)
def test_pruning_does_not_change_an_answer(seed, rare, common, limit, filtered, frequent):
    generator = np.random.default_rng(seed)
    shares = 1 / np.arange(1, 62) ** 1.5
    drawn = generator.choice(61, size=(60, 3, 12), p=shares / shares.sum())
    feed = MemoryChangeLog()
    for owner, document in enumerate(drawn.tolist()):
        texts = [" ".join(map(str, text)) for text in document]
        feed.put("x", owner, f"{owner % 7}-{owner}", texts)
    query = rare + common
    selection = OwnedBy({"x": np.arange(0, 60, 3)}) if filtered else None
    text = " ".join(map(str, query))
    with LocalIndex(feed, analyzers=WordAnalyzer) as index:
        # Of all postings.
        whole = index.bm25(["x"], "chunk", text, limit=limit, selection=selection).rows
        for owner in range(0, 60, 5):
            feed.put("x", owner, f"{owner % 7}-{owner}", feed_texts(feed, owner))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bm25, "MANY", 0)
            patch.setattr(bm25, "FREQUENT", frequent)
            pruned = index.bm25(["x"], "chunk", text, limit=limit, selection=selection).rows
    places = [(hit.owner, hit.name, hit.index, hit.score) for hit in whole]
    assert [(hit.owner, hit.name, hit.index, hit.score) for hit in pruned] == places


def feed_texts(feed: MemoryChangeLog, owner: int) -> list[str]:
    return [unit.text for unit in feed.held["x", "chunk"][owner].units]
