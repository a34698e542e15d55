"""What every search asks is read once for each state of the file, and never from an older one."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import bindparam, select

from triptych._internal.one_state import one_state
from triptych.errors import StoreError
from triptych.records import Filter, NewDocument, all_of, not_expired_by, parse_filter
from triptych.runtime import SEARCHES
from triptych_backends.sql import FilterCache, SqlFilters, filters as filters_module, schema as t
from triptych_backends.sqlite import SqliteStore

_VALUES = select(t.meta.c.value).where(t.meta.c.key == bindparam("key"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore.open(tmp_path / "kb.db") as opened:
        yield opened


def values(store: SqliteStore) -> list[tuple[object, ...]]:
    return store.database.known.all(_VALUES, key="setting:a")


def test_rows_are_read_once_while_nothing_is_committed(store: SqliteStore) -> None:
    store.set_setting("a", "one", expected=None)
    assert values(store) == [("one",)]
    assert values(store) is values(store)
    others = store.database.known.all(_VALUES, key="setting:b")
    assert others == [], "parameters tell statements apart"


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
    with store.database.reading() as outer:
        assert outer.all(_VALUES, key="setting:a") == [("one",)]
        assert values(store) == [("one",)], "another connection, with rows of its own"
    store.set_setting("a", "two", expected="one")
    with store.database.reading() as outer:
        assert outer.all(_VALUES, key="setting:a") == [("two",)]
        assert values(store) == [("two",)]


def test_what_is_remembered_is_bounded(store: SqliteStore) -> None:
    for number in range(1000):
        store.database.known.all(_VALUES, key=str(number))
        assert all(len(each.rows) <= 256 for each in store.database._connections._readers)


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


def entries(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each look at whether the file is still the one that was opened."""
    connections = store.database._connections
    looks: list[int] = []
    look = connections._require_same_file
    monkeypatch.setattr(connections, "_require_same_file", lambda: (looks.append(1), look())[1])
    return looks


def test_a_call_has_one_reader_and_one_state(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.set_setting("a", "one", expected=None)
    assert values(store) == [("one",)]  # over a reader that is idle now
    looks = entries(store, monkeypatch)
    with one_state(), ThreadPoolExecutor(1) as other:
        assert values(store) == [("one",)]
        # However the call waits, and whatever others write meanwhile.
        with SEARCHES.taken(), SEARCHES.given_up():
            assert other.submit(store.set_setting, "a", "two", expected="one").result()
        looks.clear()
        assert values(store) == [("one",)]
        for read in (store.database.reading, store.database.snapshot):
            with read() as session:
                assert session.all(_VALUES, key="setting:a") == [("one",)]
        assert other.submit(copy_context().run, values, store).result() == [("one",)]
        assert not looks
        assert other.submit(values, store).result() == [("two",)]
    assert values(store) == [("two",)]
    assert store.database._connections._busy == 0


def test_a_call_reads_its_own_writes(store: SqliteStore) -> None:
    store.set_setting("a", "one", expected=None)
    with one_state(), ThreadPoolExecutor(1) as other:
        assert values(store) == [("one",)]
        assert other.submit(store.set_setting, "a", "two", expected="one").result()
        assert values(store) == [("one",)]
        assert store.set_setting("a", "three", expected="two")
        assert values(store) == [("three",)]


def test_a_reader_that_failed_is_not_kept(store: SqliteStore) -> None:
    with one_state():
        assert values(store) == []
        with pytest.raises(StoreError), store.database.reading() as session:
            session.driver.execute("SELECT * FROM there_is_none")
        assert not list(store.database._connections._readers)
        assert values(store) == []
    assert store.database._connections._busy == 0


def test_a_fork_takes_the_reader_of_a_call_that_waits(store: SqliteStore) -> None:
    """It waits for one that reads, and no longer than that."""
    connections = store.database._connections
    reads, may_read, waits, may_go_on = (threading.Event() for _ in range(4))

    def search() -> list[tuple[object, ...]]:
        with one_state():
            with store.database.reading() as session:
                session.all(_VALUES, key="setting:a")
                reads.set()
                assert may_read.wait(20)
                values(store)  # one block in another
            waits.set()
            assert may_go_on.wait(20)
            return values(store)

    with ThreadPoolExecutor(2) as threads:
        searched = threads.submit(search)
        assert reads.wait(20)
        forked = threads.submit(connections.before_fork)
        while not connections._forking:
            time.sleep(0.001)
        time.sleep(0.01)
        assert not forked.done()
        may_read.set()
        assert waits.wait(20)
        forked.result(20)
        assert connections._busy == 0
        assert not connections._opened
        connections.after_fork_in_parent()
        may_go_on.set()
        assert searched.result(20) == []
    assert connections._busy == 0
    assert values(store) == []
