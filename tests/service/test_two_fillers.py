"""Two processes fill one dataset's vectors at once: every vector is there, and right."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support import fill_script
from support.embed_script import SPACE, asked
from support.fill_script import DOCUMENTS, notes, open_store
from triptych_testing.builders import vector_of

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no O_APPEND for this log"),
    pytest.mark.process,
]

URLS = ("kb.db", "files://./kb")


def start(task: str, url: str, log: Path) -> subprocess.Popen[str]:
    """A process that has opened the store, and waits for its signal."""
    process = subprocess.Popen(
        [sys.executable, fill_script.__file__, task, url, str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def assert_done(process: subprocess.Popen[str]) -> None:
    out, _ = process.communicate(timeout=120)
    assert (out, process.returncode) == ("done\n", 0)


def assert_whole(url: str, log: Path) -> None:
    with open_store(url, log) as kb:
        (stats,) = kb.stats("d")
        assert (stats.documents, stats.vectors, stats.pending) == (DOCUMENTS, DOCUMENTS, 0)
        assert kb.doctor().findings == ()
        assert kb.capabilities.settings is not None
        assert dict(kb.capabilities.settings.list_settings()) == {}
        for chunk in kb.chunks.iter_chunks("d", vectors=True):
            assert chunk.vector is not None
            assert chunk.vector.tolist() == vector_of(chunk.content, SPACE).tolist()


@pytest.mark.parametrize(
    ("url", "tasks"),
    [
        (URLS[0], ("embed", "embed")),
        (URLS[0], ("put", "put")),
        pytest.param(URLS[0], ("embed", "put"), marks=pytest.mark.slow),
        pytest.param(URLS[1], ("embed", "embed"), marks=pytest.mark.slow),
        pytest.param(URLS[1], ("put", "put"), marks=pytest.mark.slow),
        (URLS[1], ("embed", "put")),
    ],
)
def test_of_two_processes_that_embed_at_once_every_vector_is_there(
    url: str, tasks: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "asked.log"
    if "embed" in tasks:
        with open_store(url, log) as kb:
            kb.put_documents("d", notes(), embed="later")
    both = [start(task, url, log) for task in tasks]
    go(*both)
    for process in both:
        assert_done(process)
    times = Counter(text for _, text in asked(log))
    assert set(times) == set(notes_as_logged())
    assert max(times.values()) <= 2
    assert_whole(url, log)


@pytest.mark.parametrize("url", [URLS[0], pytest.param(URLS[1], marks=pytest.mark.slow)])
def test_a_killed_process_blocks_nobody(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "asked.log"
    with open_store(url, log) as kb:
        kb.put_documents("d", notes(), embed="later")
    one, two = (start("embed", url, log) for _ in range(2))
    go(one, two)
    end = time.monotonic() + 60
    while not any(call.startswith(f"{one.pid}/") for call, _ in asked(log)):
        assert time.monotonic() < end
        time.sleep(0.001)
    one.kill()
    one.communicate()
    assert_done(two)
    times = Counter(text for _, text in asked(log))
    assert set(times) == set(notes_as_logged())
    assert max(times.values()) <= 2
    assert_whole(url, log)


def notes_as_logged() -> list[str]:
    return [repr(text) for text in notes().values()]
