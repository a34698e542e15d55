"""The conformance kit on SQLite."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from triptych_backends.sqlite import SqliteStore
from triptych_testing import BackendConformance, Child, Contents, Harness


def raw(store: SqliteStore, dataset: str) -> Contents:
    """A dataset's contents, read by the driver alone."""
    driver = sqlite3.connect(store.path)
    try:
        mine = "(SELECT id FROM dataset WHERE name = ?)"
        content = driver.execute(
            f"SELECT name, content FROM document WHERE dataset_id = {mine}", [dataset]
        )
        return Contents(
            content=dict(content.fetchall()),
            chunks=_count(
                driver,
                "chunk WHERE document_id NOT IN "
                f"(SELECT id FROM document WHERE dataset_id <> {mine})",
                dataset,
            ),
            vectors=_count(
                driver,
                # All but what layers alone have: an orphan would be counted.
                f"vector WHERE space_id IN (SELECT id FROM space WHERE dataset_id = {mine}) "
                "AND id NOT IN (SELECT vector_id FROM layer WHERE vector_id IS NOT NULL "
                "AND vector_id NOT IN (SELECT vector_id FROM chunk WHERE vector_id IS NOT NULL))",
                dataset,
            ),
            layers=_count(driver, f"layer WHERE dataset_id = {mine}", dataset),
        )
    finally:
        driver.close()


def _count(driver: sqlite3.Connection, what: str, dataset: str) -> int:
    count: int = driver.execute(f"SELECT count(*) FROM {what}", [dataset]).fetchone()[0]
    return count


class TestSqlite(BackendConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        path = tmp_path / "kb.db"
        return Harness(
            open=lambda: SqliteStore.open(path),
            persistent=True,
            shared=True,
            child=Child(opener="triptych_backends.sqlite:SqliteStore.open", argument=str(path)),
            raw=raw,
        )
