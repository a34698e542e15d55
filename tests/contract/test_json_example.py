"""The example backend in examples/json_store.py passes the whole kit, and stays an example."""

import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import json_store
from json_store import JsonStore
from triptych.errors import CorruptStoreError, NotAvailableError, StoreError, StoreLockedError
from triptych.records import NewDocument
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
    )


class TestJsonStore(BackendConformance):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


def without_whole_documents(test: Callable[..., None]) -> Callable[..., None]:
    """A test of the kit that goes on to search whole documents, an optional power, unasked."""

    @functools.wraps(test)
    def until_then(*args: Any, **kwargs: Any) -> None:
        with pytest.raises(NotAvailableError, match="cannot search whole documents"):
            test(*args, **kwargs)

    return until_then


class TestServiceOnJsonStore(ServiceTests):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness

    test_filters_hold_in_every_lane = without_whole_documents(
        ServiceTests.test_filters_hold_in_every_lane
    )
    test_documents_are_found_whole = without_whole_documents(
        ServiceTests.test_documents_are_found_whole
    )
    test_a_delete_takes_everything_and_may_be_repeated = without_whole_documents(
        ServiceTests.test_a_delete_takes_everything_and_may_be_repeated
    )
    test_a_dataset_view_fills_in_its_id = without_whole_documents(
        ServiceTests.test_a_dataset_view_fills_in_its_id
    )


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


def test_a_write_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    store = JsonStore(path)
    stored = store.documents.put("d", NewDocument(name="a", content="one"))
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(StoreError, match="no space left"):
            store.documents.put("d", NewDocument(name="a", content="two"))
    assert store.documents.get("d", "a") == stored
    store.close()
    again = JsonStore(path)
    assert again.documents.get("d", "a") == stored
    again.close()


def test_the_example_is_short() -> None:
    assert len(Path(json_store.__file__).read_text().splitlines()) < 350
