"""`SqliteStore`: one database file, three repositories over it, and the index beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import attrs

from triptych.contracts import Capabilities
from triptych.records import NameState, check_whole
from triptych_backends.index import IndexHelper, LocalIndex, LocalSearcher, available_cores
from triptych_backends.sql import SqlChangeLog, SqlDocuments, SqlLayers, SqlStore
from triptych_backends.sql.filters import SqlFilters
from triptych_backends.sqlite.chunks import SqliteChunks
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.location import database_path

_HELPER = "triptych_backends.sqlite.index_process"


class SqliteStore(SqlStore):
    """Documents, chunks, vectors and layers in one SQLite file; thread-safe, and fork-safe.

    ``documents``, ``chunks`` and ``layers`` are the repositories; `index` lies in the folder
    ``<file>.index`` and can be deleted at any time. Use as a context manager, or close.
    """

    database: SqliteDatabase
    chunks: SqliteChunks

    def __init__(self, database: SqliteDatabase, *, background_index: bool = False) -> None:
        self.database = database
        self.path = database.path
        self.feed = SqlChangeLog(database)
        helper = None
        if background_index:
            helper = IndexHelper(_HELPER, [str(self.path), str(self.index_path)])
        self.index = LocalIndex(self.feed, self.index_path, helper=helper)
        self.searcher = LocalSearcher(self.index, SqlFilters(database))
        self.documents = SqlDocuments(database, self.searcher)
        self.chunks = SqliteChunks(database, self.searcher, self.index)
        self.layers = SqlLayers(database, self.searcher)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        read_only: bool = False,
        lock_timeout: float = 30.0,
        create: bool = True,
        history: int = 10,
        background_index: bool = True,
    ) -> SqliteStore:
        """Open the store at ``url``: a path, or ``sqlite:///`` and a path; make it if need be.

        ``lock_timeout`` is how many seconds a write waits for other writers. With ``create``
        False the file must exist. ``history`` is how many old versions of each document are kept.
        ``background_index`` lets a second process index what is written in bulk, where this one
        may use more than one core.

        Raises:
            ValidationError: ``url`` names no file, or ``history`` is below 0.
            StoreError: it cannot be opened there; the message says why.
            StoreLockedError: somebody holds it exclusively.
            CorruptStoreError: it is not a database, or damaged.
            SchemaVersionError: a newer version of Triptych wrote it.
        """
        path = database_path(url)
        check_whole(history, "history")
        database = SqliteDatabase.open(
            path, read_only=read_only, lock_timeout=lock_timeout, create=create, history=history
        )
        is_helped = background_index and not read_only and available_cores() > 1
        return cls(database, background_index=is_helped)

    @property
    def index_path(self) -> Path:
        """The folder of the index."""
        return self.path.with_name(f"{self.path.name}.index")

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: every one."""
        return attrs.evolve(super().capabilities, diagnostics=self.chunks)

    def load_states(
        self, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """See `CopyableStore.load_states`."""
        super().load_states(dataset_id, states, replace=replace)
        self.index.written(dataset_id, sum(len(state.chunks) for state in states))

    def close(self) -> None:
        """Close index and database. Idempotent."""
        if not self.database.begin_close():
            return
        try:
            self.index.close(publish=not self.database.lost)
        finally:
            self.database.close()
