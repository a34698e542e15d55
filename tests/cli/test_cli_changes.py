"""``triptych changes``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import triptych
from support.cli_run import Shell, fresh_shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    shell = fresh_shell(tmp_path, monkeypatch)
    for name in ("a.md", "b.md"):
        shell.write(f"docs/{name}", f"# {name}\n")
    assert shell("put", "docs").code == 0
    return shell


def test_changes_are_listed_from_a_cursor_on(shell: Shell) -> None:
    ran = shell("changes")
    assert ran.code == 0
    assert ran.rows == [["added", "default", "a.md", "1"], ["added", "default", "b.md", "1"]]
    cursor = ran.err.split("--since ")[1].split()[0]
    assert shell("changes", "--since", cursor).rows == []
    assert shell("delete", "a.md").code == 0
    (shell.directory / "docs" / "a.md").unlink()
    shell.write("docs/b.md", "# Other\n")
    assert shell("put", "docs").code == 0
    found = shell("changes", "--since", cursor, "--json").json
    assert [(each["kind"], each["name"]) for each in found["changes"]] == [
        ("deleted", "a.md"),
        ("updated", "b.md"),
    ]
    assert (found["reset"], found["more"]) == (False, False)
    page = shell("changes", "--since", cursor, "-n", "1", "--json").json
    assert page["more"]
    rest = shell("changes", "--since", page["cursor"], "--json").json
    assert (len(rest["changes"]), rest["cursor"]) == (1, found["cursor"])
    assert shell("changes", "--dataset", "other").rows == []


def test_what_is_no_cursor_is_an_error_and_another_stores_is_a_reset(shell: Shell) -> None:
    ran = shell("changes", "--since", "yesterday")
    assert ran.code == 2
    assert "no cursor of changes" in ran.err
    ran = shell("changes", "--since", "9-0123456789abcdef")
    assert (ran.code, len(ran.rows)) == (0, 2)
    assert "reset" in ran.err
    assert shell("changes", "--limit", "0").code == 2


def test_changes_are_followed_until_it_is_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder=None) as kb:
        kb.put_document("d", "a.md", "one")
        command = [sys.executable, "-m", "triptych_adapters.cli", "changes", "--follow", "--json"]
        with subprocess.Popen(
            [*command, "--store", str(path), "--poll", "0.02"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            lines = []
            for name in ("a.md", "b.md", "c.md"):
                kb.put_document("d", name, "one")
                lines.append(json.loads(process.stdout.readline()))
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=30)
    assert (process.returncode, rest, said) == (0, "", "stopped\n")
    assert [[each["name"] for each in line["changes"]] for line in lines] == [
        ["a.md"],
        ["b.md"],
        ["c.md"],
    ]
    assert all((line["command"], line["schema"]) == ("changes", 1) for line in lines)
