"""A store over a database as it is at one moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NoReturn

from triptych.contracts import Capabilities
from triptych.errors import NotAvailableError, StoreError
from triptych.records import DatasetStats
from triptych_backends.sql.chunks import SqlChunks
from triptych_backends.sql.database import Database
from triptych_backends.sql.document_changes import SqlChanges
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.layers import SqlLayers
from triptych_backends.sql.session import Session
from triptych_backends.sql.settings import HasDatabase, SqlSettings
from triptych_backends.sql.stats import read_stats
from triptych_backends.sql.transaction import Transaction


class PinnedDatabase:
    """A `Database` whose every session is the one it is given: of one snapshot, in any thread."""

    def __init__(self, database: Database, session: Session) -> None:
        self.where = database.where
        self.history = database.history
        self._session: Session | None = session
        self._lock = threading.RLock()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """See `Database.reading`."""
        with self._lock:
            if self._session is None:
                raise StoreError(f"this snapshot of the store {self.where} has ended: take another")
            yield self._session

    cached = reading
    snapshot = reading

    def writing(self, *, durable: bool = True) -> AbstractContextManager[Transaction]:
        """Refuse to write.

        Raises:
            StoreError: always.
        """
        self._refuse()

    def flush(self) -> None:
        """See `Database.flush`: there is nothing to flush."""

    def scrub(self) -> None:
        """Refuse to write."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreError(f"this is a snapshot of the store {self.where}: write to the store itself")

    def require_open(self) -> None:
        """Raise `StoreError` once the snapshot has ended."""
        with self.reading():
            pass

    def end(self) -> None:
        """Let go of the session, once nobody reads by it."""
        with self._lock:
            self._session = None


class _NoSearcher:
    """A `Searcher` of a snapshot: its index would be that of now."""

    in_process = True

    def search(self, *_: object, **__: object) -> NoReturn:
        """Refuse."""
        raise NotAvailableError("a snapshot is read, not searched: search the store itself")

    corpus_stats = search

    def renew(self) -> None:
        """There is nothing to forget."""


class SqlReads(SqlSettings, SqlChanges):
    """What a store over a `Database` can be asked, as it is now or as it was, but for searches."""

    database: Database
    documents: SqlDocuments
    chunks: SqlChunks
    layers: SqlLayers

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`."""
        return Capabilities(
            sparse=self.chunks,
            spaces=self.chunks,
            versions=self.documents,
            journal=self.layers,
            changes=self,
            settings=self,
        )

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`."""
        with self.database.snapshot() as session:
            return read_stats(session, dataset_id, chunker_sig, embed_sig)


class SqlSnapshot(SqlReads):
    """A `Store` over a `PinnedDatabase`, to be read."""

    def __init__(self, database: PinnedDatabase) -> None:
        searcher = _NoSearcher()
        self.database = database
        self.documents = SqlDocuments(database, searcher)
        self.chunks = SqlChunks(database, searcher)
        self.layers = SqlLayers(database, searcher)
        self.scrub = database.scrub
        self.close = database.end


class SqlSnapshots:
    """`CopyableStore` of a store over a `Database`, for the store to inherit."""

    @contextmanager
    def snapshot(self: HasDatabase) -> Iterator[SqlSnapshot]:
        """See `CopyableStore.snapshot`: one read transaction, which others' writes do not wait
        for. The log of writes grows while it is held."""
        with self.database.snapshot() as session:
            pinned = PinnedDatabase(self.database, session)
            shown = SqlSnapshot(pinned)
            shown.documents.list_datasets()  # a transaction begins with its first read
            try:
                yield shown
            finally:
                pinned.end()
