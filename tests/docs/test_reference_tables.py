"""Tables of the reference are those of the program, and say each thing once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.cli_run import Shell, fresh_shell
from support.doc_pages import COMMUNITY, ISSUE_FORMS, PAGES, prose
from support.loaded import load
from support.rows import each_row
from triptych_testing import failures

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
GENERATED = ("command-line.md", "settings.md", "../how-to/write-a-backend.md")


TOOL = load("tools/generate_reference.py")
ALL = tuple(name for name, _ in TOOL.commands())


@pytest.mark.parametrize("name", GENERATED)
def test_the_tables_are_those_that_the_tool_writes(name: str) -> None:
    assert TOOL.pages()[name] == (REFERENCE / name).read_text(encoding="utf-8"), (
        "python tools/generate_reference.py"
    )


def _says_nothing_twice(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\n)+", prose(page) + "\n", re.MULTILINE):
        first = [line.strip("|").split(" | ")[0].strip() for line in table.splitlines()[2:]]
        # Of several places that are named, the order does not matter.
        said = [" ".join(sorted(cell.split(", "))) for cell in first if cell]
        assert [cell for cell in said if said.count(cell) > 1] == []


def test_no_table_says_a_thing_twice() -> None:
    assert failures(sorted(REFERENCE.glob("*.md")), _says_nothing_twice) == []


def _holds_no_mark_of_a_merge(page: Path) -> None:
    assert re.findall(r"^(?:<{7}|>{7}).*$", page.read_text(encoding="utf-8"), re.MULTILINE) == []


def test_no_page_holds_what_a_merge_left() -> None:
    assert failures(sorted(REFERENCE.glob("*.md")), _holds_no_mark_of_a_merge) == []


# What --json prints has its row

ROWS = {
    command: fields
    for names, fields in re.findall(
        r"^\| ((?:`[\w -]+`(?:, )?)+) \| (.*) \|$",
        prose(REFERENCE / "command-line.md").partition("## JSON")[2],
        re.MULTILINE,
    )
    for command in re.findall(r"`([^`]+)`", names)
}
GOLDEN = """queries:
  - question: What does tea need?
    relevance: {a.md: 1}
  - question: What does bread need?
    relevance: {b.md: 1}
"""
RUN: dict[str, list[str]] = {
    "init": [],
    "install": ["claude"],
    "uninstall": ["claude"],
    "put": ["notes"],
    "add": ["notes", "--dataset", "kept"],
    "list --folders": [],
    "sync": [],
    "search": ["water"],
    "similar": ["default/a.md"],
    "related": ["default/a.md"],
    "impact": ["default/a.md", "--versions", ".."],
    "context": ["water"],
    "list --pipelines": [],
    "get": ["default/a.md"],
    "list": [],
    "list --datasets": [],
    "list --count": [],
    "tag": ["default/a.md", "--set", "lang=en"],
    "history": ["default/a.md"],
    "diff": ["default/a.md", "1"],
    "changes": [],
    "admin create": ["empty"],
    "rebuild": [],
    "embed": [],
    "status": [],
    "doctor": [],
    "admin keys add": ["team"],
    "admin keys list": [],
    "admin review": ["kept"],
    "admin proposals list": [],
    "admin keys revoke": ["ID"],
    "layers build --dry-run": ["--list"],
    "layers build": [],
    "layers show": ["default/a.md"],
    "layers ledger": [],
    "eval retrieval": ["golden.yaml", "--output", "one.json"],
    "eval compare": ["one.json", "one.json"],
    "eval calibrate": ["calibration.yaml"],
    "eval log": [],
    "backup": ["backup.db"],
    "restore": ["default/a.md", "1"],
    "copy": [".triptych/kb.db", "other.db"],
    "import": ["rows.jsonl"],
    "remove": ["notes", "--dataset", "kept", "--keep"],
    "delete": ["default/b.md"],
}
"""A run of each command with --json, in order; those in `ELSEWHERE` need more than a folder."""
ELSEWHERE = {
    "ask": "a model",
    "eval rag": "a model",
    "eval questions": "a model",
    "watch": "goes on",
    "serve": "goes on",
    "console": "goes on",
    "trust": "a folder of others",
    "admin fetch": "a network",
    "admin proposals show": "an agent's write",
    "admin proposals approve": "an agent's write",
    "admin proposals refuse": "an agent's write",
}
WITHOUT = ("mcp", "export")
"""Commands that print no object of their own."""


def test_every_command_has_its_row_of_what_json_holds() -> None:
    assert {name for name in ALL if name not in ROWS and name not in WITHOUT} == set()
    assert {name for name in ROWS if name.partition(" --")[0] not in ALL} == set()
    assert set(ALL) == {name.partition(" --")[0] for name in (*RUN, *ELSEWHERE, *WITHOUT)}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        shell: Shell = fresh_shell(tmp_path_factory.mktemp("at"), monkeypatch)
        shell.write("notes/a.md", "# Tea\n\nTea needs hot water.\n")
        shell.write("notes/b.md", "# Bread\n\nBread needs time.\n")
        shell.write("golden.yaml", GOLDEN)
        none = "".join(f"  - question: Who is {n}?\n    answerable: false\n" for n in range(12))
        some = "".join(
            f"  - question: What does tea need {n}?\n    relevance: {{a.md: 1}}\n"
            for n in range(12)
        )
        shell.write("calibration.yaml", f"queries:\n{some}{none}")
        shell.write("rows.jsonl", '{"name": "c.md", "content": "Milk."}\n')
        found: dict[str, Any] = {}
        for name, arguments in RUN.items():
            given = [found["admin keys add"]["id"] if each == "ID" else each for each in arguments]
            ran = shell(*name.split(), *given, "--json")
            assert ran.code == 0, (name, ran.both)
            found[name] = ran.json
    return found.__getitem__


@each_row("name", RUN)
def test_a_row_names_every_field_that_is_printed(name: str, printed: Callable[[str], Any]) -> None:
    fields = set(printed(name)) - {"schema", "command"}
    named = set(re.findall(r"`(\w+)`", ROWS[name]))
    for other in re.findall(r"fields of `([\w ]+)`", ROWS[name]):
        named |= set(re.findall(r"`(\w+)`", ROWS[other]))
    assert fields - named == set()


# What pages say of commands

OPTIONS = {
    name: {opt for each in command.params for opt in (*each.opts, *each.secondary_opts)}
    for name, command in TOOL.commands()
}
_SPAN = re.compile(r"`triptych ((?:[a-z]+ ?)+)([^`]*)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]+")
_EVERY = {"--help", "--version", "--install-completion", "--show-completion"}


def _names_commands_and_options(page: Path) -> None:
    unknown = []
    for words, rest in _SPAN.findall(prose(page)):
        given = words.split()
        name = next((n for n in (" ".join(given[:k]) for k in (3, 2, 1)) if n in OPTIONS), None)
        if name is None:
            if not any(each.split()[0] == given[0] for each in OPTIONS):
                unknown.append(given[0])
            continue
        unknown += [
            f"{name} {opt}" for opt in _OPTION.findall(rest) if opt not in OPTIONS[name] | _EVERY
        ]
    assert unknown == []


def test_a_page_names_commands_and_options_that_there_are() -> None:
    assert failures([*PAGES, *COMMUNITY, *ISSUE_FORMS], _names_commands_and_options) == []
