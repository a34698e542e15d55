"""`TableRows`: the rows of a table in the order of their changes, for `follow_rows`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from psycopg import sql

from triptych.sync.rows import RowPage
from triptych_backends.in_place.follow import FollowedRows, source_row
from triptych_backends.in_place.postgres.columns import identifier
from triptych_backends.in_place.postgres.conditions import Parameters, name_condition
from triptych_backends.in_place.postgres.reads import read_rows, searched
from triptych_backends.in_place.postgres.source import PostgresTable, TableSource


class TableRows(FollowedRows[PostgresTable]):
    """A `RowSource` over one table of a PostgreSQL database, which it only reads.

    Changes are found by ``updated_at`` and the id. A transaction stamps its rows when it begins,
    and they are seen when it ends: so each pass begins ``overlap`` seconds before the newest change
    that was seen (so many units where the column is a whole number). Without ``updated_at`` every
    pass reads every row. Close it, or use it as a context manager.
    """

    _SOURCE = TableSource

    def resume(self, cursor: str) -> str:
        time, _ = _position(cursor)
        if time is None:
            return ""

        def ask(opened: PostgresTable) -> str:
            reader, table = opened.reader, opened.table
            assert table.updated_at is not None
            kind, values = table.updated_at.kind, Parameters()
            if (kind == "int") != _is_whole(time):
                return ""  # the column was of another type then
            given = values.add(time, "text")
            back = values.add(self.overlap, "float8")
            if kind == "int":
                expression = sql.SQL("({}::int8 - {}::int8)::text").format(given, back)
            else:
                # A row of tomorrow must not hide those of today.
                expression = sql.SQL(
                    "((least({0}::{1}, now()::{1}) - make_interval(secs => {2}))::{1})::text"
                ).format(given, sql.SQL(kind), back)
            ((found,),) = reader.rows(sql.SQL("SELECT {}").format(expression), values)
            return json.dumps([found, None])

        return self._read(ask)

    def changed(self, cursor: str, limit: int) -> RowPage:
        """See `RowSource.changed`. Rows whose ``updated_at`` is NULL are found by their ids."""
        since, after = _position(cursor)

        def ask(opened: PostgresTable) -> RowPage:
            reader, table = opened.reader, opened.table
            values = Parameters()
            name = identifier(table.id.name)
            order: sql.Composable = name
            parts = [searched(table, None, values)]
            if table.updated_at is None:
                if after is not None:
                    parts.append(sql.SQL("{} > {}").format(name, _typed(table.id, after, values)))
                time: sql.Composable = sql.SQL("NULL::text")
            else:
                column = identifier(table.updated_at.name)
                time = sql.SQL("{}::text").format(column)
                order = sql.SQL("{}, {}").format(column, name)
                parts.append(sql.SQL("{} IS NOT NULL").format(column))
                if since is not None:
                    bound = _typed(table.updated_at, since, values)
                    if after is None:
                        parts.append(sql.SQL("{} >= {}").format(column, bound))
                    else:
                        parts.append(
                            sql.SQL("({}, {}) > ({}, {})").format(
                                column, name, bound, _typed(table.id, after, values)
                            )
                        )
            where = sql.SQL(" AND ").join(parts)
            rest = sql.SQL("ORDER BY {} LIMIT {}").format(order, values.add(limit, "int8"))
            rows = read_rows(reader, table, where, values, rest)
            if not rows:
                return RowPage(rows=(), cursor=cursor, more=False)
            ((last,),) = reader.rows(
                sql.SQL("SELECT {} FROM {} WHERE {} LIMIT 1").format(
                    time, table.name, name_condition(table.id, [rows[-1].name], values)
                ),
                values,
            )
            return RowPage(
                rows=[source_row(row) for row in rows],
                cursor=json.dumps([last, rows[-1].name]),
                more=len(rows) == limit,
            )

        return self._read(ask)

    def names(self, after: str, limit: int) -> Sequence[str]:
        """See `RowSource.names`."""

        def ask(opened: PostgresTable) -> list[str]:
            reader, table = opened.reader, opened.table
            values = Parameters()
            name = sql.SQL('{}::text COLLATE "C"').format(identifier(table.id.name))
            statement = sql.SQL(
                "SELECT DISTINCT {0} AS name FROM {1} WHERE {2} AND {0} > {3} "
                "ORDER BY name LIMIT {4}"
            ).format(
                name,
                table.name,
                searched(table, None, values),
                values.add(after, "text"),
                values.add(limit, "int8"),
            )
            return [found for (found,) in reader.rows(statement, values)]

        return self._read(ask)


def _position(cursor: str) -> tuple[str | None, str | None]:
    if not cursor:
        return None, None
    time, name = json.loads(cursor)
    return time, name


def _is_whole(time: str) -> bool:
    return time.removeprefix("-").isdecimal()


def _typed(column: Any, text: str, values: Parameters) -> sql.Composable:
    """A text of the server as a value of a column's type. The type is the catalog's own text."""
    type_ = {"int": "int8", "text": "text"}.get(column.kind, column.kind)
    if column.kind == "other":
        type_ = column.type
    return sql.SQL("{}::" + type_.replace("%", "%%")).format(values.add(text, "text"))
