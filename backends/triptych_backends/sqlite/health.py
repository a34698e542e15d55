"""What is wrong with a store on this disk: rights, space, locks, index."""

from __future__ import annotations

import shutil

from triptych.errors import StoreError
from triptych.records import HealthCheck
from triptych_backends.index import LocalIndex
from triptych_backends.sql.deferred import select, tables as t
from triptych_backends.sqlite.database import SqliteDatabase
from triptych_backends.sqlite.wal_owner import logs_set_aside

__all__ = ["check_store"]

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
