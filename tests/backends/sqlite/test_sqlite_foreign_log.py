"""A file is renamed over the database while its log still lies beside it."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

import triptych
from support.forked import answer_of, run, started
from support.sqlite_stores import CONFIG, put as put_with
from support.store_jobs import names_in, put, put_and_die
from triptych.errors import StoreError
from triptych_backends.sqlite import SqliteStore, location

pytestmark = pytest.mark.process

TEXT = "common words of a document " * 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store, and a backup of it beside it, made while it was closed."""
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder="hash") as kb:
        kb.put_documents("d", {f"base{number:03}.md": TEXT for number in range(100)})
    shutil.copyfile(path, tmp_path / "backup.db")
    with triptych.open(path, embedder="hash") as kb:
        kb.put_documents("d", {f"later{number:03}.md": TEXT + "later" for number in range(100)})
    return path


def restore(path: Path) -> None:
    os.replace(path.with_name("backup.db"), path)


def names_of(path: Path) -> list[str]:
    found: list[str] = answer_of(names_in, str(path))
    return found


BASE = [f"base{number:03}.md" for number in range(100)]


def test_opened_again_as_the_error_says_the_store_is_the_restored_file(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kb = triptych.open(path, embedder="hash")
    kb.put_documents("d", {f"last{number}.md": TEXT + "last" for number in range(5)})
    restore(path)
    with pytest.raises(StoreError, match=r"open it again.*kb\.db-wal\.replaced-1"):
        kb.search("common", dataset_id="d")
    kb.close()
    with caplog.at_level(logging.WARNING), triptych.open(path, embedder="hash") as kb:
        assert sorted(info.name for info in kb.list_documents("d")) == BASE
        assert kb.doctor().clean
        kb.put_document("d", "again.md", "again")
        assert any("kb.db-wal.replaced-1" in check.detail for check in kb.health().checks)
    assert "kb.db-wal.replaced-1" in caplog.text
    aside = path.with_name("kb.db-wal.replaced-1")
    assert aside.stat().st_size > 0
    assert names_of(path) == ["again.md", *BASE]


def test_another_process_opens_the_restored_file_while_the_first_is_alive(path: Path) -> None:
    with triptych.open(path, embedder="hash") as kb:
        kb.put_document("d", "last.md", "last")
        restore(path)
        assert names_of(path) == BASE
        with pytest.raises(StoreError, match="was replaced"):
            kb.put_document("d", "lost.md", "lost")
        with triptych.open(path, embedder="hash") as new:
            new.put_document("d", "new.md", "new")
    assert names_of(path) == [*BASE, "new.md"]
    with triptych.open(path, embedder="hash") as kb:
        assert kb.doctor().clean


def test_restored_after_a_process_was_killed(path: Path) -> None:
    run(put_and_die, str(path))
    assert path.with_name("kb.db-wal").stat().st_size > 0
    restore(path)
    assert names_of(path) == BASE


def test_log_of_a_killed_process_is_played_into_its_own_file(path: Path) -> None:
    run(put_and_die, str(path))
    assert "killed.md" in names_of(path)


def test_files_that_were_copied_together_belong_together(path: Path, tmp_path: Path) -> None:
    run(put_and_die, str(path))
    for name in ("kb.db", "kb.db-wal", "kb.db-shm", "kb.db-wal.owner"):
        (tmp_path / f"copy-{name}").write_bytes((tmp_path / name).read_bytes())
    for name in ("kb.db", "kb.db-wal", "kb.db-shm", "kb.db-wal.owner"):
        os.replace(tmp_path / f"copy-{name}", tmp_path / name)
    assert "killed.md" in names_of(path)


def test_readers_leave_a_foreign_log_and_say_what_to_do(path: Path) -> None:
    run(put_and_die, str(path))
    restore(path)
    restored = path.read_bytes()
    log = path.with_name("kb.db-wal").read_bytes()
    with pytest.raises(StoreError, match=r"kb\.db-wal.*for writing once.*kb\.db-shm away"):
        triptych.open(path, embedder="hash", read_only=True)
    assert (path.read_bytes(), path.with_name("kb.db-wal").read_bytes()) == (restored, log)


def test_log_that_cannot_be_set_aside_keeps_the_store_shut(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(put_and_die, str(path))
    restore(path)

    def refuse(*_: object) -> None:
        raise PermissionError("in use")

    monkeypatch.setattr(location.os, "replace", refuse)
    with pytest.raises(StoreError, match="close every process"):
        triptych.open(path, embedder="hash")


def test_store_made_where_one_was_deleted_keeps_the_log_of_that_one(path: Path) -> None:
    run(put_and_die, str(path))
    path.unlink()
    log = path.with_name("kb.db-wal").read_bytes()
    with triptych.open(path, embedder="hash") as kb:
        assert not list(kb.list_datasets())
    assert path.with_name("kb.db-wal.replaced-1").read_bytes() == log


def test_many_open_a_restored_file_at_once(path: Path) -> None:
    for number in (1, 2):
        run(put_and_die, str(path))
        shutil.copyfile(path, path.with_name("next.db"))
        restore(path)
        os.rename(path.with_name("next.db"), path.with_name("backup.db"))
        running = [started(put, str(path), f"{number}-{each}.md") for each in range(4)]
        for each in running:
            each.join()
        assert [each.exitcode for each in running] == [0] * 4
        found = names_of(path)
        assert [name for name in found if name.startswith(f"{number}-")] == [
            f"{number}-{each}.md" for each in range(4)
        ]
        assert "killed.md" not in found
    assert len(list(path.parent.glob("kb.db-wal.replaced-*"))) == 2


def test_closed_store_has_no_log_and_no_note(path: Path) -> None:
    with triptych.open(path, embedder="hash") as kb:
        kb.put_document("d", "a.md", "a")
        assert path.with_name("kb.db-wal.owner").exists()
    assert not list(path.parent.glob("kb.db-*"))


def test_note_follows_a_new_log(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with SqliteStore.open(path) as store:
        assert store.chunks.configure("d", CONFIG, expected=None)
        note = path.with_name("kb.db-wal.owner")
        store.database._connections.before_fork()
        store.database._connections.after_fork_in_parent()
        assert not note.exists()
        put_with(store, "apple", "apple\n")
        named = [int(word) for word in note.read_text().split()]
        log = path.with_name("kb.db-wal").stat()
        assert named[2:] == [log.st_dev, log.st_ino]
