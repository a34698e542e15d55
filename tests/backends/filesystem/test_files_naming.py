"""Names as paths: what is readable stays, what some disk refuses is encoded."""

from __future__ import annotations

import pytest

from triptych_backends.filesystem.layout import (
    case_folded_path,
    decode,
    fallback,
    folder_of,
    id_of,
    is_ignored,
    name_of,
    path_of,
)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("guide/start.md", "guide/start.md"),
        ("名前/café 🦉.md", "名前/café 🦉.md"),
        ("100%", "100%25"),
        (".hidden/.env", "%2Ehidden/%2Eenv"),
        ("..", "%2E%2E"),
        ("../up", "%2E%2E/up"),
        ("/etc/passwd", "%/etc/passwd"),
        ("a//b", "a/%/b"),
        ("C:\\x", "C%3A%5Cx"),
        ("what?*", "what%3F%2A"),
        ("con", "%63on"),
        ("docs/AUX.tar.gz", "docs/%41UX.tar.gz"),
        ("lpt¹ .txt", "%6Cpt¹ .txt"),
        ("console", "console"),
        ("trailing. ", "trailing.%20"),
        ("dot.", "dot%2E"),
        ("e\u0301.md", "e%CC%81.md"),
        ("\ufffe\x85", "%EF%BF%BE%C2%85"),
        ("notes~", "notes%7E"),
        ("#draft#", "#draft%23"),
        ("Thumbs.db", "Thumbs.d%62"),
        ("guide/", "guide/%"),
        ("", "%"),
    ],
)
def test_a_name_is_its_path_but_for_what_is_unsafe(name: str, path: str) -> None:
    assert path_of(name) == path
    assert decode(path) == name


@pytest.mark.parametrize("name", ["x" * 201, "名" * 67, "/".join(["folder"] * 60)])
def test_what_is_too_long_has_no_path_of_its_own(name: str) -> None:
    assert path_of(name) is None
    assert len(fallback(name).encode()) < 60


def test_the_fallback_keeps_the_extension() -> None:
    assert fallback("x" * 300 + ".md").endswith(".md")
    assert decode(fallback("x" * 300)) is None


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("guide/start.md", "guide/start.md"),
        ("100%25", "100%"),
        ("100%", "100%"),
        ("a%2fb", "a%2fb"),
        ("a%2Fb", "a%2Fb"),
        ("a%41", "a%41"),
        ("e\u0301", "e\u0301"),
        ("%", "%"),
        ("%FF", "%FF"),
        ("con", "con"),
        ("line\nbreak", None),
        ("x" * 255 + "/" + "y" * 255 + "/" + "z" * 255 + "/" + "w" * 255 + "/v", None),
    ],
)
def test_a_file_that_a_person_made_is_named_after_its_path(path: str, name: str | None) -> None:
    assert name_of(path) == name


@pytest.mark.parametrize(
    ("dataset", "folder"),
    [
        ("docs", "docs"),
        ("team/docs", "team%2Fdocs"),
        ("_layers", "%5Flayers"),
        ("_Layers", "%5FLayers"),
        (".triptych", "%2Etriptych"),
        ("nul", "%6Eul"),
    ],
)
def test_a_dataset_is_one_folder(dataset: str, folder: str) -> None:
    assert folder_of(dataset) == folder
    assert id_of(folder) == dataset


@pytest.mark.parametrize("folder", ["_layers", "_LAYERS", ".git", "old~"])
def test_some_folders_are_no_datasets(folder: str) -> None:
    assert id_of(folder) is None


@pytest.mark.parametrize("name", [".DS_Store", ".a.md.swp", "a.swp", "a.md~", "#a#", "DESKTOP.ini"])
def test_what_tools_drop_is_ignored(name: str) -> None:
    assert is_ignored(name)


def test_no_folder_beside_sidecars_is_named_like_one() -> None:
    assert case_folded_path("a", ".json") == "a.json"
    assert case_folded_path("a.json/b", ".json") == "a.json%/b.json"
    assert case_folded_path("a.JSON%/b", ".json") == "a.JSON%%/b.json"
    assert case_folded_path("a.L0.md/b", ".L1.md") == "a.L0.md%/b.L1.md"
    assert len(case_folded_path("x" * 255, ".json").encode()) < 60
