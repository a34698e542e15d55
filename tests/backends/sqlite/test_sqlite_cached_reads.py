"""What every search asks is read once for each state of the file, and never from an older one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import bindparam, select

from triptych.records import NewDocument
from triptych_backends.sql import tables as t
from triptych_backends.sqlite import SqliteStore

_VALUES = select(t.meta.c.value).where(t.meta.c.key == bindparam("key"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore.open(tmp_path / "kb.db") as opened:
        yield opened


def values(store: SqliteStore) -> list[tuple[object, ...]]:
    with store.database.cached() as session:
        return session.all(_VALUES, key="setting:a")


def test_rows_are_read_once_while_nothing_is_committed(store: SqliteStore) -> None:
    store.set_setting("a", "one", expected=None)
    assert values(store) == [("one",)]
    assert values(store) is values(store)
    with store.database.cached() as session:
        assert session.all(_VALUES, key="setting:b") == [], "parameters tell statements apart"


def test_a_commit_of_this_process_is_seen_at_once(store: SqliteStore) -> None:
    for number in range(50):
        before = None if number == 0 else str(number - 1)
        assert store.set_setting("a", str(number), expected=before)
        assert values(store) == [(str(number),)]


def test_a_commit_of_another_process_is_seen_at_once(store: SqliteStore, tmp_path: Path) -> None:
    store.set_setting("a", "one", expected=None)
    assert values(store) == [("one",)]
    program = (
        "import sys; from pathlib import Path\n"
        "from triptych_backends.sqlite import SqliteStore\n"
        "with SqliteStore.open(Path(sys.argv[1])) as store:\n"
        "    assert store.set_setting('a', 'two', expected='one')\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "kb.db")], check=True)
    assert values(store) == [("two",)]


def test_threads_with_readers_of_their_own_see_it_too(store: SqliteStore) -> None:
    store.set_setting("a", "one", expected=None)
    with store.database.cached() as outer:
        assert outer.all(_VALUES, key="setting:a") == [("one",)]
        assert values(store) == [("one",)], "another connection, with rows of its own"
    store.set_setting("a", "two", expected="one")
    with store.database.cached() as outer:
        assert outer.all(_VALUES, key="setting:a") == [("two",)]
        assert values(store) == [("two",)]


def test_what_is_remembered_is_bounded(store: SqliteStore) -> None:
    for number in range(1000):
        with store.database.cached() as session:
            session.all(_VALUES, key=str(number))
    with store.database.cached() as session:
        assert len(session.rows) <= 256


def test_documents_that_expire_are_found_when_their_time_comes(store: SqliteStore) -> None:
    soon = datetime(2030, 1, 1, tzinfo=UTC)
    document = NewDocument(name="a", content="x", expires_at=soon)
    store.documents.put("d", document)
    before, after = soon - timedelta(microseconds=1), soon
    assert store.documents.with_expired(["d", "none"], before) == []
    assert store.documents.with_expired(["d", "none"], after) == ["d"]
    store.documents.put("d", NewDocument(name="a", content="x", expires_at="never"))
    assert store.documents.with_expired(["d"], after) == []
