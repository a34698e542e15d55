"""The conformance kit on a store whose searches run in Qdrant, here the client's local mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from triptych_testing import BackendConformance, Harness, ServiceTests

pytest.importorskip("qdrant_client", reason="qdrant-client is not installed: the extra qdrant")

from support.qdrant_local import LocalMode
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_qdrant import QdrantStore


@pytest.fixture
def collections() -> Iterator[LocalMode]:
    collections = LocalMode()
    yield collections
    collections.client.close()


class TestQdrant(BackendConformance):
    @pytest.fixture
    def harness(self, tmp_path: Path, collections: LocalMode) -> Harness:
        path = tmp_path / "kb.db"
        return Harness(
            open=lambda: QdrantStore(SqliteStore.open(path, background_index=False), collections),
            persistent=True,
        )


class TestQdrantService(ServiceTests):
    @pytest.fixture
    def harness(self, tmp_path: Path, collections: LocalMode) -> Harness:
        path = tmp_path / "kb.db"
        return Harness(
            open=lambda: QdrantStore(SqliteStore.open(path, background_index=False), collections),
            persistent=True,
            scratch=MemoryStore,
        )
