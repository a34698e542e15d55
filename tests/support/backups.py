"""Backups that nobody wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from triptych.copies import DIGEST, copy_store
from triptych.errors import TriptychError
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import open_backup


@contextmanager
def forged(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that writes to a backup, whose digest goes."""
    with closing(sqlite3.connect(path, isolation_level=None)) as driver:
        driver.execute("PRAGMA foreign_keys=OFF")
        driver.execute("DELETE FROM meta WHERE key LIKE ?", (f"%{DIGEST}",))
        yield driver


def refused(path: Path) -> TriptychError:
    """The error of a backup, from which nothing was copied."""
    target = MemoryStore()
    with pytest.raises(TriptychError) as raised, open_backup(path) as backup:
        copy_store(backup, target)
    assert list(target.documents.list_datasets()) == []
    return raised.value
