"""A dataset's language on the command line: set, shown, and taken from the setting."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell

NOTE = "Bäume"  # too short to tell a language


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    shell.write("notes/a.md", NOTE)
    return shell


def language(shell: Shell, dataset: str = "default") -> str:
    configs = {
        each["dataset_id"]: each["config"] for each in shell("status", "--json").json["datasets"]
    }
    told: str = configs[dataset]["language"]
    assert any(told in row and dataset in row for row in shell("status").rows)
    return told


def found(shell: Shell) -> bool:
    return bool(shell("search", "Baum", "--mode", "bm25", "--json").json["hits"])


@pytest.mark.parametrize("command", ["put", "sync", "add"])
def test_a_command_sets_the_language_of_what_is_there(shell: Shell, command: str) -> None:
    assert shell(command, "notes").code == 0
    assert (language(shell), found(shell)) == ("auto", False)
    assert shell(command, "notes", "--language", "german").code == 0
    assert (language(shell), found(shell)) == ("german", True)
    assert shell(command, "notes").code == 0
    assert language(shell) == "german"
    assert shell(command, "notes", "--language", "auto").code == 0
    assert (language(shell), found(shell)) == ("auto", False)
    ran = shell(command, "notes", "--language", "klingon")
    assert (ran.code, "german" in ran.err) == (2, True)


def test_a_plan_sets_no_language(shell: Shell) -> None:
    shell("put", "notes")
    assert shell("sync", "notes", "--dry-run", "--language", "german").code in (0, 7)
    assert language(shell) == "auto"


def test_a_rebuild_takes_the_setting_where_the_dataset_has_no_language_of_its_own(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("put", "notes")
    shell("put", "notes", "--dataset", "de", "--language", "english")
    monkeypatch.setenv("TRIPTYCH_LANGUAGE", "german")
    assert shell("put", "notes", "--dataset", "default").code == 0
    assert language(shell) == "auto"
    ran = shell("rebuild", "--all")
    assert "the language of dataset 'default' is german now, not auto" in ran.err
    assert "'de'" not in ran.err
    assert (language(shell), language(shell, "de")) == ("german", "english")
    assert "the language of" not in shell("rebuild", "--all").err
