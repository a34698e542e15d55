"""Making the tables, and moving an older store to them.

`PRAGMA user_version` says what a file holds, so that Alembic, whose import takes a quarter of a
second, is needed only where there is something to migrate. Its revisions and `create` make the same
tables.
"""

from __future__ import annotations

import sqlite3
import time
from functools import cache
from typing import TYPE_CHECKING

from triptych.errors import SchemaVersionError, StoreError
from triptych_backends.sql.deferred import bindparam, insert, tables as t
from triptych_backends.sqlite.connection import PAGE_SIZE, Connections, busy_error
from triptych_backends.sqlite.dialect import DIALECT
from triptych_backends.sqlite.session import SqliteSession

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection
    from sqlalchemy.schema import CreateIndex, CreateTable

__all__ = ["SCHEMA_VERSION", "migrate", "prepare", "require_current"]

SCHEMA_VERSION = 11
"""What `PRAGMA user_version` says of a store of this version of Triptych."""

APPLICATION_ID = 0x54726970
"""`PRAGMA application_id`: "Trip"."""

_REVISION = insert(t.alembic_version).values(version_num=bindparam("version"))


def prepare(connections: Connections, *, lock_timeout: float) -> None:
    """Bring the file up to the current schema: create, migrate or leave it.

    Any number of processes may do so at once; one of them does the work.

    Raises:
        SchemaVersionError: the file was written by a newer Triptych.
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
    with connections.writing(durable=True) as connection:
        version = _version(Connections.driver_of(connection), connections.where)
        if version == 0:
            create(connection)
        elif version < SCHEMA_VERSION:
            migrate(connection)


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
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the store {where} has schema {version}, and this version of Triptych knows schemas "
            f"up to {SCHEMA_VERSION}: update triptych, or open it with the version that wrote it"
        )
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


def create(connection: Connection) -> None:
    """Make all tables in an empty database, in the connection's transaction."""
    from triptych_backends.sql.migrations import add_first_rows
    from triptych_backends.sql.tables import ALEMBIC_REVISION

    driver = Connections.driver_of(connection)
    for statement in _statements():
        driver.execute(statement)
    SqliteSession(driver).run(_REVISION, version=ALEMBIC_REVISION)
    add_first_rows(connection)
    _stamp(connection)


@cache
def _statements() -> tuple[str, ...]:
    """What makes all tables and their indexes; to write it takes longer than to run it."""
    from sqlalchemy.schema import CreateIndex, CreateTable

    from triptych_backends.sql.tables import METADATA

    made: list[CreateTable | CreateIndex] = []
    for table in METADATA.sorted_tables:
        made.append(CreateTable(table))
        made.extend(map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name))))
    return tuple(str(each.compile(dialect=DIALECT.engine)) for each in made)


def migrate(connection: Connection) -> None:
    """Run the migrations that are missing, in the connection's transaction."""
    from triptych_backends.sql.migrations import upgrade

    upgrade(connection)
    _stamp(connection)


def _stamp(connection: Connection) -> None:
    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
    connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
