"""`PostgresStore`: a store in a PostgreSQL database, which also runs its searches."""

from __future__ import annotations

import attrs

from triptych.contracts import Capabilities
from triptych.records import check_whole
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.diagnostics import PostgresDiagnostics
from triptych_backends.postgres.errors import driver_errors
from triptych_backends.postgres.location import parse_url
from triptych_backends.postgres.searcher import PostgresSearcher
from triptych_backends.postgres.vector_indexes import LEAST, VectorIndexes
from triptych_backends.sql import SqlChunks, SqlDocuments, SqlLayers, SqlStore


class PostgresStore(SqlStore):
    """Documents, chunks, vectors and layers in one schema of a PostgreSQL database.

    Thread-safe and fork-safe; any number of processes on any machines may have it open. Use it as a
    context manager, or close it.
    """

    database: PostgresDatabase

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self._indexes = VectorIndexes(database.connect)
        self.searcher = PostgresSearcher(database, indexes=self._indexes)
        self.documents = SqlDocuments(database, self.searcher)
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
        return attrs.evolve(super().capabilities, diagnostics=PostgresDiagnostics(self.database))

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
