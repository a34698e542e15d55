"""``triptych history``, ``diff``, ``restore`` and ``get --version``."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from support.cli_run import Shell, fresh_shell
from triptych_adapters.cli.output import Output


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    for number, text in enumerate(("# A\n\nOne.\n", "# A\n\nTwo.\n", "# A\n\nTwo.\nThree.\n")):
        shell.write("docs/a.md", text)
        assert shell("put", "docs", "--metadata", f"round={number // 2}").code == 0
    return shell


def test_history_lists_versions_newest_first(shell: Shell) -> None:
    ran = shell("history", "a.md")
    assert ran.code == 0
    assert [row[:2] + row[3:] for row in ran.rows] == [
        ["3", "17", "current"],
        ["2", "10", ""],
        ["1", "10", ""],
    ]
    (newest, *_) = found = shell("history", "a.md", "--json").json["versions"]
    assert [each["version"] for each in found] == [3, 2, 1]
    assert (newest["name"], newest["size"], newest["metadata"]) == ("a.md", 17, {"round": "1"})


def test_get_prints_a_version_byte_for_byte(shell: Shell) -> None:
    assert shell("get", "a.md", "--version", "1").out == b"# A\n\nOne.\n"
    assert shell("get", "a.md", "--version", "2", "--info", "--json").json["document"][
        "metadata"
    ] == {"round": "0"}
    ran = shell("get", "a.md", "--version", "9")
    assert ran.code == 3
    assert "kept are: 3, 2, 1" in ran.err
    assert shell("get", "a.md", "--version", "0").code == 2


def test_diff_shows_what_changed(shell: Shell) -> None:
    ran = shell("diff", "a.md", "1", "2")
    assert ran.code == 0
    assert ran.text == (
        "--- a.md (version 1)\n+++ a.md (version 2)\n@@ -1,3 +1,3 @@\n # A\n \n-One.\n+Two.\n"
    )
    assert shell("diff", "a.md", "2").text.endswith(" Two.\n+Three.\n")
    assert shell("diff", "a.md").text == shell("diff", "a.md", "2").text
    shell.write("docs/b.md", "# B\n")
    shell("put", "docs/b.md", "--name", "b.md")
    assert "no difference" in shell("diff", "b.md").err
    assert shell("diff", "none.md").code == 3
    same = shell("diff", "a.md", "3")
    assert (same.code, same.text) == (0, "")
    assert "no difference" in same.err
    found = shell("diff", "a.md", "2", "--json").json
    assert (found["old"], found["new"]) == (2, None)
    assert "+Three." in found["diff"]


def test_diff_is_coloured_on_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.write("docs/a.md", "# A\n\nTwo.\nThree \x1b[31mred.\n")
    assert shell("put", "docs", "--metadata", "round=1").code == 0
    screen = io.StringIO()

    def on_terminal(output: Output) -> None:
        console = Console(file=screen, force_terminal=True, color_system="standard", width=80)
        object.__setattr__(output, "stdout", console)
        object.__setattr__(output, "stderr", Console(stderr=True))

    monkeypatch.setattr(Output, "__attrs_post_init__", on_terminal)
    assert shell("diff", "a.md", "3").code == 0
    shown = screen.getvalue()
    assert "\x1b[31m-Three.\x1b[0m\n" in shown
    assert "\x1b[32m+Three ‹U+001B›[31mred.\x1b[0m\n" in shown
    assert "\x1b[1m--- a.md (version 3)\x1b[0m\n" in shown
    assert shell("history", "a.md").code == 0
    assert "current" in screen.getvalue()


def test_restore_puts_a_version_back(shell: Shell) -> None:
    ran = shell("restore", "a.md", "1")
    assert (ran.code, ran.text) == (0, "")
    assert "a.md is version 1 again, as version 4" in ran.err
    assert shell("get", "a.md").out == b"# A\n\nOne.\n"
    again = shell("restore", "a.md", "1", "--json").json
    assert (again["changed"], again["document"]["version"]) == (False, 4)
    assert "nothing to do" in shell("restore", "a.md", "4").err
    assert shell("restore", "a.md", "2", "--if-version", "3").code == 4
    assert shell("restore", "a.md", "9").code == 3
    assert shell("restore", "none.md", "1").code == 3
    said = shell("restore", "a.md")
    assert (said.code, "`triptych restore a.md 3`" in said.err) == (2, True)
    assert shell("search", "one").rows[0]


def test_a_purge_takes_the_history_along(shell: Shell) -> None:
    assert shell("delete", "a.md", "--purge").code == 0
    assert shell("history", "a.md").code == 3
