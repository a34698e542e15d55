"""Two backends, the same corpus, the same questions: the same answers, to the score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from triptych.contracts import Store
from triptych.records import Candidate, ChunkQuery, Filter, Layer
from triptych.records.filters import HEADING, conditions_of
from triptych.testing.builders import (
    fill,
    keyword_query,
    layer_of,
    layer_query,
    vector_of,
    vector_query,
)
from triptych.testing.corpus import DATASETS, QUERIES, contents, fill_corpus
from triptych.testing.filters import FILTERS
from triptych.testing.harness import Harness
from triptych.testing.oracle import Entry, entries
from triptych.testing.search import assert_same_ranking


def assert_backends_rank_alike(first: Harness, second: Harness, *, tolerance: float = 0.0) -> None:
    """Fill both stores with the kit's corpus and compare every lane, filtered and not.

    Keyword scores must be equal; dot products may differ in the last digit kept. With a
    ``tolerance`` scores of all lanes may differ by so much, and entries change places whose
    scores do not differ by more: it is for engines that add up in 32 bits.

    Raises:
        AssertionError: an answer differs in its entries, their order or their scores.
    """
    one, other = first.open(), second.open()
    try:
        for store in (one, other):
            _fill(store)
        asked = [(text, Filter()) for text in QUERIES]
        asked += [(text, where) for text in QUERIES[:2] for where in FILTERS.values()]
        for text, where in asked:
            for top_k in (3, 1000):
                words = keyword_query(text, *DATASETS, top_k=top_k, where=where)
                # Scores are dot products: a query's vector may have any length.
                vector = np.float32(0.5) * vector_of(text)
                near = vector_query(vector, *DATASETS, top_k=top_k, where=where)
                _compare(one, other, words, near, tolerance)
    finally:
        one.close()
        other.close()


def _fill(store: Store) -> None:
    fill_corpus(store)
    # Units without a token count in the statistics: they are of the collection.
    fill(store, DATASETS[0], {"mark": "!!!", "fish": "\N{FISH}\n\n..."})
    for dataset_id in DATASETS:
        for name, content in contents(dataset_id).items():
            assert store.layers.put(layer_of(store, dataset_id, name, content[:80]))


def _compare(
    one: Store, other: Store, words: ChunkQuery, near: ChunkQuery, tolerance: float
) -> None:
    def same(left: Sequence[Candidate], right: Sequence[Candidate], query: ChunkQuery) -> None:
        if tolerance:
            _assert_alike(entries(left), entries(right), tolerance, query)
        elif query is words:
            assert entries(left) == entries(right), query
        else:
            assert_same_ranking(left, entries(right))

    for query in (words, near):
        same(one.chunks.search(query), other.chunks.search(query), query)
    if all(each.field != HEADING for each in conditions_of(words.filter.tree)):
        for query in (words, near):
            layers = layer_query(query, Layer.ABSTRACT)
            found = one.layers.search(layers), other.layers.search(layers)
            if tolerance:
                same(*found, query)
            else:
                assert_same_ranking(found[0], entries(found[1]))
        left, right = (each.capabilities.document_search for each in (one, other))
        if left and right:
            same(left.search_docs(words), right.search_docs(words), words)
            same(left.search_docs_by_vector(near), right.search_docs_by_vector(near), near)


def _assert_alike(
    found: Sequence[Entry], wanted: Sequence[Entry], tolerance: float, query: ChunkQuery
) -> None:
    """The same scores in the same order, and the same entries but for those of equal scores."""
    scores = [each.score for each in wanted]
    assert [each.score for each in found] == pytest.approx(scores, abs=tolerance), query
    known = {(each.dataset_id, each.name, each.index): each.score for each in wanted}
    for each in found:
        # One that is in one list alone has the score of the last place, which others have too.
        score = known.get((each.dataset_id, each.name, each.index), scores[-1])
        assert each.score == pytest.approx(score, abs=tolerance), (query, each)
