"""`SqliteStore`: a store in one database file with a search index in a folder next to it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from triptych.contracts import Capabilities
from triptych.errors import StoreError
from triptych.records import DerivedChunk, DerivedSig, NameState, check_whole
from triptych_backends.index import IndexHelper, LocalIndex, LocalSearcher, available_cores
from triptych_backends.sql import (
    Searcher,
    SqlChangeLog,
    SqlChunks,
    SqlDocuments,
    SqlLayers,
    SqlStore,
)
from triptych_backends.sql.deferred import select, tables as t
from triptych_backends.sql.filters import SqlFilters
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.location import database_path, logs_set_aside

if TYPE_CHECKING:
    from triptych.records import Finding, HealthCheck

_DATASETS = select(t.dataset.c.name).where(t.dataset.c.live).order_by(t.dataset.c.name)

LEAST_FREE = 100 * 2**20
"""The minimum free bytes: with less, an index merge or the log would fill the disk."""


def _check(status: Literal["ok", "warning", "failed"], detail: str, **more: Any) -> HealthCheck:
    from triptych.records import HealthCheck  # most programs never ask

    return HealthCheck(name="store", status=status, detail=detail, **more)


def _writes(database: SqliteDatabase) -> HealthCheck:
    if database.read_only:
        return _check("ok", f"{database.where} is open read-only")
    try:
        with database.writing(durable=False):
            pass
    except StoreError as error:
        return _check("failed", str(error), error=error)
    return _check("ok", f"{database.where} takes writes")


def _logs(database: SqliteDatabase) -> list[HealthCheck]:
    found = logs_set_aside(database.path)
    if not found:
        return []
    return [
        _check(
            "warning",
            detail=f"{database.where} took the place of another file, whose last writes are in "
            + ", ".join(map(str, found)),
            remedy="put again what the file before it had and this one lacks, then move the logs "
            "(and the files that end in -shm and the same number) away",
        )
    ]


def _space(database: SqliteDatabase) -> HealthCheck:
    free = shutil.disk_usage(database.path.parent).free
    low = free < max(LEAST_FREE, database.path.stat().st_size // 10)
    return _check(
        "warning" if low else "ok",
        detail=f"{free / 2**20:,.0f} MiB are free beside {database.where}",
        remedy="make room: a full disk refuses puts" if low else "",
    )


class SqliteChunks(SqlChunks):
    """`SqlChunks` with `Diagnostics`, whose modules no search needs and each imports at its use."""

    def __init__(self, database: SqliteDatabase, searcher: Searcher, index: LocalIndex) -> None:
        super().__init__(database, searcher)
        self._file = database
        self._index = index

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        """See `ChunkRepo.replace_many`."""
        done = super().replace_many(dataset_id, sets)
        written = [len(one[1]) for one, is_done in zip(sets, done, strict=True) if is_done]
        self._index.written(dataset_id, sum(written))
        return done

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`. Waits for another writer as long as a write would."""
        from triptych_backends.index.checks import check_index

        database = self._file
        with database.reading() as session:
            datasets = [row[0] for row in session.all(_DATASETS)]
        indexes = [
            check_index(self._index, dataset, writes=not database.read_only) for dataset in datasets
        ]
        return [_writes(database), _space(database), *_logs(database), *indexes]

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`."""
        from triptych_backends.sqlite.checks import check_integrity

        return check_integrity(self._file, self._index, dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        from triptych_backends.sqlite.repair import repair

        return repair(self._file, self._index, checks, dataset_ids)


_HELPER = "triptych_backends.sqlite.index_process"


class SqliteStore(SqlStore):
    """Documents, chunks, vectors and layers in one SQLite file; thread-safe and fork-safe.

    ``documents``, ``chunks`` and ``layers`` are the repositories; `index` is in the folder
    ``<file>.index`` and can be deleted at any time. Use it as a context manager, or close it.
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
        """Open or create the store at ``url``: a path, or ``sqlite:///`` and a path.

        ``lock_timeout`` is the seconds that a write waits for other writers. With ``create`` False
        the file must exist. ``history`` is the number of old versions kept for each document.
        ``background_index`` lets a second process index bulk writes, if this process may use
        several cores.

        Raises:
            ValidationError: ``url`` names no file, or ``history`` is below 0.
            StoreError: it cannot be opened; the message says why.
            StoreLockedError: another process has an exclusive lock.
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
    def results_path(self) -> Path | None:
        """The file of the semantic cache, beside the index; None if the store is only read."""
        return None if self.database.read_only else self.path.with_name(f"{self.path.name}.results")

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: all of them."""
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
