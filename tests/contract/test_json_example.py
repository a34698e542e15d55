"""The example backend in examples/json_store.py passes the whole kit, and stays an example."""

import json
from pathlib import Path
from typing import Any

import json_store
import pytest
from json_store import JsonStore

from triptych.testing import BackendConformance, Child, Contents, Harness, ServiceTests


def contents(path: Path, dataset_id: str) -> Contents:
    """What the file itself holds of the dataset."""
    data: dict[str, Any] = {"documents": {}, "L0": {}, "L1": {}, "L2": {}}
    if path.exists():
        data = json.loads(path.read_text()).get(dataset_id, data)
    chunks = [chunk for kept in data["L2"].values() for chunk in kept["units"]]
    return Contents(
        content={name: each["content"].encode() for name, each in data["documents"].items()},
        chunks=len(chunks),
        vectors=len({chunk["vector"] for chunk in chunks} - {None}),
        layers=len(data["L0"]) + len(data["L1"]),
    )


@pytest.fixture
def harness(tmp_path: Path) -> Harness:
    path = tmp_path / "kb.json"
    return Harness(
        open=lambda: JsonStore(path),
        persistent=True,
        child=Child(opener="json_store:JsonStore", argument=str(path)),
        raw=lambda _, dataset_id: contents(path, dataset_id),
    )


class TestJsonStore(BackendConformance):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


class TestServiceOnJsonStore(ServiceTests):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


def test_the_example_is_short() -> None:
    assert len(Path(json_store.__file__).read_text().splitlines()) < 200
