"""Files that were changed or deleted since the last sync are named by a search that finds them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from triptych.access import Access


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@pytest.fixture
def notes(shell: Shell) -> Path:
    folder = shell.directory / "notes"
    folder.mkdir()
    for name, animal in (("one", "capybara"), ("two", "okapi"), ("three", "capybara okapi")):
        (folder / f"{name}.md").write_text(f"# {name}\n\nThe {animal} sleeps.\n", "utf-8")
    assert shell("add", "notes", "--embedder", "none").code == 0
    return folder


def edit(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    later = time.time() + 5
    os.utime(path, (later, later))


def warned(shell: Shell, *words: str) -> list[str]:
    found: list[str] = shell("search", *words, "--mode", "bm25", "--json").json["warnings"]
    return found


def test_a_changed_file_is_named_until_it_is_synced(shell: Shell, notes: Path) -> None:
    assert warned(shell, "capybara") == []
    edit(notes / "one.md", "# one\n\nThe axolotl swims.\n")
    (said,) = warned(shell, "capybara")
    assert said.startswith("'one.md' has changed since the last sync: `triptych sync`")
    assert warned(shell, "okapi") == []  # only what is shown
    shell("sync")
    assert warned(shell, "capybara") == []


def test_a_file_that_was_only_touched_is_not_named(shell: Shell, notes: Path) -> None:
    edit(notes / "one.md", (notes / "one.md").read_text("utf-8"))
    assert warned(shell, "capybara") == []


def test_a_deleted_file_is_named_and_one_of_a_folder_that_is_away_is_not(
    shell: Shell, notes: Path
) -> None:
    (notes / "two.md").unlink()
    (notes / "three.md").unlink()
    (said,) = warned(shell, "okapi")
    assert "'two.md'" in said
    assert "'three.md'" in said
    assert "have been deleted since the last sync" in said
    notes.rename(notes.with_name("away"))
    assert warned(shell, "okapi") == []


def test_a_context_names_it_and_a_caller_with_rights_to_a_part_is_not_told_of_files(
    shell: Shell, notes: Path
) -> None:
    edit(notes / "one.md", "# one\n\nThe axolotl swims.\n")
    with triptych.open(shell.store, embedder=None) as kb:
        found = kb.context("capybara", dataset_id="default").warnings
        assert any("'one.md' has changed" in each for each in found)
        part = kb.restricted(Access(dataset_ids=["default"]))
        assert part.search("capybara", dataset_id="default").warnings == ()


def test_a_touched_file_is_read_once_however_often_it_is_found(
    shell: Shell, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(notes / "one.md", (notes / "one.md").read_text("utf-8"))
    read: list[str] = []
    whole = Path.read_bytes

    def counted(path: Path) -> bytes:
        if path.suffix == ".md":
            read.append(path.name)
        return whole(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    with triptych.open(shell.store, embedder=None) as kb:
        for _ in range(3):
            assert kb.search("capybara", dataset_id="default").warnings == ()
    assert read == ["one.md"]
