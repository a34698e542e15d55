"""The example backend in examples/json_store.py passes the whole kit, and stays an example."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import json_store
from json_store import JsonStore
from support.json_files import full_disk
from triptych.errors import CorruptStoreError, StoreError, StoreLockedError
from triptych.records import NewDocument
from triptych_testing import BackendConformance, Child, Contents, Harness, ServiceTests


def contents(path: Path, dataset_id: str) -> Contents:
    """What the file itself holds of the dataset."""
    data: dict[str, Any] = {"documents": {}, "sets": {}, "layers": {}}
    if path.exists():
        data = json.loads(path.read_text())["datasets"].get(dataset_id, data)
    chunks = [chunk for kept in data["sets"].values() for chunk in kept["chunks"]]
    return Contents(
        content={name: each["content"].encode() for name, each in data["documents"].items()},
        chunks=len(chunks),
        vectors=len({chunk["vector"] for chunk in chunks} - {None}),
        layers=sum(map(len, data["layers"].values())),
    )


@pytest.fixture
def path() -> Iterator[Path]:
    """A file in memory where there is such a place: the store is written at each change."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder) / "kb.json"


@pytest.fixture
def harness(path: Path) -> Harness:
    return Harness(
        open=lambda: JsonStore(path),
        persistent=True,
        child=Child(opener="json_store:JsonStore", argument=str(path)),
        raw=lambda _, dataset_id: contents(path, dataset_id),
        failing=full_disk,
        keeps_log=False,
    )


class TestJsonStore(BackendConformance):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


class TestServiceOnJsonStore(ServiceTests):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


def test_a_second_opener_is_refused_until_the_first_closes(path: Path) -> None:
    first = JsonStore(path)
    with pytest.raises(StoreLockedError, match="is open"):
        JsonStore(path)
    first.close()
    JsonStore(path).close()


def test_a_damaged_file_is_refused_and_left_unlocked(path: Path) -> None:
    path.write_text("{")
    with pytest.raises(CorruptStoreError, match="damaged"):
        JsonStore(path)
    path.unlink()
    JsonStore(path).close()


def test_a_change_of_unknown_fate_closes_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("device is gone")

    store = JsonStore(path)
    store.documents.put("d", NewDocument(name="a", content="one"))
    with monkeypatch.context() as patch:
        patch.setattr("os.open", full)  # the folder's, behind the rename
        with pytest.raises(StoreError, match="device is gone"):
            store.documents.put("d", NewDocument(name="a", content="two"))
    with pytest.raises(StoreError, match="open it again"):
        store.documents.get("d", "a")
    again = JsonStore(path)
    assert again.documents.put("d", NewDocument(name="a", content="three")).version == 3
    again.close()


def test_the_example_is_short() -> None:
    assert len(Path(json_store.__file__).read_text().splitlines()) < 100
