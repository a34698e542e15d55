"""Several processes on one filesystem store: kills at every step on the disk, races, forks."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.files_steps import (
    BEGINNING,
    STEPS,
    State,
    assert_no_version_comes_again,
    difference,
    opened,
    state,
    without,
)
from triptych.errors import ConflictError, StoreError, StoreLockedError
from triptych.records import NewDocument
from triptych_backends.filesystem import FilesStore, store as files_store
from triptych_backends.filesystem.disk import Disk

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
    pytest.mark.process,
]

KILLS = 12


def in_child(work: Callable[[], object]) -> int:
    """Run ``work`` in a forked child; its process id. The child ends with 0 if all went well."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Killer(Disk):
    """A disk that ends the process before one of its operations."""

    count = 0
    last = 0

    def reached(self) -> None:
        cls = type(self)
        cls.count += 1
        if cls.count == cls.last:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, path: str, data: bytes) -> None:
        self.reached()
        super().write(path, data)

    def sync(self, handle: int, path: str) -> None:
        self.reached()
        super().sync(handle, path)

    def rename(self, old: str, new: str) -> None:
        self.reached()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self.reached()
        super().remove(path)

    def make_folder(self, path: str) -> bool:
        self.reached()
        return super().make_folder(path)

    def remove_folder(self, path: str) -> bool:
        self.reached()
        return super().remove_folder(path)

    def sync_folder(self, path: str) -> None:
        self.reached()
        super().sync_folder(path)


def run(root: Path, last: int) -> tuple[int, int]:
    """The steps in a child that is killed before operation ``last``: steps done, operations."""
    read_end, write_end = os.pipe()

    def work() -> None:
        Killer.count, Killer.last = 0, last
        with opened(root, Killer) as store:
            for step in [*BEGINNING, *STEPS]:
                step(store)
                os.write(write_end, b"%d\n" % Killer.count)

    child = in_child(work)
    os.close(write_end)
    with open(read_end, "rb") as told:
        lines = told.read().split()
    assert wait(child) == (-signal.SIGKILL if last else 0)
    return len(lines), int(lines[-1]) if lines else 0


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> list[State | None]:
    """What is true after each step, None after an edit by hand; the first: before any."""
    with opened(tmp_path_factory.mktemp("whole") / "kb") as store:
        states: list[State | None] = [state(store)]
        for step in [*BEGINNING, *STEPS]:
            step(store)
            states.append(None if step.path else state(store))
    return states


@pytest.fixture(scope="module")
def operations(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many operations there are."""
    done, count = run(tmp_path_factory.mktemp("counted") / "kb", 0)
    assert done == len(BEGINNING) + len(STEPS)
    return count


def killed_at(points: Iterable[int], folder: Path, states: list[State | None]) -> None:
    for last in points:
        root = folder / f"{last}"
        done, _ = run(root, last)
        steps = [*BEGINNING, *STEPS]
        seen = [shown for shown in states[: done + 1] if shown is not None]
        coming = [shown for shown in states[done + 1 :] if shown is not None][:1]
        edited = set()
        for step in reversed(steps[:done]):
            if not step.path:
                break
            edited.add(step.document)
        with opened(root) as store:
            found = state(store)
            allowed = [without(shown, edited) for shown in [seen[-1], *coming]]
            assert without(found, edited) in allowed, (
                last,
                done,
                [difference(found, shown) for shown in allowed],
            )
            assert store.problems() == ()
            assert drafts(root) == []
            assert_no_version_comes_again(store, seen)


def drafts(root: Path) -> list[Path]:
    """What a writer that was killed left half written."""
    own = root / ".triptych"
    return [*own.glob("*.tmp"), *(own / "journal").iterdir()]


def test_killed_before_operations_spread_over_all(
    tmp_path: Path, states: list[State | None], operations: int
) -> None:
    killed_at([1 + at * operations // KILLS for at in range(KILLS)], tmp_path, states)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_before_every_operation(
    tmp_path: Path, states: list[State | None], operations: int
) -> None:
    killed_at(range(1, operations), tmp_path, states)


def test_a_first_opening_and_a_setting_killed_anywhere_leave_no_draft(tmp_path: Path) -> None:
    def work(root: Path, last: int) -> None:
        Killer.count, Killer.last = 0, last
        with FilesStore.open(root, disk=Killer) as store:
            store.set_setting("key", "value", expected=None)

    for last in range(1, 100):
        root = tmp_path / f"{last}"
        ended = wait(in_child(lambda root=root, last=last: work(root, last)))  # type: ignore[misc]  # as below
        with FilesStore.open(root) as store:
            assert drafts(root) == [], last
            assert store.get_setting("key") in ({None, "value"} if ended else {"value"})
        if not ended:
            break
    assert not ended


class FailsOnce(Disk):
    """A disk that fails to put a document in place."""

    fails = False

    def rename(self, old: str, new: str) -> None:
        if self.fails and new.startswith("d/"):
            type(self).fails = False
            raise OSError(errno.EIO, "failed", self.real(new))
        super().rename(old, new)


def test_what_failed_half_way_comes_before_a_put_that_changes_nothing(tmp_path: Path) -> None:
    with FilesStore.open(tmp_path / "kb", disk=FailsOnce) as store:
        store.documents.put("d", NewDocument(name="a", content="one"))
        FailsOnce.fails = True
        new = [NewDocument(name=name, content="two") for name in "ab"]
        with pytest.raises(StoreError, match="failed"):
            store.documents.put_many("d", new)
        put = store.documents.put("d", NewDocument(name="a", content="one"))
        assert store.documents.get("d", "b") is not None
        assert store.documents.get("d", "a") == put
        assert [info.version for info in store.documents.versions("d", "a")] == [3, 2, 1]


def test_a_put_killed_anywhere_is_whole_for_a_process_that_stays(tmp_path: Path) -> None:
    """Also for one that had the store open all the time."""
    root = tmp_path / "kb"
    names = ["a", "folder/b"]

    def put(store: FilesStore, mark: str) -> None:
        new = [NewDocument(name=name, content=mark, metadata={"mark": mark}) for name in names]
        store.documents.put_many("d", new)

    def work(last: int) -> None:
        with FilesStore.open(root, disk=Killer) as mine:
            Killer.count, Killer.last = 0, last
            put(mine, "new")

    finished = set()
    with FilesStore.open(root) as store:
        for last in range(1, 100):
            put(store, "old")
            ended = wait(in_child(lambda last=last: work(last)))  # type: ignore[misc]  # mypy cannot infer a lambda's default
            found = [store.documents.get("d", name) for name in names]
            marks = {(one.content, one.metadata["mark"]) for one in found if one is not None}
            assert marks in ({("old", "old")}, {("new", "new")}), last
            assert len(found) == 2
            finished |= marks if ended else set()
            store.documents.put("d", NewDocument(name="c", content=f"{last}"))
            assert not (root / ".triptych" / "journal" / "intent.json").exists()
            if not ended:
                break
    assert finished == {("old", "old"), ("new", "new")}


def hammer(root: Path, worker: int, threads: int, seconds: float, into: Path) -> None:
    """Threads that write and read the same few documents, each seeing only whole states."""
    until = time.monotonic() + seconds
    names = ["a", "folder/b", "c"]

    def work(number: int) -> list[tuple[str, int]]:
        made = []
        count = 0
        while time.monotonic() < until:
            name = names[(number + count) % 3]
            count += 1
            text = f"{worker} {number} {count}\n" * (1 + count % 50)
            if count % 4 == 0:
                found = store.documents.get("d", name)
                if found is not None:
                    assert_whole(found.content)
                try:
                    assert_whole((root / "d" / name).read_text())
                except FileNotFoundError:
                    assert found is None
            elif count % 4 == 1:
                seen = store.documents.get("d", name)
                new = NewDocument(name=name, content=text, if_version=seen.version if seen else 0)
                try:
                    stored = store.documents.put("d", new)
                except ConflictError:
                    continue
                assert stored.version == (seen.version if seen else 0) + 1
                made.append((name, stored.version))
            else:
                stored = store.documents.put("d", NewDocument(name=name, content=text))
                made.append((name, stored.version))
        return made

    with FilesStore.open(root, lock_timeout=300) as store, ThreadPoolExecutor(threads) as pool:
        made = [one for of_thread in pool.map(work, range(threads)) for one in of_thread]
    into.write_text(json.dumps(made))


def assert_whole(text: str) -> None:
    lines = text.splitlines()
    assert len(set(lines)) == 1, "a torn read"
    assert len(lines) == 1 + int(lines[0].split()[2]) % 50


def hammered(tmp_path: Path, *, processes: int, threads: int, seconds: float) -> None:
    root = tmp_path / "kb"
    FilesStore.open(root).close()
    parts = [tmp_path / f"{worker}.json" for worker in range(processes)]
    children = [
        in_child(lambda worker=worker: hammer(root, worker, threads, seconds, parts[worker]))  # type: ignore[misc]  # mypy cannot infer a lambda's default
        for worker in range(processes)
    ]
    assert [wait(child) for child in children] == [0] * processes
    made = [(name, version) for part in parts for name, version in json.loads(part.read_text())]
    assert len(set(made)) == len(made), "a version was given twice"
    with FilesStore.open(root) as store:
        for name in {name for name, _ in made}:
            versions = sorted(version for other, version in made if other == name)
            assert versions == list(range(1, len(versions) + 1)), "a version was lost"
            found = store.documents.get("d", name)
            assert found is not None
            assert found.version == versions[-1]
            assert found.content == (root / "d" / name).read_text()


def test_threads_and_processes_lose_no_version_and_read_nothing_torn(tmp_path: Path) -> None:
    hammered(tmp_path, processes=2, threads=6, seconds=2)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fifty_threads_in_four_processes_for_a_minute(tmp_path: Path) -> None:
    hammered(tmp_path, processes=4, threads=50, seconds=60)


def test_a_fork_waits_for_a_write_and_leaves_both_sides_working(tmp_path: Path) -> None:
    with FilesStore.open(tmp_path / "kb") as store:
        inside = threading.Event()

        def hold() -> None:
            with store.writer.locked():
                inside.set()
                time.sleep(0.2)

        def work() -> None:
            store.documents.put("d", NewDocument(name="child", content="c"))

        holder = threading.Thread(target=hold)
        holder.start()
        assert inside.wait(30)
        child = in_child(work)
        holder.join()
        for number in range(5):
            store.documents.put("d", NewDocument(name=f"parent {number}", content="p"))
        assert wait(child) == 0
        assert len(store.documents.list("d")) == 6


def test_a_child_forked_in_a_long_write_takes_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_store, "FORK_WAIT", 0.05)
    root = tmp_path / "kb"
    with FilesStore.open(root, lock_timeout=0.3) as store:

        def work() -> None:
            with FilesStore.open(root, lock_timeout=30) as mine:
                mine.documents.put("d", NewDocument(name="child", content="c"))

        inside, leave = threading.Event(), threading.Event()

        def hold() -> None:
            with store.writer.lock.held():
                inside.set()
                leave.wait(30)

        holder = threading.Thread(target=hold)
        holder.start()
        assert inside.wait(30)
        with pytest.raises(StoreLockedError, match="another thread"):
            store.documents.put("d", NewDocument(name="a", content=""))
        with pytest.raises(StoreLockedError, match="another process"):
            FilesStore.open(root, lock_timeout=0.1)
        child = in_child(work)
        leave.set()
        holder.join()
        assert wait(child) == 0
        assert store.documents.get("d", "child") is not None


def test_closed_is_closed(tmp_path: Path) -> None:
    store = FilesStore.open(tmp_path / "kb")
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.documents.put_many("d", [NewDocument(name="a", content="")])
    assert not (tmp_path / "kb" / "d").exists()
