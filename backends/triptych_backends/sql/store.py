"""`SqlStore`: one database file, three repositories over it, and the index beside it."""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import bindparam, select, update

from triptych.errors import StoreError, StoreLockedError
from triptych.records import DatasetStats, check_whole
from triptych_backends.index import LocalIndex
from triptych_backends.sql import tables as t
from triptych_backends.sql.change_log import SqlChangeLog
from triptych_backends.sql.chunks import SqlChunks
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.errors import closed_error, driver_errors
from triptych_backends.sql.layers import SqlLayers
from triptych_backends.sql.location import database_path, refuse_unusable
from triptych_backends.sql.schema import prepare, require_current
from triptych_backends.sql.sqlite import Connections, Session
from triptych_backends.sql.stats import read_stats
from triptych_backends.sql.transaction import Transaction

__all__ = ["SqlStore"]

_POSITION = "position in the log"
_DATASETS = select(t.dataset.c.id)
_RENEW = update(t.clock).values(nonce=bindparam("fresh"))


class SqlStore:
    """Documents, chunks, vectors and layers in one SQLite file; thread-safe, and fork-safe.

    ``documents``, ``chunks`` and ``layers`` are the repositories; `index` lies in the folder
    ``<file>.index`` and can be deleted at any time. Use as a context manager, or close.
    """

    def __init__(
        self,
        path: Path,
        connections: Connections,
        *,
        read_only: bool,
        wait: float,
        history: int,
    ) -> None:
        self.path = path
        self.where = str(path)
        self.read_only = read_only
        self.history = history
        self._connections = connections
        self._wait = wait
        self._closed = False
        self._index: LocalIndex | None = None
        self._new_locks()
        self.feed = SqlChangeLog(self)
        self.documents = SqlDocuments(self)
        self.chunks = SqlChunks(self)
        self.layers = SqlLayers(self)
        _STORES.add(self)

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        read_only: bool = False,
        lock_timeout: float = 30.0,
        create: bool = True,
        history: int = 10,
    ) -> SqlStore:
        """Open the store at ``url``: a path, or ``sqlite:///`` and a path; make it if need be.

        ``lock_timeout`` is how many seconds a write waits for other writers. With ``create``
        False the file must exist. ``history`` is how many old versions of each document are kept.

        Raises:
            ValidationError: ``url`` names no file, or ``history`` is below 0.
            StoreError: it cannot be opened there; the message says why.
            StoreLockedError: somebody holds it exclusively.
            CorruptStoreError: it is no database, or damaged.
            SchemaVersionError: a newer version of Triptych wrote it.
        """
        path = database_path(url)
        check_whole(history, "history")
        refuse_unusable(path, create=create, read_only=read_only)
        immutable = read_only and _is_frozen(path)
        connections = Connections(
            path, read_only=read_only, immutable=immutable, lock_timeout=lock_timeout
        )
        try:
            with driver_errors(str(path)):
                if read_only:
                    require_current(connections)
                else:
                    prepare(connections, lock_timeout=lock_timeout)
                connections.require_file()
        except BaseException:
            connections.close()
            raise
        return cls(path, connections, read_only=read_only, wait=lock_timeout, history=history)

    @property
    def index(self) -> LocalIndex:
        """The search index over this store."""
        index = self._index
        if index is None:
            with self._index_lock:
                self.require_open()
                index = self._index = self._index or self._new_index()
        return index

    @property
    def index_path(self) -> Path:
        """The folder of the index."""
        return self.path.with_name(f"{self.path.name}.index")

    def _new_index(self) -> LocalIndex:
        from triptych.text import get_analyzer

        return LocalIndex(self.feed, self.index_path, analyzers=get_analyzer)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session in which each statement is a snapshot."""
        with driver_errors(self.where), self._connections.reading() as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """A session whose statements all see one state."""
        with driver_errors(self.where), self._connections.snapshot() as session:
            yield session

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[Transaction]:
        """A write transaction; see `Connections.writing` for ``durable``.

        Raises:
            StoreLockedError: another writer held the store for longer than the wait.
        """
        if self.read_only:
            raise StoreError(f"the store {self.where} was opened read-only: open it for writing")
        self.require_open()
        if not self._write_lock.acquire(timeout=min(self._wait, threading.TIMEOUT_MAX)):
            raise StoreLockedError(
                f"another thread wrote to the store {self.where} for longer than "
                f"{self._wait:g} s: try again, or give a longer lock_timeout"
            )
        try:
            with (
                driver_errors(self.where),
                self._connections.writing(durable=durable) as connection,
            ):
                known = connection.info
                # Forgotten where the transaction fails: whether it was committed is not known.
                position = known.pop(_POSITION, None)
                transaction = Transaction(Connections.driver_of(connection), position=position)
                yield transaction
                transaction.finish()
            known[_POSITION] = transaction.position
        finally:
            self._write_lock.release()

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`."""
        with self.snapshot() as session:
            return read_stats(session, dataset_id, chunker_sig, embed_sig)

    def flush(self) -> None:
        """Put all commits on the disk, those of derived data too."""
        self._connections.flush()

    def scrub(self) -> None:
        """See `SecureEraser.scrub`: rewrite the file, empty its log, make the index again.

        Raises:
            StoreLockedError: another process is reading or writing; nothing is lost, try again.
        """
        with self.writing() as tx:
            tx.run(_RENEW, fresh=secrets.token_hex(16))
            for (dataset,) in tx.all(_DATASETS):
                tx.reset_log(dataset)
        with self._index_lock:
            if self._index is not None:
                self._index.close()
                self._index = None
            shutil.rmtree(self.index_path, ignore_errors=True)
        with driver_errors(self.where):
            self._connections.scrub()

    def close(self) -> None:
        """Close index and database. Idempotent."""
        with self._index_lock:
            if self._closed:
                return
            self._closed = True
            index, self._index = self._index, None
        try:
            if index is not None:
                index.close(publish=not self._connections.lost)
        finally:
            self._connections.close()

    def __enter__(self) -> SqlStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def require_open(self) -> None:
        """Raise `StoreError` once the store is closed."""
        if self._closed:
            raise closed_error(self.where)

    def _new_locks(self) -> None:
        self._write_lock = threading.Lock()
        self._index_lock = threading.Lock()

    def _before_fork(self) -> None:
        self._connections.before_fork()

    def _after_fork_in_parent(self) -> None:
        self._connections.after_fork_in_parent()

    def _after_fork_in_child(self) -> None:
        self._new_locks()
        self._index = None
        self._connections.after_fork_in_child()


def _is_frozen(path: Path) -> bool:
    """Whether SQLite cannot make the files that reading a write-ahead log takes."""
    wal = path.with_name(f"{path.name}-wal")
    return not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)


_STORES: weakref.WeakSet[SqlStore] = weakref.WeakSet()


def _before_fork() -> None:
    for store in _STORES:
        store._before_fork()


def _after_fork_in_parent() -> None:
    for store in _STORES:
        store._after_fork_in_parent()


def _after_fork_in_child() -> None:
    for store in _STORES:
        store._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
