"""Power cuts: every operation on the disk is recorded, and replayed up to any of them.

What had not been synced by then is dropped, wholly or in part, as a disk may do: a file's bytes
until the file is synced, a name until its folder is. The store that is left, its derived database
gone or of an earlier day, must have all that was acknowledged, and of the write under way all or
nothing.
"""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from support.examples import examples
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
from triptych_backends.filesystem.disk import Disk

pytestmark = pytest.mark.property


@attrs.define
class Operation:
    """One step on the disk. ``file`` numbers the file that was written: names come and go."""

    kind: str
    path: str
    other: str = ""
    file: int = -1
    data: bytes = b""

    @property
    def folder(self) -> str:
        """Whose sync makes this step last."""
        return (self.other or self.path).rpartition("/")[0]


LOG: list[Operation] = []


class Recorder(Disk):
    """A disk that writes down what is done."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.files: dict[str, int] = {}

    def write(self, path: str, data: bytes) -> None:
        self.files[path] = len(LOG)
        LOG.append(Operation("write", path, file=len(LOG), data=data))
        super().write(path, data)

    def sync(self, handle: int, path: str) -> None:
        super().sync(handle, path)
        LOG.append(Operation("sync", path, file=self.files[path]))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        self.files[new] = self.files.pop(old, -1)
        LOG.append(Operation("rename", old, new, file=self.files[new]))

    def remove(self, path: str) -> None:
        super().remove(path)
        LOG.append(Operation("remove", path))

    def make_folder(self, path: str) -> bool:
        made = super().make_folder(path)
        if made:
            LOG.append(Operation("make folder", path))
        return made

    def remove_folder(self, path: str) -> bool:
        removed = super().remove_folder(path)
        if removed:
            LOG.append(Operation("remove folder", path))
        return removed

    def sync_folder(self, path: str) -> None:
        super().sync_folder(path)
        LOG.append(Operation("sync folder", path))


@attrs.frozen
class Recording:
    """``base`` is the folder as the recorder found it; ``states`` what was true after each ack."""

    base: Path
    log: list[Operation]
    states: list[State]


@functools.cache
def recording() -> Recording:
    """A store with some history is opened, and the steps carried out."""
    folder = Path(tempfile.mkdtemp(prefix="triptych-power-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = folder / "base"
    with opened(root) as store:
        for step in BEGINNING:
            step(store)
        states = [state(store)]
    shutil.copytree(root, folder / "live")
    LOG.clear()
    with opened(folder / "live", Recorder) as store:
        for step in STEPS:
            step(store)
            if step.path:
                # A person's edit, which is on the disk before the store sees it.
                kind = "hand removes" if step.text is None else "hand writes"
                LOG.append(Operation(kind, step.path, data=(step.text or "").encode()))
                continue
            mark = len(LOG)
            states.append(state(store))
            del LOG[mark:]
            LOG.append(Operation("ack", ""))
    return Recording(root, list(LOG), states)


def _lasting(
    done: list[Operation], choose: Callable[[int], int]
) -> tuple[dict[int, bytes], set[int]]:
    """What of each file was on the disk, and which steps were."""
    contents: dict[int, bytes] = {}
    lasting: set[int] = set()
    for at, one in enumerate(done):
        late = done[at:]
        if one.kind == "write":
            whole = any(later.kind == "sync" and later.file == one.file for later in late)
            kept = 2 if whole else choose(3)
            contents[one.file] = one.data[: len(one.data) * kept // 2]
        is_synced = any(later.kind == "sync folder" and later.path == one.folder for later in late)
        if one.kind.startswith(("sync", "ack", "hand")) or is_synced or choose(2):
            lasting.add(at)
    return contents, lasting


@contextmanager
def replayed(cut: int, choose: Callable[[int], int], *, older: bool) -> Iterator[Path]:
    """The folder after a power cut behind the first ``cut`` operations.

    ``choose(n)`` picks one of n outcomes of what had not been synced; the last is that it lasted.
    """
    record = recording()
    done = record.log[:cut]
    files: dict[str, bytes] = {}
    folders: set[str] = {""}
    for path in record.base.rglob("*"):
        place = path.relative_to(record.base).as_posix()
        if place.startswith(".triptych/derived"):
            continue
        if path.is_dir():
            folders.add(place)
        else:
            files[place] = path.read_bytes()
    contents, lasting = _lasting(done, choose)
    for at, one in enumerate(done):
        if one.kind.startswith("sync") or one.kind == "ack" or at not in lasting:
            continue
        if one.kind == "hand writes":
            folders.add(one.folder)
            files[one.path] = one.data
        elif one.kind == "hand removes":
            files.pop(one.path, None)
        elif one.kind == "write":
            files[one.path] = contents[one.file]
        elif one.kind == "rename":
            files.pop(one.path, None)
            files[one.other] = contents[one.file]
        elif one.kind == "remove":
            files.pop(one.path, None)
        elif one.kind == "make folder":
            folders.add(one.path)
        elif not any(place.startswith(f"{one.path}/") for place in {*files, *folders}):
            folders.discard(one.path)
    # The replay needs no durable disk of its own.
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="triptych-power-", dir=memory) as temporary:
        root = Path(temporary) / "kb"
        root.mkdir()
        for made in sorted(folders):
            if made.rpartition("/")[0] in folders:
                (root / made).mkdir(exist_ok=True)
        for path, data in files.items():
            if (root / path).parent.is_dir():
                (root / path).write_bytes(data)
        if older:
            shutil.copytree(
                record.base / ".triptych" / "derived",
                root / ".triptych" / "derived",
                dirs_exist_ok=True,
            )
        yield root


def assert_nothing_is_lost(cut: int, choose: Callable[[int], int], *, older: bool) -> None:
    record = recording()
    acks = sum(operation.kind == "ack" for operation in record.log[:cut])
    with replayed(cut, choose, older=older) as root:
        with opened(root) as store:
            found = state(store)
            allowed = record.states[acks : acks + 2]
            edited = _edited(record, cut)
            assert any(without(found, edited) == without(one, edited) for one in allowed), (
                f"cut {cut}, {acks} acks",
                difference(found, allowed[0]),
                difference(found, allowed[-1]),
            )
            assert store.problems() == ()
            assert_no_version_comes_again(store, record.states[: acks + 1])
            again = state(store)
        with opened(root) as store:
            assert state(store) == again
        assert not list((root / ".triptych" / "journal").iterdir())


def _edited(record: Recording, cut: int) -> set[tuple[str, str]]:
    """Documents that a person edited, which the store has not acknowledged yet."""
    edited: set[tuple[str, str]] = set()
    for operation in record.log[:cut]:
        if operation.kind == "ack":
            edited.clear()
        elif operation.kind.startswith("hand"):
            dataset, _, name = operation.path.partition("/")
            edited.add((dataset, name))
    return edited


def test_the_replay_of_everything_is_the_store_itself() -> None:
    record = recording()
    with (
        replayed(len(record.log), lambda count: count - 1, older=False) as root,
        opened(root) as store,
    ):
        assert state(store) == record.states[-1]


@functools.cache
def open_cuts() -> list[int]:
    """The cuts at which something has not been synced yet."""
    log = recording().log
    cuts = []
    for cut in range(1, len(log) + 1):
        asked: list[int] = []

        def choose(count: int, asked: list[int] = asked) -> int:
            asked.append(count)
            return 0

        _lasting(log[:cut], choose)
        if asked:
            cuts.append(cut)
    return cuts


@given(data=st.data(), older=st.booleans())
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_power_cuts_lose_nothing_that_was_acknowledged(data: st.DataObject, older: bool) -> None:
    cut = data.draw(st.sampled_from(open_cuts()), label="cut")
    assert_nothing_is_lost(cut, lambda count: data.draw(st.integers(0, count - 1)), older=older)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("older", [True, False])
@pytest.mark.parametrize("keep", ["nothing", "everything", "every other", "names only"])
def test_power_cuts_at_every_operation(keep: str, older: bool) -> None:
    for cut in range(len(recording().log) + 1):
        asked = iter(range(1_000_000))
        choices: dict[str, Callable[[int], int]] = {
            "nothing": lambda count: 0,
            "everything": lambda count: count - 1,
            "every other": lambda count, asked=asked: next(asked) % count,  # type: ignore[misc]  # mypy cannot infer a lambda's default
            "names only": lambda count: 1 if count == 2 else 0,
        }
        assert_nothing_is_lost(cut, choices[keep], older=older)
