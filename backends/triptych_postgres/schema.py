"""Creating and migrating the tables on a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import attrs
import psycopg
from psycopg import sql

from triptych.errors import NotFoundError, SchemaVersionError, StoreError
from triptych_backends.sql import insert, tables as t
from triptych_backends.sql.migrations import (
    SCHEMA_VERSION,
    changes_since,
    check_version,
    first_rows,
)
from triptych_postgres.connection import connect, connect_when_up
from triptych_postgres.location import PostgresLocation
from triptych_postgres.projection import Projection
from triptych_postgres.search_tables import GROUPS, Group
from triptych_postgres.session import DIALECT, Driver, PostgresSession, lock_writers, milliseconds

_ADD_CLOCK = insert(t.clock)
_ADD_META = insert(t.meta)
_LOCK = 0x5472697074796368
"""The advisory lock of whoever makes or migrates a schema: "Triptych"."""


def prepare(location: PostgresLocation, *, lock_timeout: float, create: bool = True) -> None:
    """Bring the schema up to date: make it, unless ``create`` is False, migrate it or leave it.

    Any number of processes may do so at once; one of them does the work, in one transaction. The
    search tables are made where the store has them, or ``location.search`` asks for them, and
    filled again where this version of Triptych has others.

    Raises:
        NotFoundError: there is none, and ``create`` is False.
        SchemaVersionError: a newer Triptych made it, or one before the first release.
        StoreLockedError: other processes used the tables for longer than the wait.
        StoreError: the extension pgvector is missing.
    """
    with _connected(location) as driver:
        state = _state(driver, location)
        if state is not None and state.is_current:
            return
        if state is None:
            if not create:
                raise NotFoundError(
                    f"there is no store at {location.where}: put a document there first, or name "
                    "another store"
                )
            with driver.transaction():
                driver.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                if _state(driver, location) is None:
                    _create(driver, location)
                    return
    _migrate(location, lock_timeout)


def require_current(location: PostgresLocation) -> None:
    """Check a schema that is only read.

    Raises:
        SchemaVersionError: it is older or newer.
        StoreError: there is none, or it lacks the search tables that ``location.search`` asks for.
    """
    with _connected(location) as driver:
        state = _state(driver, location)
    if state is None:
        raise StoreError(
            f"there is no store at {location.where}: check the URL, or open it for writing"
        )
    if not state.is_current:
        held = (
            f"schema {state.version}, and this version of Triptych reads schema {SCHEMA_VERSION}"
            if state.is_older
            else "older search tables than this version of Triptych reads, or none"
        )
        raise SchemaVersionError(
            f"the store {location.where} has {held}: open it for writing once, which migrates it"
        )


@attrs.frozen
class _State:
    """What a schema holds: its version, and the groups of search tables that are out of date."""

    version: int
    outdated: tuple[Group, ...]

    @property
    def is_older(self) -> bool:
        return self.version < SCHEMA_VERSION

    @property
    def is_current(self) -> bool:
        return not self.is_older and not self.outdated


@contextmanager
def _connected(location: PostgresLocation) -> Iterator[Driver]:
    with connect_when_up(location) as driver:
        driver.execute("SET statement_timeout = 0")
        yield driver


def _state(driver: Driver, location: PostgresLocation) -> _State | None:
    """What the schema holds, None where there are no tables. Raises `SchemaVersionError`."""
    table = sql.Identifier(location.schema, "meta")
    if not _exists(driver, table):
        return None
    statement = sql.SQL("SELECT value FROM {} WHERE key = 'schema'").format(table)
    row = driver.execute(statement).fetchone()
    version = 0 if row is None else int(row[0])
    check_version(version, location.where)
    versions = _search_versions(driver, location)
    for group in GROUPS:
        held = versions.get(group.name, 0)
        if held > group.version:
            raise SchemaVersionError(
                f"the store {location.where} has search tables of version {held} "
                f"({group.name}), and this version of Triptych knows those up to {group.version}: "
                "update triptych, or open it with the version that wrote it"
            )
    # A store without any version is of a time when all had search tables.
    is_local = bool(versions) and not any(g.is_searched for g in GROUPS if g.name in versions)
    outdated = [
        each
        for each in GROUPS
        if versions.get(each.name, 0) < each.version
        and not (each.is_searched and is_local and location.search != "server")
    ]
    return _State(version, tuple(outdated))


def _search_versions(driver: Driver, location: PostgresLocation) -> dict[str, int]:
    """The version of each group of search tables that is there."""
    table = sql.Identifier(location.schema, "search_version")
    if not _exists(driver, table):
        return {}
    return dict(driver.execute(sql.SQL("SELECT name, version FROM {}").format(table)).fetchall())


def _exists(driver: Driver, table: sql.Identifier) -> bool:
    row = driver.execute("SELECT to_regclass(%s)", (table.as_string(driver),)).fetchone()
    return row is not None and row[0] is not None


def _create(driver: Driver, location: PostgresLocation) -> None:
    from triptych_backends.sql import creating_all

    groups = [each for each in GROUPS if not (each.is_searched and location.search == "local")]
    _prepare_search(driver, location, groups)
    name = sql.Identifier(location.schema)
    driver.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
    for statement in creating_all(DIALECT):
        driver.execute(statement)
    session = PostgresSession(driver)
    for group in groups:
        _make(session, group)
    clock, meta = first_rows()
    session.run_many(_ADD_CLOCK, [clock])
    session.run_many(_ADD_META, meta)


def _make(session: PostgresSession, group: Group) -> None:
    """Make a group's tables, empty, in place of those that are there."""
    for table in group.tables:
        session.text(f"DROP TABLE IF EXISTS {table}")
    for statement in group.statements:
        session.text(statement)
    session.text(
        "CREATE TABLE IF NOT EXISTS search_version "
        "(name text PRIMARY KEY, version integer NOT NULL)"
    )
    session.text(
        "INSERT INTO search_version VALUES (%s, %s) ON CONFLICT (name) DO UPDATE "
        "SET version = excluded.version",
        (group.name, group.version),
    )


def _migrate(location: PostgresLocation, lock_timeout: float) -> None:
    with connect(location, autocommit=False) as driver:
        session = PostgresSession(driver)
        session.text("SET LOCAL statement_timeout = 0")
        session.text("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        state = _state(driver, location)
        assert state is not None
        if state.is_current:
            return
        session.text("SELECT set_config('lock_timeout', %s, true)", (milliseconds(lock_timeout),))
        lock_writers(session)  # none is at work
        session.text("SELECT tick FROM clock FOR UPDATE")  # nor one of an earlier version
        if state.is_older:
            for statement in changes_since(state.version, "postgresql"):
                session.text(statement)
            session.text("UPDATE meta SET value = %s WHERE key = 'schema'", (str(SCHEMA_VERSION),))
        _prepare_search(driver, location, state.outdated)
        for group in state.outdated:
            _make(session, group)
        if any(group.is_searched for group in state.outdated):
            Projection(location.where).fill(session)


def _prepare_search(driver: Driver, location: PostgresLocation, groups: Iterable[Group]) -> None:
    """See to the extension that ``groups`` of search tables need."""
    if not any(group.is_searched for group in groups):
        return
    found = driver.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone()
    if found is not None:
        return
    try:
        with driver.transaction():
            driver.execute("CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public")
    except psycopg.Error as error:
        raise StoreError(
            f"the database of the store {location.where} lacks the extension pgvector "
            f"({' '.join(str(error).split())}): install pgvector 0.8 or newer on the server, and "
            "let its administrator run CREATE EXTENSION vector, or search in each process with "
            "search=local in the URL, which needs no extension"
        ) from error
