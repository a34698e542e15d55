"""`triptych sync`, as a person uses it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from support.cli_run import Shell, fresh_shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


def test_a_folder_is_synced_and_synced_again(shell: Shell) -> None:
    shell.write("docs/a.md", "# A\n\nalpha\n")
    shell.write("docs/deep/b.txt", "beta")
    shell.write("docs/c.bin", b"\0")
    first = shell("sync", "docs", "--prefix", "docs/")
    assert first.code == 0
    assert "2 added" in first.text
    assert "skipped 1 (ends in .bin)" in first.err
    assert shell("list").rows[0][0] == "docs/a.md"
    shell.write("docs/a.md", "# A\n\nother\n")
    (shell.directory / "docs" / "deep" / "b.txt").rename(shell.directory / "docs" / "c.txt")
    again = shell("sync", "docs", "--prefix", "docs/", "--json").json
    counts = ("added", "updated", "unchanged", "repaired", "chunks", "embedded", "reused")
    assert [again[name] for name in counts] == [0, 1, 0, 0, 2, 1, 1]
    assert (again["deleted"], again["failed"], again["pending"], again["expired"]) == ([], [], 0, 0)
    assert again["renamed"] == [["docs/deep/b.txt", "docs/c.txt"]]
    assert again["skipped"] == [{"name": "c.bin", "reason": "ends in .bin"}]


def test_all_files_that_are_skipped_are_counted(shell: Shell) -> None:
    shell.write("notes/a.md", "A.\n")
    for number in range(8):
        shell.write(f"notes/b.kind{number}", "B.\n")
    said = shell("add", "notes").err
    assert said.count("1 (ends in .kind") == 5
    assert ", 3 for other reasons; --json names them" in said


def test_the_line_of_a_sync_counts_what_it_says_was_skipped(shell: Shell) -> None:
    for name in ("a.md", "b.kind", ".obsidian/app.json", "node_modules/c.md", "left/d.md"):
        shell.write(f"notes/{name}", "Text.\n")
    for command in (["sync", "notes"], ["put", "notes", "-d", "other"]):
        ran = shell(*command, "--exclude", "left/") if "sync" in command else shell(*command)
        assert re.search(r"skipped (1 \(|b\.kind \()ends in \.kind\)", ran.err), ran.err
        assert "1 skipped" in ran.both
    assert "skipped 1 folder: node_modules/" in ran.err
    listed = shell("sync", "notes", "--exclude", "left/", "--json").json["skipped"]
    assert [each["name"] for each in listed] == [".obsidian/", "b.kind", "left/", "node_modules/"]


def test_a_dry_run_tells_and_leaves_no_store(shell: Shell) -> None:
    shell.write("docs/a.md", "# A\n\nalpha\n")
    ran = shell("sync", "docs", "--dry-run")
    assert ran.rows[0] == ["add a.md"]
    assert "1 model call" in ran.text
    assert sorted(os.listdir(shell.directory)) == ["docs"]
    shell("sync", "docs")
    (shell.directory / "docs" / "a.md").rename(shell.directory / "docs" / "b.md")
    shell.write("docs/c.md", "new")
    plan = shell("sync", "docs", "-n", "--json").json
    assert (plan["dry_run"], plan["added"], plan["renamed"]) == (True, ["c.md"], [["a.md", "b.md"]])
    assert shell("list").rows[0][0] == "a.md"


def test_patterns_choose_files(shell: Shell) -> None:
    for name in ("a.md", "b.xyz", "drafts/c.md", "lib/d.xyz"):
        shell.write(f"src/{name}", f"text of {name}")
    shell("sync", "src", "--exclude", "drafts/")
    assert [row[0] for row in shell("list").rows] == ["a.md"]
    shell("sync", "src", "--include", "*.xyz", "--include", "*.md", "--exclude", "/lib/")
    assert [row[0] for row in shell("list").rows] == ["a.md", "b.xyz", "drafts/c.md"]
    assert shell("sync", "src", "--include", "!").code == 2


@pytest.mark.parametrize("pattern", ["", "  ", "# all", "[ab"])
def test_a_pattern_that_nothing_can_match_deletes_nothing(shell: Shell, pattern: str) -> None:
    shell.write("docs/a.md", "one")
    shell("sync", "docs")
    ran = shell("sync", "docs", "--include", pattern)
    assert ran.code == 2
    assert "not a valid pattern" in ran.err
    assert [row[0] for row in shell("list").rows] == ["a.md"]


def test_an_error_of_a_watch_is_a_line_of_json(shell: Shell) -> None:
    ran = shell("watch", "missing", "--json")
    assert len(ran.text.splitlines()) == 1
    assert ran.json["error"]["type"] == "NotFoundError"


def test_deleting_can_be_left_out(shell: Shell) -> None:
    shell.write("docs/a.md", "one")
    shell("sync", "docs")
    (shell.directory / "docs" / "a.md").unlink()
    assert "deleted" not in shell("sync", "docs", "--no-delete").text
    assert "1 deleted" in shell("sync", "docs", "--yes").text


def test_a_document_that_was_put_is_left_alone_unless_adopted(shell: Shell) -> None:
    shell.write("docs/a.md", "one")
    shell.write("docs/b.md", "two")
    shell("put", "docs")
    shell.write("docs/a.md", "other")
    ran = shell("sync", "docs")
    assert ran.code == 8
    assert "put by itself, with another text" in ran.err
    assert shell("get", "a.md").out == b"one"
    assert shell("sync", "docs", "--adopt").code == 0
    assert shell("get", "a.md").out == b"other"


@pytest.mark.parametrize("store", ["kb.db", "files://./kb"])
def test_a_store_inside_of_the_folder_is_no_document(shell: Shell, store: str) -> None:
    shell.write("a.md", "one")
    for _ in range(3):
        report = shell("sync", ".", "--store", store, "--include", "*", "--json").json
        assert report["failed"] == []
        shell("search", "one", "--store", store)
    assert [row[0] for row in shell("list", "--store", store).rows] == ["a.md"]


def test_what_is_no_folder_is_refused_before_a_store_is_made(shell: Shell) -> None:
    shell.write("a.md", "one")
    assert shell("sync", "a.md").code == 2
    assert shell("sync", "missing").code == 3
    assert shell("watch", "missing").code == 3
    assert sorted(os.listdir(shell.directory)) == ["a.md"]


def test_all_failing_ends_with_the_first_failure(shell: Shell) -> None:
    shell.write("docs/a.md", "one")
    shell("put", "docs")
    shell.write("docs/a.md", "other")
    assert shell("sync", "docs").code == 4


@pytest.mark.parametrize("arguments", [("sync",), ("sync", "--dry-run"), ("put",)])
def test_a_name_that_is_no_text_fails_alone_and_is_reported_as_json(
    shell: Shell, arguments: tuple[str, ...]
) -> None:
    shell.write("docs/a.md", "one")
    (shell.directory / "docs" / os.fsdecode(b"caf\xe9.md")).write_text("two")
    ran = shell(*arguments, "docs", "--json")
    assert ran.code == 8
    assert [os.fsencode(each["name"]) for each in ran.json["failed"]] == [b"caf\xe9.md"]
    assert shell(*arguments, "docs").code == 8


def test_a_name_cannot_forge_a_line_of_its_own(shell: Shell) -> None:
    shell.write("docs/a\nwarning: \x1b[31mforged.md", "one")
    ran = shell("sync", "docs")
    assert len([line for line in ran.err.splitlines() if line.startswith("warning: ")]) == 1
    assert "\x1b" not in ran.err


def test_where_no_terminal_shows_progress_lines_say_it(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych_adapters.cli.output.EVERY_SECONDS", 0.0)
    for number in range(3):
        shell.write(f"long/{number}.md", f"Text {number}.")
    ran = shell("add", "long")
    assert re.search(r"^\w+: \d+ of 3$", ran.err, re.MULTILINE), ran.err
    assert ran.text == "3 added, 3 chunks (3 embedded)\n"
    assert ": 3 of 3" not in shell("sync", "long", "-q").err


def test_a_rename_says_that_earlier_versions_go(shell: Shell) -> None:
    shell.write("old/a.md", "# One\n\nText.")
    shell("add", "old")
    assert "keeps no earlier versions" not in shell("sync").err
    (shell.directory / "old" / "a.md").rename(shell.directory / "old" / "b.md")
    assert "keeps no earlier versions" in shell("sync", "--dry-run").err
    ran = shell("sync")
    assert (ran.text.startswith("1 renamed"), "keeps no earlier versions" in ran.err) == (True,) * 2
