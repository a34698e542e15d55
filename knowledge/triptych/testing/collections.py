"""A filter's ``within`` bounds the collection: statistics, scores and order are of what passes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import attrs
from hypothesis import given, settings, strategies as st

from triptych.contracts import Store
from triptych.records import Candidate, ChunkQuery, Filter, MetadataValue, parse_filter
from triptych.testing.builders import (
    derive,
    keyword_query,
    layer_of,
    layer_query,
    put,
    set_config,
    vector_of,
    vector_query,
)
from triptych.testing.harness import HarnessTests
from triptych.text import get_analyzer

WORDS = ("storm", "tide", "rope", "anchor", "keeper")
NAMES = ("a", "b/c", "b/d", "e")
OURS = Filter(within=parse_filter({"team": "ours"}))
ALIKE = (OURS, Filter(within=parse_filter({"$not": {"team": "theirs"}})))
"""Filters that the same documents pass."""
QUERIES = ("storm", "tide rope", "keeper of the storm storm", "nothing of it")

_texts = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=3
).map("\n\n".join)
_writes = st.lists(
    st.tuples(st.sampled_from(NAMES), _texts, st.sampled_from(("ours", "theirs")), st.booleans()),
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
        self,
        store: Store,
        number: int,
        writes: Sequence[tuple[str, str, str, bool]],
        ours: Filter,
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
        for text in QUERIES:
            for top_k in (1, 50):
                for query in (
                    keyword_query(text, mixed, top_k=top_k, where=ours),
                    vector_query(vector_of(text), mixed, top_k=top_k, where=ours),
                ):
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
        terms = get_analyzer("english").analyze_query(" ".join(WORDS))
        bounded = reader.corpus_stats([mixed], terms, within=ours.within)
        assert bounded == reader.corpus_stats([only], terms)


def scores(found: Sequence[Candidate]) -> list[tuple[str, int, float]]:
    """What was found, in order, but for the dataset."""
    return [(each.doc_name, each.index, each.score) for each in found]
