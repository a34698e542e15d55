"""What is no regular file is refused by name, by each command that reads one."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.cli_run import ran
from support.sync_folder import until
from triptych.errors import ValidationError
from triptych.resources import open_regular
from triptych_backends.sqlite import open_backup
from triptych_evaluation import read_beir

COMMANDS = (
    ("restore", "{}", "other.db"),
    ("copy", "{}", "other.db"),
    ("copy", "kb.db", "{}"),
    ("import", "{}"),
    ("put", "{}"),
    ("put", "tea.md", "{}"),
    ("eval", "retrieval", "{}"),
    ("eval", "retrieval", "--beir", "{}"),
    ("eval", "compare", "{}", "{}"),
    ("eval", "calibrate", "{}"),
    ("ask", "tea", "--conversation", "{}"),
    ("--store", "{}", "search", "tea"),
)


@pytest.fixture(params=["pipe", "link to a device", "link to a pipe"])
def special(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("tea.md").write_text("# Tea\n\nhot\n")
    assert ran(["--store", "kb.db", "put", "tea.md"]).code == 0
    os.mkfifo("pipe")
    if request.param == "pipe":
        return "pipe"
    Path("link.zip").symlink_to("/dev/zero" if "device" in request.param else "pipe")
    return "link.zip"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_reads_a_pipe_or_a_device(command: tuple[str, ...], special: str) -> None:
    ended = ran(["--store", "kb.db", *(each.format(special) for each in command)])
    assert ended.code not in (0, 1)
    assert "a pipe or a device" in ended.both or "not a regular file" in ended.both
    assert not Path("other.db").exists()


WRITERS = (
    ("export", "-o", "pipe"),
    ("eval", "retrieval", "golden.yaml", "-o", "pipe"),
    ("eval", "retrieval", "golden.yaml", "--html", "pipe"),
    ("eval", "retrieval", "golden.yaml", "--runs", "runs"),
)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("tea.md").write_text("# Tea\n\nhot\n")
    Path("golden.yaml").write_text("- question: tea\n  expected_files: [tea.md]\n")
    assert ran(["--store", "kb.db", "put", "tea.md"]).code == 0
    os.mkfifo("pipe")
    Path("runs").mkdir()
    os.mkfifo(Path("runs") / "qrels.txt")
    return tmp_path / "pipe"


@pytest.mark.process
@pytest.mark.parametrize("command", WRITERS, ids=" ".join)
def test_no_command_waits_for_somebody_who_reads_a_pipe(
    command: tuple[str, ...], written: Path
) -> None:
    words = [sys.executable, "-m", "triptych_adapters.cli", "--store", "kb.db", *command]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode not in (0, 1)
    assert "is a pipe that nobody reads" in ended.stderr
    assert written.is_fifo()


def test_no_backup_is_written_into_a_pipe(written: Path) -> None:
    ended = ran(["--store", "kb.db", "backup", "pipe", "--overwrite"])
    assert ended.code not in (0, 1)
    assert "a pipe or a device" in ended.err
    assert written.is_fifo()


def test_pipe_that_somebody_reads_is_written(written: Path) -> None:
    with ThreadPoolExecutor() as reader:
        got = reader.submit(written.read_bytes)
        # The reader may not have opened it yet.
        until(lambda: ran(["--store", "kb.db", "export", "-o", "pipe"]).code == 0)
        assert b"hot" in got.result(30)


def test_library_refuses_them_too(special: str) -> None:
    for read in (open_backup, open_regular, read_beir):
        with pytest.raises(ValidationError, match="a pipe or a device"):
            read(special)


def test_folder_and_absence_are_what_they_were(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    with pytest.raises(FileNotFoundError):
        open_regular(tmp_path / "none")
