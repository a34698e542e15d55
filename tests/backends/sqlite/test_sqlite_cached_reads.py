"""What every search asks is read once for each state of the file, and never from an older one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import bindparam, select

from triptych.records import Filter, NewDocument, parse_filter
from triptych.records.documents import not_expired_by
from triptych.records.filters import all_of
from triptych_backends.sql import filters as filters_module, tables as t
from triptych_backends.sql.filters import FilterCache, SqlFilters
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


def test_what_a_filter_found_is_kept_until_a_write(store: SqliteStore, tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(days=1)
    tree = parse_filter({"kind": "a"})
    assert tree is not None
    found = Filter(tree=tree)
    filters = SqlFilters(store.database)

    def passing(where: Filter = found) -> list[int]:
        return filters.owners("chunk", ["d"], where)["d"].tolist()

    def put(name: str, kind: str) -> None:
        document = NewDocument(name=name, content=name, metadata={"kind": kind}, expires_at=soon)
        store.documents.put("d", document)

    put("one", "a")
    put("two", "b")
    first = passing()
    assert len(first) == 1
    assert filters.owners("chunk", ["d"], found)["d"] is filters.owners("chunk", ["d"], found)["d"]
    put("three", "a")
    assert len(passing()) == 2
    put("one", "b")
    assert len(passing()) == 1
    with SqliteStore.open(tmp_path / "kb.db") as other:
        other.documents.delete("d", "three")
    assert passing() == []
    put("two", "a")
    living = Filter(tree=all_of(tree, not_expired_by(soon - timedelta(seconds=1))))
    assert len(passing(living)) == 1
    assert passing(Filter(tree=all_of(tree, not_expired_by(soon)))) == []
    assert len(passing(living)) == 1


def test_what_filters_found_is_bounded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters_module, "_MOST_IDS", 125)
    cache = FilterCache(room=125)
    filters = SqlFilters(store.database, cache=cache)
    for number in range(10):
        document = NewDocument(name=str(number), content="x", metadata={"n": number})
        store.documents.put("d", document)
    for number in range(300):
        tree = parse_filter({"n": {"$gte": number % 9}})
        assert len(filters.owners("chunk", ["d"], Filter(tree=tree))["d"]) == 10 - number % 9
        held = [ids for kept in cache.datasets.values() for ids in kept.found.values()]
        assert sum(map(len, held)) <= 125 - 16 * len(held)
