"""`PostgresStore`: tables on a server, three repositories over them, and searches in the server."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from triptych.contracts import Capabilities
from triptych.records import NewDocument, SourceDocument, check_whole
from triptych.search.answerability import CALIBRATION_SETTINGS
from triptych.search.file_location import FOLDER_SETTINGS
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.diagnostics import PostgresDiagnostics
from triptych_backends.postgres.errors import driver_errors
from triptych_backends.postgres.leases import PostgresLeases
from triptych_backends.postgres.location import parse_url
from triptych_backends.postgres.searcher import PostgresSearcher
from triptych_backends.postgres.vector_indexes import LEAST, VectorIndexes
from triptych_backends.sql import SqlChunks, SqlDocuments, SqlLayers, SqlStore

_OF_SEARCHES = (CALIBRATION_SETTINGS, FOLDER_SETTINGS)
"""Settings that every search reads: a replica tells them too, so that searches go on without the
primary."""


class _Documents(SqlDocuments):
    """`SqlDocuments` whose puts are compared with what the primary has."""

    database: PostgresDatabase

    def find_unchanged(self, dataset_id: str, document: NewDocument) -> SourceDocument | None:
        """See `SqlDocuments.find_unchanged`: a replica may not have the last put of another."""
        with self.database.only_primary():
            return super().find_unchanged(dataset_id, document)


class PostgresStore(SqlStore, PostgresLeases):
    """Documents, chunks, vectors and layers in one schema of a PostgreSQL database.

    Thread-safe, and fork-safe; any number of processes on any machines may have it open. Use as a
    context manager, or close.
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

        The schema is made if need be; see `parse_url` for the options. ``lock_timeout`` is how
        many seconds a write waits for other writers. With ``create`` False the schema must exist.
        ``history`` is how many old versions of each document are kept.

        Raises:
            ValidationError: ``url`` is invalid, or ``history`` is below 0.
            NotFoundError: there is none, and ``create`` is False.
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

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: every one."""
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

    def build_indexes(self, *, least: int = LEAST) -> None:
        """Index the vectors of every embedding space that has ``least`` or more, and no index.

        A search that meets such a space lets a thread do so. Readers and writers go on meanwhile.

        Raises:
            StoreError: the server failed.
        """
        with driver_errors(self.database.where):
            self._indexes.build(least=least)

    def close(self) -> None:
        """Close every connection, and give up an index that is being built. Idempotent."""
        self._indexes.close()
        self.database.close()
