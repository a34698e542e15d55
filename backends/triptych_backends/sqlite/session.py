"""How statements run on a connection to an SQLite file.

Statements are Core expressions, compiled once and run by the driver: Core's own handling of
parameters and rows costs 50 to 180 µs a statement, against 8 µs for the whole of a small one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Sequence
from typing import Any

from triptych_backends.sql.dialect import Statement
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Position, Transaction
from triptych_backends.sqlite.compiled_statements import compiled
from triptych_backends.sqlite.dialect import DIALECT

_CACHED_ROWS = 256
"""So many questions a connection remembers the answers of."""


def _bound(statement: Statement, parameters: dict[str, Any]) -> tuple[str, list[Any]]:
    sql, names, constants = compiled(statement)
    values = [parameters[name] if name in parameters else constants[name] for name in names]
    return sql, [DIALECT.bind_list(it) if isinstance(it, list) else it for it in values]


class SqliteSession(Session):
    """Runs statements on one connection of the driver."""

    __slots__ = ("driver",)

    def __init__(self, driver: sqlite3.Connection) -> None:
        self.driver = driver

    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """See `Session.all`."""
        return self.driver.execute(*_bound(statement, parameters)).fetchall()

    def run(self, statement: Statement, **parameters: Any) -> int:
        """See `Session.run`."""
        return self.driver.execute(*_bound(statement, parameters)).rowcount

    def run_many(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> None:
        """See `Session.run_many`."""
        if rows:
            self.driver.executemany(compiled(statement)[0], rows)


class Driver(sqlite3.Connection):
    """A connection that holds what `CachedSession` has read over it."""

    version = -1
    rows: dict[Hashable, list[tuple[Any, ...]]]

    def known_rows(self) -> dict[Hashable, list[tuple[Any, ...]]]:
        """The rows that were read since the last commit of another connection.

        SQLite gives each state of the file that a connection sees a number of its own. This
        connection does not write, so every commit is another's.
        """
        (version,) = self.execute("PRAGMA data_version").fetchone()
        if version != self.version or len(self.rows) >= _CACHED_ROWS:
            self.version, self.rows = version, {}
        return self.rows


class CachedSession(SqliteSession):
    """Runs a statement with the same parameters once for each state of the file.

    Begin one for each question: whether the file has changed is looked up at the beginning.
    """

    __slots__ = ("rows",)

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self.rows = driver.known_rows()

    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """See `Session.all`; the rows are shared."""
        values = [tuple(it) if isinstance(it, list) else it for it in parameters.values()]
        key = (statement, *parameters, *values)
        found = self.rows.get(key)
        if found is None:
            found = self.rows[key] = super().all(statement, **parameters)
        return found


class SqliteTransaction(SqliteSession, Transaction):
    """A write transaction on a connection of the driver."""

    def __init__(
        self, driver: sqlite3.Connection, where: str, *, position: Position | None
    ) -> None:
        SqliteSession.__init__(self, driver)
        Transaction.__init__(self, where, position=position)
