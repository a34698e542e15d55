"""The write-ahead log is removed beneath a store that has it open, as by ``rm kb.db-*``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import triptych
from support.forked import context
from triptych.errors import StoreError

pytestmark = pytest.mark.process

DURING: dict[str, Callable[[triptych.Service], object]] = {
    "write": lambda kb: kb.put_document("d", "late", "late"),
    "read": lambda kb: kb.get_document("d", "mine-0"),
    "search": lambda kb: kb.search("mine", dataset_id="d", mode="bm25"),
    "doctor": lambda kb: kb.doctor(),
    "nothing": lambda kb: None,
}


def victim(path: str, use: str, pipe: Connection) -> None:
    """Write, wait until the harm is done, use the store, and say what came of it."""
    said = []
    with triptych.open(path, embedder="none", background_index=False) as kb:
        for number in range(5):
            kb.put_document("d", f"mine-{number}", "mine")
        pipe.send("written")
        pipe.recv()
        try:
            DURING[use](kb)
        except StoreError as error:
            said.append(str(error))
    try:
        with triptych.open(path, embedder="none") as kb:
            kb.put_document("d", "again", "again")
    except StoreError as error:
        said.append(str(error))
    pipe.send(said)
    pipe.recv()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[[str], Connection]]:
    processes = []

    def start(use: str) -> Connection:
        ours, theirs = context().Pipe()
        process = context().Process(target=victim, args=(str(tmp_path / "kb.db"), use, theirs))
        process.start()
        processes.append(process)
        assert ours.recv() == "written"
        return ours

    yield start
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


@pytest.mark.parametrize("use", DURING)
@pytest.mark.parametrize("ends", [("-wal", "-shm"), ("-wal", "-shm", "-wal.owner")])
def test_what_others_write_then_stays(
    tmp_path: Path, started: Callable[[str], Connection], use: str, ends: Sequence[str]
) -> None:
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder="none") as kb:
        kb.put_document("d", "first", "first")
    pipe = started(use)
    for end in ends:
        path.with_name(path.name + end).unlink()
    with triptych.open(path, embedder="none") as kb:
        for number in range(20):
            kb.put_document("d", f"theirs-{number}", "theirs " * 50)
    pipe.send("go on")
    said = pipe.recv()
    if use != "nothing":
        assert "was removed or replaced" in said[0]
        assert "start the process again" in said[-1]
        assert len(said) == 2
    pipe.send("end")
    with triptych.open(path, embedder="none") as kb:
        names = {info.name for info in kb.list_documents("d")}
        assert {f"theirs-{number}" for number in range(20)} <= names
        assert kb.doctor().clean


def test_a_second_process_that_closes_takes_no_log_away(
    tmp_path: Path, started: Callable[[str], Connection]
) -> None:
    pipe = started("write")
    with triptych.open(tmp_path / "kb.db", embedder="none") as kb:
        kb.put_document("d", "theirs", "theirs")
    pipe.send("go on")
    assert pipe.recv() == []
    pipe.send("end")


def test_a_log_that_goes_with_the_last_close_is_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "kb.db"
    with triptych.open(path, embedder="none") as kb:
        kb.put_document("d", "a", "a")
        kb.store.database._connections.before_fork()  # closes every connection
        assert not path.with_name("kb.db-wal").exists()
        kb.store.database._connections.after_fork_in_parent()
        kb.put_document("d", "b", "b")
        assert len(kb.list_documents("d")) == 2
