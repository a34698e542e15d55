"""Bulk writes are indexed by a second process: the same answers, whatever becomes of it."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from triptych import Mode, Service, ServiceOptions
from triptych_backends.filesystem import FilesStore
from triptych_backends.index import available_cores, helper
from triptych_backends.sqlite import SqliteStore
from triptych_models import HashEmbedder

WAIT = 60.0
SCRIPT = Path(__file__).parents[2] / "support" / "bulk_script.py"

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helpers begin early, on a machine of one core as well."""
    monkeypatch.setattr(helper, "HELP_FROM", 50)
    monkeypatch.setattr(helper, "_CGROUP_LIMIT", Path("/no/limit"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)


def service(store: SqliteStore | FilesStore) -> Service:
    return Service(store, options=ServiceOptions(embedder=HashEmbedder()))


def texts(first: int, last: int) -> Mapping[str, str]:
    drawn = random.Random(first)
    words = ("apple", "banana", "cherry", "damson", "elder", "fig", "café", "文書")
    return {
        f"note{n}.md": f"# {drawn.choice(words)}\n\n{' '.join(drawn.choices(words, k=9))} n{n}\n"
        for n in range(first, last)
    }


def answers(kb: Service) -> list[object]:
    """All that searches say, in every mode."""
    return [
        [
            (hit.doc_name, hit.chunk_index, hit.score, hit.content, hit.stale)
            for hit in kb.search(text, dataset_id="d", mode=mode, top_k=20).hits
        ]
        for mode in Mode
        for text in ("apple", "fig elder", "n7", "n312", "café 文書", "none of it")
    ]


def expected(path: Path, *batches: Mapping[str, str]) -> list[object]:
    with service(SqliteStore.open(path, background_index=False)) as kb:
        for batch in batches:
            kb.put_documents("d", batch)
        return answers(kb)


def wait_for(what: str, is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not is_done():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def is_published(store: SqliteStore) -> bool:
    folder = store.index.folder("d")
    assert folder is not None
    return folder.stamp() is not None


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
        # Killed, and not yet waited for by whoever adopted it.
        state = Path(f"/proc/{process}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False


def test_answers_are_the_same_with_a_helper_and_without(tmp_path: Path) -> None:
    wanted = expected(tmp_path / "alone.db", texts(0, 400), texts(350, 420))
    store = SqliteStore.open(tmp_path / "kb.db")
    with service(store) as kb:
        kb.put_documents("d", texts(0, 400))
        process = store.index.helper_process
        assert process is not None
        wait_for("the helper publishes", lambda: is_published(store))
        with service(SqliteStore.open(tmp_path / "kb.db", background_index=False)) as other:
            other.put_documents("d", texts(350, 420))
            assert answers(other) == wanted
        assert answers(kb) == wanted
        assert kb.doctor().clean
    assert not is_running(process)
    with service(SqliteStore.open(tmp_path / "kb.db", read_only=True)) as kb:
        assert answers(kb) == wanted
        assert kb.doctor().clean


def test_helper_serves_folders_of_files_too(tmp_path: Path) -> None:
    wanted = expected(tmp_path / "alone.db", texts(0, 120))
    store = FilesStore.open(tmp_path / "files")
    with service(store) as kb:
        kb.put_documents("d", texts(0, 120))
        wait_for("the helper publishes", lambda: is_published(store.mirror))
        assert answers(kb) == wanted
        assert kb.doctor().clean


def test_what_it_published_in_parts_becomes_one_and_is_adopted(tmp_path: Path) -> None:
    batches = [texts(at, at + 80) for at in range(0, 320, 80)]
    store = SqliteStore.open(tmp_path / "kb.db")
    with service(store) as kb:
        folder = store.index.folder("d")
        assert folder is not None
        for batch in batches:
            before = folder.stamp()
            kb.put_documents("d", batch)
            wait_for("it publishes", lambda before=before: folder.stamp() != before)
        wanted = expected(tmp_path / "alone.db", *batches)

        def is_one() -> bool:
            assert answers(kb) == wanted
            return len(store.index.views("d", "chunk")) == 1

        wait_for("nobody writes, and what is adopted is one segment", is_one)
        assert kb.doctor().clean


def test_it_ends_by_itself_and_another_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore.open(tmp_path / "kb.db")
    with service(store) as kb:
        kb.put_documents("d", texts(0, 100))
        first = store.index.helper_process
        assert first is not None
        wait_for("it has been idle", lambda: store.index.helper_process is None)
        assert not is_running(first)
        kb.put_documents("d", texts(100, 200))
        assert store.index.helper_process not in (None, first)
        assert answers(kb) == expected(tmp_path / "alone.db", texts(0, 100), texts(100, 200))
    assert caplog.records == []


def killed_at_random(tmp_path: Path, rounds: int, caplog: pytest.LogCaptureFixture) -> None:
    drawn = random.Random(rounds)
    for turn in range(rounds):
        caplog.clear()
        store = SqliteStore.open(tmp_path / f"kb{turn}.db")
        batches = [texts(at, at + 40) for at in range(0, 400, 40)]
        killed = False
        with service(store) as kb:
            for batch in batches:
                kb.put_documents("d", batch)
                process = store.index.helper_process
                if process is not None and not killed:
                    time.sleep(drawn.random() * 1.2)
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                    killed = True
            assert killed
            assert answers(kb) == expected(tmp_path / f"alone{turn}.db", *batches)
            assert kb.doctor().clean
            assert store.index.helper_process is None
        told = [each for each in caplog.records if "helper" in each.getMessage()]
        assert len(told) == 1


def test_killed_helper_takes_nothing_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    killed_at_random(tmp_path, 2, caplog)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_helper_killed_at_many_moments(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    killed_at_random(tmp_path, 40, caplog)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def killed_writer(tmp_path: Path, writer: list[subprocess.Popen[str]], wait: float) -> None:
    forks = [] if sys.platform == "win32" else ["fork"]
    for turn, how in enumerate([[], forks]):
        path = tmp_path / f"kb{turn}-{wait:.3f}.db"
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(path), *how],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        writer.append(process)
        assert process.stdout is not None
        helping = int(process.stdout.readline())
        assert is_running(helping)
        time.sleep(wait)
        process.kill()
        wait_for("the helper ends with the writer", lambda helping=helping: not is_running(helping))
        with service(SqliteStore.open(path)) as kb:
            names = {info.name for info in kb.list_documents("d")}
            found = kb.search("common", dataset_id="d", mode="bm25", top_k=len(names) + 5).hits
            assert {hit.doc_name for hit in found} | _pending(kb) == names
            kb.rebuild(dataset_id="d")
            assert kb.doctor().clean


def _pending(kb: Service) -> set[str]:
    """Documents that were committed, and not derived when the writer was killed."""
    derived = set(kb.chunks.doc_names("d"))
    return {info.name for info in kb.list_documents("d")} - derived


@pytest.mark.skipif(available_cores() < 2, reason="one core has no helper")
def test_helper_ends_when_its_writer_is_killed(
    tmp_path: Path, writer: list[subprocess.Popen[str]]
) -> None:
    killed_writer(tmp_path, writer, random.random())


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(available_cores() < 2, reason="one core has no helper")
def test_writer_killed_at_many_moments(tmp_path: Path, writer: list[subprocess.Popen[str]]) -> None:
    drawn = random.Random(1)
    for _ in range(20):
        killed_writer(tmp_path, writer, drawn.random() * 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_lets_go_of_the_helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    store = SqliteStore.open(tmp_path / "kb.db")
    with service(store) as kb:
        kb.put_documents("d", texts(0, 100))
        assert store.index.helper_process is not None
        child = os.fork()
        if not child:
            held = store.index.helper_process is not None
            os._exit(2 if held else bool(complaints))
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert store.index.helper_process is not None


def test_small_puts_start_nothing(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "kb.db")
    with service(store) as kb:
        kb.put_documents("d", texts(0, 49))
        assert store.index.helper_process is None
        kb.search("apple", dataset_id="d")
        kb.put_documents("d", texts(49, 98))
        assert store.index.helper_process is None


@pytest.mark.parametrize("how", ["switched off", "one core"])
def test_it_can_be_off(tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "one core":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    store = SqliteStore.open(tmp_path / "kb.db", background_index=how != "switched off")
    with service(store) as kb:
        kb.put_documents("d", texts(0, 120))
        assert store.index.helper_process is None


def test_a_container_of_one_core_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(helper, "_CGROUP_LIMIT", limit)
    limit.write_text("100000 100000\n")
    assert available_cores() == 1
    limit.write_text("50000 100000\n")
    assert available_cores() == 1
    limit.write_text("max 100000\n")
    free = available_cores()
    limit.unlink()
    assert available_cores() == free


@pytest.mark.parametrize("why", ["no program", "not found", "no folder"])
def test_what_hinders_a_helper_is_said_once(
    tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = expected(tmp_path / "alone.db", texts(0, 200), texts(200, 400))
    if why == "no program":
        monkeypatch.setattr(sys, "executable", "")
    elif why == "not found":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    store = SqliteStore.open(tmp_path / "kb.db")
    if why == "no folder":
        store.index_path.write_text("in the way")
    with service(store) as kb, caplog.at_level(logging.WARNING, "triptych.index"):
        kb.put_documents("d", texts(0, 200))
        if why == "no folder":
            wait_for("the helper fails", lambda: "no helper process" in caplog.text)
        kb.put_documents("d", texts(200, 400))
        assert answers(kb) == wanted
        told = [record for record in caplog.records if "helper" in record.getMessage()]
        assert len(told) == 1
        assert store.index.helper_process is None


def test_nothing_of_what_was_purged_is_left_by_the_helper(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "kb.db")
    with service(store) as kb:
        kb.put_documents("d", {**texts(0, 200), "secret.md": "xyzzyplugh was here\n"})
        process = store.index.helper_process
        assert process is not None
        kb.purge("d", "secret.md")
        assert not is_running(process)
        assert kb.search("xyzzyplugh", dataset_id="d", mode="bm25").hits == ()
    held = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"xyzzyplugh" in data for data in held)
