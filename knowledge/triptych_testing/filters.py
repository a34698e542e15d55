"""Tests of filters: they apply before the limit, and ``within`` restricts the statistics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

import attrs
from hypothesis import HealthCheck, given, settings, strategies as st

from triptych.contracts import Store
from triptych.records import (
    HEADING,
    Candidate,
    Candidates,
    ChunkQuery,
    DerivedSig,
    DocumentInfo,
    Filter,
    Metadata,
    MetadataValue,
    Subject,
    conditions_of,
    document_subject,
    parse_filter,
)
from triptych.text import get_analyzer, headings_in
from triptych_testing.builders import (
    CONFIG,
    both_lanes,
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
from triptych_testing.filter_oracle import (
    METADATA as METADATA_OF_ANY_KIND,
    NAMES,
    WHERES,
    passes as oracle_passes,
)
from triptych_testing.harness import HarnessTests, or_skip, there
from triptych_testing.oracle import (
    DATASETS,
    METADATA,
    QUERIES,
    Entry,
    assert_same_ranking,
    best_documents,
    bm25,
    chunk_entries,
    document_entries,
    dot_products,
    entries,
    fill_corpus,
)

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
                found = there(store.documents.get_info("d", name))
                for read in (stored, found):
                    # Of equal metadata that was there before, the keys may stand otherwise.
                    assert repr(sorted(read.metadata.items())) == repr(sorted(metadata.items()))
                assert store.layers.put(layer_of(store, "d", name, "fish"))
            infos = {info.name: info for info in store.documents.list("d")}
            for where in wheres:
                filter_ = Filter(tree=parse_filter(where))
                for query in both_lanes("fish", "d", top_k=100, where=filter_):
                    chunks = {
                        (chunk.doc_name, chunk.index)
                        for chunk in store.chunks.iter_chunks("d")
                        if oracle_passes(
                            where,
                            _subject(infos[chunk.doc_name], chunk.doc_name, chunk.heading_path),
                        )
                    }
                    assert set(ids(store.chunks.search(query))) == chunks, where
                    layers = {
                        name
                        for name in (*NAMES, "a/", "")
                        if oracle_passes(where, _subject(infos.get(name), name, ("Part", "A")))
                    }
                    found_layers = store.layers.search(layer_query(query))
                    assert {each.doc_name for each in found_layers} == layers, where

        compare()

    def test_a_rare_match_is_found_among_many(self, store: Store) -> None:
        common = {f"n{number:03}": "fish fish fish" for number in range(300)}
        fill_at_once(store, "d", {**common, "rare": "a fish among the words of a longer text"})
        where = filter_of(doc_name="rare")
        for query in both_lanes("fish fish fish", "d", top_k=1, where=where):
            assert ids(store.chunks.search(query)) == [("rare", 0)]

    def test_a_chunk_passes_by_its_own_headings_alone(self, store: Store) -> None:
        fill(store, "d", {"a": "fish before\n\n# Part\nfish\n\n# Other\nfish", "b": "fish"})
        where = filter_of(heading="part")
        for query in both_lanes("fish", "d", where=where):
            assert ids(store.chunks.search(query)) == [("a", 1)]

    def test_sections_of_one_chunk_are_found_by_each_heading(self, store: Store) -> None:
        fill(store, "d", {"a": "# Left / Right\nfish", "b": "# Left\nfish"})
        for heading, wanted in (
            ("LEFT", [("a", 0), ("b", 0)]),
            ("right", [("a", 0)]),
            ("Left / Right", [("a", 0)]),
            ("Left /", []),
        ):
            for query in both_lanes("fish", "d", where=filter_of(heading=heading)):
                assert sorted(ids(store.chunks.search(query))) == wanted, heading

    def test_a_heading_may_hold_any_character(self, store: Store) -> None:
        path = ("he\0ad", "he\1\1", "\\0", "\1\2", "Z" * 5_000)
        for name, heading in zip("abcde", path, strict=True):
            fill(store, "d", {name: f"# {heading}\nfish"})
        for name, heading in zip("abcde", path, strict=True):
            for query in both_lanes("fish", "d", where=filter_of(heading=heading)):
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


def _subject(info: DocumentInfo | None, name: str, headings: tuple[str, ...]) -> Subject:
    return Subject(name=name) if info is None else document_subject(info, headings_in(headings))


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
        own = METADATA.get(entry.name, {})
        return where.admits(attrs.evolve(_subject(info, entry.name, path), metadata=own))

    return passes


_WORDS = ("storm", "tide", "rope", "anchor", "keeper")
_NAMES = ("a", "b/c", "b/d", "e")
OURS = Filter(within=parse_filter({"team": "ours"}))
ALIKE = (OURS, Filter(within=parse_filter({"$not": {"team": "theirs"}})))
"""Filters that the same documents pass."""
_QUERIES = ("storm", "tide rope", "keeper of the storm storm", "nothing of it")

_texts = st.lists(
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=3
).map("\n\n".join)
_writes = st.lists(
    st.tuples(st.sampled_from(_NAMES), _texts, st.sampled_from(("ours", "theirs")), st.booleans()),
    min_size=2,
    max_size=8,
)


class CollectionTests(HarnessTests):
    """Searches within some documents equal those of a dataset that holds no others."""

    def test_a_search_within_documents_scores_as_if_there_were_no_others(
        self, store: Store
    ) -> None:
        numbers = itertools.count()

        @settings(max_examples=8, deadline=None)
        @given(writes=_writes, ours=st.sampled_from(ALIKE))
        def agrees(writes: Sequence[tuple[str, str, str, bool]], ours: Filter) -> None:
            self._agree(store, next(numbers), writes, ours)

        agrees()

    def _agree(
        self, store: Store, number: int, writes: Sequence[tuple[str, str, str, bool]], ours: Filter
    ) -> None:
        mixed, only = f"mixed{number}", f"only{number}"
        set_config(store, mixed)
        set_config(store, only)
        for name, text, team, removed in writes:
            self._write(store, mixed, name, text, team)
            self._write(store, only, name, text, team)
            if removed:
                store.documents.delete(mixed, name)
            if removed or team == "theirs":
                store.documents.delete(only, name)
        assert [info.name for info in store.documents.list(only)] == [
            info.name for info in store.documents.list(mixed, where=ours.within)
        ]
        for text in _QUERIES:
            for top_k in (1, 50):
                for query in both_lanes(text, mixed, top_k=top_k, where=ours):
                    self._compare(store, query, only)
        self._compare_terms(store, mixed, only, ours)

    def test_a_filter_within_a_collection_leaves_its_statistics(self, store: Store) -> None:
        set_config(store, "d")
        set_config(store, "only")
        for name, team, year in (("a", "ours", 1), ("b", "ours", 2), ("c", "theirs", 1)):
            metadata: dict[str, MetadataValue] = {"team": team, "year": year}
            text = "rope of theirs" if team == "theirs" else f"storm {name}\n\ntide"
            put(store, "d", name, text, **metadata)
            assert derive(store, "d", name)
            if team == "ours":
                put(store, "only", name, text, **metadata)
                assert derive(store, "only", name)
        first = parse_filter({"year": 1})
        narrow = attrs.evolve(OURS, tree=first)
        found = store.chunks.search(keyword_query("storm", "d", where=narrow))
        wanted = store.chunks.search(keyword_query("storm", "only", where=Filter(tree=first)))
        assert scores(found) == scores(wanted) != []
        plain = store.chunks.search(keyword_query("storm", "d", where=Filter(tree=first)))
        assert plain[0].score != found[0].score

    def test_several_datasets_are_one_collection(self, store: Store) -> None:
        for dataset_id, team in (("x", "ours"), ("y", "theirs"), ("z", "ours")):
            set_config(store, dataset_id)
            put(store, dataset_id, "n", "storm tide", team=team)
            assert derive(store, dataset_id, "n")
        found = store.chunks.search(keyword_query("storm", "x", "y", "z", where=OURS))
        wanted = store.chunks.search(keyword_query("storm", "x", "z"))
        assert [(e.dataset_id, e.score) for e in found] == [(e.dataset_id, e.score) for e in wanted]
        assert len(found) == 2

    def _write(self, store: Store, dataset_id: str, name: str, text: str, team: str) -> None:
        put(store, dataset_id, name, text, team=team)
        assert derive(store, dataset_id, name)
        assert store.layers.put(layer_of(store, dataset_id, name, text.replace("\n\n", " and ")))

    def _compare(self, store: Store, query: ChunkQuery, only: str) -> None:
        """What ``query`` finds is what it finds in the dataset ``only`` without a filter."""
        alone = attrs.evolve(query, dataset_ids=(only,), filter=Filter())
        assert scores(store.chunks.search(query)) == scores(store.chunks.search(alone))
        found, wanted = (store.layers.search(layer_query(each)) for each in (query, alone))
        assert scores(found) == scores(wanted)
        documents = store.capabilities.document_search
        if documents is not None:
            by_word, by_vector = documents.search_docs, documents.search_docs_by_vector
            search = by_word if query.vector is None else by_vector
            found, wanted = (search(each) for each in (query, alone))
            assert scores(found) == scores(wanted)

    def _compare_terms(self, store: Store, mixed: str, only: str, ours: Filter) -> None:
        reader = store.capabilities.document_search
        if reader is None:
            return
        terms = get_analyzer("english").analyze_query(" ".join(_WORDS))
        bounded = reader.corpus_stats([mixed], terms, within=ours.within)
        assert bounded == reader.corpus_stats([only], terms)
        query = keyword_query(" ".join(_WORDS), mixed, where=ours)
        told = Candidates.of(store.chunks.search(query)).stats
        assert told is None or told(terms) == bounded


def scores(found: Sequence[Candidate]) -> list[tuple[str, int, float]]:
    """What was found, in order, but for the dataset."""
    return [(each.doc_name, each.index, each.score) for each in found]
