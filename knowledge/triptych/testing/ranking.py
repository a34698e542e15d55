"""Two backends, the same corpus, the same questions: the same answers, to the score."""

from __future__ import annotations

from triptych.contracts import Store
from triptych.records import ChunkQuery, Filter, Layer
from triptych.records.filters import HEADING, conditions_of
from triptych.repositories import capabilities_of
from triptych.testing.builders import keyword_query, layer_of, layer_query, vector_of, vector_query
from triptych.testing.corpus import DATASETS, QUERIES, contents, fill_corpus
from triptych.testing.filters import FILTERS
from triptych.testing.harness import Harness
from triptych.testing.oracle import entries
from triptych.testing.search import assert_same_ranking

__all__ = ["assert_backends_rank_alike"]


def assert_backends_rank_alike(first: Harness, second: Harness) -> None:
    """Fill both stores with the kit's corpus and compare every lane, filtered and not.

    Keyword scores must be equal; dot products may differ in the last digit kept.

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
                near = vector_query(vector_of(text), *DATASETS, top_k=top_k, where=where)
                _compare(one, other, words, near)
    finally:
        one.close()
        other.close()


def _fill(store: Store) -> None:
    fill_corpus(store)
    for dataset_id in DATASETS:
        for name, content in contents(dataset_id).items():
            assert store.layers.put(layer_of(store, dataset_id, name, content[:80]))


def _compare(one: Store, other: Store, words: ChunkQuery, near: ChunkQuery) -> None:
    assert entries(one.chunks.search(words)) == entries(other.chunks.search(words)), words
    assert_same_ranking(one.chunks.search(near), entries(other.chunks.search(near)))
    if all(each.field != HEADING for each in conditions_of(words.filter.tree)):
        for query in (words, near):
            layers = layer_query(query, Layer.ABSTRACT)
            assert_same_ranking(one.layers.search(layers), entries(other.layers.search(layers)))
        left, right = capabilities_of(one), capabilities_of(other)
        if left.document_search and right.document_search:
            found = left.document_search.search_docs(words)
            assert entries(found) == entries(right.document_search.search_docs(words)), words
        if left.document_vector_search and right.document_vector_search:
            assert_same_ranking(
                left.document_vector_search.search_docs_by_vector(near),
                entries(right.document_vector_search.search_docs_by_vector(near)),
            )
