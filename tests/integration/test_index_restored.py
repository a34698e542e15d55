"""The truth goes back in time, by a restored copy or a power cut, and the index beside it stays."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sql_making import CONFIG, put

from triptych.records import ChunkQuery, Mode, NewDocument
from triptych_backends.sql import SqlStore

WORDS = ("apple", "banana", "cherry", "damson", "elder", "fig")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kb.db"
    with SqlStore.open(path) as store:
        assert store.chunks.configure("d", CONFIG, expected=None)
        put(store, "apple", "apple\n")
    return path


def found(store: SqlStore) -> list[str]:
    """The words that a search finds, each where it is."""
    words = []
    for word in WORDS:
        query = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text=word)
        names = [candidate.doc_name for candidate in store.chunks.search(query)]
        assert names in ([], [word])
        words += names
    return words


def write(path: Path, words: Sequence[str], *, publish: bool = False) -> None:
    """Put documents through a store of their own."""
    with SqlStore.open(path) as store:
        for word in words:
            put(store, word, f"{word}\n")
        found(store)
        if publish:
            store.index.publish("d")


@pytest.mark.parametrize("more", [1, 2, 3])
@pytest.mark.parametrize("published_before", [False, True])
def test_restored_copy_is_never_searched_with_the_index_of_what_it_lost(
    path: Path, tmp_path: Path, more: int, published_before: bool
) -> None:
    if published_before:
        write(path, [], publish=True)
    copy = shutil.copy(path, tmp_path / "copy.db")
    write(path, ["banana", "cherry"], publish=True)
    shutil.copy(copy, path)
    with SqlStore.open(path) as store:
        assert found(store) == ["apple"]
    # One put fewer than was lost, just as many (the clock shows the same), and one more.
    after = ["damson", "elder", "fig"][:more]
    write(path, after)
    with SqlStore.open(path) as store:
        assert found(store) == ["apple", *after]
        store.index.publish("d")
    with SqlStore.open(path) as store:
        assert found(store) == ["apple", *after]
        assert store.index.stats("d").pending == 0


def test_power_cut_that_takes_commits_away_does_not_leave_them_in_the_index(
    path: Path, tmp_path: Path
) -> None:
    files = [path, path.with_name("kb.db-wal")]
    with SqlStore.open(path) as store:
        put(store, "banana", "banana\n")
        for file in files:
            shutil.copy(file, tmp_path / f"cut {file.name}")
        put(store, "cherry", "cherry\n")
        found(store)
        store.index.publish("d")
    for file in files:
        shutil.copy(tmp_path / f"cut {file.name}", file)
    write(path, ["damson"])
    with SqlStore.open(path) as store:
        assert found(store) == ["apple", "banana", "damson"]


def test_commits_are_on_the_disk_before_the_manifest_speaks_of_them(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    wal = path.with_name("kb.db-wal")
    sync, rename = os.fsync, os.replace

    def fsync(descriptor: int) -> None:
        if wal.exists() and os.path.samestat(os.fstat(descriptor), wal.stat()):
            steps.append("log synced")
        sync(descriptor)

    def replace(source: Any, target: Any) -> None:
        steps.append(f"{Path(target).name} replaced")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    with SqlStore.open(path) as store:
        put(store, "banana", "banana\n")
        found(store)
        store.index.publish("d")
    assert steps == ["log synced", "manifest replaced"]


def test_read_only_store_publishes_what_it_may(path: Path) -> None:
    with SqlStore.open(path) as writer, SqlStore.open(path, read_only=True) as reader:
        put(writer, "banana", "banana\n")
        assert found(reader) == ["apple", "banana"]
        reader.index.publish("d")
    with SqlStore.open(path) as store:
        assert found(store) == ["apple", "banana"]
        assert store.index.stats("d").pending == 0


def test_index_outlives_the_stores_that_wrote_it(path: Path) -> None:
    write(path, WORDS[1:4], publish=True)
    for _ in range(5):
        write(path, ["elder"])
    write(path, ["fig"])
    with SqlStore.open(path) as store:
        assert found(store) == list(WORDS)
        # Two documents of two fields came later, and are all that was read.
        assert store.index.stats("d").pending <= 4


def test_unchanged_documents_begin_no_epoch(path: Path) -> None:
    before = epochs(path)
    with SqlStore.open(path) as store:
        store.documents.put("d", NewDocument(name="apple", content="apple\n"))
    assert epochs(path) == before
    write(path, ["banana", "cherry"])
    assert epochs(path) == before + 1


def test_index_of_an_epoch_long_forgotten_is_made_anew(path: Path) -> None:
    write(path, ["banana"], publish=True)
    driver = sqlite3.connect(path)
    with driver:
        tick: int = driver.execute("SELECT tick FROM clock").fetchone()[0]
        more = [(tick + number, f"{number}") for number in range(1, 1500)]
        driver.executemany("INSERT INTO epoch VALUES (?, ?)", more)
        driver.execute("UPDATE clock SET tick = tick + 1500")
    driver.close()
    write(path, ["cherry"])
    assert epochs(path) == 1000
    with SqlStore.open(path) as store:
        assert found(store) == ["apple", "banana", "cherry"]
        assert store.index.stats("d").pending >= 6


def epochs(path: Path) -> int:
    driver = sqlite3.connect(path)
    try:
        count: int = driver.execute("SELECT count(*) FROM epoch").fetchone()[0]
        return count
    finally:
        driver.close()
