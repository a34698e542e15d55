"""`PostgresStore`: tables on a server, three repositories over them, and searches in the server."""

from __future__ import annotations

from triptych._internal.close_on_exit import CloseOnExit
from triptych.records import DatasetStats, check_whole
from triptych_backends.index import LocalIndex, LocalSearcher
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.leases import PostgresLeases
from triptych_backends.postgres.location import parse_url
from triptych_backends.sql import SqlChangeLog, SqlChunks, SqlDocuments, SqlLayers
from triptych_backends.sql.answers import SqlAnswers
from triptych_backends.sql.document_changes import SqlChanges
from triptych_backends.sql.filters import SqlFilters
from triptych_backends.sql.loading import SqlStateLoader
from triptych_backends.sql.settings import SqlSettings
from triptych_backends.sql.snapshot import SqlSnapshots
from triptych_backends.sql.stats import read_stats

__all__ = ["PostgresStore"]


class PostgresStore(
    CloseOnExit, SqlSettings, PostgresLeases, SqlAnswers, SqlChanges, SqlSnapshots, SqlStateLoader
):
    """Documents, chunks, vectors and layers in one schema of a PostgreSQL database.

    Thread-safe, and fork-safe; any number of processes on any machines may have it open. Use as a
    context manager, or close.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database
        self.index = LocalIndex(SqlChangeLog(database))
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

        The schema is made if need be; see `parse_url` for the options. ``lock_timeout`` is how
        many seconds a write waits for other writers. With ``create`` False the schema must exist.
        ``history`` is how many old versions of each document are kept.

        Raises:
            ValidationError: ``url`` is invalid, or ``history`` is below 0.
            StoreError: it cannot be opened; the message says why.
            SchemaVersionError: another version of Triptych made it.
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

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`."""
        with self.database.snapshot() as session:
            return read_stats(session, dataset_id, chunker_sig, embed_sig)

    def scrub(self) -> None:
        """See `SqlDocuments.scrub`: rewrite the tables."""
        self.documents.scrub()

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.index.close(publish=False)
        self.database.close()
