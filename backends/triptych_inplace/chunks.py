"""`InPlaceChunks`: texts that are not ours, as chunks that are searched in place."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

import attrs
import numpy as np

from triptych.contracts import FailureWarning, warn
from triptych.contracts.defaults import ChunkRepoBase
from triptych.errors import CancelledError, NotAvailableError, TriptychError
from triptych.records import (
    AnySpace,
    Candidate,
    Candidates,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    Filter,
    FilterTree,
    Mode,
    StoredUnit,
    TermMatches,
    VectorSpace,
    all_of,
)
from triptych_inplace.keyword_lane import Part, find_by_keyword
from triptych_inplace.source import InPlaceSource
from triptych_inplace.table import OpenTable, Row, Text, best_of, query_words

_log = logging.getLogger("triptych.tables")
T = TypeVar("T")
V = TypeVar("V")
_Pair = tuple[OpenTable, int]

NEAREST: Final = 200
"""So many of the nearest rows are looked through where the table has no text search."""

SCANNED: Final = 5_000
"""Up to so many rows the database's text search needs no index."""


def refuse(*_: Any, **__: Any) -> NoReturn:
    """Raises `NotAvailableError`: nothing is written to what is searched in place."""
    raise NotAvailableError(
        "existing tables and collections are read-only here: write to the database itself, or "
        "follow them into a dataset"
    )


@attrs.frozen
class RowKey:
    """A text of a row. ``filter`` is what the row passed when it was found: it must still."""

    dataset_id: str
    row: Hashable
    pair: int
    filter: Filter = attrs.field(eq=False, repr=False)


@attrs.frozen(eq=False)
class InPlaceChunks(ChunkRepoBase):
    """A `ChunkRepo` over tables: it reads and searches them where they are."""

    configure = replace = replace_many = put_vectors = staticmethod(refuse)
    update_source_version = delete_by_doc = delete_by_dataset = staticmethod(refuse)

    _source: InPlaceSource[OpenTable]

    def config(self, dataset_id: str) -> DatasetConfig | None:
        return self._source.config(dataset_id)

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        if not doc_names:
            return {}
        rows = self._source.read_one(dataset_id, lambda table: table.rows_named(doc_names), ())
        return {row.name: self._sig(row) for row in rows}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        return self._source.read_one(dataset_id, lambda table: table.names(), ())

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """See `ChunkRepo.count_sets`: each row is one, as `DocumentRepo.count` counts them."""
        count = self._source.count_rows
        return self._source.read(dataset_ids, lambda tables: sum(map(count, tables)))

    def waiting(
        self, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """See `VectorRepo.waiting`: a vector that a row lacks is not ours to make."""
        return []

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """See `VectorRepo.known_vectors`: vectors of tables are found by row."""
        return {}

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`; without vectors."""

        def ask(table: OpenTable) -> Sequence[Row]:
            if doc_name is None:
                return table.rows_in_order(None, None)
            return table.rows_named([doc_name])

        rows = self._source.read_one(dataset_id, ask, ())
        return (chunk for row in rows for _, chunk in row.chunks(self._sig(row)))

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`. What is found by keyword is the best of what was looked at."""
        if query.top_k <= 0:
            return []
        return self._by_vector(query) if query.mode is Mode.VECTOR else self._by_keyword(query)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `ChunkRepo.fetch`. A row that does not pass the search's filter any more is gone."""
        asked: dict[tuple[str, Filter], list[RowKey]] = {}
        for key in keys:
            if isinstance(key, RowKey):
                asked.setdefault((key.dataset_id, key.filter), []).append(key)

        def ask(tables: Sequence[OpenTable]) -> dict[Hashable, StoredUnit]:
            there = {table.spec.name: table for table in tables}
            found: dict[Hashable, StoredUnit] = {}
            for (dataset_id, filter_), several in asked.items():
                if dataset_id in there:
                    wanted = list(dict.fromkeys(key.row for key in several))
                    rows = there[dataset_id].rows(wanted, _tree(filter_))
                    found |= self._units(rows, several)
            return found

        return self._source.read([each for each, _ in asked], ask) if asked else {}

    def _units(
        self, rows: Mapping[Hashable, Row], keys: Sequence[RowKey]
    ) -> dict[Hashable, StoredUnit]:
        found: dict[Hashable, StoredUnit] = {}
        for key in keys:
            row = rows.get(key.row)
            if row is None:
                continue
            sig = self._sig(row)
            chunk = dict(row.chunks(sig)).get(key.pair)
            if chunk is not None:
                found[key] = StoredUnit(key=key, sig=sig, document=row.info, chunk=chunk)
        return found

    def _sig(self, row: Row) -> DerivedSig:
        spec = self._source.specs[row.dataset_id]
        return row.sig(self._source.chunker_sig, self._source.embed_sig(spec))

    def _by_vector(self, query: ChunkQuery) -> list[Candidate]:
        vector, tree = query.vector, _tree(query.filter)
        assert isinstance(vector, np.ndarray)

        def nearest(table: OpenTable, pair: int) -> list[Candidate]:
            return [
                _candidate(query, table.spec.name, each.name, pair, each.key, each.score)
                for each in table.nearest(pair, vector, tree, query.top_k)
            ]

        def ask(tables: Sequence[OpenTable]) -> list[Candidate]:
            searched = [
                (table, pair)
                for table, pair in _pairs(tables)
                if self._source.embed_sig(table.spec) == query.embed_sig and table.has_vector(pair)
            ]
            return _found_in(searched, nearest)

        return best_of(self._source.read(query.dataset_ids, ask), query.top_k)

    def _by_keyword(self, query: ChunkQuery) -> Candidates:
        source, tree = self._source, _tree(query.filter)
        words = query_words(source.analyzer, query.text)
        needs_vector = source.read(
            query.dataset_ids, lambda tables: any(map(_looks_among_nearest, _pairs(tables)))
        )
        if not words:
            return Candidates([])
        held: dict[Hashable, Counter[str]] = {}
        vector = source.embedded(query.text) if needs_vector else None
        reach = max(NEAREST, 2 * query.top_k)

        def texts_near(table: OpenTable, pair: int) -> Sequence[Text]:
            assert vector is not None
            return table.nearest_texts(pair, vector, tree, reach)

        def ask(tables: Sequence[OpenTable]) -> list[Candidate]:
            pairs = list(_pairs(tables))
            nearest = [each for each in pairs if vector is not None and _looks_among_nearest(each)]
            parts = [
                Part.of(table, pair, words, query.filter.within, source.counts)
                for table, pair in pairs
                if (table, pair) not in nearest
            ]
            near = _found_in(nearest, texts_near)
            found = find_by_keyword(
                source.analyzer, parts, near, words, query.text, tree, query.top_k
            )
            candidates = [
                _candidate(query, text.dataset_id, text.name, text.index, text.key, score)
                for text, score, _ in found
            ]
            held.update((each.key, own) for each, (*_, own) in zip(candidates, found, strict=True))
            return candidates

        best = Candidates.of(best_of(source.read(query.dataset_ids, ask), query.top_k))
        terms = source.analyzer.analyze_query(query.text)
        best.matches = lambda: TermMatches.of(terms, [held[row[4]] for row in best.rows])
        return best


def _tree(filter_: Filter) -> FilterTree | None:
    return all_of(filter_.tree, filter_.within)


def _pairs(tables: Iterable[OpenTable]) -> Iterator[_Pair]:
    return ((table, pair) for table in tables for pair in range(len(table.spec.columns)))


def _looks_among_nearest(each: _Pair) -> bool:
    """Whether keywords are looked for among the nearest vectors."""
    table, pair = each
    spec = table.spec
    if not table.has_vector(pair) or spec.keywords == "text-search":
        return False
    if spec.keywords == "nearest":
        return True
    indexed = table.has_text_index(pair) or spec.text_search is not None
    return not indexed and table.size > SCANNED


def _found_in(pairs: Sequence[_Pair], search: Callable[[OpenTable, int], Sequence[T]]) -> list[T]:
    """What ``search`` finds in all pairs.

    Of several, one that fails while another answers is a warning of the search. Where all fail,
    the first error is raised.
    """
    if len(pairs) < 2:
        return [each for table, pair in pairs for each in search(table, pair)]
    found: list[T] = []
    failed: list[tuple[str, TriptychError]] = []
    for table, pair in pairs:
        try:
            found += table.attempt(partial(search, table, pair))
        except CancelledError:
            raise
        except TriptychError as error:
            place = f"{table.spec.columns[pair].text!r} of {table.spec.name!r}"
            failed.append((place, error))
    if len(failed) == len(pairs):
        raise failed[0][1]
    for place, reason in failed:
        _log.warning("the vectors of %s were not searched: %s", place, reason)
        warn(FailureWarning("a pair of columns was not searched by vector", f"{place}: {reason}"))
    return found


def _candidate(
    query: ChunkQuery, dataset_id: str, name: str, pair: int, row: Hashable, score: float
) -> Candidate:
    return Candidate(
        dataset_id=dataset_id,
        doc_name=name,
        index=pair,
        key=RowKey(dataset_id, row, pair, query.filter),
        score=round(score, 6),
    )
