"""Lists in the order of updates: the store sorts them as the Service does."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import triptych
from triptych.errors import StoreError
from triptych.records import NewDocument
from triptych.service import Service
from triptych_backends.sql import SqlDocuments

NAMES = ["a", "a/1", "a/10", "a/2", "B", "é", "z", "🦉", "a/%", "a/_"]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    sqlite = request.param == "sqlite"
    return str(tmp_path / "kb.db") if sqlite else request.getfixturevalue("postgres_url")


@pytest.fixture
def kb(url: str) -> Iterator[Service]:
    with triptych.open(url, embedder="none") as opened:
        opened.put_documents("other", {"x": "Of another dataset."})
        # Those of one batch have one moment: ties.
        opened.put_documents("d", dict.fromkeys(NAMES, "One."))
        opened.put_documents("d", dict.fromkeys(NAMES[::3], "Two."))
        opened.put_document("d", "z", "Three.")
        yield opened


def damage(request: pytest.FixtureRequest, url: str, name: str) -> None:
    """Make the row of a document one that cannot be read."""
    _, is_postgres, schema = url.partition("&schema=")
    table = f'"{schema}".document' if is_postgres else "document"
    server: Any = request.getfixturevalue("postgres_server") if is_postgres else None
    with contextlib.closing(server.connect() if is_postgres else sqlite3.connect(url)) as driver:
        driver.execute(f"UPDATE {table} SET metadata = '[1' WHERE name = '{name}'")
        driver.commit()


def pages(kb: Service, size: int, **options: Any) -> list[str]:
    found: list[Any] = []
    while page := kb.list_documents("d", limit=size, after=found[-1] if found else "", **options):
        assert len(page) <= size
        found += page
    return [each.name for each in found]


@pytest.mark.parametrize("prefix", ["", "a", "a/", "none"])
@pytest.mark.parametrize("sort", ["$updated_at", "-$updated_at"])
def test_pages_are_those_of_the_whole_order(kb: Service, sort: str, prefix: str) -> None:
    assert isinstance(kb.store.documents, SqlDocuments)
    infos = [each for each in kb.list_documents("d") if each.name.startswith(prefix)]
    infos.sort(key=lambda each: each.updated_at, reverse=sort.startswith("-"))
    wanted = [each.name for each in infos]
    for size in (1, 3, 100):
        assert pages(kb, size, sort=sort, prefix=prefix) == wanted
    assert [each.name for each in kb.list_documents("d", sort=sort, prefix=prefix)] == wanted
    assert list(kb.list_documents("d", sort=sort, limit=0)) == []


def test_only_the_rows_of_the_page_are_read(
    kb: Service, url: str, request: pytest.FixtureRequest
) -> None:
    damage(request, url, "a/2")
    with pytest.raises(StoreError):
        kb.list_documents("d", sort="-$updated_at")
    assert kb.list_documents("d", sort="-$updated_at", limit=1)[0].name == "z"


def test_what_has_expired_is_not_listed(kb: Service) -> None:
    from datetime import UTC, datetime, timedelta

    soon = datetime.now(UTC) + timedelta(milliseconds=1)
    kb.put_documents("d", [NewDocument(name="gone", content="Soon.", expires_at=soon)])
    while datetime.now(UTC) < soon:
        pass
    assert kb.list_documents("d", sort="-$updated_at", limit=1)[0].name == "z"
