"""Searches over datasets of several servers, with the scores of one store that has them all."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import attrs

from triptych.records import (
    Candidate,
    Candidates,
    ChunkQuery,
    FilterTree,
    Mode,
    SparseQuery,
    StoredUnit,
)
from triptych.records.candidates import IN_ORDER
from triptych.text import CorpusStats, get_analyzer
from triptych_backends.index import Field
from triptych_backends.postgres import PostgresStore
from triptych_backends.shards.ownership import ElsewhereError, Expected
from triptych_backends.shards.routing import Part, Router

__all__ = ["ShardedSearcher"]

Fetch = Callable[[PostgresStore, Sequence[Hashable]], Mapping[Hashable, StoredUnit]]


class ShardKey(NamedTuple):
    """A key of a repository on one server, and of which dataset it is."""

    server: str
    dataset_id: str
    key: Hashable


class ShardedSearcher:
    """Asks the servers beside each other, and merges their answers.

    A keyword search over several servers asks for their statistics first, and lets each score by
    the sum of them.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    def search(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        """One lane over one kind of unit; see `ChunkRepo.search`."""
        pooled = None
        if query.mode is Mode.BM25 and len(self._router.parts(query.dataset_ids)) > 1:
            pooled = self._pooled(unit, query)

        def ask(part: Part, store: PostgresStore) -> Candidates:
            mine = attrs.evolve(query, dataset_ids=part.dataset_ids)
            return _of_server(part, store.searcher.search(unit, mine, statistics=pooled))

        found = self._router.run_all(query.dataset_ids, ask)
        return _merged(found, query.top_k, str(query.mode))

    def search_sparse(self, unit: Field, query: SparseQuery) -> Sequence[Candidate]:
        """The sparse lane; see `SparseRepo.search_sparse`."""

        def ask(part: Part, store: PostgresStore) -> Candidates:
            mine = attrs.evolve(query, dataset_ids=part.dataset_ids)
            return _of_server(part, store.searcher.search_sparse(unit, mine))

        return _merged(self._router.run_all(query.dataset_ids, ask), query.top_k, "sparse")

    def corpus_stats(
        self,
        unit: Field,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `CorpusStatsReader.corpus_stats`."""
        return _sum(
            self._router.run_all(
                dataset_ids,
                lambda part, store: store.searcher.corpus_stats(
                    unit, part.dataset_ids, terms, within=within
                ),
            )
        )

    def fetch(self, keys: Sequence[Hashable], fetch: Fetch) -> Mapping[Hashable, StoredUnit]:
        """What the keys stand for; those of a dataset that has moved stand for nothing."""
        left = [each for each in keys if isinstance(each, ShardKey)]
        while True:
            parts: dict[str, dict[str, Expected]] = {}
            for key in left:
                place = self._router.place(key.dataset_id)
                if place.server.name == key.server:
                    parts.setdefault(key.server, {})[key.dataset_id] = place.expected
            left = [key for key in left if key.dataset_id in parts.get(key.server, {})]
            try:
                return self._fetch(parts, left, fetch)
            except ElsewhereError as error:
                self._router.forget(error.dataset_id)
                left = [key for key in left if key.dataset_id != error.dataset_id]

    def _fetch(
        self, parts: Mapping[str, Mapping[str, Expected]], keys: Sequence[ShardKey], fetch: Fetch
    ) -> Mapping[Hashable, StoredUnit]:
        units: dict[Hashable, StoredUnit] = {}
        for name, expected in parts.items():
            mine = {key.key: key for key in keys if key.server == name}
            with self._router.server(name).expecting(expected) as store:
                found = fetch(store, list(mine))
            units.update((mine[at], attrs.evolve(unit, key=mine[at])) for at, unit in found.items())
        return units

    def _pooled(self, unit: Field, query: ChunkQuery) -> CorpusStats:
        """The statistics of all datasets for every word that the query may have in any of them."""
        configs = self._router.run_all(
            query.dataset_ids, lambda part, store: store.chunks.configs(part.dataset_ids)
        )
        languages = {config.language for part in configs for config in part.values()}
        words = {
            word
            for language in {"english", *filter(None, languages)}
            for word in get_analyzer(language).analyze_query(query.text)
        }
        return self.corpus_stats(unit, query.dataset_ids, sorted(words), within=query.filter.within)


def _of_server(part: Part, found: Sequence[Candidate]) -> Candidates:
    found = Candidates.of(found)
    name = part.server.name
    rows = [(*row[:4], ShardKey(name, row[3], row[4])) for row in found.rows]
    return Candidates(rows, found.source, found.scores)


def _merged(found: Sequence[Candidates], limit: int, source: str) -> Candidates:
    rows = heapq.merge(*(each.rows for each in found), key=IN_ORDER)
    return Candidates(list(islice(rows, max(limit, 0))), source)


def _sum(found: Iterable[CorpusStats]) -> CorpusStats:
    count = length = 0
    frequencies: Counter[str] = Counter()
    for each in found:
        count += each.document_count
        length += each.total_length
        frequencies.update(each.document_frequencies)
    return CorpusStats(
        document_count=count, total_length=length, document_frequencies=dict(frequencies)
    )
