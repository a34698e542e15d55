"""How statements run on a connection to PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import psycopg

from triptych_backends.postgres.dialect import compiled
from triptych_backends.postgres.errors import is_lost
from triptych_backends.sql.dialect import Statement
from triptych_backends.sql.session import Session

Driver: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
Reconnect: TypeAlias = Callable[[], Driver]
T = TypeVar("T")

COPIED = 32
"""Rows from which on COPY beats one INSERT after another."""


class PostgresSession(Session):
    """Runs statements on one connection of the driver.

    With ``reconnect``, which gives another connection in place of a lost one, a statement that the
    connection was lost in runs again. It is for sessions in which each statement stands alone.
    """

    __slots__ = ("_reconnect", "driver")

    def __init__(self, driver: Driver, reconnect: Reconnect | None = None) -> None:
        self.driver = driver
        self._reconnect = reconnect

    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """See `Session.all`."""
        sql, values = _bound(statement, parameters)
        return self._again(lambda: self._cursor(sql, values).fetchall())

    def run(self, statement: Statement, **parameters: Any) -> int:
        """See `Session.run`."""
        sql, values = _bound(statement, parameters)
        return self._again(lambda: self._cursor(sql, values).rowcount)

    def text(
        self,
        sql: str,
        values: Sequence[Any] | Mapping[str, Any] = (),
        *,
        prepare: bool | None = None,
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement written in PostgreSQL's own words; none of one that has none."""

        def ask() -> list[tuple[Any, ...]]:
            cursor = self.driver.execute(sql, values, prepare=prepare, binary=True)
            return cursor.fetchall() if cursor.description else []

        return self._again(ask)

    def run_many(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """See `Session.run_many`; many whole rows go by COPY."""
        if not rows:
            return
        known = compiled(statement)
        if known.copy is not None and len(rows) >= COPIED:
            self.copy(known.copy.sql, known.copy.types, rows)
            return
        bulk = known.bulk
        if bulk is not None and len(rows) > 1:
            keys = {tuple(row[at] for at in bulk.key) for row in rows}
            if len(keys) == len(rows):
                self._cursor(bulk.sql, [list(column) for column in zip(*rows, strict=True)])
                return
        with self.driver.cursor() as cursor:
            cursor.executemany(known.sql, rows)

    def copy(self, sql: str, types: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Put ``rows`` into a table by COPY in the binary format."""
        with self.driver.cursor() as cursor, cursor.copy(sql) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)

    def _cursor(self, sql: str, values: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.driver.execute(sql, values, binary=True)

    def _again(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except psycopg.Error as error:
            if self._reconnect is None or not is_lost(error):
                raise
        self.driver = self._reconnect()
        return ask()


def _bound(statement: Statement, parameters: dict[str, Any]) -> tuple[str, list[Any]]:
    known = compiled(statement)
    return known.sql, [
        parameters[name] if name in parameters else known.constants[name] for name in known.names
    ]
