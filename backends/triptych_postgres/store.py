"""`PostgresStore`: a store in a PostgreSQL database, searched there or in each process."""

from __future__ import annotations

import logging

import attrs

from triptych.contracts import Capabilities
from triptych.errors import StoreError
from triptych.records import check_whole
from triptych_backends.index import LocalIndex, LocalSearcher
from triptych_backends.sql import (
    Searcher,
    SqlChangeLog,
    SqlChunks,
    SqlDocuments,
    SqlFilters,
    SqlLayers,
    SqlStore,
)
from triptych_postgres.database import PostgresDatabase
from triptych_postgres.diagnostics import PostgresDiagnostics
from triptych_postgres.errors import driver_errors
from triptych_postgres.location import PostgresLocation, parse_url
from triptych_postgres.search_tables import are_made, drop
from triptych_postgres.searcher import PostgresSearcher
from triptych_postgres.vector_indexes import LEAST, VectorIndexes

logger = logging.getLogger("triptych.store")


class PostgresStore(SqlStore):
    """Documents, chunks, vectors and layers in one schema of a PostgreSQL database.

    The server searches them, by tables that each write fills; or, with ``search=local`` in the URL,
    this process does, by an `index` that follows the server's log. The tables are made when a
    process first asks for them, and then filled by all that write. Both find the same.

    Thread-safe and fork-safe; any number of processes on any machines may have it open. Use it as a
    context manager, or close it.
    """

    database: PostgresDatabase

    def __init__(self, database: PostgresDatabase, location: PostgresLocation) -> None:
        self.database = database
        self._indexes = VectorIndexes(database.connect)
        self.index: LocalIndex | None = None
        self.searcher: Searcher = PostgresSearcher(database, indexes=self._indexes)
        if location.search == "local" or not self._has_tables():
            self.index = LocalIndex(SqlChangeLog(database), location.index)
            self.searcher = LocalSearcher(self.index, SqlFilters(database))
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
        location = parse_url(url)
        database = PostgresDatabase.open(
            location,
            read_only=read_only,
            lock_timeout=lock_timeout,
            create=create,
            history=history,
        )
        try:
            return cls(database, location)
        except BaseException:
            database.close()
            raise

    def _has_tables(self) -> bool:
        with self.database.reading() as session:
            return bool(are_made(session))

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: all of them."""
        diagnostics = PostgresDiagnostics(self.database, self.index)
        return attrs.evolve(super().capabilities, diagnostics=diagnostics)

    def build_indexes(self, *, least: int = LEAST) -> None:
        """Build a vector index for every embedding space with at least ``least`` vectors and no
        index.

        A search of such a space starts this in a thread. Readers and writers are not blocked.

        Raises:
            StoreError: the server failed, or the store has no search tables.
        """
        with driver_errors(self.database.where):
            self._indexes.build(least=least)

    def drop_search_tables(self) -> None:
        """Let the server search no more, once every process has ``search=local`` in its URL: the
        next writes are faster. In a process that has not, searches raise `StoreError`.

        Raises:
            StoreLockedError: others used the tables for longer than the wait.
            StoreError: the server failed, or the store was opened read-only.
        """
        with self.database.writing() as tx:
            drop(tx)

    def close(self) -> None:
        """Close every connection, and cancel building an index. Idempotent."""
        if not self.database.begin_close():
            return
        self._indexes.close()
        try:
            if self.index is not None:
                self.index.close()
        except StoreError as error:
            logger.warning("the next process indexes what this one has not published: %s", error)
            assert self.index is not None
            self.index.close(publish=False)
        finally:
            self.database.close()
