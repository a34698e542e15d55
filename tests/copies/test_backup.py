"""Backups: a store in one file, which is refused whole, or restored as it was."""

from __future__ import annotations

import random
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import triptych
from support.backups import refused
from support.examples import examples
from support.rich_stores import KINDS, change, contents, fill, open_kind
from triptych import Progress
from triptych.copies import copy_store
from triptych.errors import (
    CorruptStoreError,
    NotFoundError,
    SchemaVersionError,
    StoreError,
    TriptychError,
    ValidationError,
)
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore, open_backup, write_backup
from triptych_testing.builders import fill as fill_plainly, put


@pytest.fixture(scope="module")
def source() -> MemoryStore:
    """A store with something of everything."""
    store = MemoryStore()
    fill(store, random.Random(3), 60)
    fill_plainly(store, "c", {"a": "one\n\ntwo", "b": "three"})
    return store


@pytest.fixture(scope="module")
def backup(source: MemoryStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("backup") / "kb.db"
    write_backup(source, path)
    return path


def contents_of(path: Path) -> dict[str, Any]:
    with open_backup(path) as store:
        return contents(store)


def test_restored_store_equals_the_one_that_was_backed_up(
    source: MemoryStore, backup: Path, tmp_path: Path
) -> None:
    for kind in KINDS:
        store = open_kind(kind, tmp_path, kind)
        try:
            with open_backup(backup) as opened:
                copy_store(opened, store)
                assert contents(store) == contents(source)
                assert sum(each.written for each in copy_store(opened, store).datasets) == 0
            write_backup(store, tmp_path / f"{kind}.backup")
            assert contents_of(tmp_path / f"{kind}.backup") == contents(source)
        finally:
            store.close()


def test_backup_is_one_file_and_a_store(source: MemoryStore, backup: Path, tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    path.write_bytes(backup.read_bytes())
    path.chmod(0o400)
    assert contents_of(path) == contents(source)
    assert [each.name for each in tmp_path.iterdir()] == ["kb.db"]
    path.chmod(0o600)
    with triptych.open(path, embedder=None) as kb:
        kb.put_document("new", "a", "written to the backup itself")
        assert kb.search("backup", dataset_id="new").hits
    with open_backup(path) as store:
        assert store.documents.get("new", "a") is not None


def test_backup_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    for kind in KINDS:
        store = open_kind(kind, tmp_path, kind)
        fill(store, random.Random(9), 25)
        before = contents(store)
        chance = random.Random(10)

        def write(_: Progress, store: Any = store, chance: random.Random = chance) -> None:
            thread = threading.Thread(target=lambda: [change(store, chance) for _ in range(10)])
            thread.start()
            thread.join()

        write_backup(store, tmp_path / "during.db", overwrite=True, progress=write)
        assert contents(store) != before
        during = contents_of(tmp_path / "during.db")
        if kind != "files":  # whose old versions may have gone meanwhile
            assert during == before
        assert during["settings"] == before["settings"]
        store.close()


def test_backup_of_some_datasets_leaves_the_settings(source: MemoryStore, tmp_path: Path) -> None:
    target = MemoryStore()
    target.set_setting("mine", "value", expected=None)
    report = write_backup(source, tmp_path / "c.db", datasets=["c"])
    assert ([each.dataset_id for each in report.datasets], report.settings) == (["c"], 0)
    with open_backup(tmp_path / "c.db") as opened:
        assert copy_store(opened, target, replace=True).settings_removed == 0
    assert target.get_setting("mine") == "value"
    assert target.documents.list_datasets() == ["c"]


def test_existing_file_is_overwritten_only_if_that_is_said(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "kb.db"
    path.write_text("mine")
    with pytest.raises(ValidationError, match="exists"):
        write_backup(store, path)
    assert path.read_text() == "mine"
    write_backup(store, path, overwrite=True)
    assert contents_of(path)["datasets"] == contents(store)["datasets"]
    with pytest.raises(StoreError, match="cannot be written"):
        write_backup(store, tmp_path / "none" / "kb.db")


def test_backup_that_fails_leaves_no_file(tmp_path: Path) -> None:
    store, path = MemoryStore(), tmp_path / "kb.db"
    fill_plainly(store, "d", {"a": "one"})

    def fail(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_backup(store, path, progress=fail)
    assert list(tmp_path.iterdir()) == []


def test_restore_that_fails_goes_on(tmp_path: Path) -> None:
    source, path = MemoryStore(), tmp_path / "backup.db"
    for number in range(80):
        put(source, "d", f"{number:03}", f"text {number}")
    write_backup(source, path)
    with (
        SqliteStore.open(tmp_path / "kb.db", background_index=False) as store,
        open_backup(path) as opened,
    ):

        def fail(_: Progress) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            copy_store(opened, store, progress=fail)
        report = copy_store(opened, store)
        assert (report.datasets[0].written, report.datasets[0].unchanged) == (16, 64)


# Bad files


def test_what_is_no_backup_is_named(tmp_path: Path) -> None:
    assert isinstance(refused(tmp_path / "none.db"), NotFoundError)
    for name, data in (("text.db", b"Tea needs hot water."), ("empty.db", b"")):
        (tmp_path / name).write_bytes(data)
        assert "not a backup" in str(refused(tmp_path / name))
    (tmp_path / "folder.db").mkdir()
    assert isinstance(refused(tmp_path / "folder.db"), ValidationError)
    with closing(sqlite3.connect(tmp_path / "other.db")) as driver:
        driver.execute("CREATE TABLE t (x)")
    assert "another application" in str(refused(tmp_path / "other.db"))


def test_newer_backup_is_named(backup: Path, tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    path.write_bytes(backup.read_bytes())
    with closing(sqlite3.connect(path)) as driver:
        driver.execute("PRAGMA user_version=99")
    error = refused(path)
    assert isinstance(error, SchemaVersionError)
    assert "update triptych" in str(error)


@pytest.mark.property
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_backup_that_is_cut_short_or_changed_is_refused(
    source: MemoryStore,
    backup: Path,
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    whole = backup.read_bytes()
    path = tmp_path_factory.mktemp("damaged") / "kb.db"
    at = data.draw(st.integers(0, len(whole) - 1), label="at")
    if data.draw(st.booleans(), label="cut"):
        path.write_bytes(whole[:at])
        assert isinstance(refused(path), CorruptStoreError | ValidationError)
        return
    changed = bytearray(whole)
    changed[at] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    path.write_bytes(changed)
    target = MemoryStore()
    try:
        with open_backup(path) as opened:
            copy_store(opened, target)
    except TriptychError:
        assert list(target.documents.list_datasets()) == []
        return
    # A bit that says nothing of what is stored, such as one of a free page.
    assert contents(target) == contents(source)
