"""`PostgresStore`: a store in a PostgreSQL database, which also runs its searches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import attrs
import psycopg
from psycopg import sql

from triptych.contracts import Capabilities
from triptych.records import NewDocument, SourceDocument, check_whole
from triptych.search.dataset_settings import CALIBRATION_SETTINGS
from triptych.search.file_location import FOLDER_SETTINGS
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.diagnostics import PostgresDiagnostics
from triptych_backends.postgres.errors import driver_errors
from triptych_backends.postgres.location import parse_url
from triptych_backends.postgres.searcher import PostgresSearcher
from triptych_backends.postgres.session import Driver
from triptych_backends.postgres.vector_indexes import LEAST, VectorIndexes
from triptych_backends.sql import SqlChunks, SqlDocuments, SqlLayers, SqlStore

# Unlogged: a crash of the server ends all leases, as it ends all work.
_TABLE = """
CREATE UNLOGGED TABLE IF NOT EXISTS work_lease (
    queue bytea NOT NULL,
    name bytea NOT NULL,
    holder text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (queue, name)
) WITH (fillfactor = 70)
"""
_LOCK = 0x547269707465616D
"""The advisory lock of whoever makes the table: "Tripteam"."""

# One statement, in the order of the keys: nobody waits for longer than another such statement, and
# no two for each other. What a dead worker left, anywhere, is removed by the first that comes.
_HOLD = """
WITH chosen AS MATERIALIZED (
    SELECT wanted.name FROM unnest(%(names)s::bytea[]) WITH ORDINALITY AS wanted (name, place)
    WHERE NOT EXISTS (
        SELECT FROM work_lease AS other
        WHERE other.queue = %(queue)s AND other.name = wanted.name
            AND other.holder <> %(holder)s AND other.until > now()
    )
    ORDER BY wanted.place LIMIT %(most)s
), released AS (
    DELETE FROM work_lease WHERE (queue, name) IN (
        SELECT queue, name FROM work_lease
        WHERE (queue = %(queue)s AND holder = %(holder)s OR until <= now())
            AND NOT (queue = %(queue)s AND name IN (SELECT name FROM chosen))
        FOR UPDATE SKIP LOCKED
    )
), held AS (
    INSERT INTO work_lease AS mine (queue, name, holder, until)
    SELECT %(queue)s, name, %(holder)s, now() + make_interval(secs => %(seconds)s)
    FROM (SELECT name FROM chosen ORDER BY name) AS sorted
    ON CONFLICT (queue, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
        WHERE mine.holder = excluded.holder OR mine.until <= now()
    RETURNING name
)
SELECT (SELECT count(*) FROM chosen), coalesce(array_agg(name), '{}') FROM held
"""


_OF_SEARCHES = (CALIBRATION_SETTINGS, FOLDER_SETTINGS)
"""Settings that every search reads: they are also read from a replica, so that searches work
without the primary."""


class _Documents(SqlDocuments):
    """`SqlDocuments` whose puts are compared with what the primary has."""

    database: PostgresDatabase

    def find_unchanged(self, dataset_id: str, document: NewDocument) -> SourceDocument | None:
        """See `SqlDocuments.find_unchanged`: a replica may not have the last put of another."""
        with self.database.only_primary():
            return super().find_unchanged(dataset_id, document)


class PostgresStore(SqlStore):
    """Documents, chunks, vectors and layers in one schema of a PostgreSQL database.

    Thread-safe and fork-safe; any number of processes on any machines may have it open. Use it as a
    context manager, or close it.

    It also implements `WorkLeases`: leases and writers of documents do not wait for each other. The
    server's clock is used.
    """

    database: PostgresDatabase

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self._indexes = VectorIndexes(database.connect)
        self.searcher = PostgresSearcher(database, indexes=self._indexes)
        self.documents = _Documents(database, self.searcher)
        self.chunks = SqlChunks(database, self.searcher)
        self.layers = SqlLayers(database, self.searcher)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        read_only: bool = False,
        lock_timeout: float = 30.0,
        create: bool = True,
        history: int = 10,
    ) -> PostgresStore:
        """Open the store at ``url``, ``postgresql+psycopg://user@host/database?options``.

        A missing schema is created; see `parse_url` for the options. ``lock_timeout`` is the
        seconds that a write waits for other writers. With ``create`` False the schema must exist.
        ``history`` is the number of old versions kept for each document.

        Raises:
            ValidationError: ``url`` is invalid, or ``history`` is below 0.
            NotFoundError: there is no store, and ``create`` is False.
            StoreError: it cannot be opened; the message says why.
            SchemaVersionError: another version of Triptych created it.
        """
        check_whole(history, "history")
        database = PostgresDatabase.open(
            parse_url(url),
            read_only=read_only,
            lock_timeout=lock_timeout,
            create=create,
            history=history,
        )
        return cls(database)

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: all of them."""
        return attrs.evolve(
            super().capabilities, leases=self, diagnostics=PostgresDiagnostics(self.database)
        )

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`: as the primary has it, but for `_OF_SEARCHES`."""
        if key.startswith(_OF_SEARCHES):
            return super().get_setting(key)
        with self.database.only_primary():
            return super().get_setting(key)

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`: as the primary has them, but for `_OF_SEARCHES`."""
        if prefix.startswith(_OF_SEARCHES):
            return super().list_settings(prefix)
        with self.database.only_primary():
            return super().list_settings(prefix)

    def hold_leases(
        self,
        queue: str,
        names: Sequence[str],
        *,
        holder: str,
        seconds: float,
        limit: int | None = None,
    ) -> Sequence[str]:
        """See `WorkLeases.hold_leases`."""
        keys = {_key(name): name for name in names}
        values = {
            "queue": _key(queue),
            "names": list(keys),
            "holder": holder,
            "seconds": seconds,
            "most": limit,
        }
        while True:
            with self.database.only_primary(), self.database.reading() as session:
                session.text("SELECT 1")  # a lost connection is replaced
                chosen, held = _held(session.driver, values)
            # Else somebody was quicker with some of them, and others may be free.
            if len(held) == chosen:
                return [name for key, name in keys.items() if key in held]

    @contextmanager
    def listen_for_changes(self) -> Iterator[Callable[[float], bool]]:
        """See `WorkLeases.listen_for_changes`."""
        with driver_errors(self.database.where), closing(self.database.connect()) as driver:
            driver.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self.database.channel)))

            def wait(seconds: float) -> bool:
                with driver_errors(self.database.where):
                    return any(True for _ in driver.notifies(timeout=seconds, stop_after=1))

            yield wait

    def build_indexes(self, *, least: int = LEAST) -> None:
        """Build a vector index for every embedding space with at least ``least`` vectors and no
        index.

        A search of such a space starts this in a thread. Readers and writers are not blocked.

        Raises:
            StoreError: the server failed.
        """
        with driver_errors(self.database.where):
            self._indexes.build(least=least)

    def close(self) -> None:
        """Close every connection, and cancel building an index. Idempotent."""
        self._indexes.close()
        self.database.close()


def _held(driver: Driver, values: dict[str, object]) -> tuple[int, set[bytes]]:
    """How many names were free, and the keys of those that are the holder's now."""
    try:
        row = driver.execute(_HOLD, values, binary=True).fetchone()
    except psycopg.errors.UndefinedTable:
        with driver.transaction():
            driver.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            driver.execute(_TABLE)
        row = driver.execute(_HOLD, values, binary=True).fetchone()
    assert row is not None
    return row[0], set(map(bytes, row[1]))


def _key(name: str) -> bytes:
    """What a row has in place of a name, which may be too long for a key."""
    return hashlib.sha256(name.encode()).digest()[:16]
