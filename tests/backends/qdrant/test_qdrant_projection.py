"""The points in Qdrant follow the truth: after edits, absences, and kills at any point."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed: the extra dev has it")

from qdrant_client.models import FieldCondition, Filter, Range

from support.qdrant_edge import EdgeCollections
from support.qdrant_late import Late
from triptych.contracts import collected_warnings
from triptych.deadlines import CancelScope, deadline
from triptych.errors import CancelledError, StoreLockedError
from triptych.records import ChunkQuery
from triptych_backends.sqlite import SqliteStore
from triptych_qdrant import AwayError, BusyError, Point, QdrantStore
from triptych_qdrant.points import DATASET, POSITION, STATE, UNIT, point_id
from triptych_testing import entries
from triptych_testing.builders import fill, put, vector_of, vector_query

PAGES = {f"{number:02}": f"salmon {number}\n\nriver {number}\n\nstone" for number in range(70)}


class Killed(BaseException):
    """As if the process had ended here."""


class Failing(EdgeCollections):
    """Ends with `Killed` at the change of this number, before it or after it was made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.left = 1_000_000
        self.after = False

    def _change(self, make: Callable[[], None]) -> None:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        make()
        if self.left == 0:
            raise Killed

    def make(self, name: str, dimension: int) -> None:
        self._change(lambda: super(Failing, self).make(name, dimension))

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        self._change(lambda: super(Failing, self).put(name, points, over=over))

    def delete(self, name: str, where: Filter) -> None:
        self._change(lambda: super(Failing, self).delete(name, where))


def open_store(folder: Path, collections: EdgeCollections | None = None) -> QdrantStore:
    truth = SqliteStore.open(folder / "kb.db", background_index=False)
    return QdrantStore(truth, collections or EdgeCollections(folder / "qdrant"))


def near(*datasets: str, text: str = "salmon") -> ChunkQuery:
    return vector_query(vector_of(text), *datasets)


def points(store: QdrantStore, *units: str) -> list[dict[str, Any]]:
    """All points of these units, of any when none is named, whatever collection they are in."""
    found = [
        dict(point)
        for name in store.collections.names()
        for point in store.collections.list_points(name, Filter())
    ]
    return [point for point in found if not units or point[UNIT] in units]


def assert_is_projected(store: QdrantStore, dataset: str = "d") -> None:
    """The points are the truth's chunks, each once, and none else."""
    store.chunks.search(near(dataset))
    chunks = sorted((each.doc_name, each.index) for each in store.chunks.iter_chunks(dataset))
    assert sorted((p["name"], p["index"]) for p in points(store, "chunk")) == chunks
    assert {point[UNIT] for point in points(store)} <= {"chunk", POSITION}
    asked = vector_query(vector_of("salmon 3"), dataset, top_k=3)
    local = store.truth.searcher.search("chunk", asked)
    assert [(e.doc_name, e.index, e.key) for e in store.chunks.search(asked)] == [
        (e.doc_name, e.index, e.key) for e in local
    ]


def edit(store: QdrantStore) -> None:
    fill(store, "d", {"00": "stone", "01": "salmon 1\n\nriver\n\nriver\n\nriver", "new": "trout"})
    store.documents.delete("d", "02")


def test_edits_and_deletes_leave_no_orphans(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, "d", PAGES)
        assert_is_projected(store)
        edit(store)
        assert_is_projected(store)
        position = points(store, POSITION)
        assert [each[DATASET] for each in position] == ["d"]
        assert UUID(point_id("d", "chunk", 1, 0)).version == 5


def test_an_absence_is_replayed_when_it_is_over(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, "d", PAGES)
        assert_is_projected(store)
    with SqliteStore.open(tmp_path / "kb.db", background_index=False) as truth:
        store = QdrantStore(truth, Failing(tmp_path / "elsewhere"))
        edit(store)
    with open_store(tmp_path) as store:
        assert_is_projected(store)


def test_another_store_sees_each_write_before_it_searches(tmp_path: Path) -> None:
    shared = EdgeCollections(tmp_path / "qdrant")
    with open_store(tmp_path, shared) as one, open_store(tmp_path, shared) as other:
        fill(one, "d", {"a": "salmon"})
        for number in range(5):
            fill(one, "d", {f"{number}": f"trout {number}"})
            found = other.chunks.search(near("d", text=f"trout {number}"))
            assert found[0].doc_name == f"{number}"


@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_projection_that_ends_at_any_change_is_completed(tmp_path: Path, after: bool) -> None:
    at = 0
    done = False
    while not done:
        at += 1
        folder = tmp_path / f"{at}"
        folder.mkdir()
        collections = Failing(folder / "qdrant")
        collections.after = after
        store = open_store(folder, collections)
        contents = dict(list(PAGES.items())[:5])
        fill(store, "d", contents)
        collections.left = at
        try:
            store.chunks.search(near("d"))
            edit(store)
            store.chunks.search(near("d"))
            done = True
        except Killed:
            pass
        collections.left = 1_000_000
        store.close()
        with open_store(folder) as again:
            assert_is_projected(again)
    assert at > 8


_CHILD = """
import os, sys
from pathlib import Path
from support.qdrant_edge import EdgeCollections
from support.qdrant_late import Late
from triptych_testing.builders import vector_of, vector_query
from triptych_qdrant import QdrantStore
from triptych_backends.sqlite import SqliteStore

folder, left = Path(sys.argv[1]), int(sys.argv[2])

class Killing(EdgeCollections):
    def put(self, name, points, *, over):
        global left
        left -= 1
        super().put(name, points, over=over)
        if left == 0:
            os.kill(os.getpid(), 9)

store = QdrantStore(
    SqliteStore.open(folder / "kb.db", background_index=False), Killing(folder / "qdrant")
)
store.chunks.search(vector_query(vector_of("salmon"), "d"))
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "at", [pytest.param(1, marks=pytest.mark.slow), 3, pytest.param(4, marks=pytest.mark.slow)]
)
def test_a_killed_process_is_followed_by_one_that_goes_on(tmp_path: Path, at: int) -> None:
    with SqliteStore.open(tmp_path / "kb.db", background_index=False) as truth:
        fill(truth, "d", PAGES)
    ended = subprocess.run(
        [sys.executable, "-c", _CHILD, str(tmp_path), str(at)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
        check=False,
    )
    assert ended.returncode == -9
    with open_store(tmp_path) as store:
        assert_is_projected(store)


def test_a_late_request_of_a_killed_process_does_no_harm(tmp_path: Path) -> None:
    """It was made before an edit, and reaches Qdrant after the edit's points."""
    with open_store(tmp_path) as store:
        fill(store, "d", {"a": "salmon"})
        assert_is_projected(store)
        (name,) = store.collections.names()
        (old,) = points(store, "chunk")
        fill(store, "d", {"a": "trout"})
        assert_is_projected(store)
        late = Point(id=point_id("d", "chunk", old["owner"], 0), payload=old, vector=vector_of("x"))
        older = Filter(must=[FieldCondition(key=STATE, range=Range(lte=old[STATE]))])
        store.collections.put(name, [late], over=older)
        assert_is_projected(store)


@pytest.mark.parametrize("tries", [1, 2])
@pytest.mark.parametrize("fresh", [False, True])
def test_requests_that_arrive_after_others_took_over_do_no_harm(
    tmp_path: Path, tries: int, fresh: bool
) -> None:
    """Whatever they were that were cut off, as it wrote for the first time or later."""
    late = Late(tmp_path / "qdrant")
    at, ended = 0, False
    with open_store(tmp_path, late) as store:
        fill(store, "other", {"a": "salmon"})
        while not ended:
            at += 1
            name = f"d{at}"
            fill(store, name, {"kept": "salmon 3\n\nriver"})
            if not fresh:
                store.chunks.search(near(name))
            fill(store, name, {"gone": "salmon salmon\n\nriver", "less": "salmon\n\nriver 1"})
            ended = True
            for _ in range(tries):
                late.left = at
                try:
                    store.chunks.search(near(name))
                except AwayError:
                    ended = False
            late.left = 1_000_000
            store.documents.delete(name, "gone")
            fill(store, name, {"less": "salmon"})
            before = entries(store.chunks.search(near(name)))
            late.arrive()
            assert entries(store.chunks.search(near(name))) == before
            fill(store, name, {"more": "stone"})
            store.chunks.search(near(name))
            held = sorted(p["name"] for p in points(store, "chunk") if p[DATASET] == name)
            assert held == ["kept", "kept", "less", "more"]
    assert at > 3


def test_requests_that_arrive_after_a_purge_bring_nothing_back(tmp_path: Path) -> None:
    late = Late(tmp_path / "qdrant")
    with open_store(tmp_path, late) as store:
        fill(store, "d", {"a": "salmon"})
        fill(store, "e", {"a": "salmon"})
        late.left = 1
        for name in ("d", "e"):
            with pytest.raises(AwayError):
                store.chunks.search(near(name))
            late.left = 1
        late.left = 1_000_000
        store.documents.delete("d", "a")
        store.documents.delete_dataset("e")
        store.scrub()
        fill(store, "d", {"b": "stone"})
        assert [each.doc_name for each in store.chunks.search(near("d"))] == ["b"]
        late.arrive()
        assert sorted(each["name"] for each in points(store, "chunk")) == ["a", "a", "b"]
        assert [each.doc_name for each in store.chunks.search(near("d"))] == ["b"]
        assert store.chunks.search(near("e")) == []
        fill(store, "d", {"b": "stone"})
        assert [each.doc_name for each in store.chunks.search(near("d"))] == ["b"]
        held = [(each[DATASET], each["name"]) for each in points(store, "chunk")]
        assert sorted(held) == [("d", "b"), ("e", "a")]
    with open_store(tmp_path) as store:
        fill(store, "d", {"b": "trout"})
        assert_is_projected(store)


def test_a_dataset_that_was_deleted_meanwhile_is_swept(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, "d", {"a": "salmon"})
        fill(store, "e", {"a": "salmon"})
        store.chunks.search(near("d", "e"))
        store.documents.delete_dataset("d")
    with open_store(tmp_path) as store:
        store.chunks.search(near("e"))
        put(store, "e", "b", "trout")
        store.chunks.search(near("e"))
        assert {point[DATASET] for point in points(store)} == {"e"}


def test_a_scrubbed_store_leaves_nothing_in_qdrant(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, "d", {"a": "salmon"})
        assert_is_projected(store)
        store.scrub()
        assert store.collections.names() == []
        assert_is_projected(store)


def test_two_stores_of_one_name_are_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared = EdgeCollections(tmp_path / "qdrant")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        truth = SqliteStore.open(tmp_path / name / "kb.db", background_index=False)
        store = QdrantStore(truth, shared)
        fill(store, "d", {name: "salmon"})
        with caplog.at_level(logging.WARNING, "triptych.qdrant"):
            assert_is_projected(store)
        truth.close()
    assert "Two stores need names of their own" in caplog.text


def test_a_vector_of_any_length_is_a_query(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        fill(store, "d", {"a": "salmon river", "b": "stone"})
        for length in (0.5, 3.0, 0.0):
            asked = vector_query(np.float32(length) * vector_of("salmon river"), "d")
            found = store.chunks.search(asked)
            wanted = store.truth.searcher.search("chunk", asked)
            assert [each.doc_name for each in found] == [each.doc_name for each in wanted]
            assert [each.score for each in found] == pytest.approx(
                [each.score for each in wanted], abs=1e-5
            )


def test_a_purge_without_qdrant_rewrites_the_file(tmp_path: Path) -> None:
    secret = b"Rumpelstiltskin"

    def holders() -> list[Path]:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return [path for path in files if secret in path.read_bytes()]

    with open_store(tmp_path, Away(tmp_path / "qdrant")) as store:
        fill(store, "d", {"a": f"{secret.decode()} " * 5_000, "b": "stone"})
        store.documents.delete("d", "a")
        assert holders()
        with pytest.raises(AwayError):
            store.scrub()
        assert not holders()


class Away(EdgeCollections):
    def names(self) -> Sequence[str]:
        raise AwayError("away")


def test_one_thread_at_a_time_writes_and_others_wait_for_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych_qdrant.searcher._PATIENCE", 0.05)
    shared = Slow(tmp_path / "qdrant")
    with (
        SqliteStore.open(tmp_path / "kb.db", background_index=False, lock_timeout=600) as truth,
        ThreadPoolExecutor(1) as pool,
    ):
        store = QdrantStore(truth, shared)
        fill(store, "d", {"a": "salmon"})
        fill(store, "e", {"a": "salmon"})
        feeding = pool.submit(store.chunks.search, near("d"))
        try:
            assert shared.begun.wait(60)
            other = QdrantStore(truth, shared, falls_back=True)
            for each in (store, other):
                with deadline(0.05), pytest.raises(CancelledError):
                    each.chunks.search(near("e"))
            with pytest.raises(BusyError, match="has been writing"):
                store.projection.up_to_date("e", wait=0.01)
            with collected_warnings() as warned:
                found = other.chunks.search(near("e"))
            assert [each.doc_name for each in found] == ["a"]
            assert "has been writing" in warned[0]
        finally:
            shared.go_on.set()
        assert len(feeding.result()) == 1
        assert len(store.chunks.search(near("e"))) == 1
        shared.close()


def test_a_search_need_not_wait_for_all_that_another_dataset_has_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych_qdrant.feed.OWNERS_AT_ONCE", 1)
    monkeypatch.setattr("triptych_qdrant.projection._SLICE", 0)
    shared = Slow(tmp_path / "qdrant")
    with open_store(tmp_path, shared) as store, ThreadPoolExecutor(2) as pool:
        fill(store, "d", dict(list(PAGES.items())[:12]))
        fill(store, "e", {"a": "salmon"})
        feeding = pool.submit(store.chunks.search, near("d"))
        assert shared.begun.wait(60)
        small = pool.submit(store.chunks.search, near("e"))
        shared.go_on.set()
        assert len(small.result()) == 1
        assert len(feeding.result()) > 1
        order = shared.stored
        assert order[0] == order[-1] == "d"
        assert "e" in order
        assert all(position["cut"] == [] for position in points(store, POSITION))
        assert len(points(store, "chunk")) == 12 * 3 + 1


def test_a_deadline_ends_a_feed_between_two_parts(tmp_path: Path) -> None:
    shared = Cancelling(tmp_path / "qdrant")
    with open_store(tmp_path, shared) as store:
        fill(store, "d", PAGES)
        with deadline() as shared.scope, pytest.raises(CancelledError):
            store.chunks.search(near("d"))
        (position,) = points(store, POSITION)
        assert position["seq"] > 0
        assert position["cut"] == []
        assert 0 < len(points(store, "chunk")) < 3 * len(PAGES)
        assert_is_projected(store)


class Cancelling(EdgeCollections):
    """Cancels the call that writes documents' points."""

    scope: CancelScope | None = None

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        super().put(name, points, over=over)
        if self.scope is not None and points[0].payload[UNIT] != POSITION:
            self.scope.cancel()


class Slow(EdgeCollections):
    """Waits before it stores the first points."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.stored: list[str] = []

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        self.begun.set()
        assert self.go_on.wait(60)
        self.stored += [point.payload[DATASET] for point in points]
        super().put(name, points, over=over)


def test_one_process_at_a_time_writes(tmp_path: Path) -> None:
    shared = EdgeCollections(tmp_path / "qdrant")
    with (
        SqliteStore.open(tmp_path / "kb.db", background_index=False) as truth,
        SqliteStore.open(tmp_path / "kb.db", lock_timeout=0.05) as other,
    ):
        fill(truth, "d", {"a": "salmon"})
        with (
            truth.database.turn("qdrant"),
            pytest.raises(StoreLockedError, match="has been writing"),
        ):
            QdrantStore(other, shared).chunks.search(near("d"))
        assert len(QdrantStore(other, shared).chunks.search(near("d"))) == 1
        shared.close()
