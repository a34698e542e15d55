"""What is wrong with a store on this disk: rights, space, locks, index."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from triptych.errors import StoreError
from triptych.records import HealthCheck

if TYPE_CHECKING:
    from triptych_backends.sql.store import SqlStore

__all__ = ["check_store"]

LEAST_FREE = 100 * 2**20
"""Bytes: an index merge or a log of less would fill the disk."""


def check_store(store: SqlStore) -> list[HealthCheck]:
    """See `Diagnostics.check_health`. Waits for another writer as long as a write would."""
    datasets = store.documents.list_datasets()
    indexes = [store.index.check(dataset, writes=not store.read_only) for dataset in datasets]
    return [_writes(store), _space(store), *indexes]


def _writes(store: SqlStore) -> HealthCheck:
    if store.read_only:
        return HealthCheck(name="store", status="ok", detail=f"{store.where} is open read-only")
    try:
        with store.writing(durable=False):
            pass
    except StoreError as error:
        return HealthCheck(name="store", status="failed", detail=str(error), error=error)
    return HealthCheck(name="store", status="ok", detail=f"{store.where} takes writes")


def _space(store: SqlStore) -> HealthCheck:
    free = shutil.disk_usage(store.path.parent).free
    low = free < max(LEAST_FREE, store.path.stat().st_size // 10)
    return HealthCheck(
        name="store",
        status="warning" if low else "ok",
        detail=f"{free / 2**20:,.0f} MiB are free beside {store.where}",
        remedy="make room: a full disk refuses puts" if low else "",
    )
