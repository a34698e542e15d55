"""``triptych copy``, ``backup``, ``restore`` of a backup, and archives by export and import."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell


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
    assert (put.json["counts"]["unchanged"], put.json["counts"].get("embedded", 0)) == (1, 0)
    assert shell("copy", "none.db", "other.db").code == 3
    assert not (shell.directory / "other.db").exists()
    ran = shell("copy", "http://localhost:9/", "other.db")
    assert (ran.code, "works on the store itself" in ran.err) == (7, True)


def test_backup_is_restored(shell: Shell) -> None:
    assert shell("backup", "kb.zip").code == 0
    ran = shell("backup", "kb.zip")
    assert (ran.code, "exists" in ran.err) == (2, True)
    assert shell("backup", "kb.zip", "--overwrite").code == 0
    ran = shell("restore", "kb.zip", "restored.db")
    assert (ran.code, ran.rows[0][:3]) == (0, ["default", "1", "2"])
    assert shell("--store", "restored.db", "search", "hot water").code == 0
    shell("--store", "restored.db", "delete", "tea.md")
    shell.write("docs/cups.md", "# Cups\n")
    assert shell("--store", "restored.db", "put", "docs/cups.md").code == 0
    ran = shell("restore", "kb.zip", "restored.db")
    assert (ran.code, "cups.md" in ran.err) == (4, True)


def test_what_is_no_backup_is_an_error(shell: Shell) -> None:
    ran = shell("restore", "tea.md", "other.db")
    assert (ran.code, "not the file of a backup" in ran.err) == (2, True)
    (shell.directory / "bad.zip").write_bytes(b"PK\x03\x04 and no more")
    ran = shell("restore", "bad.zip", "other.db")
    assert ran.code != 0
    assert "damaged" in ran.err
    assert not (shell.directory / "other.db").exists()
    # A version is one still.
    assert shell("restore", "tea.md", "1").code == 0


def test_dataset_goes_through_an_archive(shell: Shell) -> None:
    ran = shell("export", "--output", "notes.zip")
    assert (ran.code, ran.rows[0][:3]) == (0, ["default", "1", "2"])
    ran = shell("--store", "other.db", "import", "notes.zip")
    assert (ran.code, ran.rows[0][:3]) == (0, ["default", "1", "2"])
    assert shell("--store", "third.db", "import", "notes.zip", "-d", "none").code == 3


def test_replica_follows_until_it_is_interrupted(tmp_path: Path) -> None:
    source, target = tmp_path / "kb.db", tmp_path / "replica.db"
    with triptych.open(source, embedder=None) as kb:
        kb.put_document("d", "a.md", "one")
        command = [sys.executable, "-m", "triptych_adapters.cli", "copy", str(source), str(target)]
        with subprocess.Popen(
            [*command, "--follow", "--poll", "0.02", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            kb.put_document("d", "b.md", "two")
            second = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=30)
    assert (process.returncode, rest, said) == (0, "", "stopped\n")
    assert [each["datasets"][0]["written"] for each in (first, second)] == [1, 1]
    with triptych.open(target, embedder=None) as kb:
        assert kb.get_document("d", "b.md").content == "two"
