"""The truth goes back in time, by a restored copy or a power cut, and the index beside it stays."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.sqlite_stores import CONFIG, put
from triptych.records import ChunkQuery, Mode, NewDocument
from triptych_backends.sqlite import SqliteStore

WORDS = ("apple", "banana", "cherry", "damson", "elder", "fig")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kb.db"
    with SqliteStore.open(path) as store:
        assert store.chunks.configure("d", CONFIG, expected=None)
        put(store, "apple", "apple\n")
    return path


def found(store: SqliteStore) -> list[str]:
    """The words that a search finds, each where it is."""
    words = []
    for word in WORDS:
        query = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text=word)
        # Its name is searched with each of its chunks.
        names = list({each.doc_name: None for each in store.chunks.search(query)})
        assert names in ([], [word])
        words += names
    return words


def write(path: Path, words: Sequence[str], *, publish: bool = False) -> None:
    """Put documents through a store of their own."""
    with SqliteStore.open(path) as store:
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
    with SqliteStore.open(path) as store:
        assert found(store) == ["apple"]
    # One put fewer than was lost, just as many (the clock shows the same), and one more.
    after = ["damson", "elder", "fig"][:more]
    write(path, after)
    with SqliteStore.open(path) as store:
        assert found(store) == ["apple", *after]
        store.index.publish("d")
    with SqliteStore.open(path) as store:
        assert found(store) == ["apple", *after]
        assert store.index.stats("d").pending == 0


def test_power_cut_that_takes_commits_away_does_not_leave_them_in_the_index(
    path: Path, tmp_path: Path
) -> None:
    files = [path, path.with_name("kb.db-wal")]
    with SqliteStore.open(path) as store:
        put(store, "banana", "banana\n")
        for file in files:
            shutil.copy(file, tmp_path / f"cut {file.name}")
        put(store, "cherry", "cherry\n")
        found(store)
        store.index.publish("d")
    for file in files:
        shutil.copy(tmp_path / f"cut {file.name}", file)
    write(path, ["damson"])
    with SqliteStore.open(path) as store:
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
    with SqliteStore.open(path) as store:
        put(store, "banana", "banana\n")
        found(store)
        store.index.publish("d")
    assert steps == ["log synced", "manifest replaced"]


def test_read_only_store_publishes_what_it_may(path: Path) -> None:
    with SqliteStore.open(path) as writer, SqliteStore.open(path, read_only=True) as reader:
        put(writer, "banana", "banana\n")
        assert found(reader) == ["apple", "banana"]
        reader.index.publish("d")
    with SqliteStore.open(path) as store:
        assert found(store) == ["apple", "banana"]
        assert store.index.stats("d").pending == 0


def test_index_outlives_the_stores_that_wrote_it(path: Path) -> None:
    write(path, WORDS[1:4], publish=True)
    for _ in range(5):
        write(path, ["elder"])
    write(path, ["fig"])
    with SqliteStore.open(path) as store:
        assert found(store) == list(WORDS)
        # Two documents of two fields came later, and are all that was read.
        assert store.index.stats("d").pending <= 4


def test_unchanged_documents_begin_no_epoch(path: Path) -> None:
    before = epochs(path)
    with SqliteStore.open(path) as store:
        store.documents.put("d", NewDocument(name="apple", content="apple\n"))
    assert epochs(path) == before
    write(path, ["banana", "cherry"])
    assert epochs(path) == before + 1


def test_index_of_an_epoch_long_forgotten_is_made_again(path: Path) -> None:
    write(path, ["banana"], publish=True)
    driver = sqlite3.connect(path)
    with driver:
        tick: int = driver.execute("SELECT tick FROM clock").fetchone()[0]
        more = [(tick + number, f"{number}") for number in range(1, 15_000)]
        driver.executemany("INSERT INTO epoch VALUES (?, ?)", more)
        driver.execute("UPDATE clock SET tick = tick + 20000")
    driver.close()
    write(path, ["cherry"])
    assert epochs(path) == 10_000
    with SqliteStore.open(path) as store:
        assert found(store) == ["apple", "banana", "cherry"]
        assert store.index.stats("d").pending >= 6


def epochs(path: Path) -> int:
    driver = sqlite3.connect(path)
    try:
        count: int = driver.execute("SELECT count(*) FROM epoch").fetchone()[0]
        return count
    finally:
        driver.close()


class Copy:
    """A copy of a store that SQLite's own backup makes, and writes back beneath who has it open."""

    def __init__(self, path: Path, target: Path) -> None:
        self._path, self._target = path, target
        _back_up(path, target)

    def restore(self) -> None:
        _back_up(self._target, self._path)


def _back_up(source: Path, target: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(source)) as of,
        contextlib.closing(sqlite3.connect(target)) as to,
    ):
        of.backup(to)


@pytest.mark.parametrize("other_writes_first", [False, True])
@pytest.mark.parametrize("more", range(1, 7))
def test_live_store_beneath_which_an_older_copy_is_restored_searches_that_copy(
    path: Path, tmp_path: Path, more: int, other_writes_first: bool
) -> None:
    """The other store has written before, or only writes after the copy is back."""
    with SqliteStore.open(path) as mine, SqliteStore.open(path) as other:
        put(mine, "apple", "apple\nagain\n")
        if other_writes_first:
            put(other, "banana", "banana\n")
        known = ["apple", "banana"] if other_writes_first else ["apple"]
        copy = Copy(path, tmp_path / "copy.db")
        for number in range(3):
            put(mine, f"lost {number}", "grape\n")
        assert found(mine) == known
        copy.restore()
        after = ["cherry", "damson", "elder", "fig", "grape 1", "grape 2"][:more]
        for name in after:
            put(other, name, f"{name}\n")
        expected = [*known, *after[:4]]
        assert found(mine) == expected
        assert found(other) == expected


def test_live_store_goes_on_writing_after_an_older_copy_is_restored(
    path: Path, tmp_path: Path
) -> None:
    with SqliteStore.open(path) as mine, SqliteStore.open(path) as other:
        put(mine, "apple", "apple\nagain\n")
        copy = Copy(path, tmp_path / "copy.db")
        put(mine, "lost", "grape\n")
        assert found(other) == ["apple"]
        copy.restore()
        # The clock of the copy grows by just what was lost.
        put(mine, "banana", "banana\n")
        assert found(other) == ["apple", "banana"]
        assert found(mine) == ["apple", "banana"]


def test_live_store_does_not_publish_an_index_of_what_a_restored_copy_lacks(
    path: Path, tmp_path: Path
) -> None:
    with SqliteStore.open(path) as mine, SqliteStore.open(path) as other:
        put(mine, "apple", "apple\nagain\n")
        copy = Copy(path, tmp_path / "copy.db")
        for number in range(3):
            put(mine, f"lost {number}", "grape\n")
        assert found(mine) == ["apple"]
        copy.restore()
        for word in WORDS[1:6]:
            put(other, word, f"{word}\n")
        # Without a search in between.
        mine.index._dataset("d").publish()
        assert found(other) == list(WORDS)
        mine.index.publish("d")
    with SqliteStore.open(path) as store:
        assert found(store) == list(WORDS)


def test_index_published_before_a_copy_was_restored_is_not_used_when_the_log_has_grown(
    path: Path, tmp_path: Path
) -> None:
    with SqliteStore.open(path) as mine, SqliteStore.open(path) as other:
        put(mine, "apple", "apple\nagain\n")
        copy = Copy(path, tmp_path / "copy.db")
        for number in range(3):
            put(mine, f"lost {number}", "grape\n")
        found(mine)
        mine.index.publish("d")
        copy.restore()
        for word in WORDS[1:5]:
            put(other, word, f"{word}\n")
        put(mine, "fig", "fig\n")
    with SqliteStore.open(path) as store:
        assert found(store) == list(WORDS)


def test_two_stores_that_write_in_turn_keep_each_others_index(path: Path) -> None:
    with SqliteStore.open(path) as mine, SqliteStore.open(path) as other:
        found(mine)
        mine.index.publish("d")
        for number in range(30):
            put(mine if number % 2 else other, f"word {number}", "grape\n")
        built = mine.index._dataset("d")._generation
        assert found(mine) == ["apple"]
        assert mine.index._dataset("d")._generation == built
