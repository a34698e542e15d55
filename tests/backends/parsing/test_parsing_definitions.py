"""The definitions of source files are found in bounded time, whatever the text."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

import triptych
from triptych import CancelledError
from triptych.parsing import ParsedFile, ParseLimits
from triptych_parsers import code, default_parser, definitions_process

pytest.importorskip("tree_sitter")
pytestmark = pytest.mark.process

SHAPES = [
    *((".. a::\n", name) for name in ("x.py", "x.go", "x.cpp")),
    *(("|-", name) for name in ("x.py", "x.js", "x.ts", "x.java", "x.go", "x.c")),
    *(("<!-", name) for name in ("x.py", "x.java", "x.cpp")),
    *(("<!-- ", name) for name in ("x.py", "x.go")),
    *((("+--"), name) for name in ("x.rs",)),
    *((("[],"), name) for name in ("x.go",)),
]
FUNCTION = "def f{0}(a):\n    # ünï\n    return a + {0}\n\n\n"


def read(name: str, text: str, **limits: float) -> ParsedFile:
    parser = default_parser(limits=ParseLimits(**limits), plugins=False)
    return parser.parse(name, text.encode())


class Heartbeat:
    """How long no other thread could run."""

    def __enter__(self) -> Heartbeat:
        self.longest = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat)
        self._thread.start()
        return self

    def _beat(self) -> None:
        last = time.monotonic()
        while not self._end.wait(0.01):
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


@pytest.mark.parametrize("size", [16_000, 200_000])
@pytest.mark.parametrize(("piece", "name"), SHAPES)
def test_text_that_is_no_code_ends_at_the_deadline(piece: str, name: str, size: int) -> None:
    text = piece * (size // len(piece))
    began = time.monotonic()
    with Heartbeat() as beat, triptych.deadline(0.5), suppress(CancelledError):
        assert read(name, text).content == text
    assert time.monotonic() - began < 3
    assert beat.longest < 2


def test_text_that_is_no_code_is_taken_as_plain_text_at_the_limit() -> None:
    text = ".. a::\n" * 28_000
    parsed = read("x.py", text, seconds=0.5)
    assert (parsed.content, parsed.parts) == (text, ())
    assert "takes more than 0.5 seconds" in parsed.notes[0]
    # The process that was killed is replaced by another.
    assert read("y.py", "".join(map(FUNCTION.format, range(600)))).parts


def test_deadline_that_passes_is_no_note() -> None:
    with triptych.deadline(0.3), pytest.raises(CancelledError):
        read("x.py", ".. a::\n" * 28_000)


def test_definitions_are_the_same_here_and_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(map(FUNCTION.format, range(1_000)))
    apart = read("x.py", text)
    monkeypatch.setattr(code, "_MOST_HERE", 1 << 30)
    here = read("x.py", text)
    assert apart == here
    assert len(apart.parts) == 1_000
    assert text[apart.parts[999].start : apart.parts[999].end].startswith("def f999(")


def test_one_process_reads_many_files() -> None:
    text = "".join(map(FUNCTION.format, range(600)))
    read("x.py", text)
    waiting = [each.process.pid for those in definitions_process._idle.values() for each in those]
    for _ in range(5):
        read("x.py", text)
    after = [each.process.pid for those in definitions_process._idle.values() for each in those]
    assert after == waiting != []


def test_process_that_has_ended_is_replaced() -> None:
    text = "".join(map(FUNCTION.format, range(600)))
    read("x.py", text)
    for those in definitions_process._idle.values():
        for each in those:
            each.process.kill()
            each.process.wait()
    assert read("x.py", text).parts


def test_where_no_process_can_be_started_the_text_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(definitions_process, "_idle", {})
    parsed = read("x.py", "".join(map(FUNCTION.format, range(600))))
    assert parsed.parts == ()
    assert "sys.executable" in parsed.notes[0]


def test_threads_read_at_once() -> None:
    text = "".join(map(FUNCTION.format, range(600)))
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(read("x.py", text).parts)))
        for _ in range(6)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [600] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_child_of_a_fork_has_processes_of_its_own() -> None:
    text = "".join(map(FUNCTION.format, range(600)))
    read("x.py", text)
    child = os.fork()
    if child == 0:
        os._exit(0 if len(read("x.py", text).parts) == 600 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(read("x.py", text).parts) == 600


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_interrupt_ends_a_sync_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "x.py").write_text(".. a::\n" * 28_000)
    command = [sys.executable, "-m", "triptych_adapters.cli", "sync", str(folder)]
    environment = {**os.environ, "TRIPTYCH_EMBEDDER": "hash"}
    running = subprocess.Popen(
        [*command, "-s", str(tmp_path / "kb.db")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    time.sleep(4)
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    running.communicate(timeout=60)
    assert time.monotonic() - began < 5
