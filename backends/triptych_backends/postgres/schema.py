"""Making the tables on a server, and checking those that are there."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from triptych.errors import SchemaVersionError, StoreError
from triptych_backends.postgres import search_tables
from triptych_backends.postgres.dialect import DIALECT
from triptych_backends.postgres.location import PostgresLocation
from triptych_backends.postgres.session import Driver, PostgresSession
from triptych_backends.sql.deferred import insert, tables as t

if TYPE_CHECKING:
    from sqlalchemy.schema import CreateIndex, CreateTable

__all__ = ["prepare", "require_current"]

_REVISION = insert(t.alembic_version)
_ADD_CLOCK = insert(t.clock)
_ADD_META = insert(t.meta)
_LOCK = 0x5472697074796368
"""The advisory lock of whoever makes a schema: "Triptych"."""


def prepare(location: PostgresLocation) -> None:
    """Bring the schema up to date: make it, or leave it. Any number of processes may do so at once.

    Raises:
        SchemaVersionError: a newer Triptych made it.
        StoreError: the extension pgvector is missing.
    """
    with _connected(location) as driver:
        if _revision(driver, location) == _current():
            return
        with driver.transaction():
            driver.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            if _revision(driver, location) != _current():
                _create(driver, location)


def require_current(location: PostgresLocation) -> None:
    """Check a schema that is only read.

    Raises:
        SchemaVersionError: it is older or newer.
        StoreError: there is none.
    """
    with _connected(location) as driver:
        if _revision(driver, location) is None:
            raise StoreError(
                f"there is no store at {location.where}: check the URL, or open it for writing"
            )


def _connected(location: PostgresLocation) -> Driver:
    return psycopg.connect(location.conninfo, autocommit=True, fallback_application_name="triptych")


def _current() -> str:
    from triptych_backends.sql.tables import ALEMBIC_REVISION

    return ALEMBIC_REVISION


def _revision(driver: Driver, location: PostgresLocation) -> str | None:
    """The revision that made the schema, None where there are no tables."""
    table = sql.Identifier(location.schema, "alembic_version")
    (found,) = driver.execute("SELECT to_regclass(%s)", (table.as_string(driver),)).fetchone() or (
        None,
    )
    if found is None:
        return None
    row = driver.execute(sql.SQL("SELECT version_num FROM {}").format(table)).fetchone()
    revision = None if row is None else str(row[0])
    if revision != _current():
        raise SchemaVersionError(
            f"the store {location.where} has schema {revision}, and this version of Triptych reads "
            f"schema {_current()}: open it with the version that wrote it"
        )
    return revision


def _create(driver: Driver, location: PostgresLocation) -> None:
    from triptych_backends.sql.migrations import first_rows

    _require_extension(driver, location)
    name = sql.Identifier(location.schema)
    driver.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    driver.execute(sql.SQL("SET LOCAL search_path = {}, public").format(name))
    for statement in (*_statements(), *search_tables.STATEMENTS):
        driver.execute(statement)
    session = PostgresSession(driver)
    session.run_many(_REVISION, [(_current(),)])
    clock, meta = first_rows()
    session.run_many(_ADD_CLOCK, [clock])
    session.run_many(_ADD_META, [meta])


def _require_extension(driver: Driver, location: PostgresLocation) -> None:
    found = driver.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone()
    if found is not None:
        return
    try:
        with driver.transaction():
            driver.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    except psycopg.Error as error:
        raise StoreError(
            f"the database of the store {location.where} lacks the extension pgvector "
            f"({' '.join(str(error).split())}): install pgvector 0.7 or newer on the server, and "
            "let its administrator run CREATE EXTENSION vector"
        ) from error


@cache
def _statements() -> tuple[str, ...]:
    """What makes all tables and their indexes."""
    from sqlalchemy.schema import CreateIndex, CreateTable

    from triptych_backends.sql.tables import METADATA

    made: list[CreateTable | CreateIndex] = []
    for table in METADATA.sorted_tables:
        made.append(CreateTable(table))
        made.extend(map(CreateIndex, sorted(table.indexes, key=lambda index: str(index.name))))
    return tuple(str(each.compile(dialect=DIALECT.engine)) for each in made)
