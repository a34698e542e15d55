"""Backups: a store in one file, written as a copy, and distrusted when it is read."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import attrs

from triptych._internal.progress import ProgressCallback
from triptych.contracts import Store
from triptych.copies.copy import copy_store
from triptych.copies.notes import DIGEST, PARTIAL, abandoned_drafts, noted_backup
from triptych.copies.report import DatasetCopy
from triptych.copies.state_checks import DamagedError, check_states
from triptych.copies.states import StoreStates
from triptych.errors import CorruptStoreError, NotFoundError, StoreError, ValidationError
from triptych.resources.files import draft_of, left_drafts, open_regular
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.session import creating
from triptych_backends.sqlite.store import SqliteStore

_MODE: Final = 0o600
"""Only the user who writes a backup may read it: it has all texts and digests of access keys."""
_MAGIC: Final = b"SQLite format 3\0"
_HEADER: Final = 100
_ROLLBACK: Final = b"\1\1"
"""The file format versions in the header of a file without a write-ahead log."""
_SCHEMA: Final = (
    "SELECT type, name, tbl_name, sql FROM sqlite_master "
    "WHERE name NOT LIKE 'sqlite@_%' ESCAPE '@' OR type NOT IN ('table', 'index')"
)
_UNPACKED: Final = (
    "SELECT coalesce(max(total), 0) FROM (SELECT sum(max(size, 0)) AS total "
    "FROM document_version WHERE content IS NOT NULL GROUP BY document_id)"
)
_BLANKS: Final = re.compile(r" ?([(),]) ?")
_MOST: Final = 2**30


@attrs.frozen(kw_only=True, slots=True)
class BackupReport:
    """The report of a backup.

    Attributes:
        datasets: the copies of the datasets.
        settings: the number of settings.
        removed: unfinished files of killed backups, which were deleted.
    """

    datasets: tuple[DatasetCopy, ...] = ()
    settings: int = 0
    removed: tuple[str, ...] = ()


def write_backup(
    store: Store,
    path: str | os.PathLike[str],
    *,
    datasets: Sequence[str] | None = None,
    overwrite: bool = False,
    progress: ProgressCallback | None = None,
) -> BackupReport:
    """Copy datasets of ``store`` (None: all, and the settings) into one file: a store in SQLite.

    If the store supports snapshots, the state of one moment is written, while others may write. The
    file appears under ``path`` when it is complete; until then its name has a suffix. Its mode is
    0600; an overwritten file keeps its mode. Unfinished files of killed backups of this store on
    this machine, or to ``path``, are deleted.

    Raises:
        NotFoundError: the dataset does not exist.
        ValidationError: ``path`` exists, and ``overwrite`` is False; or it is a pipe or a device.
        StoreError: the store cannot be read, is an unfinished copy, or has data that no store would
            accept from a backup; or the file cannot be written.
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise ValidationError(f"{target} exists: name another file, or give overwrite=True")
    kept = store.capabilities.settings
    left = [*left_drafts(target, remove=True), *abandoned_drafts(kept, remove=True)]
    try:
        with (
            draft_of(target, mode=_MODE) as draft,
            noted_backup(kept, target),
            _opened(draft, read_only=False, alone=True) as copy,
        ):
            report = copy_store(store, copy, datasets=datasets, progress=progress)
            if datasets is not None:
                copy.set_setting(PARTIAL, "", expected=None)
            _check_file(copy.database)
            digest = check_states(StoreStates(copy, is_snapshot=True))
            copy.set_setting(DIGEST, digest, expected=None)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}").hinted(
            "name a file in a folder that exists and that you may write to"
        ) from error
    except DamagedError as error:
        raise StoreError(
            f"{error}: no store would accept this from a backup. Check the store with "
            "`triptych doctor`, and store or delete the named documents again"
        ) from error
    return BackupReport(
        datasets=report.datasets, settings=report.settings, removed=tuple(map(str, left))
    )


def open_backup(path: str | os.PathLike[str]) -> SqliteStore:
    """Open a backup, or a store in SQLite that others may have made, to copy from it; close it.

    It is opened read-only. The whole file is checked first: that it has the tables of a store and
    nothing else, that SQLite finds no damage, and that every store would accept what it holds.

    Raises:
        NotFoundError: the file does not exist.
        ValidationError: it is not a database of SQLite.
        StoreError: it is the database of another application.
        SchemaVersionError: another version of Triptych wrote it.
        CorruptStoreError: it is truncated or damaged, or was not written by Triptych.
    """
    file = Path(path)
    if not file.exists():
        raise NotFoundError(f"there is no file {file}: check the path")
    if file.is_dir():
        raise ValidationError(f"{file} is a folder, not a backup")
    with open_regular(file) as stream:
        header = stream.read(_HEADER)
        size = stream.seek(0, os.SEEK_END)
    if not header.startswith(_MAGIC):
        raise ValidationError(f"{file} is not a backup of Triptych")
    # Of one with a log, the last pages may be there.
    is_alone = header[18:20] == _ROLLBACK
    page, pages = (int.from_bytes(header[at:end], "big") for at, end in ((16, 18), (28, 32)))
    try:
        if is_alone and size != pages * page:
            raise DamagedError("it is cut short")
        store = _opened(file.absolute(), read_only=True, alone=is_alone)
        try:
            _check_file(store.database)
            found = check_states(StoreStates(store, is_snapshot=True))
            # Whoever opens a backup for writing makes a store with a log of it.
            if is_alone and store.get_setting(DIGEST) not in (None, found):
                raise DamagedError("it fails its digest")
        except BaseException:
            store.close()
            raise
    except (CorruptStoreError, DamagedError) as error:
        raise CorruptStoreError(
            f"{file} is damaged ({error}): nothing was read from it. Take another copy of it, or "
            "an earlier backup"
        ) from error
    return store


def _opened(path: Path, *, read_only: bool, alone: bool) -> SqliteStore:
    database = SqliteDatabase.open(
        path,
        read_only=read_only,
        lock_timeout=30.0,
        create=True,
        history=sys.maxsize,
        alone=alone,
    )
    return SqliteStore(database)


def _check_file(database: SqliteDatabase) -> None:
    """Check the tables, before one of them is read, and then the pages.

    The schema of a file may have views and triggers, which run as parts of statements.
    """
    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in creating():
            fresh.execute(statement)
        wanted = _schema(fresh)
    with database.reading() as session:
        driver: Any = session.driver
        found = _schema(driver)
        if found != wanted:
            names = sorted({repr(each[1])[:80] for each in found ^ wanted})
            raise DamagedError(f"it has other tables than a store: {', '.join(names[:3])}")
        # Also that indexes have the rows of their tables: pages are read in their order.
        ((said,), *_) = driver.execute("PRAGMA integrity_check(1)")
        if said != "ok":
            raise DamagedError(said)
        ((size,),) = driver.execute(_UNPACKED)
        if size > _MOST:
            raise DamagedError(f"old versions of a document unpack to {size:,.0f} bytes")


def _schema(driver: sqlite3.Connection) -> set[tuple[str, ...]]:
    """The tables and indexes, in whatever lines they are written: each word stays a word."""
    return {
        tuple(_BLANKS.sub(r"\1", " ".join(str(each).split())) for each in row)
        for row in driver.execute(_SCHEMA)
    }
