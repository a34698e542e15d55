"""Knowledge bases that several callers share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from support.access_pair import OURS, Pair, fill, fill_above, options
from triptych.access import Access
from triptych.contracts import Store
from triptych.service import Service
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def make_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Store]:
    if request.param == "memory":
        return lambda name: MemoryStore()
    numbers = itertools.count()
    folder = tmp_path_factory.mktemp("access")
    return lambda name: SqliteStore.open(folder / f"{name}{next(numbers)}.db")


@pytest.fixture(scope="module")
def by_filter(make_store: Callable[[str], Store]) -> Iterator[Pair]:
    """An access with a filter, to all datasets."""
    with (
        Service(make_store("whole"), options=options()) as whole,
        Service(make_store("twin"), options=options()) as twin,
    ):
        fill(whole, lambda dataset_id, metadata: True)
        fill_above(whole)
        fill(twin, lambda dataset_id, metadata: metadata.get("team") == "ours")
        yield Pair(whole, whole.restricted(Access(where=OURS, can_write=True)), twin)


@pytest.fixture(scope="module")
def by_dataset(make_store: Callable[[str], Store]) -> Iterator[Pair]:
    """An access to one dataset of two."""
    with (
        Service(make_store("whole"), options=options()) as whole,
        Service(make_store("twin"), options=options()) as twin,
    ):
        fill(whole, lambda dataset_id, metadata: True)
        fill_above(whole)
        fill(twin, lambda dataset_id, metadata: dataset_id == "kb")
        fill_above(twin)
        yield Pair(whole, whole.restricted(Access(dataset_ids=["kb"], can_write=True)), twin)
