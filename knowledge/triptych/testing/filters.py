"""Filters act inside the lanes, before the cut, each kind alone and together."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from triptych.contracts import Store
from triptych.records import DerivedSig, Filter
from triptych.repositories import capabilities_of
from triptych.testing.builders import (
    CONFIG,
    derive,
    fill,
    ids,
    keyword_query,
    put,
    set_config,
    vector_of,
    vector_query,
)
from triptych.testing.corpus import (
    DATASETS,
    METADATA,
    QUERIES,
    chunk_entries,
    document_entries,
    fill_corpus,
)
from triptych.testing.harness import HarnessTests, or_skip
from triptych.testing.oracle import Entry, best_documents, bm25, dot_products, entries
from triptych.testing.search import assert_same_ranking

__all__ = ["FilterTests"]

FRESH = DerivedSig(chunker_sig=CONFIG.chunker_sig, embed_sig=CONFIG.embed_sig)

FILTERS = {
    "name": Filter(doc_names=frozenset({"notes.txt", "same", "no such"})),
    "no name": Filter(doc_names=frozenset()),
    "prefix": Filter(doc_prefixes=("log/1", "guide/")),
    "prefix with wildcards": Filter(doc_prefixes=("log/_", "%", "guide/a.md")),
    "metadata": Filter(metadata={"lang": frozenset({"en"})}),
    "any of several values": Filter(metadata={"lang": frozenset({"de", "en", "fr"})}),
    "two keys": Filter(metadata={"lang": frozenset({"en"}), "kind": frozenset({"markdown"})}),
    "unknown key": Filter(metadata={"none": frozenset({""})}),
    "heading": Filter(headings=frozenset({"Part 1", "no such"})),
    "all together": Filter(
        doc_names=frozenset({"guide/a.md", "guide/b.md", "same"}),
        doc_prefixes=("guide/",),
        headings=frozenset({"Part 0", "Part 2"}),
        metadata={"lang": frozenset({"en", "de"})},
        fresh=FRESH,
    ),
}


class FilterTests(HarnessTests):
    """A filtered search has min(top_k, matches) entries, scored as without the filter."""

    @pytest.mark.parametrize("where", FILTERS.values(), ids=FILTERS)
    def test_filters_act_before_the_cut(self, store: Store, where: Filter) -> None:
        fill_corpus(store)
        corpus = chunk_entries(store, *DATASETS)
        passes = _passing(store, where)
        for text in QUERIES[:6]:
            vector = vector_of(text)
            for top_k in (1, 4, 1000):
                by_words = store.chunks.search(
                    keyword_query(text, *DATASETS, top_k=top_k, where=where)
                )
                assert entries(by_words) == bm25(corpus, text, top_k=top_k, passes=passes)
                by_vector = store.chunks.search(
                    vector_query(vector, *DATASETS, top_k=top_k, where=where)
                )
                wanted = dot_products(corpus, vector, top_k=top_k, passes=passes)
                assert_same_ranking(by_vector, wanted)

    @pytest.mark.parametrize(
        "where",
        [where for where in FILTERS.values() if where.headings is None],
        ids=[name for name, where in FILTERS.items() if where.headings is None],
    )
    def test_filters_act_before_the_cut_on_documents(self, store: Store, where: Filter) -> None:
        capabilities = capabilities_of(store)
        searcher = or_skip(capabilities.document_search)
        nearest = capabilities.document_vector_search
        fill_corpus(store)
        corpus, chunks = document_entries(store, *DATASETS), chunk_entries(store, *DATASETS)
        passes = _passing(store, where)
        for text in QUERIES[:3]:
            for top_k in (1, 4, 1000):
                found = searcher.search_docs(
                    keyword_query(text, *DATASETS, top_k=top_k, where=where)
                )
                assert entries(found) == bm25(corpus, text, top_k=top_k, passes=passes)
                if nearest is not None:
                    found = nearest.search_docs_by_vector(
                        vector_query(vector_of(text), *DATASETS, top_k=top_k, where=where)
                    )
                    every = dot_products(chunks, vector_of(text), top_k=len(chunks), passes=passes)
                    assert_same_ranking(found, best_documents(every, top_k=top_k))

    def test_a_rare_match_is_found_among_many(self, store: Store) -> None:
        common = {f"n{number:03}": "fish fish fish" for number in range(300)}
        fill(store, "d", {**common, "rare": "a fish among the words of a longer text"})
        where = Filter(doc_names=frozenset({"rare"}))
        for query in (
            keyword_query("fish", "d", top_k=1, where=where),
            vector_query(vector_of("fish fish fish"), "d", top_k=1, where=where),
        ):
            assert ids(store.chunks.search(query)) == [("rare", 0)]

    def test_a_chunk_passes_by_its_own_headings_alone(self, store: Store) -> None:
        fill(store, "d", {"a": "fish before\n\n# Part\nfish\n\n# Other\nfish", "b": "fish"})
        where = Filter(headings=frozenset({"part"}))
        for query in (
            keyword_query("fish", "d", where=where),
            vector_query(vector_of("fish"), "d", where=where),
        ):
            assert ids(store.chunks.search(query)) == [("a", 1)]

    def test_metadata_that_changed_is_what_counts(self, store: Store) -> None:
        fill(store, "d", {"a": "fish"}, metadata={"a": {"lang": "en"}})
        put(store, "d", "a", "fish", lang="de")
        for value, found in (("en", []), ("de", [("a", 0)])):
            where = Filter(metadata={"lang": frozenset({value})})
            assert ids(store.chunks.search(keyword_query("fish", "d", where=where))) == found

    def test_stale_sets_can_be_left_out(self, store: Store) -> None:
        fill(store, "d", {"fresh": "fish", "behind": "fish", "renewed": "fish", "tagged": "fish"})
        put(store, "d", "behind", "fish and more")
        put(store, "d", "renewed", "fish and more")
        assert derive(store, "d", "renewed")
        put(store, "d", "tagged", "fish", tag="changes no input")

        def found(fresh: DerivedSig | None) -> list[str]:
            where = Filter(fresh=fresh)
            lanes = [
                store.chunks.search(keyword_query("fish", "d", where=where)),
                store.chunks.search(vector_query(vector_of("fish"), "d", where=where)),
            ]
            names = [{candidate.doc_name for candidate in lane} for lane in lanes]
            assert names[0] == names[1]
            return sorted(names[0])

        assert found(None) == ["behind", "fresh", "renewed", "tagged"]
        assert found(FRESH) == ["fresh", "renewed", "tagged"]
        assert found(attrs.evolve(FRESH, embed_sig="")) == ["fresh", "renewed", "tagged"]
        assert found(attrs.evolve(FRESH, chunker_sig="other")) == []
        assert found(attrs.evolve(FRESH, embed_sig="other")) == []

    def test_sets_of_an_old_configuration_are_stale(self, store: Store) -> None:
        newer = attrs.evolve(CONFIG, chunker_sig="paragraphs/2")
        fill(store, "d", {"a": "fish", "b": "fish"})
        set_config(store, "d", newer)
        assert derive(store, "d", "b", newer)
        where = Filter(fresh=attrs.evolve(FRESH, chunker_sig="paragraphs/2"))
        assert ids(store.chunks.search(keyword_query("fish", "d", where=where))) == [("b", 0)]


def _passing(store: Store, where: Filter) -> Callable[[Entry], bool]:
    """The filter's meaning, read from the stored chunks and the corpus's metadata."""
    headings = {
        (dataset_id, chunk.doc_name, chunk.index): chunk.heading_path
        for dataset_id in DATASETS
        for chunk in store.chunks.iter_chunks(dataset_id)
    }

    def passes(entry: Entry) -> bool:
        if not where.admits(entry.name, METADATA.get(entry.name, {})):
            return False
        path = headings.get((entry.dataset_id, entry.name, entry.index), ())
        return where.headings is None or not where.headings.isdisjoint(path)

    return passes
