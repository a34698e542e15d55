"""Tables of PostgreSQL, open for reading, and those of one pipeline, loaded when first used."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import attrs
from psycopg import sql

from triptych.errors import ModelMismatchError, ValidationError
from triptych.records import FilterTree, Finding, Vector
from triptych_inplace.postgres.catalog import Table, check_vector, findings, load_table
from triptych_inplace.postgres.columns import identifier
from triptych_inplace.postgres.conditions import Parameters, name_condition
from triptych_inplace.postgres.connections import ForeignDatabase, Reader
from triptych_inplace.postgres.reads import (
    best_texts,
    find_nearest,
    matches,
    read_rows,
    searched,
)
from triptych_inplace.source import InPlaceSource, store_errors
from triptych_inplace.spec import TableSpec
from triptych_inplace.table import Near, QueryWord, Row, Text, WantedWord

T = TypeVar("T")

_MANY: Final = 1_000_000
"""From so many rows on the server's own estimate is good enough."""


@attrs.frozen(eq=False)
class PostgresTable:
    """An `OpenTable`: a table in one transaction. The key of a row is its name."""

    reader: Reader
    table: Table
    where: str

    @property
    def spec(self) -> TableSpec:
        return self.table.spec

    @property
    def size(self) -> float:
        """See `OpenTable.size`: the server's estimate."""
        return self.table.rows

    def has_vector(self, pair: int) -> bool:
        return self.table.pairs[pair].vector is not None

    def has_text_index(self, pair: int) -> bool:
        return self.table.pairs[pair].search.indexed

    def names(self) -> Sequence[str]:
        values = Parameters()
        statement = sql.SQL("SELECT DISTINCT {}::text FROM {} WHERE {}").format(
            identifier(self.table.id.name), self.table.name, searched(self.table, None, values)
        )
        return sorted(name for (name,) in self.reader.rows(statement, values))

    def rows(self, keys: Sequence[Hashable], tree: FilterTree | None) -> Mapping[Hashable, Row]:
        return {row.name: row for row in self.rows_named([str(key) for key in keys], tree)}

    def rows_named(self, names: Sequence[str], tree: FilterTree | None = None) -> list[Row]:
        """See `OpenTable.rows_named`; those that pass ``tree``."""
        values = Parameters()
        where = sql.SQL("{} AND {}").format(
            name_condition(self.table.id, list(names), values), searched(self.table, tree, values)
        )
        return read_rows(self.reader, self.table, where, values)

    def rows_in_order(self, tree: FilterTree | None, limit: int | None) -> list[Row]:
        """See `OpenTable.rows_in_order`; the server sorts the ids as text."""
        values = Parameters()
        name = sql.SQL('{}::text COLLATE "C"').format(identifier(self.table.id.name))
        rest = sql.SQL("ORDER BY {}").format(name)
        if limit is not None:
            rest = sql.SQL("{} LIMIT {}").format(rest, values.add(limit, "int8"))
        where = searched(self.table, tree, values)
        return read_rows(self.reader, self.table, where, values, rest)

    def count(self, tree: FilterTree | None) -> int:
        """See `OpenTable.count`; exact."""
        values = Parameters()
        return self._count(searched(self.table, tree, values), values)

    def count_texts(self, pair: int, tree: FilterTree | None, word: QueryWord | None = None) -> int:
        table, there, values = self.table, self.table.pairs[pair], Parameters()
        if word is None and table.rows >= _MANY and table.where is None and tree is None:
            return int(table.rows)
        if word is None:
            holds: sql.Composable = sql.SQL("{} IS NOT NULL").format(identifier(there.text.name))
        else:
            holds = matches(word, there.search, there.text, values)
        where = sql.SQL("{} AND {}").format(holds, searched(table, tree, values))
        return self._count(where, values)

    def _count(self, where: sql.Composable, values: Parameters) -> int:
        statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(self.table.name, where)
        ((found,),) = self.reader.rows(statement, values)
        return int(found)

    def best_texts(
        self, pair: int, words: Sequence[WantedWord], tree: FilterTree | None, limit: int
    ) -> list[Text]:
        there = self.table.pairs[pair]
        found = best_texts(self.reader, self.table, there, words, tree, limit)
        return [self._text(pair, name, text) for name, text in found]

    def nearest(self, pair: int, vector: Vector, tree: FilterTree | None, limit: int) -> list[Near]:
        there = self.table.pairs[pair]
        found = find_nearest(self.reader, self.table, there, vector, limit, tree)
        return [Near(name, name, score) for name, score in found]

    def nearest_texts(
        self, pair: int, vector: Vector, tree: FilterTree | None, limit: int
    ) -> list[Text]:
        table, values = self.table, Parameters()
        names = [near.name for near in self.nearest(pair, vector, tree, limit)]
        text = identifier(table.pairs[pair].text.name)
        statement = sql.SQL(
            "SELECT {}::text, {text}::text FROM {} WHERE {} AND {text} IS NOT NULL AND {}"
        ).format(
            identifier(table.id.name),
            table.name,
            name_condition(table.id, names, values),
            searched(table, tree, values),
            text=text,
        )
        return [self._text(pair, *each) for each in self.reader.rows(statement, values)]

    def attempt(self, ask: Callable[[], T]) -> T:
        """See `OpenTable.attempt`: the transaction goes on after it."""
        return self.reader.attempt(ask, self.where)

    def _text(self, pair: int, name: str, text: str) -> Text:
        return Text(self.spec.name, name, pair, name, text)


class TableSource(InPlaceSource[PostgresTable]):
    """The tables of one database. All are loaded from the catalog when one is first read."""

    others = ("document",)
    other = "collections of Qdrant"

    database: ForeignDatabase
    _tables: Mapping[str, Table] | None = None

    def read(self, dataset_ids: Sequence[str], ask: Callable[[Sequence[PostgresTable]], T]) -> T:
        """See `InPlaceSource.read`: all in one transaction."""

        def asked(reader: Reader) -> T:
            tables = self._tables
            if tables is None:
                with store_errors():
                    tables = {name: self._load(reader, name) for name in self.names}
                with suppress(
                    ModelMismatchError, ValidationError
                ):  # looked at again: it is repaired
                    for table in tables.values():
                        self._check(table)
                    self._tables = tables
            wanted = [tables[each] for each in dict.fromkeys(dataset_ids) if each in tables]
            return ask([PostgresTable(reader, table, self.where) for table in wanted])

        return self.database.read(asked)

    def examine(self, dataset_id: str) -> Iterator[Finding]:
        table = self.database.read(lambda reader: self._load(reader, dataset_id))
        self._check(table)
        return findings(table)

    def _load(self, reader: Reader, name: str) -> Table:
        return load_table(reader, self.specs[name], self.language)

    def _check(self, table: Table) -> None:
        for pair in table.pairs:
            check_vector(pair, table, self.width)
