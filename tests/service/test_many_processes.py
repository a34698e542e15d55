"""A server, a watcher and three commands at once on one store: every guarantee holds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import triptych
from support import many_script

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and SIGTERM are POSIX"),
    pytest.mark.process,
]

COMMAND = [sys.executable, "-c", "from triptych_adapters.cli import main; main()"]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRIPTYCH_")}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TRIPTYCH_EMBEDDER": "hash",
        "TRIPTYCH_LOCK_TIMEOUT": "30",
    }


def begun(arguments: list[str], cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        cwd=cwd,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def text(name: str, edition: int) -> str:
    return f"# {name}\n\nA marked passage of {name}, edition {edition} zq{edition}x.\n"


def eventually(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


# Both stores are written from many processes in the suite; all of this at once on files is slow.
@pytest.fixture(params=["sqlite", pytest.param("files", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "kb.db") if request.param == "sqlite" else f"files://{tmp_path}/kb"


def test_a_server_a_watcher_and_three_commands_at_once(url: str, tmp_path: Path) -> None:
    at_once(url, tmp_path, rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_server_a_watcher_and_three_commands_at_length(url: str, tmp_path: Path) -> None:
    at_once(url, tmp_path, rounds=40)


def at_once(url: str, tmp_path: Path, *, rounds: int) -> None:
    watched, files = tmp_path / "watched", tmp_path / "files"
    for folder in (watched, files):
        folder.mkdir()
    for number in range(10):
        (watched / f"w{number}.md").write_text(text(f"w{number}", 0))
    with triptych.open(url, embedder="hash") as kb:
        kb.put_document("cli", "first.md", text("first", 0))
        server = begun([sys.executable, many_script.__file__, url], tmp_path)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        watch = [*COMMAND, "--store", url, "watch", str(watched), "--dataset", "watched"]
        watcher = begun([*watch, "--poll", "0.1", "--debounce", "0.1"], tmp_path)
        try:
            for edition in range(1, rounds + 1):
                one_round(kb, url, watched, files, edition)
            eventually(lambda: is_synced(kb, rounds), "the watcher fell behind")
        finally:
            watcher.send_signal(signal.SIGTERM)
            _, watched_errors = watcher.communicate(timeout=60)
            served, server_errors = server.communicate(timeout=60)
        assert "locked" not in watched_errors, watched_errors
        assert server_errors == ""
        count, *wrong = served.splitlines()
        assert wrong == []
        assert int(count) > 0
        report = kb.doctor()
        assert report.clean, [str(each) for each in report.findings]


def one_round(kb: triptych.Service, url: str, watched: Path, files: Path, edition: int) -> None:
    """Three commands at once, while the watcher has changes to take over."""
    for number in range(10):
        (watched / f"w{number}.md").write_text(text(f"w{number}", edition))
    puts = []
    for number in range(3):
        name = f"p{number}.md"
        (files / name).write_text(text(name, edition))
        puts.append(begun([*COMMAND, "--store", url, "put", name, "--dataset", "cli"], files))
    ended = [put.communicate(timeout=120) for put in puts]
    for number, (put, (_, errors)) in enumerate(zip(puts, ended, strict=True)):
        assert put.returncode == 0, errors
        # Told as done, it is found by everybody at once.
        stored = kb.get_document("cli", f"p{number}.md")
        assert stored.content == text(f"p{number}.md", edition)
        found = kb.search(f"zq{edition}x", dataset_id="cli", mode="bm25", top_k=50).hits
        assert f"p{number}.md" in {hit.doc_name for hit in found}


def is_synced(kb: triptych.Service, edition: int) -> bool:
    if "watched" not in kb.list_datasets():
        return False
    found = kb.search(f"zq{edition}x", dataset_id="watched", mode="bm25", top_k=50).hits
    return {hit.doc_name for hit in found} == {f"w{number}.md" for number in range(10)}


HOLD = """
import sys, time
import triptych
with triptych.open(sys.argv[1], embedder="hash") as kb:
    documents = kb.documents
    files = hasattr(documents, "writer")
    lock = documents.writer.locked() if files else documents.database.writing()
    with lock:
        print("held", flush=True)
        time.sleep(60)
"""


def test_the_lock_of_a_writer_that_was_killed_is_free_at_once(url: str, tmp_path: Path) -> None:
    with triptych.open(url, embedder="hash", lock_timeout=1) as kb:
        kb.put_document("d", "a.md", "Before.")
        holder = begun([sys.executable, "-c", HOLD, url], tmp_path)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(triptych.errors.StoreLockedError):
            kb.put_document("d", "a.md", "Refused.")
        holder.kill()
        holder.communicate(timeout=60)
        kb.put_document("d", "a.md", "After.")
        assert kb.get_document("d", "a.md").content == "After."
        assert kb.doctor().clean
