"""Making the tables, and moving an older store to them. `PRAGMA user_version` is the schema."""

from __future__ import annotations

import sqlite3
import time
from functools import cache
from typing import TYPE_CHECKING

from triptych.errors import SchemaVersionError, StoreError
from triptych_backends.sql.deferred import insert, tables as t
from triptych_backends.sql.migrations import (
    SCHEMA_VERSION,
    changes_since,
    check_version,
    first_rows,
)
from triptych_backends.sqlite.connection import PAGE_SIZE, Connections, busy_error
from triptych_backends.sqlite.session import DIALECT, SqliteSession

if TYPE_CHECKING:
    pass

APPLICATION_ID = 0x54726970
"""`PRAGMA application_id`: "Trip"."""

_ADD_CLOCK = insert(t.clock)
_ADD_META = insert(t.meta)


def prepare(connections: Connections, *, lock_timeout: float) -> None:
    """Bring the file up to the current schema: create, migrate or leave it.

    Any number of processes may do so at once; one of them does the work.

    Raises:
        SchemaVersionError: the file was written by a newer Triptych, or before the first release.
        StoreError: it is another application's.
    """
    driver = connections.connect()
    try:
        if _version(driver, connections.where) == SCHEMA_VERSION:
            _use_wal(driver, lock_timeout)
            return
        driver.execute(f"PRAGMA page_size={PAGE_SIZE}")
        _use_wal(driver, lock_timeout)
    finally:
        connections.release(driver)
    with connections.writing(durable=True) as driver:
        version = _version(driver, connections.where)
        if version == 0:
            create(driver)
        elif version < SCHEMA_VERSION:
            _migrate(driver, version)


def require_current(connections: Connections) -> None:
    """Check a file that is only read.

    Raises:
        SchemaVersionError: it has an older or a newer schema.
        StoreError: it holds no store.
    """
    with connections.reading() as session:
        version = _version(session.driver, connections.where)
    if version == 0:
        raise StoreError(f"{connections.where} is empty: open it for writing to make a store")
    if version < SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the store {connections.where} has schema {version}, and this version of Triptych "
            f"reads schema {SCHEMA_VERSION}: open it for writing once, which migrates it"
        )


def _version(driver: sqlite3.Connection, where: str) -> int:
    """The file's schema, 0 when it is empty. One transaction: a creator is seen whole or not."""
    version: int
    version, tables = driver.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    ).fetchone()
    application = driver.execute("PRAGMA application_id").fetchone()[0]
    if tables and (version == 0 or application != APPLICATION_ID):
        raise StoreError(f"{where} is an SQLite database of another application: name another file")
    if tables:
        check_version(version, where)
    return version


def _use_wal(driver: sqlite3.Connection, lock_timeout: float) -> None:
    # Changing the journal mode never calls the busy handler, so the wait is ours.
    deadline = time.monotonic() + lock_timeout
    while True:
        try:
            if driver.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        if time.monotonic() > deadline:
            raise busy_error("the journal mode cannot be changed")
        time.sleep(0.005)


def create(driver: sqlite3.Connection) -> None:
    """Make all tables in an empty database, in the driver's transaction."""
    for statement in _statements():
        driver.execute(statement)
    session = SqliteSession(driver)
    clock, meta = first_rows()
    session.run_many(_ADD_CLOCK, [clock])
    session.run_many(_ADD_META, meta)
    _stamp(driver)


@cache
def _statements() -> tuple[str, ...]:
    """What makes all tables and their indexes; to write it takes longer than to run it."""
    from triptych_backends.sql.compilation import creating
    from triptych_backends.sql.tables import METADATA

    tables = METADATA.sorted_tables
    return tuple(each for table in tables for each in creating(table, DIALECT).values())


def _migrate(driver: sqlite3.Connection, version: int) -> None:
    for statement in changes_since(version, "sqlite"):
        driver.execute(statement)
    driver.execute("UPDATE meta SET value = ? WHERE key = 'schema'", [str(SCHEMA_VERSION)])
    _stamp(driver)


def _stamp(driver: sqlite3.Connection) -> None:
    driver.execute(f"PRAGMA application_id={APPLICATION_ID}")
    driver.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
