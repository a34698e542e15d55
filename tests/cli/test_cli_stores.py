"""``triptych copy`` and ``backup``, and the files of ``export``."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell
from triptych import ProgressCallback


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    for text in ("# Tea\n", "# Tea\n\nHot water.\n"):
        shell.write("docs/tea.md", text)
        assert shell("put", "docs").code == 0
    return shell


def test_store_is_copied_and_the_copy_is_fresh(shell: Shell) -> None:
    store = str(shell.store)
    ran = shell("copy", store, "files://" + str(shell.directory / "copied"))
    assert (ran.code, ran.rows[0][:3]) == (0, ["default", "1", "2"])
    assert "the destination is as the source" in ran.err
    again = shell("copy", store, "files://" + str(shell.directory / "copied"), "--json").json
    assert [(each["written"], each["unchanged"]) for each in again["datasets"]] == [(0, 1)]
    there = shell("--store", "files://" + str(shell.directory / "copied"), "history", "tea.md")
    assert [row[0] for row in there.rows] == ["2", "1"]
    put = shell("--store", "files://" + str(shell.directory / "copied"), "put", "docs", "--json")
    assert (put.json["unchanged"], put.json.get("embedded", 0)) == (1, 0)
    assert shell("copy", "none.db", "other.db").code == 3
    assert not (shell.directory / "other.db").exists()
    ran = shell("copy", "http://localhost:9/", "other.db")
    assert (ran.code, "works on the store itself" in ran.err) == (7, True)


def test_backup_is_restored(shell: Shell) -> None:
    assert shell("backup", "backup.db").code == 0
    ran = shell("backup", "backup.db")
    assert (ran.code, "name another file, or give --overwrite" in ran.err) == (2, True)
    ran = shell("restore", "backup.db")
    assert (ran.code, "`triptych copy backup.db copy.db`" in ran.err) == (2, True)
    assert shell("backup", "backup.db", "--overwrite").code == 0
    ran = shell("copy", "backup.db", "restored.db")
    assert (ran.code, ran.rows[0][:3]) == (0, ["default", "1", "2"])
    assert shell("--store", "restored.db", "search", "hot water").code == 0
    shell("--store", "restored.db", "delete", "tea.md")
    shell.write("docs/cups.md", "# Cups\n")
    assert shell("--store", "restored.db", "put", "docs/cups.md").code == 0
    ran = shell("copy", "backup.db", "restored.db")
    assert (ran.code, "cups.md" in ran.err) == (4, True)


def test_what_is_no_backup_is_an_error(shell: Shell) -> None:
    ran = shell("restore", "tea.md", "other.db")
    assert (ran.code, "name the version" in ran.err) == (2, True)
    assert shell("copy", "docs/tea.md", "other.db").code != 0
    whole = shell.store.read_bytes()
    (shell.directory / "bad.db").write_bytes(whole[: len(whole) // 2])
    ran = shell("copy", "bad.db", "other.db")
    assert ran.code != 0
    assert "damaged" in ran.err
    assert not (shell.directory / "other.db").exists()
    # A version is one still.
    assert shell("restore", "tea.md", "1").code == 0


def test_refused_copy_is_done_by_the_command_that_it_names(shell: Shell) -> None:
    assert shell("backup", "backup.db").code == 0
    shell.write("docs/cups.md", "# Cups\n")
    assert shell("--store", "other.db", "put", "docs/cups.md").code == 0
    ran = shell("copy", "backup.db", "other.db")
    assert (ran.code, "the same command with --replace" in ran.err) == (4, True)
    ran = shell("copy", "backup.db", "other.db", "--replace")
    assert (ran.code, ran.rows[0][:3]) == (0, ["default", "1", "2"])
    assert [row[0] for row in shell("--store", "other.db", "list").rows] == ["tea.md"]


def test_restore_of_a_backup_names_copy(shell: Shell) -> None:
    assert shell("backup", "backup.db").code == 0
    ran = shell("restore", "backup.db", "other.db")
    assert (ran.code, "triptych copy backup.db other.db" in ran.err) == (2, True)
    assert not (shell.directory / "other.db").exists()


def test_backup_is_not_imported(shell: Shell) -> None:
    assert shell("backup", "backup.db").code == 0
    ran = shell("import", "backup.db")
    assert (ran.code, "`triptych copy backup.db copy.db`" in ran.err) == (2, True)


def test_one_dataset_of_a_backup_is_copied(shell: Shell) -> None:
    assert shell("backup", "backup.db").code == 0
    assert shell("copy", "backup.db", "other.db", "--dataset", "none").code == 3
    assert not (shell.directory / "other.db").exists()
    told = shell("copy", "backup.db", "other.db", "--dataset", "default", "--json").json
    assert ([each["dataset_id"] for each in told["datasets"]], told["settings"]) == (["default"], 0)


def test_options_of_one_kind_of_copy_and_import_are_refused_by_the_other(shell: Shell) -> None:
    assert shell("backup", "backup.db").code == 0
    assert shell("export", "--output", "notes.jsonl").code == 0
    for wrong in (
        ("restore", "tea.md", "1", "--replace"),
        ("copy", "backup.db", "other.db", "--if-version", "2"),
        ("import", "notes.jsonl", "--replace"),
    ):
        assert shell(*wrong).code == 2
    assert shell("history", "tea.md").rows[0][0] == "2"
    assert not (shell.directory / "other.db").exists()


def test_access_key_that_was_revoked_stays_so_after_a_restore(shell: Shell) -> None:
    assert shell("admin", "keys", "add", "eve").code == 0
    assert shell("backup", "backup.db").code == 0
    key_id = shell("admin", "keys", "list").rows[0][0]
    assert shell("admin", "keys", "revoke", key_id).code == 0
    revoked = shell("admin", "keys", "list").text
    ran = shell("copy", "backup.db", str(shell.store))
    assert (ran.code, "--replace copies those of the source" in ran.err) == (0, True)
    assert shell("admin", "keys", "list").text == revoked
    ran = shell("copy", "backup.db", str(shell.store), "--replace", "--json")
    assert (ran.code, ran.json["settings"]) == (0, 1)
    assert shell("admin", "keys", "list").text != revoked


@pytest.mark.parametrize("command", ["export", "backup"])
def test_output_is_never_written_over_the_store(shell: Shell, command: str) -> None:
    os.link(shell.store, shell.directory / "linked")
    (shell.directory / "pointer").symlink_to(shell.store)
    beside = shell.store.with_name("kb.db-wal")
    for target in (str(shell.store), "linked", "pointer", str(beside)):
        output = ("--output", target) if command == "export" else (target, "--overwrite")
        ran = shell(command, *output)
        assert (ran.code, "of the store itself" in ran.err) == (2, True)
    assert shell("get", "tea.md").code == 0
    files = "files://" + str(shell.directory / "files")
    assert shell("copy", str(shell.store), files).code == 0
    output = ("--output",) if command == "export" else ("--overwrite",)
    ran = shell("--store", files, command, *output, "files/out.db")
    assert (ran.code, "of the store itself" in ran.err) == (2, True)


@pytest.mark.parametrize(("command", "name"), [("export", "SIGTERM"), ("backup", "SIGHUP")])
@pytest.mark.skipif(os.name == "nt", reason="no signals that a process handles")
def test_output_that_is_ended_by_a_signal_leaves_what_was_there(
    shell: Shell, command: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = getattr(signal, name)

    def stop(*_: object, **__: object) -> None:
        signal.raise_signal(number)

    @contextmanager
    def progress(*_: object, **__: object) -> Iterator[ProgressCallback]:
        yield stop

    monkeypatch.setattr("triptych_adapters.cli.output.Output.progress", progress)
    monkeypatch.setattr("triptych.transfer.export_jsonl", stop)
    (shell.directory / "backup.db").write_text("before")
    output = ("--output", "backup.db") if command == "export" else ("backup.db", "--overwrite")
    before = signal.signal(number, signal.SIG_DFL)
    try:
        assert shell(command, *output).code == 128 + number
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert (shell.directory / "backup.db").read_text() == "before"
    assert not list(shell.directory.glob("*.part"))


def test_export_that_fails_leaves_what_was_there(shell: Shell) -> None:
    (shell.directory / "notes.jsonl").write_text("before")
    assert shell("export", "--dataset", "none", "--output", "notes.jsonl").code == 3
    assert (shell.directory / "notes.jsonl").read_text() == "before"
    assert shell("export", "--output", "notes.jsonl").code == 0
    assert json.loads((shell.directory / "notes.jsonl").read_text())["name"] == "tea.md"
    assert shell("export", "--output", "none/notes.jsonl").code == 3


@pytest.mark.skipif(os.name == "nt", reason="modes are of Unix")
def test_backup_is_its_writers_alone(shell: Shell) -> None:
    path = shell.directory / "backup.db"
    assert shell("backup", "backup.db").code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    assert shell("backup", "backup.db", "--overwrite").code == 0
    assert path.stat().st_mode & 0o777 == 0o640


def test_store_is_not_copied_into_itself(shell: Shell) -> None:
    (shell.directory / "kb.db").symlink_to(shell.store)
    for other in (str(shell.store), "kb.db", "sqlite:///kb.db"):
        ran = shell("copy", str(shell.store), other, "--replace")
        assert (ran.code, "are the same store" in ran.err) == (2, True)


def test_copy_that_is_refused_leaves_no_store(shell: Shell) -> None:
    store = str(shell.store)
    assert shell("backup", "backup.db").code == 0
    for wrong in (
        ("copy", store, "new.db", "--dataset", "typo"),
        ("copy", "backup.db", "new.db", "--dataset", "typo"),
    ):
        ran = shell(*wrong)
        assert (ran.code, "'typo'" in ran.err) == (3, True)
        assert not list(shell.directory.glob("new.db*"))
