"""The defaults of the base classes keep the contracts, over a store that has nothing else."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from contract.test_memory import raw
from support.bare_store import BareStore
from triptych.contracts import Capabilities
from triptych.contracts.defaults import Repositories
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing import BackendConformance, Harness, ServiceTests


@pytest.fixture
def harness() -> Harness:
    return Harness(
        open=lambda: BareStore(MemoryStore()),
        raw=lambda store, dataset_id: raw(store.inner, dataset_id),
        atomic_batches=False,
    )


class TestDefaults(BackendConformance):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


class TestServiceOnDefaults(ServiceTests):
    @pytest.fixture
    def harness(self, harness: Harness) -> Harness:
        return harness


@pytest.mark.parametrize("kit", [BackendConformance, ServiceTests])
def test_no_test_of_the_kit_hides_another(kit: type) -> None:
    homes = [
        (name, kind.__name__)
        for kind in kit.__mro__
        for name in vars(kind)
        if name.startswith("test_")
    ]
    names = [name for name, _ in homes]
    assert [home for home in homes if names.count(home[0]) > 1] == []


def test_the_stores_that_ship_say_that_they_can_do_everything(tmp_path: Path) -> None:
    with MemoryStore() as memory, SqliteStore.open(tmp_path / "kb.db") as sql:
        for store in (memory, sql):
            found = attrs.asdict(store.capabilities, recurse=False)
            assert [name for name, part in found.items() if part is None] == []
        assert BareStore(memory).capabilities == Capabilities()


def test_three_repositories_are_a_store_that_closes_as_it_is_reported() -> None:
    closed = []
    with MemoryStore() as inner:
        parts = {"documents": inner.documents, "chunks": inner.chunks, "layers": inner.layers}
        Repositories(**parts).close()  # type: ignore[arg-type]  # each by its name
        assert inner.documents.list_datasets() == []
        Repositories(**parts, close=lambda: closed.append(1)).close()  # type: ignore[arg-type]  # as above
        assert closed == [1]
