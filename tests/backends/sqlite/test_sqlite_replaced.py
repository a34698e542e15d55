"""The database's file is replaced, moved or deleted beneath a store that has it open."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import triptych
from support import store_jobs
from support.forked import run
from support.sqlite_stores import CONFIG, put
from triptych.errors import StoreError
from triptych.records import ChunkQuery, Mode
from triptych_backends.sqlite import SqliteStore

pytestmark = pytest.mark.process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kb.db"
    with SqliteStore.open(path) as store:
        assert store.chunks.configure("d", CONFIG, expected=None)
        put(store, "apple", "apple\n")
    return path


def replace(path: Path) -> None:
    """As a script that restores a file does."""
    other = shutil.copy(path, path.with_name("other.db"))
    with SqliteStore.open(other) as store:
        put(store, "banana", "banana\n")
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    os.replace(other, path)


def remove(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_name("elsewhere.db"))


def find(store: SqliteStore, word: str) -> list[str]:
    query = ChunkQuery(dataset_ids=("d",), mode=Mode.BM25, text=word)
    return [candidate.doc_name for candidate in store.chunks.search(query)]


USES: dict[str, Callable[[SqliteStore], object]] = {
    "read": lambda store: store.documents.get("d", "apple"),
    "search": lambda store: find(store, "apple"),
    "fetch": lambda store: store.chunks.fetch([1]),
    "iterate": lambda store: list(store.chunks.iter_chunks("d")),
    "write": lambda store: put(store, "cherry", "cherry\n"),
    "erase": lambda store: store.scrub(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("harm", "said"), [(replace, "was replaced"), (remove, "deleted or moved"), (move, "deleted")]
)
def test_store_whose_file_is_another_says_so_and_ends(
    path: Path, harm: Callable[[Path], None], said: str, use: str
) -> None:
    store = SqliteStore.open(path)
    try:
        assert find(store, "apple") == ["apple"]
        harm(path)
        for _ in range(2):
            with pytest.raises(StoreError, match=said) as caught:
                USES[use](store)
            assert "open it again" in str(caught.value)
        if harm is replace:
            with SqliteStore.open(path) as new:
                assert find(new, "banana") == ["banana"]
                put(new, "damson", "damson\n")
    finally:
        store.close()
    if harm is replace:
        with SqliteStore.open(path) as new:
            assert [find(new, word) for word in ("apple", "banana", "cherry", "damson")] == [
                ["apple"], ["banana"], [], ["damson"],
            ]  # fmt: skip


def test_write_into_a_file_that_is_replaced_meanwhile_is_not_acknowledged(path: Path) -> None:
    def write(store: SqliteStore) -> None:
        with store.database.writing() as tx:
            tx.dataset("new")
            replace(path)

    with SqliteStore.open(path) as store, pytest.raises(StoreError, match="was replaced"):
        write(store)


def test_read_only_store_says_so_too(path: Path) -> None:
    with SqliteStore.open(path, read_only=True) as store:
        assert store.documents.list_datasets()
        replace(path)
        with pytest.raises(StoreError, match="was replaced"):
            store.documents.list_datasets()


def test_closing_publishes_nothing_into_the_index_of_the_new_file(path: Path) -> None:
    with SqliteStore.open(path) as store:
        for number in range(150):
            put(store, f"{number}", "grape\n" * 3)
        find(store, "grape")
        assert store.index.stats("d").pending > 200
        replace(path)
        folder = path.with_name("kb.db.index")
        assert not folder.exists() or not list(folder.glob("*/manifest"))
    assert not folder.exists() or not list(folder.glob("*/manifest"))


def test_opened_again_the_store_is_the_new_file(path: Path) -> None:
    with triptych.open(path, embedder="hash") as kb:
        replace(path)
        with pytest.raises(StoreError, match="was replaced"):
            kb.search("apple", dataset_id="d", mode="bm25")
    with triptych.open(path, embedder="hash") as kb:
        assert [info.name for info in kb.list_documents("d")] == ["apple", "banana"]


def test_another_process_puts_and_its_file_stays_whole(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"

    def put_elsewhere(name: str, into: Path) -> None:
        run(store_jobs.put, str(into), name)

    put_elsewhere("a", path)
    put_elsewhere("b", tmp_path / "other.db")
    with triptych.open(path, embedder="hash") as kb:
        kb.put_document("d", "mine", "mine")
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        os.replace(tmp_path / "other.db", path)
        put_elsewhere("c", path)
        with pytest.raises(StoreError, match="was replaced"):
            kb.put_document("d", "lost", "lost")
        put_elsewhere("d", path)
    with triptych.open(path, embedder="hash") as kb:
        assert [info.name for info in kb.list_documents("d")] == ["b", "c", "d"]
        assert kb.doctor().clean


def test_derived_database_of_a_folder_that_is_removed_is_made_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    url = f"files://{tmp_path}/kb"
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("d", "a.md", "apple")
        shutil.rmtree(tmp_path / "kb" / ".triptych" / "derived")
        with pytest.raises(StoreError, match="deleted or moved"):
            kb.put_document("d", "b.md", "banana")
    assert not (tmp_path / "kb" / "d" / "b.md").exists()
    with triptych.open(url, embedder="hash") as kb:
        assert [info.name for info in kb.list_documents("d")] == ["a.md"]
        kb.rebuild(dataset_id="d")
        assert [hit.doc_name for hit in kb.search("apple", dataset_id="d").hits] == ["a.md"]
