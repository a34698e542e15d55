"""`TableChunks`: the texts of tables that are not ours, as chunks that are searched in place."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import attrs
from psycopg import sql

from triptych.records import (
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    Filter,
    Mode,
    StoredUnit,
    Vector,
)
from triptych.records.filters import all_of
from triptych.repositories import ChunkRepoBase
from triptych_backends.in_place import (
    ReadOnlyChunks,
    Row,
    Text,
    best_of,
    find_by_keyword,
    found_in_pairs,
    query_words,
)
from triptych_backends.tables.catalog import Pair, Table
from triptych_backends.tables.columns import identifier
from triptych_backends.tables.conditions import Parameters, name_condition
from triptych_backends.tables.connections import Reader
from triptych_backends.tables.keyword_lane import TablePart, texts_named
from triptych_backends.tables.rows import read_rows, searched
from triptych_backends.tables.source import TableSource
from triptych_backends.tables.statistics import count_rows, count_texts, count_texts_with
from triptych_backends.tables.vector_lane import Found, find_nearest

__all__ = ["RowKey", "TableChunks"]

T = TypeVar("T")

NEAREST: Final = 200
"""So many of the nearest rows are looked through where the table has no text search."""

SCANNED: Final = 5_000
"""Up to so many rows the server's text search needs no index."""

_PAGE: Final = 500


@attrs.frozen
class RowKey:
    """A text of a row. ``filter`` is what the row passed when it was found: it must still."""

    dataset_id: str
    name: str
    pair: int
    filter: Filter = attrs.field(eq=False, repr=False)


@attrs.frozen(eq=False)
class TableChunks(ReadOnlyChunks, ChunkRepoBase):
    """A `ChunkRepo` over tables: it reads and searches them where they are."""

    _source: TableSource

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """See `ChunkRepo.config`."""
        return self._source.config(dataset_id)

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """See `ChunkSigReader.get_doc_sig`."""
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """See `ChunkSigReader.get_doc_sigs`."""
        return {row.name: self._sig(row) for row in self._named(dataset_id, list(doc_names))}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkSigReader.doc_names`."""

        def ask(reader: Reader, tables: Mapping[str, Table]) -> list[str]:
            table = tables.get(dataset_id)
            if table is None:
                return []
            values = Parameters()
            statement = sql.SQL("SELECT DISTINCT {}::text FROM {} WHERE {}").format(
                identifier(table.id.name), table.name, searched(table, None, values)
            )
            return sorted(name for (name,) in reader.rows(statement, values))

        return self._source.read(ask)

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """See `ChunkRepo.count_sets`: each row is one, as `DocumentRepo.count` counts them."""
        names = dict.fromkeys(dataset_ids)
        return self._source.read(
            lambda reader, tables: sum(
                count_rows(reader, tables[each], self._source.counts)
                for each in names
                if each in tables
            )
        )

    def pending(self, dataset_id: str, embed_sig: str) -> Sequence[str]:
        """See `ChunkRepo.pending`: a vector that a row lacks is not ours to make."""
        return []

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        """See `ChunkRepo.known_vectors`: vectors of tables are found by row."""
        return {}

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`; without vectors."""
        if doc_name is not None:
            rows = self._named(dataset_id, [doc_name])
        else:
            rows = [row for page in self._pages(dataset_id) for row in page]
        return (chunk for row in rows for _, chunk in row.chunks(self._sig(row)))

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`. What is found by keyword is the best of what was looked at."""
        if query.top_k <= 0:
            return []
        if query.mode is Mode.VECTOR:
            return self._source.read(lambda reader, there: self._by_vector(reader, there, query))
        near = self._source.read(lambda _, there: self._asks_nearest(there, query))
        vector = self._source.embedded(query.text) if near else None
        return self._source.read(
            lambda reader, there: self._by_keyword(reader, there, query, vector)
        )

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `ChunkRepo.fetch`. A row that does not pass the search's filter any more is gone."""
        asked: dict[tuple[str, Filter], list[RowKey]] = {}
        for key in keys:
            if isinstance(key, RowKey):
                asked.setdefault((key.dataset_id, key.filter), []).append(key)

        def ask(reader: Reader, tables: Mapping[str, Table]) -> dict[Hashable, StoredUnit]:
            found: dict[Hashable, StoredUnit] = {}
            for (dataset_id, filter_), several in asked.items():
                if dataset_id in tables:
                    names = list({key.name for key in several})
                    rows = _rows_named(reader, tables[dataset_id], names, filter_)
                    found |= self._units({row.name: row for row in rows}, several)
            return found

        return self._source.read(ask) if asked else {}

    def _units(self, rows: Mapping[str, Row], keys: Sequence[RowKey]) -> dict[Hashable, StoredUnit]:
        found: dict[Hashable, StoredUnit] = {}
        for key in keys:
            row = rows.get(key.name)
            if row is None:
                continue
            sig, info = self._sig(row), row.info
            chunk = dict(row.chunks(sig)).get(key.pair)
            if chunk is not None:
                found[key] = StoredUnit(key=key, sig=sig, document=info, chunk=chunk)
        return found

    def _sig(self, row: Row) -> DerivedSig:
        spec = self._source.specs[row.dataset_id]
        return row.sig(self._source.chunker_sig, self._source.embed_sig(spec))

    def _named(self, dataset_id: str, names: list[str]) -> list[Row]:
        def ask(reader: Reader, tables: Mapping[str, Table]) -> list[Row]:
            if dataset_id not in tables or not names:
                return []
            return _rows_named(reader, tables[dataset_id], names, Filter())

        return sorted(self._source.read(ask), key=lambda row: row.name)

    def _pages(self, dataset_id: str) -> Iterator[list[Row]]:
        names = self.doc_names(dataset_id)
        for start in range(0, len(names), _PAGE):
            yield self._named(dataset_id, list(names[start : start + _PAGE]))

    def _by_vector(
        self, reader: Reader, tables: Mapping[str, Table], query: ChunkQuery
    ) -> list[Candidate]:
        assert query.vector is not None
        tree = all_of(query.filter.tree, query.filter.within)
        pairs = [
            (table, pair)
            for table in _asked(tables, query)
            if self._source.embed_sig(table.spec) == query.embed_sig
            for pair in table.pairs
            if pair.vector is not None
        ]

        def nearest(table: Table, pair: Pair) -> list[tuple[str, Found]]:
            assert query.vector is not None
            found = find_nearest(reader, table, pair, query.vector, query.top_k, tree)
            return [(table.spec.name, each) for each in found]

        return _candidates(self._in_pairs(reader, pairs, nearest), query)

    def _in_pairs(
        self,
        reader: Reader,
        pairs: Sequence[tuple[Table, Pair]],
        ask: Callable[[Table, Pair], list[T]],
    ) -> list[T]:
        """What ``ask`` finds in each pair. Of several, one that fails leaves the others."""
        if len(pairs) < 2:
            return [each for table, pair in pairs for each in ask(table, pair)]
        return found_in_pairs(
            (
                f"{pair.text.name!r} of {table.spec.name!r}",
                partial(reader.attempt, partial(ask, table, pair), self._source.database.where),
            )
            for table, pair in pairs
        )

    def _asks_nearest(self, tables: Mapping[str, Table], query: ChunkQuery) -> bool:
        return any(
            _looks_among_nearest(table, pair)
            for table in _asked(tables, query)
            for pair in table.pairs
        )

    def _by_keyword(
        self,
        reader: Reader,
        tables: Mapping[str, Table],
        query: ChunkQuery,
        vector: Vector | None,
    ) -> list[Candidate]:
        tree = all_of(query.filter.tree, query.filter.within)
        analyzer, counts = self._source.analyzer, self._source.counts
        words = query_words(analyzer, query.text)
        if not words:
            return []
        parts: list[TablePart] = []
        reach = max(NEAREST, 2 * query.top_k)
        nearest: list[tuple[Table, Pair]] = []

        def texts_near(table: Table, pair: Pair) -> list[Text]:
            assert vector is not None
            there = find_nearest(reader, table, pair, vector, reach, tree)
            return texts_named(reader, table, pair, [name for name, _, _ in there], tree)

        for table in _asked(tables, query):
            for pair in table.pairs:
                if vector is not None and _looks_among_nearest(table, pair):
                    nearest.append((table, pair))
                    continue
                within = query.filter.within
                texts = count_texts(reader, table, pair, within, counts)
                held = count_texts_with(reader, table, pair, words, within, counts)
                parts.append(TablePart(reader, table, pair, tree, texts, held))
        near = self._in_pairs(reader, nearest, texts_near)
        found = find_by_keyword(analyzer, parts, near, words, query.text, query.top_k)
        return _candidates(
            [(each.dataset_id, (each.name, each.index, score)) for each, score in found], query
        )


def _asked(tables: Mapping[str, Table], query: ChunkQuery) -> list[Table]:
    return [tables[each] for each in dict.fromkeys(query.dataset_ids) if each in tables]


def _looks_among_nearest(table: Table, pair: Pair) -> bool:
    """Whether keywords are looked for among the nearest vectors."""
    if pair.vector is None or table.spec.keywords == "text-search":
        return False
    if table.spec.keywords == "nearest":
        return True
    return not pair.search.indexed and table.spec.text_search is None and table.rows > SCANNED


def _rows_named(reader: Reader, table: Table, names: list[str], filter_: Filter) -> list[Row]:
    values = Parameters()
    where = sql.SQL("{} AND {}").format(
        name_condition(table.id, names, values),
        searched(table, all_of(filter_.tree, filter_.within), values),
    )
    return read_rows(reader, table, where, values)


def _candidates(found: Sequence[tuple[str, Found]], query: ChunkQuery) -> list[Candidate]:
    return best_of(
        (
            Candidate(
                dataset_id=dataset_id,
                doc_name=name,
                index=pair,
                key=RowKey(dataset_id, name, pair, query.filter),
                score=round(score, 6),
            )
            for dataset_id, (name, pair, score) in found
        ),
        query.top_k,
    )
