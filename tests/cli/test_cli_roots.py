"""`triptych add`, `roots`, `remove`, and syncs that name no folder."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell

STORES = pytest.mark.parametrize("store", ["kb.db", "files:///{}/kb"])


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@pytest.fixture
def notes(shell: Shell) -> Shell:
    for name in ("a.md", "b.md", "c.md", "drafts/d.md"):
        shell.write(f"notes/{name}", f"# Note\n\ntext of {name}\n")
    return shell


def names(shell: Shell, *arguments: str) -> list[str]:
    return [row[0] for row in shell("list", *arguments).rows]


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


@STORES
def test_an_empty_folder_deletes_nothing_and_the_command_says_what_to_do(
    notes: Shell, store: str
) -> None:
    at = ("-s", store.format(notes.directory))
    notes("sync", "notes", *at)
    empty(notes.directory / "notes")
    ran = notes("sync", "notes", *at)
    assert ran.code == 8
    assert "4 of the 4 documents" in ran.err
    assert "not mounted" in ran.err
    assert "--yes" in ran.err
    assert len(names(notes, *at)) == 4
    held = notes("sync", "notes", "--json", *at).json["held"]
    assert [each["documents"] for each in held] == [4]
    assert len(held[0]["names"]) == 4
    planned = notes("sync", "notes", "--dry-run", *at)
    assert planned.code == 8
    assert "deleted" not in planned.text
    confirmed = notes("sync", "notes", "--yes", *at)
    assert (confirmed.code, "4 deleted" in confirmed.text) == (0, True)


@STORES
def test_a_folder_is_added_once_and_synced_without_being_named(notes: Shell, store: str) -> None:
    at = ("-s", store.format(notes.directory))
    added = notes("add", "notes", "--prefix", "n/", "--exclude", "drafts/", *at)
    assert (added.code, "3 added" in added.text) == (0, True)
    assert "by its path from the store" in added.err
    notes.write("notes/new.md", "new")
    synced = notes("sync", *at)
    assert (synced.code, "1 added" in synced.text) == (0, True)
    assert names(notes, *at) == ["n/a.md", "n/b.md", "n/c.md", "n/new.md"]
    ((path, dataset, prefix, documents, when, gone),) = notes("list", "--folders", *at).rows
    assert (path, dataset, prefix) == (str(notes.directory / "notes"), "default", "n/")
    assert (documents, gone) == ("4", "")
    assert when.startswith("20")
    # Named without options, it is synced as it is remembered.
    again = notes("sync", "notes", *at)
    assert (again.code, "4 unchanged" in again.text) == (0, True)


def test_options_that_differ_are_refused_and_change_nothing(notes: Shell) -> None:
    notes("add", "notes", "--prefix", "n/")
    before = names(notes)
    for arguments in (
        ["sync", "notes", "--prefix", "x/"],
        ["sync", "notes", "--exclude", "*.md"],
        ["sync", "."],
        ["sync", "notes/drafts"],
        ["watch", "notes/drafts"],
        ["add", "notes/drafts"],
        ["add", "notes", "--prefix", "x/"],
        ["sync", "--prefix", "x/"],
    ):
        ran = notes(*arguments)
        assert ran.code == 2, arguments
        assert "error: " in ran.err
    assert names(notes) == before
    assert notes("sync", "notes", "--dataset", "other").code == 0
    changed = notes("add", "notes", "--exclude", "drafts/")
    assert (changed.code, names(notes)) == (0, ["n/a.md", "n/b.md", "n/c.md"])
    assert notes("list", "--folders", "--json").json["roots"][0]["exclude"] == ["drafts/"]


def test_a_folder_inside_another_is_said_to_be_stored_twice(shell: Shell) -> None:
    shell.write("p/a.md", "text of a")
    shell.write("p/Sessions/s.md", "text of s")
    shell.write("p/drafts/d.md", "text of d")
    assert "twice" not in shell("add", "p", "--exclude", "drafts/").err
    assert "twice" not in shell("add", "p/drafts", "-d", "drafts").err  # it is left out there
    said = shell("add", "p/Sessions", "--dataset", "sessions").err
    assert "1 document of" in said
    assert "'default' reads" in said
    command = re.search(r"`triptych (.*)`", said)
    assert command, said
    again = shell(*shlex.split(command[1]))
    assert again.code == 0
    assert "1 deleted" in again.both
    assert "twice" not in again.err
    assert names(shell, "-d", "default") == ["a.md"]
    assert names(shell, "-d", "sessions") == ["s.md"]
    assert "1 document of" in shell("add", "p", "-d", "all", "--include", "Sessions/*").err


def test_the_same_folder_in_two_datasets_is_said_to_be_stored_twice(shell: Shell) -> None:
    shell.write("out/a.md", "text of a")
    shell.write("out/in/b.md", "text of b")
    assert "twice" not in shell("add", "out").err
    assert "1 document of" in shell("add", "out/in", "-d", "second").err
    said = shell("add", "out", "-d", "third", "--prefix", "o/").err
    path = shell.directory / "out"
    assert f"2 documents of {path}: stored twice, since the dataset 'default' reads it, too" in said
    assert f"1 document of {path / 'in'}: stored twice, since the dataset 'third' reads" in said
    command = re.search(r"`triptych (remove .*?)`", said)
    assert command, said
    assert "2 documents deleted" in shell(*shlex.split(command[1]), "--delete").both
    assert "stored twice, since the dataset 'default'" not in shell("add", "out", "-d", "third").err
    other = shell("add", "out", "-d", "fourth", "--include", "in/").err
    assert f"1 document of {path}: stored twice, since the dataset 'third'" in other


def test_each_folder_has_a_prefix_of_its_own(shell: Shell) -> None:
    for folder in ("notes", "docs", "more"):
        shell.write(f"{folder}/README.md", f"about {folder}")
    both = shell("sync", "notes", "docs")
    assert both.code == 8
    assert "a prefix of its own" in both.err
    ran = shell("sync", "notes", "docs", "--prefix", "n/", "--prefix", "d/")
    assert (ran.code, names(shell)) == (0, ["d/README.md", "n/README.md"])
    few = shell("add", "notes", "docs", "more", "--prefix", "n/", "--prefix", "d/")
    assert (few.code, "2 prefixes for 3 folders" in few.err) == (2, True)
    shell("add", "notes", "docs", "more", "--prefix", "n/", "--prefix", "d/", "--prefix", "m/")
    assert names(shell) == ["d/README.md", "m/README.md", "n/README.md"]
    assert [row[2] for row in shell("list", "--folders").rows] == ["d/", "m/", "n/"]


def test_folders_that_are_added_side_by_side_have_names_of_their_own(shell: Shell) -> None:
    for folder in ("notes", "docs", "old/docs", "more", "apart"):
        shell.write(f"{folder}/README.md", f"about {folder}")
    ran = shell("add", "notes", "docs")
    assert (ran.code, names(shell)) == (0, ["README.md", "docs/README.md"])
    assert "its documents named docs/…" in ran.err
    assert shell("add", "old/docs").code == 0
    assert shell("add", "apart", "--dataset", "apart").code == 0
    assert "a prefix of its own" in shell("sync", "notes", "more").err
    assert names(shell) == ["README.md", "docs/README.md", "old/docs/README.md"]
    assert names(shell, "-d", "apart") == ["README.md"]
    # Those that are there keep their names, whatever is added again.
    assert shell("add", "notes", "docs").code == 0
    assert shell("sync").code == 0
    assert names(shell) == ["README.md", "docs/README.md", "old/docs/README.md"]


def test_a_folder_whose_names_are_taken_says_what_to_type(shell: Shell) -> None:
    for folder in ("notes", "notes/docs", "docs"):
        shell.write(f"{folder}/README.md", f"about {folder}")
    assert shell("add", "notes").code == 0
    ran = shell("add", "docs")
    assert ran.code == 4
    path = shell.directory / "docs"
    for typed in (f"`triptych add {path} --prefix docs/`", f"`triptych remove {path} --keep`"):
        assert typed in ran.err
    assert shell("remove", str(path), "--keep").code == 0
    assert shell("add", str(path), "--prefix", "d/").code == 0
    assert names(shell) == ["README.md", "d/README.md", "docs/README.md"]


def test_a_folder_that_has_vanished_keeps_its_documents_and_holds_up_no_other(
    notes: Shell,
) -> None:
    notes.write("docs/x.md", "one")
    notes("add", "notes")
    notes("add", "docs", "--dataset", "docs")
    shutil.rmtree(notes.directory / "notes")
    notes.write("docs/y.md", "two")
    ran = notes("sync", "--yes")
    assert ran.code == 8
    assert "there is no folder" in ran.err
    assert (len(names(notes)), names(notes, "-d", "docs")) == (4, ["x.md", "y.md"])
    assert [row[5] for row in notes("list", "--folders").rows] == ["", "not there"]
    assert notes("sync", "--dataset", "docs").code == 0


def test_remove_says_what_becomes_of_the_documents(notes: Shell) -> None:
    notes("add", "notes")
    unsaid = notes("remove", "notes")
    assert (unsaid.code, "--keep or --delete" in unsaid.err) == (2, True)
    kept = notes("remove", "notes", "--keep")
    assert (kept.code, "0 documents deleted, 4 kept" in kept.err) == (0, True)
    assert (len(names(notes)), notes("list", "--folders").rows) == (4, [])
    assert notes("remove", "notes", "--keep").code == 3
    assert "4 unchanged" in notes("add", "notes").text
    gone = notes("remove", "notes", "--delete", "--json").json
    assert gone["removed"][0]["deleted"] == 4
    assert (names(notes), notes("list", "--folders").rows) == ([], [])
    nothing = notes("sync")
    assert (nothing.code, "triptych add FOLDER" in nothing.err) == (3, True)


def test_a_folder_that_moved_keeps_its_documents(notes: Shell) -> None:
    notes("add", "notes", "--prefix", "n/")
    (notes.directory / "notes").rename(notes.directory / "papers")
    assert notes("sync").code != 0
    moved = notes("add", "papers", "--moved-from", "notes")
    assert (moved.code, "4 unchanged" in moved.text) == (0, True)
    assert [row[0] for row in notes("list", "--folders").rows] == [str(notes.directory / "papers")]


def test_a_store_that_is_moved_with_its_folders_goes_on(
    notes: Shell, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes("init")
    notes("add", "notes")
    there = tmp_path_factory.mktemp("moved") / "all"
    shutil.copytree(notes.directory, there)
    monkeypatch.chdir(there)
    assert "4 unchanged" in notes("sync").text
    assert [row[0] for row in notes("list", "--folders").rows] == [str(there / "notes")]


@pytest.mark.process
def test_watch_without_a_folder_holds_an_emptied_one_and_goes_on_when_it_is_back(
    notes: Shell,
) -> None:
    notes("add", "notes")
    process = subprocess.Popen(
        [sys.executable, "-m", "triptych_adapters.cli", "watch", "--poll", "0.1", "--json"],
        cwd=notes.directory,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        json.loads(process.stdout.readline())
        shutil.move(notes.directory / "notes", notes.directory / "away")
        (notes.directory / "notes").mkdir()
        reports = (json.loads(line)["report"] for line in process.stdout)
        held = next(report for report in reports if report["failed"])
        assert held["failed"][-1]["error"]["type"] == "DeletionHeldError"
        assert len(names(notes)) == 4
        for file in (notes.directory / "away").iterdir():
            shutil.move(file, notes.directory / "notes")
        notes.write("notes/new.md", "new")
        end = time.monotonic() + 60
        while len(names(notes)) < 5:
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert names(notes) == ["a.md", "b.md", "c.md", "drafts/d.md", "new.md"]


@pytest.mark.process
@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("n", 4)])
def test_remove_asks_on_a_terminal(notes: Shell, answer: str, left: int) -> None:
    pty = pytest.importorskip("pty")
    notes("add", "notes")
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "triptych_adapters.cli", "remove", "notes"],
        cwd=notes.directory,
        stdin=theirs,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    os.write(mine, f"{answer}\n".encode())
    _, asked = process.communicate(timeout=60)
    os.close(mine)
    assert "Delete its 4 documents too?" in asked
    assert (process.returncode, len(names(notes)), notes("list", "--folders").rows) == (0, left, [])


def test_a_folder_that_moved_and_was_added_is_one_again(shell: Shell) -> None:
    shell.write("f1/a.md", "first")
    shell.write("f1/gone.md", "goes")
    shell("add", "f1")
    (shell.directory / "f1").rename(shell.directory / "f2")
    shell.write("f2/b.md", "second")
    shell.write("f2/c.md", "third")
    added = shell("add", "f2")
    assert (added.code, "a.md: " in added.err) == (8, True)
    hint = f"`triptych add {shell.directory}/f2 --moved-from {shell.directory}/f1`"
    assert hint in added.err
    assert hint in shell("sync", "f2").err
    shell.write("f2/b.md", "second, edited")
    (shell.directory / "f2" / "c.md").unlink()
    moved = shell("add", "f2", "--moved-from", "f1")
    assert (moved.code, "failed" in moved.text) == (0, False)
    assert names(shell) == ["a.md", "b.md", "gone.md"]
    ((path, *_),) = shell("list", "--folders").rows
    assert path == str(shell.directory / "f2")
    assert shell("search", "edited", "--json").json["hits"][0]["doc_name"] == "b.md"
    assert (shell("sync").code, "3 unchanged" in shell("sync").text) == (0, True)
    removed = shell("remove", "f2", "-d", "default", "--delete")
    assert (removed.code, names(shell), shell("list", "--folders").rows) == (0, [], [])


def test_a_folder_that_was_remembered_twice_is_removed_at_once(notes: Shell) -> None:
    at = ("-s", "kb.db")
    notes("add", "notes", *at)
    with triptych.open(str(notes.directory / "kb.db"), embedder=None) as kb:
        settings = kb.capabilities.settings
        assert settings is not None
        text = settings.get_setting("sync.roots")
        assert text is not None
        stored = json.loads(text)
        again = {**stored["roots"][0], "key": "another"}
        twice = json.dumps({"roots": [*stored["roots"], again]})
        assert settings.set_setting("sync.roots", twice, expected=text)
    removed = notes("remove", "notes", "--delete", *at)
    assert (removed.code, names(notes, *at), notes("list", "--folders", *at).rows) == (0, [], [])


def test_status_says_that_it_did_not_look_at_files(notes: Shell) -> None:
    assert "files on disk" not in notes("status").err
    assert notes("add", "notes").code == 0
    notes.write("notes/a.md", "# Note\n\nanother text\n")
    said = notes("status").err
    assert "everything that is stored is fresh" in said
    assert "files on disk were not compared: `triptych sync` looks at them again" in said
