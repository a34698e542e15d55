"""One SQLite file: its connections, and who may read and write it when."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from triptych import deadlines
from triptych.errors import StoreError, StoreLockedError
from triptych_backends.file_locks import lock_now, unlock
from triptych_backends.sql.database import WriterTurn
from triptych_backends.sql.errors import closed_error
from triptych_backends.sqlite.connection import Connections
from triptych_backends.sqlite.location import refuse_unusable, set_foreign_log_aside
from triptych_backends.sqlite.schema import prepare, require_current
from triptych_backends.sqlite.session import SqliteTransaction, driver_errors

_POLL_SECONDS = 0.005


@contextmanager
def file_turn(path: Path, wait: float) -> Iterator[None]:
    """Hold the lock of the file at ``path``, which is made if need be.

    Raises:
        StoreLockedError: another thread or process had it for longer than ``wait`` seconds.
        StoreError: the file cannot be made, or the file system has no locks.
    """
    end = time.monotonic() + wait
    try:
        file = path.open("ab")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened to lock it: {error.strerror}") from error
    with file:
        while not _locked(file.fileno(), path):
            deadlines.check()
            if time.monotonic() > end:
                raise StoreLockedError(
                    f"another process has held {path} for longer than {wait:g} s: try again, or "
                    "give a longer lock_timeout"
                )
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            unlock(file.fileno())


def _locked(handle: int, path: Path) -> bool:
    try:
        return lock_now(handle)
    except OSError as error:
        raise StoreError(f"{path} cannot be locked: {error.strerror}") from error


class SqliteDatabase:
    """What the repositories read and write; thread-safe, and fork-safe. See `Database`.

    ``history`` is how many old versions of each document are kept. Whatever the driver raises
    comes out as a `StoreError`.
    """

    def __init__(
        self, path: Path, connections: Connections, *, read_only: bool, wait: float, history: int
    ) -> None:
        self.path = path
        self.where = str(path)
        self.read_only = read_only
        self.history = history
        self._connections = connections
        self.reading, self.cached = connections.reading, connections.cached
        self.snapshot, self.flush = connections.snapshot, connections.flush
        self.scrub = connections.scrub
        self.lock_timeout = wait
        self._closed = False
        self._writer_turn = WriterTurn(self.where, wait=wait, read_only=read_only)
        self._close_lock = threading.Lock()
        _DATABASES.add(self)

    @classmethod
    def open(
        cls, path: Path, *, read_only: bool, lock_timeout: float, create: bool, history: int
    ) -> SqliteDatabase:
        """Open the file, and bring it up to the current schema. Raises as `SqliteStore.open`."""
        refuse_unusable(path, create=create, read_only=read_only)
        set_foreign_log_aside(path, read_only=read_only)
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
    def lost(self) -> bool:
        """True when the path no longer leads to the file: it can be read and written no more."""
        return self._connections.lost

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[SqliteTransaction]:
        """A write transaction; see `Connections.writing` for ``durable``.

        Raises:
            StoreLockedError: another writer held the store for longer than the wait.
        """
        self.require_open()
        with self._writer_turn.held():
            with self._connections.writing(durable=durable) as driver:
                # Forgotten where the transaction fails: whether it was committed is not known.
                position, driver.position = driver.position, None
                transaction = SqliteTransaction(driver, self.where, position=position)
                yield transaction
                transaction.finish()
            driver.position = transaction.position

    def turn(self, name: str, *, wait: float | None = None) -> AbstractContextManager[None]:
        """The turn of one process among all that ask for ``name``: a lock on a file."""
        path = self.path.with_name(f"{self.path.name}.{name}.lock")
        return file_turn(path, self.lock_timeout if wait is None else wait)

    def require_open(self) -> None:
        """Raise `StoreError` once the store is being closed, or is closed."""
        if self._closed:
            raise closed_error(self.where)

    def begin_close(self) -> bool:
        """Let no new work begin, and say whether this was the first call.

        Until `close`, an index that is being written may still read.
        """
        with self._close_lock:
            first, self._closed = not self._closed, True
        return first

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.begin_close()
        self._connections.close()

    def _after_fork_in_child(self) -> None:
        self._writer_turn.after_fork_in_child()
        self._close_lock = threading.Lock()
        self._connections.after_fork_in_child()


def _is_frozen(path: Path) -> bool:
    """Whether SQLite cannot make the files that reading a write-ahead log takes."""
    wal = path.with_name(f"{path.name}-wal")
    return not os.access(path.parent, os.W_OK) and not (wal.exists() and wal.stat().st_size)


_DATABASES: weakref.WeakSet[SqliteDatabase] = weakref.WeakSet()


def _each(step: Callable[[SqliteDatabase], None]) -> Callable[[], None]:
    def run() -> None:
        for database in _DATABASES:
            step(database)

    return run


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_each(lambda database: database._connections.before_fork()),
        after_in_parent=_each(lambda database: database._connections.after_fork_in_parent()),
        after_in_child=_each(SqliteDatabase._after_fork_in_child),
    )
