"""``triptych init``, a store found from anywhere, and what the shell offers at a Tab."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell, ran


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


def names(shell: Shell, *arguments: str) -> list[str]:
    return [row[0] for row in shell("list", *arguments).rows]


def test_init_makes_a_store_that_is_found_below(shell: Shell) -> None:
    ran = shell("init")
    assert (ran.code, ran.out) == (0, b"")
    assert ran.err == "made the store .triptych/kb.db; next: triptych add FOLDER\n"
    empty = shell("list")
    assert (empty.code, empty.out, empty.err) == (0, b"", "no documents\n")
    assert shell("list", "-d", "default").code == 3
    shell.write("notes/deep/a.md", "# Lighthouse\n")
    assert shell("sync", "notes", "-q").code == 0
    os.chdir("notes/deep")
    assert names(shell) == ["deep/a.md"]
    assert shell("search", "lighthouse", "--files", "--mode", "bm25").text == "a.md\n"
    status = shell("status", "--json").json
    assert status["store"]["location"] == str(shell.directory / ".triptych" / "kb.db")
    # All that there is lies in the one folder.
    assert sorted(os.listdir(shell.directory)) == [".triptych", "notes"]
    assert not shell.store.exists()


def test_init_tells_of_the_store_above_that_it_hides(shell: Shell) -> None:
    assert "takes the place" not in shell("init").err
    shell.write("notes/a.md", "# A\n")
    ran = shell("init", "notes")
    above = "here it takes the place of the store .triptych/kb.db\n"
    assert ran.err.endswith(above)
    assert "takes the place" not in shell("init", "notes").err


def test_init_leaves_a_store_as_it_is(shell: Shell) -> None:
    shell.write("notes/a.md", "# A\n")
    assert shell("init", "notes", "--json").json["created"] is True
    shell("put", "notes", "--store", "notes/.triptych/kb.db", "-q")
    ran = shell("init", "notes", "--json").json
    assert (ran["created"], ran["store"]) == (False, str(Path("notes/.triptych/kb.db").absolute()))
    assert names(shell, "--store", "notes/.triptych/kb.db") == ["a.md"]
    # One of an older version is one, too.
    Path("old").mkdir()
    shell("put", "notes", "--store", "old/kb.db", "-q")
    assert shell("init", "old").err == "there is a store already: old/kb.db\n"
    assert shell("init", "nowhere").code == 3


def test_without_init_there_is_one_store_for_all_folders(shell: Shell) -> None:
    shell.write("one/a.md", "# A\n")
    shell.write("two/b.md", "# B\n")
    for folder in ("one", "two"):
        os.chdir(shell.directory / folder)
        assert shell("put", ".", "-q").code == 0
    assert names(shell) == ["a.md", "b.md"]
    assert shell.store.exists()
    assert sorted(os.listdir(shell.directory)) == [".data", "one", "two"]


@pytest.mark.process
def test_git_does_not_see_the_store(shell: Shell) -> None:
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    subprocess.run([git, "init", "-q"], check=True)
    shell("init")
    shell.write("a.md", "# A\n")
    shell("sync", ".", "-q")
    seen = subprocess.run([git, "status", "--porcelain"], check=True, capture_output=True)
    assert seen.stdout == b"?? a.md\n"


@pytest.mark.parametrize("command", ["put", "sync"])
def test_neither_the_store_nor_its_settings_become_documents(shell: Shell, command: str) -> None:
    shell.write("triptych.toml", "history = 3")
    shell.write("deep/triptych.toml", "history = 3")
    shell.write("node_modules/x/index.js", "let a = 1")
    shell.write("kept.md", "# Kept\n")
    shell.write("left.md", "# Left\n")
    shell.write(".gitignore", "left.md\n")
    shell("init")
    ran = shell(command, ".")
    assert ran.code == 0
    assert names(shell) == ["kept.md"]
    assert "triptych.toml" not in ran.err
    shell(command, ".", "--store", "kb.db", "-q")
    old = shell(command, ".", "--store", "kb.db", "--json").json
    assert names(shell, "--store", "kb.db") == ["kept.md"]
    assert {each["reason"] for each in old["skipped"]} >= {"the store itself", "ignored"}


def completed(words: str, shell: Shell) -> set[str]:
    environment = {
        "_TRIPTYCH_COMPLETE": "complete_bash",
        "COMP_WORDS": f"triptych {words}",
        "COMP_CWORD": str(len(words.split(" "))),
    }
    return set(ran([], env=environment).text.split())


def test_a_tab_offers_datasets_and_documents(shell: Shell) -> None:
    assert completed("get ", shell) == set()
    shell.write("notes/guide.md", "# G\n")
    shell.write("notes/gulf.md", "# G\n")
    shell("put", "notes", "-q")
    shell("put", "notes/gulf.md", "--name", "other.md", "-d", "docs", "-q")
    assert completed("get gu", shell) == {"guide.md", "gulf.md"}
    assert completed("get -d docs ", shell) >= {"other.md"}
    assert completed("get -d docs gu", shell) == set()
    assert completed("search -d do", shell) == {"docs"}
    assert completed("history gui", shell) == {"guide.md"}
    assert completed("layers show gul", shell) == {"gulf.md"}
    assert completed("get --store nothing.db g", shell) == set()
    assert not Path("nothing.db").exists()
