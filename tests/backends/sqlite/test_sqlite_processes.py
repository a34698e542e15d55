"""Several processes on one SQLite store: races, forks, kills."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.sqlite_stores import CONFIG, chunks_of, derive, put
from triptych.errors import ConflictError, StoreError
from triptych.records import ChunkQuery, DerivedSig, Mode, NewDocument
from triptych_backends.sqlite import SqliteStore, connection

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork"),
    pytest.mark.process,
]

KILLS = 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kb.db"
    with SqliteStore.open(path) as store:
        assert store.chunks.configure("d", CONFIG, expected=None)
    return path


def in_child(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked child; its process id. The child ends with 0 if all went well."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_child_reads_and_writes_while_the_parent_goes_on(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put(store, "parent", "one\n")
        query = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text="two")

        def work() -> None:
            put(store, "child", "one\ntwo\n")
            assert [found.doc_name for found in store.chunks.search(query)] == ["child"]

        child = in_child(work)
        for number in range(20):
            put(store, f"parent {number}", "one\n")
        assert wait(child) == 0
        assert [found.doc_name for found in store.chunks.search(query)] == ["child"]
        assert len(store.documents.list("d")) == 22
    assert not path.with_name("kb.db-wal").exists()


def test_child_holds_locks_of_its_own(path: Path) -> None:
    store = SqliteStore.open(path)
    put(store, "parent", "one\n")
    read_end, ready = os.pipe()
    proceed, write_end = os.pipe()

    def work() -> None:
        assert store.documents.get("d", "parent") is not None
        os.write(ready, b"1")
        os.read(proceed, 1)
        put(store, "child", "one\n")

    child = in_child(work)
    os.read(read_end, 1)
    # Whoever closes last removes the log: the parent must see that it is not the last.
    store.close()
    os.write(write_end, b"1")
    assert wait(child) == 0
    for end in (read_end, ready, proceed, write_end):
        os.close(end)
    with SqliteStore.open(path) as store:
        assert store.documents.get("d", "child") is not None
    assert check(path) > 0


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("patience", [10.0, 0.05])
def test_fork_waits_for_a_write_under_way_or_tears_the_child_off(
    path: Path, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    monkeypatch.setattr(connection, "FORK_WAIT", patience)
    with SqliteStore.open(path) as store:
        inside, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with store.database.writing():
                inside.set()
                leave.wait(30)

        def torn() -> None:
            with pytest.raises(StoreError, match="was forked while"):
                put(store, "child", "one\n")

        def work() -> None:
            put(store, "child", "one\n")

        holder = threading.Thread(target=hold)
        holder.start()
        assert inside.wait(30)
        if patience > 1:
            threading.Timer(0.1, leave.set).start()
        child = in_child(work if patience > 1 else torn)
        leave.set()
        holder.join()
        assert wait(child) == 0
        put(store, "parent", "one\n")
        assert (store.documents.get("d", "child") is not None) == (patience > 1)


def test_of_two_processes_that_saw_one_version_one_wins(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put(store, "a", "start\n")

    def work(mark: str) -> None:
        with SqliteStore.open(path) as store:
            won = 0
            while won < 15:
                seen = store.documents.get("d", "a")
                assert seen is not None
                new = NewDocument(
                    name="a", content=f"{seen.content}{mark}\n", if_version=seen.version
                )
                try:
                    derive(store, store.documents.put("d", new))
                    won += 1
                except ConflictError:
                    continue

    children = [in_child(lambda mark=mark: work(mark)) for mark in "xy"]  # type: ignore[misc]  # mypy cannot infer a lambda's default
    assert [wait(child) for child in children] == [0, 0]
    with SqliteStore.open(path) as store:
        last = store.documents.get("d", "a")
        assert last is not None
        assert last.version == 31
        assert sorted(last.content.split()) == sorted(["start", *"xy" * 15])


def test_older_derivation_never_overwrites_across_processes(path: Path) -> None:
    with SqliteStore.open(path) as store, SqliteStore.open(path) as other:
        old = store.documents.put("d", NewDocument(name="a", content="old\n"))
        new = other.documents.put("d", NewDocument(name="a", content="new\n"))
        assert derive(other, new)
        assert not derive(store, old)
        assert [chunk.content for chunk in store.chunks.iter_chunks("d")] == ["new\n"]
        other.documents.delete("d", "a")
        assert not derive(store, new)
        assert list(store.chunks.iter_chunks("d")) == []


def test_vectors_of_a_replaced_set_go_unless_another_set_needs_them(path: Path) -> None:
    with SqliteStore.open(path) as store:
        put(store, "a", "shared\nalone\n")
        put(store, "b", "shared\n")
        put(store, "a", "other\n")
        with store.database.reading() as session:
            digests = session.driver.execute("SELECT count(*) FROM vector").fetchone()[0]
        assert digests == 2


def test_kill_at_any_instant_leaves_whole_transactions(path: Path) -> None:
    chance = random.Random(5)

    def churn() -> None:
        with SqliteStore.open(path) as store:
            for step in range(100_000):
                names = [f"{step % 3}", f"{step % 5}"]
                new = [NewDocument(name=n, content=f"{step}\n{n}\n" * 20) for n in names]
                sets = []
                for outcome in store.documents.put_many("d", new):
                    document = outcome.document
                    assert document is not None
                    info = store.documents.get_info("d", document.name)
                    assert info is not None
                    sig = DerivedSig(
                        source_version=document.version,
                        chunker_sig="words",
                        embed_sig="hash",
                        input_sig=info.input_sig,
                    )
                    sets.append((document.name, chunks_of(document, sig), sig))
                store.chunks.replace_many("d", sets)
                if step % 7 == 6:
                    store.documents.delete("d", names[0])

    heads = [0]
    for _ in range(KILLS):
        child = in_child(churn)
        time.sleep(chance.uniform(0.005, 0.06))
        os.kill(child, signal.SIGKILL)
        assert wait(child) == -signal.SIGKILL
        heads.append(check(path))
    assert heads == sorted(heads)
    assert heads[-1] > 0


def check(path: Path) -> int:
    """The store at ``path`` is whole; its clock."""
    driver = sqlite3.connect(path)
    try:
        assert driver.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert driver.execute("PRAGMA foreign_key_check").fetchall() == []
        for broken in (
            "SELECT id FROM vector WHERE id NOT IN (SELECT vector_id FROM chunk)",
            "SELECT document_id FROM derivation v WHERE chunks <> "
            "(SELECT count(*) FROM chunk c WHERE c.document_id = v.document_id)",
            "SELECT id FROM chunk WHERE document_id NOT IN (SELECT document_id FROM derivation)",
            "SELECT seq FROM change WHERE seq > (SELECT tick FROM clock)",
            "SELECT id FROM document WHERE revision NOT IN "
            "(SELECT seq FROM change WHERE field = 'document')",
        ):
            assert driver.execute(broken).fetchall() == [], broken
        head: int = driver.execute("SELECT tick FROM clock").fetchone()[0]
        return head
    finally:
        driver.close()
