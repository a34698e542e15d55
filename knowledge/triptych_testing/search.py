"""Tests of the searches of chunks and documents, against an oracle and between backends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import product

import attrs
import numpy as np
import pytest

from triptych.contracts import Store
from triptych.records import (
    HEADING,
    NO_CHUNK,
    OPENING,
    Candidate,
    Candidates,
    ChunkQuery,
    DatasetConfig,
    DerivedSig,
    Filter,
    Layer,
    Vector,
    conditions_of,
)
from triptych.text import AUTO, CorpusStats, get_analyzer
from triptych_testing.builders import (
    CONFIG,
    DIMENSION,
    both_lanes,
    chunks_of,
    derive,
    fill,
    ids,
    keyword_query,
    layer_of,
    layer_query,
    put,
    set_config,
    sig_of,
    vector_of,
    vector_query,
)
from triptych_testing.filters import FILTERS
from triptych_testing.harness import Harness, HarnessTests, failures, guarantee, or_skip, there
from triptych_testing.oracle import (
    DATASETS,
    QUERIES,
    Entry,
    assert_same_ranking,
    best_documents,
    bm25,
    chunk_entries,
    contents,
    document_entries,
    dot_products,
    entries,
    fill_corpus,
    term_counts,
)

LIMITS = (1, 3, 10, 1000)
SEARCHED = (("north",), DATASETS, ("south", "unknown", "north"))


class SearchTests(HarnessTests):
    """Scores, order, limits, freshness of what is found, and what keys stand for."""

    def test_keywords_are_scored_by_lucenes_bm25_over_pooled_statistics(self, store: Store) -> None:
        fill_corpus(store)
        for datasets in SEARCHED:
            corpus = chunk_entries(store, *datasets)
            for text, top_k in product(QUERIES, LIMITS):
                found = store.chunks.search(keyword_query(text, *datasets, top_k=top_k))
                wanted = bm25(corpus, text, top_k=top_k)
                assert entries(found) == wanted, (datasets, text, top_k)

    def test_keyword_candidates_tell_which_terms_they_hold(self, store: Store) -> None:
        analyzer = get_analyzer("english")
        fill_corpus(store)
        texts = {
            (each.dataset_id, each.name, each.index): term_counts(each)
            for each in (*chunk_entries(store, *DATASETS), *document_entries(store, *DATASETS))
        }
        whole = store.capabilities.document_search
        searches = [store.chunks.search, *([] if whole is None else [whole.search_docs])]
        for text in (*QUERIES, "keeper of HTTPServer nowhere", "storm " * 3):
            terms = sorted(set(analyzer.analyze_query(text)))
            for search in searches:
                found = search(keyword_query(text, *DATASETS, top_k=12))
                if not found:
                    continue
                assert isinstance(found, Candidates)
                told = there(found.matches)()
                assert told.terms == terms
                assert told.counts.tolist() == [
                    [
                        min(texts[each.dataset_id, each.doc_name, each.index].get(term, 0), 1)
                        for term in terms
                    ]
                    for each in found
                ]

    def test_vectors_are_scored_by_their_dot_product(self, store: Store) -> None:
        fill_corpus(store)
        for datasets in SEARCHED:
            corpus = chunk_entries(store, *datasets)
            for text, top_k in product((*QUERIES, "the lighthouse keeper"), LIMITS):
                vector = vector_of(text)
                found = store.chunks.search(vector_query(vector, *datasets, top_k=top_k))
                assert_same_ranking(found, dot_products(corpus, vector, top_k=top_k))

    def test_statistics_follow_every_change(self, store: Store) -> None:
        fill_corpus(store)

        def agrees() -> None:
            corpus = chunk_entries(store, *DATASETS)
            for text in QUERIES:
                found = store.chunks.search(keyword_query(text, *DATASETS, top_k=100))
                assert entries(found) == bm25(corpus, text, top_k=100)

        put(store, "north", "notes.txt", "lighthouse " * 40)
        assert derive(store, "north", "notes.txt")
        agrees()
        store.documents.delete("north", "same")
        store.chunks.delete_by_doc("north", "same")
        agrees()
        store.chunks.delete_by_doc("south", "guide/a.md")
        agrees()
        fill(store, "north", {"added": "the lighthouse\n\nthe ferry"})
        agrees()

    def test_statistics_of_terms_are_those_of_the_chunks_that_are_there(self, store: Store) -> None:
        reader = or_skip(store.capabilities.document_search)
        terms = get_analyzer("english").analyze_query(" ".join(QUERIES))
        fill_corpus(store)

        def agree(datasets: tuple[str, ...]) -> None:
            corpus = chunk_entries(store, *dict.fromkeys(datasets))
            counts = [term_counts(entry) for entry in corpus]
            holding = Counter(term for each in counts for term in each if term in terms)
            wanted = CorpusStats(
                document_count=len(corpus),
                total_length=int(sum(sum(each.values()) for each in counts)),
                document_frequencies=holding,
            )
            assert reader.corpus_stats(datasets, [*terms, terms[0]]) == wanted
            found = store.chunks.search(keyword_query(" ".join(QUERIES), *datasets))
            words = " ".join(QUERIES)
            nearest = attrs.evolve(vector_query(vector_of(words), *datasets), text=words)
            for each in (found, store.chunks.search(nearest)):
                told = Candidates.of(each).stats
                if told is not None:
                    assert told(terms) == wanted
                    assert told([*terms, "unasked"]) is None
            assert Candidates.of(reader.search_docs(keyword_query(words, *datasets))).stats is None

        searched = (("north",), DATASETS, ("south", "unknown", "south"))
        assert failures(searched, agree) == []
        put(store, "north", "notes.txt", "lighthouse " * 40)
        assert derive(store, "north", "notes.txt")
        store.chunks.delete_by_doc("south", "guide/a.md")
        assert failures(searched, agree) == []
        assert reader.corpus_stats(["unknown"], ["storm"]).document_count == 0

    def test_a_text_is_found_by_the_name_title_and_headings_above_it(self, store: Store) -> None:
        def found(words: str) -> list[tuple[str, int]]:
            return ids(store.chunks.search(keyword_query(words, "d")))

        texts = {
            "adr-0017.md": "# Lanterns\n\none\n\ntwo",
            "other.md": "three",
            "harbour.csv": "harbour",
        }
        fill(store, "d", texts, metadata={"other.md": {"title": "The oldest ferry"}})
        sections = [("adr-0017.md", index) for index in range(len(found("adr 17")))]
        assert len(sections) > 1
        assert found("17") == found("0017") == found("lantern") == sections
        assert found("ferries") == [("other.md", 0)]
        assert found("harbour") == [("harbour.csv", 0)]
        assert found("csv") == found("md") == []
        put(store, "d", "other.md", "three", title="The newest tide")
        # At once, while its chunks are stale, and still when they are made again.
        for _ in range(2):
            assert found("ferries") == []
            assert found("tide") == [("other.md", 0)]
            assert derive(store, "d", "other.md")

    def test_ties_come_by_name_index_and_dataset(self, store: Store) -> None:
        names = ["b/1", "a/10", "a/2", "é/1", "Z/1"]  # of two words each
        text = "\n\n".join(["same words"] * 12)
        for dataset_id in ("second", "first"):
            fill(store, dataset_id, dict.fromkeys(names, text))
        wanted = [
            (name, index, dataset_id)
            for name in sorted(names)
            for index in range(12)
            for dataset_id in ("first", "second")
        ]
        for query in both_lanes("words", "second", "first"):
            for top_k in (1, 7, 25, 120):
                found = store.chunks.search(attrs.evolve(query, top_k=top_k))
                order = [(c.doc_name, c.index, c.dataset_id) for c in found]
                assert order == wanted[:top_k]

    def test_scores_are_rounded_before_ties_are_broken(self, store: Store) -> None:
        set_config(store, "d")
        angles = {"c": 3e-8, "b": 2e-8, "a": 1e-8, "far": 1e-3}
        for name, angle in angles.items():
            document = put(store, "d", name, f"text of {name}")
            sig = sig_of(store, "d", name)
            (chunk,) = chunks_of(document, sig)
            chunk = attrs.evolve(chunk, vector=_at_angle(np.pi / 4 + angle))
            assert store.chunks.replace("d", name, [chunk], sig=sig)
        found = store.chunks.search(vector_query(_at_angle(0.0), "d"))
        assert ids(found) == [("a", 0), ("b", 0), ("c", 0), ("far", 0)]
        assert found[0].score == found[1].score == found[2].score == round(found[0].score, 6)

    def test_asking_a_dataset_twice_is_asking_once(self, store: Store) -> None:
        fill_corpus(store, ("north",))
        for query in both_lanes("storm", "north"):
            once = store.chunks.search(query)
            twice = store.chunks.search(attrs.evolve(query, dataset_ids=("north", "north")))
            assert entries(once) == entries(twice)

    def test_unknown_datasets_hold_nothing(self, store: Store) -> None:
        fill(store, "d", {"a": "text"})
        for dataset_ids in ((), ("unknown",), ("unknown", "other")):
            assert list(store.chunks.search(keyword_query("text", *dataset_ids))) == []
            assert list(store.chunks.search(vector_query(vector_of("q"), *dataset_ids))) == []
        assert list(store.documents.list_datasets()) == ["d"]

    def test_datasets_are_apart(self, store: Store) -> None:
        fill(store, "mine", {"a": "secret harbour"})
        fill(store, "yours", {"a": "open harbour"})
        for query in both_lanes("secret harbour", "yours"):
            assert {candidate.dataset_id for candidate in store.chunks.search(query)} == {"yours"}

    def test_vectors_of_another_space_are_never_compared(self, store: Store) -> None:
        other = DatasetConfig(chunker_sig=CONFIG.chunker_sig, embed_sig="space/2")
        fill(store, "d", {"a": "one", "b": "two"})
        assert len(store.chunks.search(vector_query(vector_of("q"), "d"))) == 2
        assert list(store.chunks.search(vector_query(vector_of("q"), "d", space="space/2"))) == []
        set_config(store, "d", other)
        assert list(store.chunks.search(vector_query(vector_of("q"), "d"))) == []
        assert list(store.chunks.search(vector_query(vector_of("q"), "d", space="space/2"))) == []
        assert derive(store, "d", "b", other)
        assert ids(store.chunks.search(vector_query(vector_of("q"), "d", space="space/2"))) == [
            ("b", 0)
        ]
        assert ids(store.chunks.search(keyword_query("one two", "d"))) == [("a", 0), ("b", 0)]

    def test_spaces_of_other_widths_live_side_by_side(self, store: Store) -> None:
        wide = DatasetConfig(chunker_sig=CONFIG.chunker_sig, embed_sig="wide/1")
        fill(store, "narrow", {"a": "text"})
        set_config(store, "wide", wide)
        document = put(store, "wide", "a", "text")
        sig = sig_of(store, "wide", "a", wide)
        (chunk,) = chunks_of(document, sig)
        chunk = attrs.evolve(chunk, vector=vector_of("text", "wide/1", 2 * DIMENSION))
        assert store.chunks.replace("wide", "a", [chunk], sig=sig)
        query = vector_of("text", "wide/1", 2 * DIMENSION)
        found = store.chunks.search(vector_query(query, "narrow", "wide", space="wide/1"))
        assert [(candidate.dataset_id, candidate.score) for candidate in found] == [("wide", 1.0)]

    def test_language_decides_the_terms(self, store: Store) -> None:
        fill(store, "d", {"a": "Die Häuser der Stadt"})
        assert list(store.chunks.search(keyword_query("Haus", "d"))) == []
        german = attrs.evolve(CONFIG, language="german")
        set_config(store, "d", german)
        found = store.chunks.search(keyword_query("Haus", "d"))
        assert entries(found) == bm25(chunk_entries(store, "d"), "Haus", top_k=5, language="german")
        assert ids(found) == [("a", 0)]

    def test_each_text_is_analysed_in_its_own_language(self, store: Store) -> None:
        german = "Die Häuser in der Straße wurden nicht verkauft, das Haus in Bonn auch nicht."
        english = "The house in Bonn was not for sale, and the streets were empty."
        fill(store, "d", {"Häuser": german, "houses": english, "short": "Häuser"})
        set_config(store, "d", attrs.evolve(CONFIG, language=AUTO))
        fill(store, "e", {"houses": english})
        set_config(store, "e", attrs.evolve(CONFIG, language=AUTO))
        set_config(store, "f", attrs.evolve(CONFIG, language="german"))
        both = Candidates.of(store.chunks.search(keyword_query("Bonn", "d", "f"))).stats
        assert both is None or both(["bonn"]) is None, "a term stands for others in each language"
        for dataset, query in product("de", ("Haus houses", "Bonn street Straßen")):
            told = Candidates.of(store.chunks.search(keyword_query(query, dataset))).stats
            reader, variants = (
                store.capabilities.document_search,
                get_analyzer(AUTO).variants(query),
            )
            every = sorted(set().union(*variants.values()))
            if told is not None and reader is not None:
                known = reader.corpus_stats([dataset], every)
                assert told(sorted(variants)) == known.pooled(variants)
                assert told([*variants, "unasked"]) is None
        for query in ("Haus", "Häuser Haus", "houses", "Bonn street Straßen", "Bonn Bonn sale"):
            found = store.chunks.search(keyword_query(query, "d"))
            expected = bm25(chunk_entries(store, "d"), query, top_k=5, language=AUTO)
            assert expected
            assert_same_ranking(found, expected)
            if isinstance(found, Candidates) and found.matches is not None:
                held = found.matches()
                assert held.terms == sorted(get_analyzer(AUTO).variants(query))
                assert (held.counts.max(axis=1) > 0).all()

    @guarantee(8)
    def test_searches_see_every_write_that_was_answered(self, store: Store) -> None:
        def seen(text: str) -> tuple[list[str], list[str]]:
            by_words = store.chunks.search(keyword_query(text, "d"))
            by_vector = store.chunks.search(vector_query(vector_of(text), "d", top_k=1))
            return (
                [candidate.doc_name for candidate in by_words],
                [candidate.doc_name for candidate in by_vector if candidate.score > 0.999],
            )

        set_config(store, "d")
        text = ""
        for number in range(20):
            text = f"{chr(97 + number)}quux"
            put(store, "d", "a", text)
            assert derive(store, "d", "a")
            assert seen(text) == (["a"], ["a"])
            assert seen(f"{chr(96 + number)}quux") == ([], [])
        put(store, "d", "a", text, tag="new")
        assert store.chunks.update_source_version("d", "a", sig_of(store, "d", "a"))
        assert seen(text) == (["a"], ["a"])
        store.chunks.delete_by_doc("d", "a")
        assert seen(text) == ([], [])
        assert derive(store, "d", "a")
        assert seen(text) == (["a"], ["a"])
        store.chunks.delete_by_dataset("d")
        assert seen(text) == ([], [])

    def test_fetch_tells_what_a_key_stands_for(self, store: Store) -> None:
        fill(store, "d", {"a.md": "# Top\n\nfish", "b": "fish"}, metadata={"b": {"k": "v"}})
        chunks = {(c.doc_name, c.index): c for c in store.chunks.iter_chunks("d")}
        for query in both_lanes("fish", "d"):
            candidates = store.chunks.search(query)
            found = store.chunks.fetch([candidate.key for candidate in candidates])
            assert len(found) == len(candidates) >= 2
            for candidate in candidates:
                item = found[candidate.key]
                assert item.key == candidate.key
                assert item.chunk == chunks[candidate.doc_name, candidate.index]
                assert item.document == store.documents.get_info("d", candidate.doc_name)
                assert item.sig == store.chunks.get_doc_sig("d", candidate.doc_name)
                assert item.layer is None

    def test_fetch_leaves_out_what_was_replaced_or_deleted(self, store: Store) -> None:
        fill(store, "d", dict.fromkeys(("kept", "replaced", "deleted", "gone"), "fish\n\nfish"))
        keys = {c.doc_name: c.key for c in store.chunks.search(keyword_query("fish", "d", top_k=8))}
        assert len(keys) == 4
        assert set(store.chunks.fetch(list(keys.values()))) == set(keys.values())
        put(store, "d", "replaced", "fish\n\nfish!")
        assert derive(store, "d", "replaced")
        store.chunks.delete_by_doc("d", "deleted")
        store.documents.delete("d", "gone")
        store.chunks.delete_by_doc("d", "gone")
        assert set(store.chunks.fetch(list(keys.values()))) == {keys["kept"]}
        assert derive(store, "d", "deleted")
        assert set(store.chunks.fetch(list(keys.values()))) == {keys["kept"]}
        assert dict(store.chunks.fetch([])) == {}

    def test_documents_are_scored_by_their_full_text(self, store: Store) -> None:
        searcher = or_skip(store.capabilities.document_search)
        fill_corpus(store)
        put(store, "north", "not derived", "the lighthouse keeper")
        for datasets in (("north",), (*DATASETS, "unknown")):
            corpus = document_entries(store, *datasets)
            for text in QUERIES:
                for top_k in LIMITS:
                    found = searcher.search_docs(keyword_query(text, *datasets, top_k=top_k))
                    assert entries(found) == bm25(corpus, text, top_k=top_k)

    def test_documents_are_scored_by_the_nearest_of_all_their_chunks(self, store: Store) -> None:
        searcher = or_skip(store.capabilities.document_search)
        fill_corpus(store)
        for datasets in (("north",), (*DATASETS, "unknown")):
            corpus = chunk_entries(store, *datasets)
            for text in QUERIES:
                vector = vector_of(text)
                every = dot_products(corpus, vector, top_k=len(corpus))
                for top_k in LIMITS:
                    query = vector_query(vector, *datasets, top_k=top_k)
                    found = searcher.search_docs_by_vector(query)
                    assert_same_ranking(found, best_documents(every, top_k=top_k))
                    assert all(candidate.index == NO_CHUNK for candidate in found)

    def test_document_keys_stand_for_documents(self, store: Store) -> None:
        searcher = or_skip(store.capabilities.document_search)
        fill(store, "d", {"a": "🐟 fish " * 500, "b": "fish"})
        put(store, "d", "not derived", "fish")
        keys: list[Hashable] = []
        for found in (
            searcher.search_docs(keyword_query("fish", "d")),
            searcher.search_docs_by_vector(vector_query(vector_of("fish"), "d")),
        ):
            got = searcher.fetch_docs([candidate.key for candidate in found])
            for candidate in found:
                item = got[candidate.key]
                document = there(store.documents.get("d", candidate.doc_name))
                assert item.document == store.documents.get_info("d", candidate.doc_name)
                assert item.opening == document.content[:OPENING]
                set_sig = store.chunks.get_doc_sig("d", candidate.doc_name)
                assert item.sig == (set_sig or DerivedSig())
                assert (item.chunk, item.layer) == (None, None)
                keys.append(candidate.key)
        for name in ("a", "b", "not derived"):
            store.documents.delete("d", name)
            store.chunks.delete_by_doc("d", name)
        assert dict(searcher.fetch_docs(keys)) == {}


def _at_angle(angle: float) -> Vector:
    vector = np.zeros(DIMENSION, np.float32)
    vector[0], vector[1] = np.cos(angle), np.sin(angle)
    return vector


def assert_backends_rank_alike(first: Harness, second: Harness, *, tolerance: float = 0.0) -> None:
    """Fill both stores with a test corpus and compare every lane, with and without filters.

    Keyword scores must be equal; dot products may differ in the last digit. With a ``tolerance``
    scores may differ by that much, and entries whose scores differ by no more may be in another
    order, for engines that sum in 32 bits.

    Raises:
        AssertionError: a result differs in its entries, their order or their scores.
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
