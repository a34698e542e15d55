"""Running statements on a connection to an SQLite file, and mapping its errors.

Statements are Core expressions, compiled once and run by the driver: Core's own handling of
parameters and rows costs 50 to 180 µs a statement, against 8 µs for the whole of a small one. No
command that reads needs even that: ``compiled_statements.json`` maps how a statement was written
(its SHA-256) to its text, the order of its parameters, and the constants among them. A statement
that is not in it is compiled when it is run. The Makefile writes the file again after a change; a
test checks that each text is the one that SQLAlchemy writes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from triptych.errors import CorruptStoreError, StoreError, StoreFullError, StoreLockedError
from triptych_backends.sql.deferred import Deferred, Statement, Upsert, written
from triptych_backends.sql.errors import closed_error, corrupt
from triptych_backends.sql.transaction import KEPT_ROWS, Position, Session, Transaction

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Insert
    from sqlalchemy.engine import interfaces


class SqliteDialect:
    """Lists are JSON; see `triptych_backends.sql.Dialect`."""

    @cached_property
    def engine(self) -> interfaces.Dialect:
        """See `Dialect.engine`."""
        # Only what compiles a statement needs SQLAlchemy.
        from sqlalchemy.dialects import sqlite

        return sqlite.dialect(paramstyle="qmark")

    def in_list(self, column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
        """See `Dialect.in_list`."""
        from sqlalchemy import bindparam, func, select

        values = func.json_each(bindparam(name)).table_valued("value")
        return column.in_(select(values.c.value))

    def bind_list(self, values: Sequence[int] | Sequence[str]) -> str:
        """See `Dialect.bind_list`."""
        # A list of integers is written alike in both: most are of keys, one in each search.
        return str(values) if values and type(values[0]) is int else json.dumps(values)

    def upsert(self, upsert: Upsert) -> Insert:
        """See `Dialect.upsert`."""
        from sqlalchemy.dialects import sqlite

        statement = sqlite.insert(upsert.table)
        return statement.on_conflict_do_update(
            index_elements=upsert.key, set_=upsert.assignments(statement.excluded)
        )


DIALECT = SqliteDialect()


Compiled: TypeAlias = tuple[str, tuple[str, ...], dict[str, Any]]
"""The text, the names of its parameters in order, and those that are constants."""

FILE = Path(__file__).with_name("compiled_statements.json")
TABLES = "tables"
"""The key in the file of what makes all tables and their indexes."""


@lru_cache(maxsize=512)
def compiled(statement: Statement) -> Compiled:
    """``statement`` as SQLite takes it."""
    known = compiled_before(statement)
    if known is not None:
        return known
    # A quarter of a second, the first time: its import, and that of SQLAlchemy.
    from triptych_backends.sql.compilation import compile_statement

    made = compile_statement(statement, DIALECT)
    return str(made), tuple(made.positiontup or ()), dict(made.params)


def compiled_before(statement: object) -> Compiled | None:
    """The text of ``statement``; None where it must be compiled."""
    key = key_of(statement)
    found = None if key is None else _kept().get(key)
    return None if found is None else (found[0], tuple(found[1]), found[2])


def key_of(statement: object) -> str | None:
    """What ``statement`` is called in the file; None for one that SQLAlchemy made itself."""
    if isinstance(statement, Upsert):
        text = f"upsert {written(statement.table)} {statement.key}"
    elif isinstance(statement, Deferred):
        text = written(statement)
    else:
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def creating() -> Sequence[str]:
    """What makes all tables and their indexes."""
    made: Sequence[str] = _kept()[TABLES]
    return made


@cache
def _kept() -> dict[str, list[Any]]:
    kept: dict[str, list[Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return kept


def _bound(statement: Statement, parameters: dict[str, Any]) -> tuple[str, list[Any]]:
    sql, names, constants = compiled(statement)
    values = map({**constants, **parameters}.__getitem__, names)
    return sql, [DIALECT.bind_list(it) if isinstance(it, list) else it for it in values]


# SQLite's primary result codes (sqlite.org/rescode.html): the low byte of the extended code.
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT}
_ADVICE = {
    sqlite3.SQLITE_READONLY: (
        "it cannot be written: check the rights of the file and its folder, or open it with "
        "read_only=True"
    ),
    sqlite3.SQLITE_PERM: "access was denied: check the rights of the file and its folder",
    sqlite3.SQLITE_AUTH: "access was denied: check the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened: check that it and its folder exist and that its rights, and "
        "those of the files beside it that end in -wal and -shm, let you in; where nothing can be "
        "written, open it with read_only=True"
    ),
    sqlite3.SQLITE_IOERR: (
        "reading or writing the disk failed: check that it is not full, and see the system log"
    ),
    sqlite3.SQLITE_TOOBIG: "a document is larger than SQLite can hold (1 GB): split it",
    sqlite3.SQLITE_NOMEM: "memory ran out",
}


def store_error(error: BaseException, where: str) -> StoreError:
    """What a driver's ``error`` in the store ``where`` means to its user."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in _LOCKED:
        return StoreLockedError(
            f"the store {where} is locked by another writer for longer than the wait: try "
            "again, or give a longer lock_timeout"
        )
    if primary == sqlite3.SQLITE_FULL:
        return StoreFullError(
            f"the store {where} failed ({error}): the disk (or its quota) is full: free some space "
            "and try again"
        )
    if primary == sqlite3.SQLITE_NOTADB:
        return CorruptStoreError(
            f"{where} is not an SQLite database, or its first page is damaged: check the path, or "
            "restore it from a backup"
        )
    text = str(error)
    # The driver decodes what is stored, and SQLite's messages, which quote what is stored.
    undecodable = isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in text
    lacks_part = primary == sqlite3.SQLITE_ERROR and "no such" in text
    if primary in _CORRUPT or undecodable or lacks_part:
        return corrupt(where, error)
    if primary in _ADVICE:
        return StoreError(f"the store {where} failed ({error}): {_ADVICE[primary]}")
    if "closed" in text:
        return closed_error(where)
    return StoreError(f"the store {where} failed: {error}")


def is_drivers(error: BaseException) -> bool:
    """Whether the driver raised ``error``."""
    return isinstance(error, sqlite3.Error | UnicodeDecodeError)


@contextmanager
def driver_errors(where: str) -> Iterator[None]:
    """Let no driver's error out."""
    try:
        yield
    except Exception as error:
        if not is_drivers(error):
            raise
        raise store_error(error, where) from error


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
    """A connection that holds what `KnownRows` has read over it, and whether that was compared
    with the file; of a writer, where it left the log (None: that is not known), and the level of
    `PRAGMA synchronous`. After an error it ``is_spent``."""

    position: Position | None = None
    synchronous = -1
    version = -1
    is_checked = False
    is_spent = False
    rows: dict[Hashable, list[tuple[Any, ...]]]

    def known_rows(self) -> dict[Hashable, list[tuple[Any, ...]]]:
        """The rows that were read since the last commit of another connection.

        SQLite gives each state of the file that a connection sees a number of its own. This
        connection does not write, so every commit is another's. Whoever holds the connection asks
        for it once, before the first statement that may be answered from memory.
        """
        (version,) = self.execute("PRAGMA data_version").fetchone()
        if version != self.version or len(self.rows) >= KEPT_ROWS:
            self.version, self.rows = version, {}
        self.is_checked = True
        return self.rows


class SqliteTransaction(SqliteSession, Transaction):
    """A write transaction on a connection of the driver."""

    def __init__(
        self, driver: sqlite3.Connection, where: str, *, position: Position | None
    ) -> None:
        SqliteSession.__init__(self, driver)
        Transaction.__init__(self, where, position=position)
