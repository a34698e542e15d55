"""One SQLite file: its connections and locks."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from triptych import deadlines
from triptych.errors import SchemaVersionError, StoreError, StoreLockedError
from triptych_backends.file_locks import lock_now, unlock
from triptych_backends.sql.database import WriterTurn
from triptych_backends.sql.deferred import insert, tables as t
from triptych_backends.sql.errors import closed_error
from triptych_backends.sql.migrations import (
    SCHEMA_VERSION,
    changes_since,
    check_version,
    first_rows,
)
from triptych_backends.sqlite.connection import (
    PAGE_SIZE,
    Connections,
    KnownRows,
    busy_error,
    refuse_without_log,
)
from triptych_backends.sqlite.location import refuse_unusable, set_foreign_log_aside
from triptych_backends.sqlite.session import (
    SqliteSession,
    SqliteTransaction,
    creating,
    driver_errors,
)

APPLICATION_ID = 0x54726970
"""`PRAGMA application_id`: "Trip"."""

_ADD_CLOCK = insert(t.clock)
_ADD_META = insert(t.meta)


def prepare(connections: Connections, *, lock_timeout: float) -> None:
    """Bring the file up to the current schema: create, migrate or leave it.

    Any number of processes may do so at once; one of them does the work.

    Raises:
        SchemaVersionError: the file was written by a newer Triptych, or before the first release.
        StoreError: it is another application's.
    """
    driver = connections.connect()
    try:
        if _version(driver, connections.where) == SCHEMA_VERSION:
            _use_wal(driver, lock_timeout)
            return
        driver.execute(f"PRAGMA page_size={PAGE_SIZE}")
        if not connections.alone:
            _use_wal(driver, lock_timeout)
    finally:
        connections.release(driver)
    with connections.writing(durable=True) as driver:
        version = _version(driver, connections.where)
        if version == 0:
            create(driver)
        elif version < SCHEMA_VERSION:
            _migrate(driver, version)


def require_current(connections: Connections) -> None:
    """Check a file that is only read.

    Raises:
        SchemaVersionError: it has an older or a newer schema.
        StoreError: it holds no store.
    """
    with connections.reading() as session:
        version = _version(session.driver, connections.where)
    if version == 0:
        raise StoreError(f"{connections.where} is empty: open it for writing to make a store")
    if version < SCHEMA_VERSION:
        raise SchemaVersionError(
            f"the store {connections.where} has schema {version}, and this version of Triptych "
            f"reads schema {SCHEMA_VERSION}: open it for writing once, which migrates it"
        )


def _version(driver: sqlite3.Connection, where: str) -> int:
    """The file's schema, 0 when it is empty. One transaction: a creator is seen whole or not."""
    version: int
    version, tables = driver.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
    ).fetchone()
    application = driver.execute("PRAGMA application_id").fetchone()[0]
    if tables and (version == 0 or application != APPLICATION_ID):
        raise StoreError(f"{where} is an SQLite database of another application: name another file")
    if tables:
        check_version(version, where)
    return version


def _use_wal(driver: sqlite3.Connection, lock_timeout: float) -> None:
    # Changing the journal mode never calls the busy handler, so the wait is ours.
    deadline = time.monotonic() + lock_timeout
    while True:
        try:
            if driver.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
        if time.monotonic() > deadline:
            raise busy_error("the journal mode cannot be changed")
        time.sleep(0.005)


def create(driver: sqlite3.Connection) -> None:
    """Make all tables in an empty database, in the driver's transaction."""
    for statement in creating():
        driver.execute(statement)
    session = SqliteSession(driver)
    clock, meta = first_rows()
    session.run_many(_ADD_CLOCK, [clock])
    session.run_many(_ADD_META, meta)
    _stamp(driver)


def _migrate(driver: sqlite3.Connection, version: int) -> None:
    for statement in changes_since(version, "sqlite"):
        driver.execute(statement)
    driver.execute("UPDATE meta SET value = ? WHERE key = 'schema'", [str(SCHEMA_VERSION)])
    _stamp(driver)


def _stamp(driver: sqlite3.Connection) -> None:
    driver.execute(f"PRAGMA application_id={APPLICATION_ID}")
    driver.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


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
        self.reading, self.known = connections.reading, KnownRows(connections)
        self.snapshot, self.flush = connections.snapshot, connections.flush
        self.lock_timeout = wait
        self._closed = False
        self._writer_turn = WriterTurn(self.where, wait=wait, read_only=read_only)
        self._close_lock = threading.Lock()
        _DATABASES.add(self)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        read_only: bool,
        lock_timeout: float,
        create: bool,
        history: int,
        alone: bool = False,
    ) -> SqliteDatabase:
        """Open the file, and bring it up to the current schema. Raises as `SqliteStore.open`.

        ``alone`` is as of `Connections`.
        """
        if not alone:
            refuse_unusable(path, create=create, read_only=read_only)
        refuse_without_log(path)
        set_foreign_log_aside(path, read_only=read_only)
        connections = Connections(
            path,
            read_only=read_only,
            immutable=read_only and not alone and _is_frozen(path),
            alone=alone,
            lock_timeout=lock_timeout,
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

    def scrub(self) -> None:
        """See `Connections.scrub`; other writers of this process wait."""
        with self._writer_turn.held():
            self._connections.scrub()

    @contextmanager
    def writing(
        self, dataset: str | None = None, *, durable: bool = True
    ) -> Iterator[SqliteTransaction]:
        """A write transaction; see `Connections.writing` for ``durable``. All writers take turns,
        whatever the ``dataset``.

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
