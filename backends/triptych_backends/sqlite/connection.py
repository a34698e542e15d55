"""Connections to an SQLite file: transactions, pragmas, forks.

Writers take a process-wide lock first, so that threads queue in fairness and without polling,
and then begin IMMEDIATE: a deferred transaction that turns into a writer fails with
SQLITE_BUSY_SNAPSHOT whatever the timeout.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from triptych._internal.one_state import holding
from triptych.errors import StoreError
from triptych_backends.sql.database import HeldReader, reader_of_call
from triptych_backends.sql.deferred import Statement
from triptych_backends.sql.errors import closed_error
from triptych_backends.sql.transaction import Reader, key_of
from triptych_backends.sqlite.location import (
    FileIdentity,
    Pair,
    forget_owner,
    identity_if_there,
    identity_of,
    log_of,
    remember_owner,
)
from triptych_backends.sqlite.session import (
    Driver,
    SqliteSession,
    driver_errors,
    is_drivers,
    store_error,
)

PAGE_SIZE = 8192
"""Five vectors of 384 dimensions fit a page; at 4096 only two would, a quarter wasted."""

_FULL, _NORMAL = 2, 1
_IDLE_READERS = 16

FORK_WAIT = 10.0
"""Seconds that a fork waits for calls under way."""
_PRAGMAS = (
    "PRAGMA trusted_schema=OFF",
    "PRAGMA foreign_keys=ON",
    "PRAGMA cache_size=-32768",
    "PRAGMA journal_size_limit=67108864",
    # In pages, as much as the limit above: each checkpoint waits for the disk twice, and pages of
    # indexes that every commit of a bulk write changes are copied once. A tenth of it is usual.
    "PRAGMA wal_autocheckpoint=8192",
)


_WITHOUT_LOG: set[FileIdentity] = set()
"""Files whose log was taken from under this process. Their connections stay open: to close the last
would write the old log over what others wrote since, and a new one would share its memory."""


def refuse_without_log(path: Path) -> None:
    """Raise StoreError where the log of this file was taken from under this process."""
    with suppress(OSError):
        if _WITHOUT_LOG and identity_of(path) in _WITHOUT_LOG:
            raise _log_error(str(path))


class Connections:
    """Every connection that one store holds to one file.

    ``immutable`` reads a file in a folder that cannot be written: without locks and shared
    memory, which is sound as long as nobody writes it. ``alone`` does without locks and a log, on
    any file system: nobody else has the file, and one thread uses it.
    """

    def __init__(
        self, path: Path, *, read_only: bool, immutable: bool, alone: bool, lock_timeout: float
    ) -> None:
        self.where = str(path)
        self._path = path
        self._read_only = read_only
        self._lock_timeout = lock_timeout
        mode = "ro" if read_only else "rwc"
        locks = "&immutable=1" if immutable else "&nolock=1" if alone else ""
        self._uri = f"{path.as_uri()}?mode={mode}{locks}"
        self.alone = alone
        self._opened: list[sqlite3.Connection] = []
        self._readers: deque[Driver] = deque()
        self._writers: deque[Driver] = deque()
        self._closed = False
        self._file: FileIdentity | None = None
        self._owner: Pair | None = None
        self._log: tuple[str, FileIdentity] | None = None
        self._immutable = immutable
        self._lost: Callable[[str], StoreError] | None = None
        # Each read takes it twice, for which a Condition's own `with` runs Python.
        self._lock = threading.RLock()
        self._gate = threading.Condition(self._lock)
        self._busy = 0
        self._held: dict[Driver, HeldReader[Driver]] = {}
        self._forking = False
        self._torn = False

    def require_file(self) -> None:
        """From now on, the file must be the one that is there now.

        One that is gone is an error, not an empty store; so is another one at its path, beneath
        which this one would be read and written by nobody else.
        """
        self._uri = self._uri.replace("?mode=rwc", "?mode=rw")
        self._file = identity_of(self._path)
        self._remember_owner()

    def _remember_owner(self) -> None:
        if self._file is not None:
            self._owner = remember_owner(self._path, self._file, self._owner)

    @property
    def lost(self) -> bool:
        """True when the path no longer leads to the file: it can be read and written no more."""
        if self._file is not None and self._lost is None:
            try:
                if identity_of(self.where) != self._file:
                    self._lost = _replaced_error
                elif self._file in _WITHOUT_LOG:
                    self._lost = _log_error
                elif self._log is not None and identity_if_there(self._log[0]) != self._log[1]:
                    self._lost = _log_error
                    _WITHOUT_LOG.add(self._file)
            except (FileNotFoundError, NotADirectoryError):
                self._lost = _gone_error
            except OSError:
                return False  # SQLite will say what it is
        return self._lost is not None

    def _require_same_file(self) -> None:
        """Raise StoreError, and close for good, when the file is another or gone."""
        if self.lost:
            self.close()
            assert self._lost is not None
            raise self._lost(self.where)

    def connect(self) -> Driver:
        """A new connection; SQLite's implicit transactions are off."""
        driver = sqlite3.connect(
            self._uri,
            uri=True,
            factory=Driver,
            timeout=self._lock_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        driver.rows = {}
        self._opened.append(driver)
        try:
            # SQLite has opened the file, and opens the log with the first statement.
            self._require_same_file()
            for pragma in _PRAGMAS:
                driver.execute(pragma)
            if self.alone and not self._read_only:
                driver.execute(f"PRAGMA page_size={PAGE_SIZE}")
                driver.execute("PRAGMA journal_mode=MEMORY")
            if self._read_only:
                driver.execute("PRAGMA query_only=ON")
            # This opens the log, which is then there as long as a connection is.
            driver.execute("PRAGMA schema_version")
            # Another file may have come since the caller looked.
            self._require_same_file()
            if self._log is None and not self._immutable:
                self._log = log_of(self._path)
            self._remember_owner()
        except BaseException:
            self.release(driver)
            raise
        return driver

    def release(self, driver: sqlite3.Connection) -> None:
        """Close a connection of `connect`."""
        if self._lost is _log_error:
            self._leak()
        with suppress(ValueError):
            self._opened.remove(driver)
        if not self._opened:
            self._log = None  # the last connection that is closed removes it
        if self._lost is not _log_error:
            driver.close()

    def reading(self) -> AbstractContextManager[SqliteSession]:
        """A session in which each statement is a snapshot of its own, or all are of `one_state`."""
        return _Reading(self)

    def snapshot(self) -> AbstractContextManager[SqliteSession]:
        """A session whose statements all see one state."""
        return _Reading(self, is_whole=True)

    def begin(self) -> HeldReader[Driver]:
        """What a call reads by."""
        driver = self.take_reader()
        try:
            driver.execute("BEGIN")
        except BaseException:
            self.give_reader(driver)
            raise
        reader = self._held[driver] = HeldReader(driver, self.give_reader)
        return reader

    def take_reader(self) -> Driver:
        """A connection to read with, of this caller alone until `give_reader`."""
        self._enter()
        try:
            driver = self._readers.pop() if self._readers else self.connect()
        except BaseException:
            self._leave()
            raise
        driver.is_checked = False
        return driver

    def give_reader(self, driver: Driver) -> None:
        """Give back a connection of `take_reader`, and end its transaction."""
        self._held.pop(driver, None)
        try:
            if not driver.is_spent and len(self._readers) < _IDLE_READERS:
                driver.rollback()
                self._readers.append(driver)
            else:
                self.release(driver)
        finally:
            self._leave()

    @contextmanager
    def _call(self) -> Iterator[None]:
        """A call under way. What the driver raises in it comes out as a `StoreError`."""
        with driver_errors(self.where):
            self._enter()
            try:
                yield
            finally:
                self._leave()

    def _enter(self) -> None:
        with self._lock:
            while self._forking:
                self._gate.wait()
            if self._lost is not None:
                raise self._lost(self.where)
            if self._closed:
                raise closed_error(self.where)
            if self._torn:
                raise StoreError(
                    f"this process was forked while the store {self.where} was in use, and SQLite "
                    "cannot be used across that: open the store in the child, in a fresh process"
                )
            self._busy += 1
        try:
            self._require_same_file()
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        with self._lock:
            self._busy -= 1
            if self._closed and not self._busy:
                self._close_idle()
            if self._forking:
                self._gate.notify_all()

    @contextmanager
    def writing(self, *, durable: bool) -> Iterator[Driver]:
        """A write transaction, committed at the end; callers take turns.

        A ``durable`` commit is on the disk when it returns. Another survives the process but
        not a power cut, which takes the last such commits away whole and in order: right for
        what is derived, since its signatures then tell that it is stale, and it is made again.
        The next durable commit settles all that came before it.

        Raises StoreError, also after the commit, when it went into a file that was replaced.
        """
        with self._call():
            driver = self._writers.pop() if self._writers else self.connect()
            try:
                level = _FULL if durable else _NORMAL
                if driver.synchronous != level:
                    driver.execute(f"PRAGMA synchronous={level}")
                    driver.synchronous = level
                driver.execute("BEGIN IMMEDIATE")
                yield driver
                driver.execute("COMMIT")
            finally:
                self._put_back(driver)
            self._require_same_file()

    def _put_back(self, driver: Driver) -> None:
        """Keep a writer's connection for the next one, without what was not committed."""
        try:
            driver.rollback()
        except BaseException:
            self.release(driver)
            raise
        if self._writers:
            self.release(driver)
        else:
            self._writers.append(driver)

    def flush(self) -> None:
        """Put every commit so far on the disk.

        SQLite's locks are on the other two files, so closing this descriptor drops none. Where
        there is no log, its last checkpoint has synced the file. Raises OSError.
        """
        with suppress(FileNotFoundError):
            # Windows syncs only what is open for writing, others what is open at all.
            handle = os.open(f"{self._path}-wal", os.O_RDWR if os.name == "nt" else os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def scrub(self) -> None:
        """Rewrite the file without its free pages, and empty the log.

        Raises:
            StoreLockedError: somebody else still reads or writes; nothing is lost, try again.
        """
        with self._call():
            while self._readers:
                self.release(self._readers.pop())
            driver = self.connect()
            try:
                driver.execute("PRAGMA secure_delete=ON")
                driver.execute("VACUUM")
                busy, _, _ = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                if busy:
                    raise busy_error("the log cannot be emptied while others read it")
            finally:
                self.release(driver)

    def before_fork(self) -> None:
        """Wait for calls under way, let no new one begin, and close every connection.

        SQLite keeps locks in the process's memory, which a child inherits without the locks
        themselves: a connection that is open across a fork lets parent and child overwrite
        each other, and even closing it in the child does harm.
        """
        with self._gate:
            self._forking = True
            for reader in list(self._held.values()):
                reader.end(wait=False)
            self._gate.wait_for(lambda: self._busy == 0, FORK_WAIT)
            if self._busy == 0:
                self._close_idle()

    def after_fork_in_parent(self) -> None:
        """Let calls begin again."""
        with self._gate:
            self._forking = False
            self._gate.notify_all()

    def after_fork_in_child(self) -> None:
        """Begin again; or never again, if a call went on for so long that the fork came first."""
        self._lock = threading.RLock()
        self._gate = threading.Condition(self._lock)
        self._forking = False
        self._torn = self._torn or self._busy > 0
        self._busy = 0
        self._held.clear()
        self._leak()

    def _leak(self) -> None:
        """Keep the connections from being closed, which ends with the process."""
        for driver in self._opened:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(driver))

    def _close_idle(self) -> None:
        if self._lost is _log_error:
            self._leak()
            return
        for idle in (self._writers, self._readers):
            while idle:
                self.release(idle.pop())
        self._owner = None
        forget_owner(self._path)

    def close(self) -> None:
        """Close every connection, or leave it to the last call that is under way."""
        with self._gate:
            self._closed = True
            if not self._busy:
                self._close_idle()


@attrs.define(eq=False)
class _Reading:
    """A session on a reader: that of this call, or one that nobody else uses meanwhile.

    A call looks once whether the file is still the one that was opened.
    """

    _connections: Connections
    _is_whole: bool = False
    _held: HeldReader[Driver] | None = attrs.field(default=None, init=False)
    _driver: Driver | None = attrs.field(default=None, init=False)

    def __enter__(self) -> SqliteSession:
        connections = self._connections
        try:
            self._held = reader_of_call(connections, connections.begin)
            if self._held is not None:
                self._driver = self._held.driver
            else:
                self._driver = connections.take_reader()
                if self._is_whole:
                    self._driver.execute("BEGIN")
            return SqliteSession(self._driver)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        driver = self._driver
        if driver is not None:
            driver.is_spent = driver.is_spent or error is not None
            if self._held is not None:
                self._held.leave(ends=driver.is_spent)
            else:
                self._connections.give_reader(driver)
        if error is not None and is_drivers(error):
            raise store_error(error, self._connections.where) from error


class KnownRows(Reader):
    """See `Database.known`: runs a statement with the same parameters once for each state of the
    file. A call looks once whether something was committed."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """See `Reader.all`; the rows are shared."""
        key = key_of(statement, parameters)
        # What this call knows is of its state, whoever reads by the connection now.
        reader: HeldReader[Driver] | None = holding(self._connections)
        if reader is not None and reader.driver.is_checked and not reader.is_over:
            found = reader.driver.rows.get(key)
            if found is not None:
                return found
        with self._connections.reading() as session:
            driver: Any = session.driver
            rows = driver.rows if driver.is_checked else driver.known_rows()
            found = rows.get(key)
            if found is None:
                found = rows[key] = session.all(statement, **parameters)
            return found


def busy_error(message: str) -> sqlite3.OperationalError:
    """What SQLite raises where it waits, for where it does not."""
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


def _replaced_error(where: str) -> StoreError:
    """The error of every call once another file was found in the place of the store's."""
    return StoreError(
        f"the store {where} was replaced by another file while it was open here, and has been "
        "closed: open it again, and put again what was written meanwhile. The next open sets the "
        f"log of the file before it aside, as {where}-wal.replaced-1. To restore a backup beneath "
        "open stores, use SQLite's own backup"
    )


def _log_error(where: str) -> StoreError:
    """The error of every call once the log was found gone, or another."""
    return StoreError(
        f"the log of the store {where} ({where}-wal) was removed or replaced while the store was "
        "open in this process, which can use it no more: start the process again, and put again "
        "what was written last. Leave the files beside an open store alone; a folder that another "
        "program synchronises is no place for it"
    )


def _gone_error(where: str) -> StoreError:
    """The error of every call once the store's file was found gone."""
    return StoreError(
        f"the store {where} was deleted or moved while it was open here, and has been closed: put "
        "its file back, or restore it from a backup, and open it again"
    )
