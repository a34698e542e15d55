"""What the doctor sees of the points in Qdrant, and repairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")

from qdrant_client.models import Filter

from support.qdrant_local import LocalMode
from triptych import Service
from triptych_backends.sqlite import SqliteStore
from triptych_qdrant import AwayError, Point, QdrantStore
from triptych_qdrant.points import UNIT, of_datasets, point_id
from triptych_testing.builders import fill, layer_of, vector_of, vector_query


class Away(LocalMode):
    """Does not answer while ``is_away``."""

    is_away = False

    def names(self) -> Sequence[str]:
        self._ask()
        return super().names()

    def read(self, *args: Any, **options: Any) -> Any:
        self._ask()
        return super().read(*args, **options)

    def _ask(self) -> None:
        if self.is_away:
            raise AwayError("Qdrant at memory is away")


@pytest.fixture
def qdrant() -> Iterator[Away]:
    collections = Away()
    yield collections
    collections.client.close()


@pytest.fixture
def store(tmp_path: Path, qdrant: Away) -> Iterator[QdrantStore]:
    with open_store(tmp_path, qdrant) as store:
        fill(store, "d", {"a": "salmon\n\nriver", "b": "stone"})
        fill(store, "e", {"a": "salmon"})
        assert store.layers.put(layer_of(store, "d", "a", "salmon"))
        assert found(store, "river", "d") == ["a"]
        assert found(store, "salmon", "e") == ["a"]
        yield store


def open_store(folder: Path, qdrant: Away, *, falls_back: bool = False) -> QdrantStore:
    truth = SqliteStore.open(folder / "kb.db", background_index=False)
    return QdrantStore(truth, qdrant, falls_back=falls_back)


def found(store: QdrantStore, text: str, dataset: str) -> list[str]:
    near = store.chunks.search(vector_query(vector_of(text), dataset))
    return [each.doc_name for each in near if each.score > 0.999]


def checks(store: QdrantStore) -> list[tuple[str, str, int]]:
    report = Service(store).doctor()
    return [(each.check, each.dataset_id, each.count) for each in report.findings]


@pytest.mark.parametrize("unit", ["chunk", "abstract"])
def test_lost_points_are_found_and_made_again(store: QdrantStore, qdrant: Away, unit: Any) -> None:
    assert checks(store) == []
    (name,) = qdrant.names()
    held = list(qdrant.list_points(name, Filter()))
    qdrant.delete(name, Filter(must=of_datasets(unit, ["d"])))
    lost = sum(point["dataset"] == "d" and point[UNIT] == unit for point in held)
    assert checks(store) == [("qdrant.missing", "d", lost)]
    report = Service(store).doctor(repair=True)
    assert report.clean
    assert [each.check for each in report.repaired] == ["qdrant.missing"]
    assert "made the points of dataset 'd' in Qdrant again" in report.actions
    assert checks(store) == []
    assert found(store, "river", "d") == ["a"]
    assert len(qdrant.list_points(name, Filter())) == len(held)


def test_points_of_nothing_are_found_and_removed(store: QdrantStore, qdrant: Away) -> None:
    (name,) = qdrant.names()
    chunk = qdrant.list_points(name, Filter(must=of_datasets("chunk", ["e"])))[0]
    payload = {**chunk, "owner": 1_000_000}
    point = Point(id=point_id("e", "chunk", 1_000_000, 0), payload=payload, vector=vector_of("x"))
    qdrant.put(name, [point], over=Filter())
    assert checks(store) == [("qdrant.surplus", "e", 1)]
    assert Service(store).doctor(repair=True).clean
    assert len(qdrant.list_points(name, Filter(must=of_datasets("chunk", ["e"])))) == 1


def test_what_the_next_search_writes_is_not_missing(store: QdrantStore) -> None:
    fill(store, "d", {"a": "trout", "new": "perch\n\npike"})
    store.documents.delete("d", "b")
    fill(store, "never searched", {"a": "salmon"})
    assert checks(store) == []
    assert found(store, "trout", "d") == ["a"]
    assert checks(store) == []


def test_a_qdrant_that_is_away_is_reported(
    store: QdrantStore, qdrant: Away, tmp_path: Path
) -> None:
    with open_store(tmp_path, qdrant, falls_back=True) as other:
        for each, status in ((store, "failed"), (other, "warning")):
            kb = Service(each)
            by_name = {check.name: check for check in kb.health().checks}
            assert (by_name["qdrant"].status, by_name["store"].status) == ("ok", "ok")
            qdrant.is_away = True
            by_name = {check.name: check for check in kb.health().checks}
            assert (by_name["qdrant"].status, by_name["store"].status) == (status, "ok")
            assert "away" in by_name["qdrant"].detail
            assert [check for check, _, _ in checks(each)] == ["qdrant.unreadable"]
            diagnostics = each.capabilities.diagnostics
            assert diagnostics is not None
            (done,) = diagnostics.repair(["qdrant.missing"], ["d"])
            assert "left the points" in done
            qdrant.is_away = False
