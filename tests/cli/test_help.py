"""Help pages, pinned: `TRIPTYCH_SNAPSHOTS=write pytest tests/cli/test_help.py` renews them.

How a page is drawn is Typer's affair and changes with it, so the snapshots hold the words:
each page without its box lines, and with runs of spaces as one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from typer.testing import CliRunner

from support.rows import each_row
from triptych.records import Layer, Mode
from triptych_adapters.cli.app import COMMANDS as TOP, GROUPS, app
from triptych_adapters.cli.session import MEANINGS
from triptych_adapters.wire.errors import Exit
from triptych_factory import Settings

SNAPSHOTS = Path(__file__).with_name("cli_help")
COMMANDS = (
    "",
    "copy",
    "backup",
    "init",
    "put",
    "add",
    "remove",
    "sync",
    "watch",
    "serve",
    "console",
    "search",
    "similar",
    "related",
    "impact",
    "ask",
    "context",
    "get",
    "list",
    "tag",
    "history",
    "diff",
    "restore",
    "changes",
    "layers",
    "layers show",
    "layers build",
    "layers ledger",
    "rebuild",
    "embed",
    "status",
    "trust",
    "doctor",
    "import",
    "export",
    "mcp",
    "install",
    "uninstall",
    "delete",
    "eval",
    "eval retrieval",
    "eval compare",
    "eval calibrate",
    "eval log",
    "eval rag",
    "eval questions",
    "admin",
    "admin create",
    "admin fetch",
    "admin keys",
    "admin keys add",
    "admin keys list",
    "admin keys revoke",
    "admin proposals",
    "admin proposals list",
    "admin proposals show",
    "admin proposals approve",
    "admin proposals refuse",
    "admin review",
)


@cache
def page(command: str) -> str:
    shape = {"COLUMNS": "100", "NO_COLOR": "1"}
    done = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="triptych", env=shape)
    assert done.exit_code == 0
    return done.stdout


def words(text: str) -> str:
    lines = (
        re.sub(r"\s+", " ", re.sub(r"[│╭╮╰╯─]", " ", line)).strip() for line in text.split("\n")
    )
    return "\n".join(line for line in lines if line) + "\n"


def test_no_command_is_left_out() -> None:
    """Those of one level; groups have theirs in the list by hand."""
    missing = [name for name in TOP if not any(f"{name} " in f"{c} " for c in COMMANDS)]
    assert missing == []


@each_row("command", COMMANDS)
def test_a_help_page_is_as_it_was(command: str) -> None:
    file = SNAPSHOTS / f"{command.replace(' ', '-') or 'triptych'}.txt"
    shown = words(page(command))
    if os.environ.get("TRIPTYCH_SNAPSHOTS") == "write":
        SNAPSHOTS.mkdir(exist_ok=True)
        file.write_text(shown, encoding="utf-8")
    assert shown == file.read_text(encoding="utf-8")


@each_row("command", COMMANDS)
def test_a_help_page_stays_within_its_width_and_has_no_colour(command: str) -> None:
    shown = page(command)
    assert max(map(len, shown.splitlines())) <= 100
    assert "\x1b" not in shown


def test_every_command_shows_an_example() -> None:
    for command in COMMANDS:
        if command not in GROUPS:
            assert f"$ triptych {command}".strip() in page(command)


def test_every_exit_code_is_explained() -> None:
    assert set(MEANINGS) == set(Exit)
    shown = page("")
    for code, meaning in MEANINGS.items():
        assert f"{code:<3d} {meaning}" in shown


def test_the_choices_are_those_of_the_library() -> None:
    shown = words(page("search"))
    assert all(str(mode) in shown for mode in (*Mode, "sparse"))
    assert f"<{'|'.join(sorted(map(str, Layer)))}>" in page("search")


def test_the_reference_pages_have_the_same_exit_codes_and_settings() -> None:
    reference = Path(__file__).parents[2] / "docs" / "reference"
    text = (reference / "command-line.md").read_text(encoding="utf-8")
    for code, meaning in MEANINGS.items():
        assert f"| {code:d} | {meaning} |" in text
    text = (reference / "settings.md").read_text(encoding="utf-8")
    for setting in Settings().explain():
        # Tables have no variable.
        variable = f"`TRIPTYCH_{setting.name.upper()}`" if setting.name != "pipelines" else "none"
        assert f"| `{setting.name}` | {variable} | " in text


def test_the_command_runs_as_a_module_too() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "triptych_adapters.cli", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.startswith("triptych ")
