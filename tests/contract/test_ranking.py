"""Backends answer alike: same corpus, same questions, same order and scores."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from triptych.records import Candidate, Filter, LayerQuery
from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing import Harness, assert_backends_rank_alike


def test_sqlite_ranks_as_memory_does(tmp_path: Path) -> None:
    assert_backends_rank_alike(
        Harness(open=MemoryStore), Harness(open=lambda: SqliteStore.open(tmp_path / "kb.db"))
    )


def test_the_filesystem_ranks_as_memory_does(tmp_path: Path) -> None:
    assert_backends_rank_alike(
        Harness(open=MemoryStore), Harness(open=lambda: FilesStore.open(tmp_path / "kb"))
    )


def test_a_backend_that_ranks_otherwise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    search = store.layers.search

    def unfiltered(query: LayerQuery) -> Sequence[Candidate]:
        return search(attrs.evolve(query, filter=Filter()))

    monkeypatch.setattr(store.layers, "search", unfiltered)
    with pytest.raises(AssertionError):
        assert_backends_rank_alike(Harness(open=MemoryStore), Harness(open=lambda: store))
