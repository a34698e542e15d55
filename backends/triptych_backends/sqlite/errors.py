"""Driver errors become Triptych's, in this one place."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from triptych.errors import CorruptStoreError, StoreError, StoreLockedError
from triptych_backends.sql.errors import closed_error, corrupt

# SQLite's primary result codes (sqlite.org/rescode.html): the low byte of the extended code.
_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_CORRUPT = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FORMAT}
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk (or its quota) is full: free some space and try again",
    sqlite3.SQLITE_READONLY: (
        "it cannot be written: check the rights of the file and its folder, or open it with "
        "read_only=True"
    ),
    sqlite3.SQLITE_PERM: "access was denied: check the rights of the file and its folder",
    sqlite3.SQLITE_AUTH: "access was denied: check the rights of the file and its folder",
    sqlite3.SQLITE_CANTOPEN: (
        "the file cannot be opened: check that it and its folder exist and that its rights, and "
        "those of the files beside it that end in -wal and -shm, let you in; where nothing can be "
        "written, open it with read_only=True"
    ),
    sqlite3.SQLITE_IOERR: (
        "reading or writing the disk failed: check that it is not full, and see the system log"
    ),
    sqlite3.SQLITE_TOOBIG: "a document is larger than SQLite can hold (1 GB): split it",
    sqlite3.SQLITE_NOMEM: "memory ran out",
}


def replaced_error(where: str) -> StoreError:
    """The error of every call once another file was found in the place of the store's."""
    return StoreError(
        f"the store {where} was replaced by another file while it was open here, and has been "
        "closed: open it again, and put again what was written meanwhile. The next open sets the "
        f"log of the file before it aside, as {where}-wal.replaced-1. To restore a backup beneath "
        "open stores, use SQLite's own backup"
    )


def gone_error(where: str) -> StoreError:
    """The error of every call once the store's file was found gone."""
    return StoreError(
        f"the store {where} was deleted or moved while it was open here, and has been closed: put "
        "its file back, or restore it from a backup, and open it again"
    )


def store_error(error: BaseException, where: str) -> StoreError:
    """What a driver's ``error`` in the store ``where`` means to its user."""
    # A `DBAPIError` of SQLAlchemy holds the driver's own.
    orig = getattr(error, "orig", None)
    if isinstance(orig, BaseException):
        error = orig
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary in _LOCKED:
        return StoreLockedError(
            f"the store {where} is locked by another writer for longer than the wait: try "
            "again, or give a longer lock_timeout"
        )
    if primary == sqlite3.SQLITE_NOTADB:
        return CorruptStoreError(
            f"{where} is not an SQLite database, or its first page is damaged: check the path, or "
            "restore it from a backup"
        )
    if primary in _CORRUPT or _is_undecodable(error):
        return corrupt(where, error)
    if primary == sqlite3.SQLITE_ERROR and "no such" in str(error):
        return corrupt(where, error)
    if primary in _ADVICE:
        return StoreError(f"the store {where} failed ({error}): {_ADVICE[primary]}")
    if type(error).__name__ == "ResourceClosedError" or "closed" in str(error):
        return closed_error(where)
    return StoreError(f"the store {where} failed: {error}")


def _is_undecodable(error: BaseException) -> bool:
    # The driver decodes what is stored, and SQLite's messages, which quote what is stored.
    return isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error)


def _drivers() -> tuple[type[Exception], ...]:
    """What the driver raises; what SQLAlchemy makes of it, where SQLAlchemy is in use."""
    exc = sys.modules.get("sqlalchemy.exc")
    ours = (sqlite3.Error, UnicodeDecodeError)
    if exc is None:
        return ours
    return (*ours, exc.DBAPIError, exc.ResourceClosedError, exc.TimeoutError)


@contextmanager
def driver_errors(where: str) -> Iterator[None]:
    """Let no driver's error out."""
    try:
        yield
    except Exception as error:
        # Asked for here: a command that only reads never imports SQLAlchemy.
        if not isinstance(error, _drivers()):
            raise
        raise store_error(error, where) from error
