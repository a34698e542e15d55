"""Chunk sets in an SQLite file, and the checks and repairs of the file itself."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence

from triptych.errors import StoreError
from triptych.records import DerivedChunk, DerivedSig, Finding, HealthCheck
from triptych_backends.index import LocalIndex
from triptych_backends.sql import Searcher, SqlChunks
from triptych_backends.sql.deferred import select, tables as t
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.wal_owner import logs_set_aside

_DATASETS = select(t.dataset.c.name).where(t.dataset.c.live).order_by(t.dataset.c.name)

LEAST_FREE = 100 * 2**20
"""Bytes: an index merge or a log of less would fill the disk."""


def check_store(database: SqliteDatabase, index: LocalIndex) -> list[HealthCheck]:
    """See `Diagnostics.check_health`. Waits for another writer as long as a write would."""
    with database.reading() as session:
        datasets = [row[0] for row in session.all(_DATASETS)]
    indexes = [index.check(dataset, writes=not database.read_only) for dataset in datasets]
    return [_writes(database), _space(database), *_logs(database), *indexes]


def _writes(database: SqliteDatabase) -> HealthCheck:
    if database.read_only:
        return HealthCheck(name="store", status="ok", detail=f"{database.where} is open read-only")
    try:
        with database.writing(durable=False):
            pass
    except StoreError as error:
        return HealthCheck(name="store", status="failed", detail=str(error), error=error)
    return HealthCheck(name="store", status="ok", detail=f"{database.where} takes writes")


def _logs(database: SqliteDatabase) -> list[HealthCheck]:
    found = logs_set_aside(database.path)
    if not found:
        return []
    return [
        HealthCheck(
            name="store",
            status="warning",
            detail=f"{database.where} took the place of another file, whose last writes are in "
            + ", ".join(map(str, found)),
            remedy="put again what the file before it had and this one lacks, then move the logs "
            "(and the files that end in -shm and the same number) away",
        )
    ]


def _space(database: SqliteDatabase) -> HealthCheck:
    free = shutil.disk_usage(database.path.parent).free
    low = free < max(LEAST_FREE, database.path.stat().st_size // 10)
    return HealthCheck(
        name="store",
        status="warning" if low else "ok",
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
        """See `Diagnostics.check_health`."""

        return check_store(self._file, self._index)

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`."""
        from triptych_backends.sqlite.checks import check_integrity

        return check_integrity(self._file, self._index, dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        from triptych_backends.sqlite.repair import repair

        return repair(self._file, self._index, checks, dataset_ids)
