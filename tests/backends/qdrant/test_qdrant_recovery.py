"""What another process, a backup or a removed collection leaves in Qdrant does no harm."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")

from qdrant_client.models import Filter

from support.qdrant_local import LocalMode
from triptych.records import NewDocument
from triptych_backends.sqlite import SqliteStore
from triptych_qdrant import AwayError, Point, QdrantStore
from triptych_qdrant.points import DATASET, UNIT
from triptych_testing.builders import fill, vector_of, vector_query


class Faulty(LocalMode):
    """Refuses all writes but the next ``left``, and keeps the size of the largest in bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 1_000_000
        self.largest = 0

    def put(self, name: str, points: Sequence[Point], *, over: Filter) -> None:
        self._count()
        size = sum(
            len(json.dumps(dict(p.payload)))
            + (0 if p.vector is None else len(json.dumps(p.vector.tolist())))
            for p in points
        )
        self.largest = max(self.largest, size)
        super().put(name, points, over=over)

    def delete(self, name: str, where: Filter) -> None:
        self._count()
        super().delete(name, where)

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise AwayError("cut off")


@pytest.fixture
def qdrant() -> Iterator[Faulty]:
    collections = Faulty()
    yield collections
    collections.client.close()


def open_store(folder: Path, qdrant: LocalMode, prefix: str = "triptych") -> QdrantStore:
    folder.mkdir(exist_ok=True)
    truth = SqliteStore.open(folder / "kb.db", background_index=False)
    return QdrantStore(truth, qdrant, prefix=prefix)


def found(store: QdrantStore, text: str, *datasets: str) -> list[str]:
    """The names of what is as near to ``text`` as can be."""
    near = store.chunks.search(vector_query(vector_of(text), *(datasets or ("d",))))
    return [each.doc_name for each in near if each.score > 0.999]


def points(store: QdrantStore, *units: str) -> list[dict[str, Any]]:
    """All points of these units, of any when none is named, whatever collection they are in."""
    listed = [
        dict(point)
        for name in store.collections.names()
        for point in store.collections.list_points(name, Filter())
    ]
    return [point for point in listed if not units or point[UNIT] in units]


def datasets_of(store: QdrantStore) -> set[str]:
    return {point[DATASET] for point in points(store)}


def test_a_store_leaves_those_whose_prefix_is_longer(tmp_path: Path, qdrant: Faulty) -> None:
    with (
        open_store(tmp_path / "a", qdrant) as one,
        open_store(tmp_path / "b", qdrant, "triptych-test") as other,
    ):
        fill(other, "private", {"a": "salmon"})
        assert found(other, "salmon", "private") == ["a"]
        before = qdrant.names()
        fill(one, "d", {"a": "trout"})
        assert found(one, "trout") == ["a"]
        one.scrub()
        assert qdrant.names() == before
        assert datasets_of(other) == {"private"}


@pytest.mark.parametrize("scrubbed", [False, True])
def test_a_collection_that_was_removed_is_made_again(
    tmp_path: Path, qdrant: Faulty, scrubbed: bool
) -> None:
    with open_store(tmp_path, qdrant) as one, open_store(tmp_path, qdrant) as other:
        fill(one, "d", {"a": "salmon"})
        assert found(one, "salmon") == found(other, "salmon") == ["a"]
        if scrubbed:
            other.scrub()
        else:
            for name in qdrant.names():
                qdrant.drop(name)
        assert found(one, "salmon") == ["a"]
        assert found(other, "salmon") == ["a"]


def test_points_newer_than_a_restored_backup_are_removed(tmp_path: Path, qdrant: Faulty) -> None:
    """A feed was cut short before the backup came back: its points are of a lost state."""
    with open_store(tmp_path, qdrant) as store:
        fill(store, "d", {"a": "salmon"})
        assert found(store, "salmon") == ["a"]
    with sqlite3.connect(tmp_path / "kb.db") as source:
        source.execute("VACUUM INTO ?", (str(tmp_path / "backup.db"),))
    store = open_store(tmp_path, qdrant)
    for number in range(5):
        fill(store, "d", {"a": f"trout {number}", "b": "pike"})
    fill(store, "d", {"a": "trout"})
    for left in range(1, 8):
        qdrant.left = left
        with pytest.raises(AwayError):
            found(store, "trout")
        if any(point["name"] == "b" for point in points(store, "chunk")):
            break
    qdrant.left = 1_000_000
    store.truth.close()
    for path in tmp_path.glob("kb.db*"):
        if path.is_file():
            path.unlink()
    (tmp_path / "backup.db").rename(tmp_path / "kb.db")
    with open_store(tmp_path, qdrant) as store:
        assert found(store, "trout") == []
        assert found(store, "salmon") == ["a"]
        fill(store, "d", {"a": "perch"})
        assert found(store, "perch") == ["a"]


def test_a_request_is_bounded(
    tmp_path: Path, qdrant: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triptych_qdrant.feed.BYTES_AT_ONCE", 10_000)
    with open_store(tmp_path, qdrant) as store:
        fill(store, "d", {f"{n:02}": f"salmon {n}" for n in range(40)})
        assert store.projection.up_to_date("d") is not None
        assert len(points(store, "chunk")) == 40
    assert 2_000 < qdrant.largest < 10_000


def test_two_stores_of_other_datasets_under_one_name_are_seen(
    tmp_path: Path, qdrant: Faulty, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        open_store(tmp_path / "a", qdrant) as one,
        open_store(tmp_path / "b", qdrant) as other,
        caplog.at_level(logging.WARNING, "triptych.qdrant"),
    ):
        fill(one, "a", {"a": "salmon"})
        assert found(one, "salmon", "a") == ["a"]
        assert not caplog.records
        fill(other, "b", {"a": "salmon"})
        assert found(other, "salmon", "b") == ["a"]
        assert "Two stores need names of their own" in caplog.text


@pytest.mark.parametrize("again", [False, True])
def test_what_a_feed_left_of_a_deleted_dataset_is_removed(
    tmp_path: Path, qdrant: Faulty, again: bool
) -> None:
    """Whatever the write was that it was cut short at, as it wrote or as it removed."""
    left = 0
    cut = True
    while cut:
        left += 1
        name = f"gone {left}"
        with open_store(tmp_path, qdrant) as store:
            fill(store, "kept", {"a": f"stone {left}"})
            assert found(store, f"stone {left}", "kept") == ["a"]
            fill(store, name, {"a": "salmon"})
            if again:
                assert found(store, "salmon", name) == ["a"]
                for collection in qdrant.names():
                    spoil(store, collection, name)
            qdrant.left = left
            try:
                store.chunks.search(vector_query(vector_of("salmon"), name))
                cut = False
            except AwayError:
                pass
            qdrant.left = 1_000_000
        with open_store(tmp_path, qdrant) as store:
            store.documents.delete_dataset(name)
            fill(store, "kept", {"b": f"stone {left}"})
            store.chunks.search(vector_query(vector_of("salmon"), "kept"))
            assert datasets_of(store) == {"kept"}
    assert left > 3


def spoil(store: QdrantStore, collection: str, dataset: str) -> None:
    """Let the dataset's points be of another format, so that they are made again."""
    from triptych_qdrant.points import POSITION, point_id

    at = point_id(dataset, POSITION)
    if position := store.collections.read(collection, at):
        other = Point(id=at, payload={**position, "format": 0})
        store.collections.put(collection, [other], over=Filter())


def test_a_collection_that_has_no_points_any_more_is_removed(
    tmp_path: Path, qdrant: Faulty
) -> None:
    with open_store(tmp_path, qdrant) as store:
        fill(store, "d", {"a": "salmon"})
        assert found(store, "salmon") == ["a"]
        (name,) = qdrant.names()
        store.documents.delete_dataset("d")
    with open_store(tmp_path, qdrant) as store:
        qdrant.make(f"{name}0", 4)  # of an embedder that nothing was left of before
        fill(store, "e", {"a": "trout"})
        assert found(store, "trout", "e") == ["a"]
        assert qdrant.names() == [name]
    with open_store(tmp_path, qdrant) as store:
        store.documents.delete_dataset("e")
        store.documents.put("f", NewDocument(name="a", content="trout"))
        assert store.projection.up_to_date("f") is not None
        assert qdrant.names() == ["triptych-text"]
