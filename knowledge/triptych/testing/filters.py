"""Filters act inside the lanes, before the cut, each kind alone and together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings, strategies as st

from triptych.contracts import Store
from triptych.records import DerivedSig, DocumentInfo, Filter, Metadata, Subject, parse_filter
from triptych.records.filters import HEADING, conditions_of
from triptych.testing.builders import (
    CONFIG,
    derive,
    fill,
    fill_at_once,
    filter_of,
    ids,
    keyword_query,
    layer_of,
    layer_query,
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
from triptych.testing.filter_oracle import (
    METADATA as METADATA_OF_ANY_KIND,
    NAMES,
    WHERES,
    passes as oracle_passes,
)
from triptych.testing.harness import HarnessTests, or_skip
from triptych.testing.oracle import Entry, best_documents, bm25, dot_products, entries
from triptych.testing.search import assert_same_ranking

FRESH = DerivedSig(chunker_sig=CONFIG.chunker_sig, embed_sig=CONFIG.embed_sig)

FILTERS = {
    "name": filter_of(doc_name=["notes.txt", "same", "no such"]),
    "no name": filter_of(doc_name=[]),
    "prefix": filter_of(doc_prefix=["log/1", "guide/"]),
    "prefix with wildcards": filter_of(doc_prefix=["log/_", "%", "guide/a.md"]),
    "metadata": filter_of(lang="en"),
    "any of several values": filter_of(lang=["de", "en", "fr"]),
    "two keys": filter_of(lang="en", kind="markdown"),
    "unknown key": filter_of(none=""),
    "heading": filter_of(heading=["Part 1", "no such"]),
    "number": filter_of(year=2024),
    "range of numbers": filter_of(year={"$gt": 2023, "$lte": 2024}),
    "day": filter_of(day={"$gte": date(2026, 9, 1)}),
    "true": filter_of(draft=True),
    "missing": filter_of(year={"$exists": False}),
    "not equal": filter_of(lang={"$ne": "en"}),
    "none of several": filter_of(lang={"$nin": ["en", "de"]}),
    "item": filter_of(tags={"$contains": "sea"}),
    "whole list": filter_of(tags={"$eq": ["sea", 7]}),
    "order of text": filter_of(lang={"$lt": "en"}),
    "either": filter_of(**{"$or": [{"lang": "de"}, {"$name": {"$gt": "notes"}}]}),
    "version": filter_of(**{"$version": {"$gte": 1}, "$updated_at": {"$gt": date(2020, 1, 1)}}),
    "heading or metadata": filter_of(**{"$or": [{"$heading": "part 0"}, {"lang": "de"}]}),
    "not under a heading": filter_of(**{"$not": {"$heading": ["Part 0", "Part 1"]}, "lang": "en"}),
    "all together": attrs.evolve(
        filter_of(
            doc_name=["guide/a.md", "guide/b.md", "same"],
            doc_prefix="guide/",
            heading=["Part 0", "Part 2"],
            lang=["en", "de"],
        ),
        fresh=FRESH,
    ),
}
PLAIN = {
    name: where
    for name, where in FILTERS.items()
    if all(condition.field != HEADING for condition in conditions_of(where.tree))
}
"""Those that ask for no heading, which is a chunk's own."""


class FilterTests(HarnessTests):
    """A filtered search has min(top_k, matches) entries, scored as without the filter."""

    # All filters in one test: to fill the store again for each takes longer than to ask.
    def test_filters_act_before_the_cut(self, store: Store) -> None:
        fill_corpus(store)
        corpus = chunk_entries(store, *DATASETS)
        for name, where in FILTERS.items():
            passes = _passing(store, where)
            for text in QUERIES[:6]:
                vector = vector_of(text)
                words = bm25(corpus, text, top_k=len(corpus), passes=passes)
                nearest = dot_products(corpus, vector, top_k=len(corpus), passes=passes)
                for top_k in (1, 4, 1000):
                    by_words = store.chunks.search(
                        keyword_query(text, *DATASETS, top_k=top_k, where=where)
                    )
                    assert entries(by_words) == words[:top_k], name
                    by_vector = store.chunks.search(
                        vector_query(vector, *DATASETS, top_k=top_k, where=where)
                    )
                    assert_same_ranking(by_vector, nearest[:top_k])

    def test_filters_act_before_the_cut_on_documents(self, store: Store) -> None:
        searcher = or_skip(store.capabilities.document_search)
        fill_corpus(store)
        corpus, chunks = document_entries(store, *DATASETS), chunk_entries(store, *DATASETS)
        for name, where in PLAIN.items():
            passes = _passing(store, where)
            for text in QUERIES[:3]:
                words = bm25(corpus, text, top_k=len(corpus), passes=passes)
                every = dot_products(chunks, vector_of(text), top_k=len(chunks), passes=passes)
                for top_k in (1, 4, 1000):
                    found = searcher.search_docs(
                        keyword_query(text, *DATASETS, top_k=top_k, where=where)
                    )
                    assert entries(found) == words[:top_k], name
                    found = searcher.search_docs_by_vector(
                        vector_query(vector_of(text), *DATASETS, top_k=top_k, where=where)
                    )
                    assert_same_ranking(found, best_documents(every, top_k=top_k))

    def test_values_of_any_kind_are_compared_as_the_oracle_compares_them(
        self, store: Store
    ) -> None:
        fill(store, "d", dict.fromkeys(NAMES, "fish\n\n# Part\nfish\n\n# A\nfish"))
        for name in (*NAMES, "a/", ""):
            assert store.layers.put(layer_of(store, "d", name, "fish"))

        # A function of its own for each backend, as Hypothesis wants it.
        @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(
            held=st.lists(METADATA_OF_ANY_KIND, min_size=4, max_size=4),
            wheres=st.lists(WHERES, min_size=1, max_size=8),
        )
        def compare(held: list[Metadata], wheres: list[dict[str, Any]]) -> None:
            for name, metadata in zip(NAMES, held, strict=True):
                stored = put(store, "d", name, "fish\n\n# Part\nfish\n\n# A\nfish", **metadata)
                assert repr(stored.metadata) == repr(metadata), "values come back as they were put"
                found = store.documents.get_info("d", name)
                assert found is not None
                assert repr(sorted(found.metadata.items())) == repr(sorted(metadata.items()))
                assert store.layers.put(layer_of(store, "d", name, "fish"))
            infos = {info.name: info for info in store.documents.list("d")}
            for where in wheres:
                filter_ = Filter(tree=parse_filter(where))
                for query in (
                    keyword_query("fish", "d", top_k=100, where=filter_),
                    vector_query(vector_of("fish"), "d", top_k=100, where=filter_),
                ):
                    chunks = {
                        (chunk.doc_name, chunk.index)
                        for chunk in store.chunks.iter_chunks("d")
                        if oracle_passes(where, _subject(infos, chunk.doc_name, chunk.heading_path))
                    }
                    assert set(ids(store.chunks.search(query))) == chunks, where
                    layers = {
                        name
                        for name in (*NAMES, "a/", "")
                        if oracle_passes(where, _subject(infos, name, ("Part", "A")))
                    }
                    found_layers = store.layers.search(layer_query(query))
                    assert {each.doc_name for each in found_layers} == layers, where

        compare()

    def test_a_rare_match_is_found_among_many(self, store: Store) -> None:
        common = {f"n{number:03}": "fish fish fish" for number in range(300)}
        fill_at_once(store, "d", {**common, "rare": "a fish among the words of a longer text"})
        where = filter_of(doc_name="rare")
        for query in (
            keyword_query("fish", "d", top_k=1, where=where),
            vector_query(vector_of("fish fish fish"), "d", top_k=1, where=where),
        ):
            assert ids(store.chunks.search(query)) == [("rare", 0)]

    def test_a_chunk_passes_by_its_own_headings_alone(self, store: Store) -> None:
        fill(store, "d", {"a": "fish before\n\n# Part\nfish\n\n# Other\nfish", "b": "fish"})
        where = filter_of(heading="part")
        for query in (
            keyword_query("fish", "d", where=where),
            vector_query(vector_of("fish"), "d", where=where),
        ):
            assert ids(store.chunks.search(query)) == [("a", 1)]

    def test_a_heading_may_hold_any_character(self, store: Store) -> None:
        path = ("he\0ad", "he\1\1", "\\0", "\1\2", "Z" * 5_000)
        for name, heading in zip("abcde", path, strict=True):
            fill(store, "d", {name: f"# {heading}\nfish"})
        for name, heading in zip("abcde", path, strict=True):
            for query in (
                keyword_query("fish", "d", where=filter_of(heading=heading)),
                vector_query(vector_of("fish"), "d", where=filter_of(heading=heading)),
            ):
                assert [name for name, _ in ids(store.chunks.search(query))] == [name]

    def test_metadata_that_changed_is_what_counts(self, store: Store) -> None:
        fill(store, "d", {"a": "fish"}, metadata={"a": {"lang": "en"}})
        put(store, "d", "a", "fish", lang="de")
        for value, found in (("en", []), ("de", [("a", 0)])):
            where = filter_of(lang=value)
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


def _subject(infos: Mapping[str, DocumentInfo], name: str, headings: tuple[str, ...]) -> Subject:
    info = infos.get(name)
    if info is None:
        return Subject(name=name)
    return Subject(
        name=name,
        metadata=info.metadata,
        version=info.version,
        updated_at=info.updated_at,
        expires_at=info.system.expires_at,
        headings={heading.casefold() for heading in headings},
    )


def _passing(store: Store, where: Filter) -> Callable[[Entry], bool]:
    """The filter's meaning, read from the stored chunks and the corpus's metadata."""
    headings = {
        (dataset_id, chunk.doc_name, chunk.index): chunk.heading_path
        for dataset_id in DATASETS
        for chunk in store.chunks.iter_chunks(dataset_id)
    }

    infos = {
        (dataset_id, info.name): info
        for dataset_id in DATASETS
        for info in store.documents.list(dataset_id)
    }

    def passes(entry: Entry) -> bool:
        info = infos[entry.dataset_id, entry.name]
        path = headings.get((entry.dataset_id, entry.name, entry.index), ())
        return where.admits(
            Subject(
                name=entry.name,
                metadata=METADATA.get(entry.name, {}),
                version=info.version,
                updated_at=info.updated_at,
                expires_at=info.system.expires_at,
                headings={heading.casefold() for heading in path},
            )
        )

    return passes
