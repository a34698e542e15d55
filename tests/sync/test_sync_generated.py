"""Folders of installed or generated files: left out, named, and taken when asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import triptych
from support.cli_run import Shell, fresh_shell
from support.sync_folder import Desk, TextFiles, desk as made_desk
from triptych import ValidationError
from triptych.parsing.files import GENERATED
from triptych.records import EventKind
from triptych.shortcuts import ingest_directory
from triptych.sync import SyncOptions

OWN = [
    "README.md",
    "api/target/a.md",
    "dist/own.md",
    "docs/build/a.md",
    "docs/vendor/a.md",
    "env/notes.md",
    "site/a.md",
]
"""Documents in folders whose names tools use too, where no tool's file is beside them."""

MADE = {
    "go/vendor/": "installed packages",
    "guide/site/": "generated files",
    "py/__pycache__/": "a cache",
    "py/dist/": "generated files",
    "py/pkg.egg-info/": "installed packages",
    "rust/target/": "generated files",
    "tags/": "a cache",
    "tools/env/": "a virtual environment",
    "web/build/": "generated files",
    "web/deep/node_modules/": "installed packages",
    "web/node_modules/": "installed packages",
}
MARKERS = [
    "go/go.mod",
    "guide/mkdocs.yml",
    "py/pyproject.toml",
    "rust/Cargo.toml",
    "tags/CACHEDIR.TAG",
    "tools/env/pyvenv.cfg",
    "web/package.json",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in [*OWN, *MARKERS, *(f"{each}lib/made.md" for each in MADE)]:
        file = tmp_path / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"text of {name}")
    return tmp_path / "root"


EVERYTHING = sorted([*OWN, *(f"{each}lib/made.md" for each in MADE)])


def left_out(skipped: Any) -> dict[str, str]:
    return {each.name: each.reason for each in skipped if each.reason in GENERATED}


def test_a_sync_leaves_them_out_and_names_them(tmp_path: Path, folder: Path) -> None:
    with made_desk(tmp_path, root=False) as desk:
        syncing = desk.syncing()
        assert left_out(syncing.plan().skipped) == MADE
        report = syncing.sync()
        assert desk.names == OWN
        assert left_out(report.skipped) == left_out(syncing.left_out) == MADE
        assert desk.sync(all_folders=True).added == len(MADE)
        assert desk.names == EVERYTHING
        assert len(desk.sync().deleted) == len(MADE)


def test_a_look_up_and_a_walk_agree(tmp_path: Path, folder: Path) -> None:
    with made_desk(tmp_path, root=False) as desk:
        for syncing in (desk.syncing(), desk.syncing(options={"all_folders": True})):
            ((_, scanner),) = syncing._roots  # what syncs of single documents ask
            found = scanner.scan().files
            for name in EVERYTHING:
                assert list(scanner.look(name).files) == [name] * (name in found)


@pytest.mark.parametrize("file", [".gitignore", ".triptychignore"])
def test_a_negated_pattern_takes_them(tmp_path: Path, folder: Path, file: str) -> None:
    (folder / file).write_text("!dist/\n!/web/node_modules/\n")
    (folder / "go" / file).write_text("!vendor\n")
    with made_desk(tmp_path, root=False) as desk:
        desk.sync()
        assert sorted({*desk.names} - {*OWN}) == [
            "go/vendor/lib/made.md",
            "py/dist/lib/made.md",
            "web/node_modules/lib/made.md",
        ]


def test_a_root_of_such_a_name_is_taken(tmp_path: Path, folder: Path) -> None:
    with made_desk(tmp_path, root=False) as desk:
        desk.syncing(path=folder / "web" / "node_modules").sync()
        assert desk.names == ["lib/made.md"]


def test_a_folder_that_is_ingested_is_judged_likewise(folder: Path) -> None:
    with triptych.open("memory://", embedder="hash") as kb:
        report = ingest_directory(kb, folder, "d", parser=TextFiles())
        assert [info.name for info in kb.list_documents("d")] == OWN
        assert left_out(report.skipped) == MADE
        assert ingest_directory(kb, folder, "d", parser=TextFiles(), all_folders=True).added == len(
            MADE
        )
        with pytest.raises(ValidationError, match="all_folders"):
            ingest_directory(kb, folder, "d", all_folders=1)  # type: ignore[arg-type]  # the point
    with pytest.raises(ValidationError, match="all_folders"):
        SyncOptions(all_folders="yes")  # type: ignore[arg-type]  # likewise


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    return fresh_shell(tmp_path, monkeypatch)


@pytest.mark.parametrize("command", ["put", "sync"])
def test_the_commands_name_them_and_have_an_option(shell: Shell, command: str) -> None:
    for name in ("own.md", "node_modules/a.md", "node_modules/b/c.md", "env/a.md"):
        shell.write(f"docs/{name}", name)
    shell.write("docs/env/pyvenv.cfg", "home = /usr")
    ran = shell(command, "docs")
    assert (
        "skipped 2 folders: env/ (a virtual environment), node_modules/ (installed packages); "
        "--all-folders includes them" in ran.err
    )
    assert [row[0] for row in shell("list").rows] == ["own.md"]
    skipped = shell(command, "docs", "--json").json["skipped"]
    assert {"name": "node_modules/", "reason": "installed packages"} in skipped
    assert "left out" not in shell(command, "docs", "--all-folders").err
    assert [row[0] for row in shell("list").rows] == [
        "env/a.md",
        "node_modules/a.md",
        "node_modules/b/c.md",
        "own.md",
    ]


def test_a_tool_s_file_that_comes_or_goes_means_the_whole_dataset(
    tmp_path: Path, folder: Path
) -> None:
    def kinds(desk: Desk, name: str) -> list[tuple[EventKind, str]]:
        changed = syncing.changes([str(desk.root / name)])
        return [(event.kind, event.doc_name) for event in changed]

    with made_desk(tmp_path, root=False) as desk:
        syncing = desk.syncing()
        syncing.sync()
        whole = [(EventKind.BULK, "")]
        assert kinds(desk, "web/package.json") == whole
        os.remove(folder / "tools/env/pyvenv.cfg")
        assert kinds(desk, "tools/env/pyvenv.cfg") == whole
        assert kinds(desk, "docs/package.json") == whole  # beside docs/build
        assert kinds(desk, "api/package.json") == []
        syncing.sync()
        assert "tools/env/lib/made.md" in desk.names
