"""`TableDocuments`: rows of tables that are not ours, as documents."""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime

import attrs
from psycopg import sql

from triptych.records import Condition, DocumentInfo, FilterTree, SourceDocument
from triptych.records.filters import NAME, all_of
from triptych.repositories import DocumentRepoBase
from triptych_backends.in_place import ReadOnlyDocuments, Row
from triptych_backends.tables.catalog import Table
from triptych_backends.tables.columns import identifier
from triptych_backends.tables.conditions import Parameters, name_condition
from triptych_backends.tables.connections import Reader
from triptych_backends.tables.rows import read_rows, searched
from triptych_backends.tables.source import TableSource
from triptych_backends.tables.statistics import count_rows

__all__ = ["TableDocuments"]


@attrs.frozen(eq=False)
class TableDocuments(ReadOnlyDocuments, DocumentRepoBase):
    """A `DocumentRepo` over tables, which it reads."""

    _source: TableSource

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`."""
        row = self._row(dataset_id, name)
        return None if row is None else row.document

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`."""
        row = self._row(dataset_id, name)
        return None if row is None else row.info

    def _row(self, dataset_id: str, name: str) -> Row | None:
        def ask(reader: Reader, tables: Mapping[str, Table]) -> builtins.list[Row]:
            if dataset_id not in tables:
                return []
            table, values = tables[dataset_id], Parameters()
            where = sql.SQL("{} AND {}").format(
                name_condition(table.id, [name], values), searched(table, None, values)
            )
            return read_rows(reader, table, where, values, sql.SQL("LIMIT 1"))

        return next(iter(self._source.read(ask)), None)

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        """See `DocumentRepo.list`; the server sorts the ids as text."""

        def ask(reader: Reader, tables: Mapping[str, Table]) -> builtins.list[Row]:
            if dataset_id not in tables:
                return []
            table, values = tables[dataset_id], Parameters()
            tree = all_of(
                where,
                Condition(NAME, "starts", (("text", prefix),)) if prefix else None,
                Condition(NAME, "gt", (("text", after),)) if after else None,
            )
            name = sql.SQL('{}::text COLLATE "C"').format(identifier(table.id.name))
            rest = sql.SQL("ORDER BY {}").format(name)
            if limit is not None:
                rest = sql.SQL("{} LIMIT {}").format(rest, values.add(max(limit, 0), "int8"))
            return read_rows(reader, table, searched(table, tree, values), values, rest)

        return [row.info for row in self._source.read(ask)]

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`. Without ``where`` the number may be a minute old."""

        def ask(reader: Reader, tables: Mapping[str, Table]) -> int:
            table = tables.get(dataset_id)
            if table is None:
                return 0
            if where is None:
                return count_rows(reader, table, self._source.counts)
            values = Parameters()
            statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(
                table.name, searched(table, where, values)
            )
            ((found,),) = reader.rows(statement, values)
            return int(found)

        return self._source.read(ask)

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """See `DocumentRepo.with_expired`: rows of a table do not expire."""
        return []

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`: the tables, whether they are there or not."""
        return self._source.names
