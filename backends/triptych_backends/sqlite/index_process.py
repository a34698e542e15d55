"""The helper process of one SQLite store, which reads the file and writes the index."""

from __future__ import annotations

import gc
import os
from pathlib import Path

from triptych_backends.index import LocalIndex
from triptych_backends.index.follower import Orders, follow
from triptych_backends.sql import SqlChangeLog
from triptych_backends.sqlite.database import SqliteDatabase

_COLLECT_AFTER = (100_000, 20, 20)


def main(path: str, index_path: str) -> None:
    """Follow the store at ``path`` until there is nothing to do, or the writer is gone."""
    orders = Orders()
    # A batch is tens of thousands of records at once, and hardly a cycle: at Python's own pace a
    # fifth of the time is spent looking for some. What was imported stays.
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        database = SqliteDatabase.open(
            Path(path), read_only=True, lock_timeout=30.0, create=False, history=0
        )
        with LocalIndex(SqlChangeLog(database), Path(index_path), keeps_words=True) as index:
            follow(index, orders)
        database.close()
    except BaseException as error:  # noqa: BLE001 - whatever it is, the writer gets it
        orders.say(failed=f"{type(error).__name__}: {error}")
        os._exit(1)
    # Python's own end would wait for the thread that reads the input.
    os._exit(0)
