"""Each hit names the file that its document came from, if that lies in the synced folder."""

from __future__ import annotations

from pathlib import Path

import pytest

import triptych
from triptych.sync import DirectorySync, SyncRoot


@pytest.mark.parametrize("other", ["notes-private", "elsewhere", "."])
def test_a_file_that_became_a_link_out_of_the_folder_is_not_named(
    tmp_path: Path, other: str
) -> None:
    folder, outside = tmp_path / "notes", tmp_path / other
    for each in (folder, outside):
        each.mkdir(exist_ok=True)
    for name in ("tea.md", "pot.md"):
        (folder / name).write_text(f"# {name}\n\nA pot of tea.\n")
        (outside / name).write_text("A secret.\n")
    with triptych.open(tmp_path / "kb.db", embedder="none") as kb:
        DirectorySync(kb, [SyncRoot(path=folder, dataset_id="d")]).sync()

        def files() -> dict[str, Path | None]:
            return {hit.doc_name: hit.path for hit in kb.search("tea", dataset_id="d").hits}

        assert files() == {name: folder / name for name in ("tea.md", "pot.md")}
        (folder / "tea.md").unlink()
        (folder / "tea.md").symlink_to(outside / "tea.md")
        assert files() == {"tea.md": None, "pot.md": folder / "pot.md"}


def test_the_files_of_a_folder_behind_a_link_are_named(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "tea.md").write_text("A pot of tea.\n")
    (tmp_path / "notes").symlink_to(tmp_path / "there")
    root = SyncRoot(path=tmp_path / "notes", dataset_id="d")
    with triptych.open(tmp_path / "kb.db", embedder="none") as kb:
        DirectorySync(kb, [root]).sync()
        (hit,) = kb.search("tea", dataset_id="d").hits
        assert hit.path is not None
        assert hit.path.samefile(tmp_path / "there" / "tea.md")


@pytest.mark.parametrize("how", ["removed", "a folder", "below a file"])
def test_a_file_whose_place_is_taken_is_gone(tmp_path: Path, how: str) -> None:
    file = tmp_path / "notes" / "of" / "tea.md"
    file.parent.mkdir(parents=True)
    file.write_text("A pot of tea.\n")
    with triptych.open(tmp_path / "kb.db", embedder="none") as kb:
        DirectorySync(kb, [SyncRoot(path=tmp_path / "notes", dataset_id="d")]).sync()
        file.unlink()
        if how == "a folder":
            file.mkdir()
        elif how == "below a file":
            file.parent.rmdir()
            file.parent.write_text("of tea")
        result = kb.search("tea", dataset_id="d")
        assert [hit.path for hit in result.hits] == [None]
        assert "'of/tea.md' has been deleted since the last sync" in result.warnings[0]
