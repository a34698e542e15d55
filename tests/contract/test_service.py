"""The Service over every backend of this version."""

from pathlib import Path

import pytest
from test_filesystem import raw as files_raw
from test_memory import raw as memory_raw

from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing import Harness, ServiceTests


class TestMemory(ServiceTests):
    @pytest.fixture
    def harness(self) -> Harness:
        return Harness(open=MemoryStore, raw=memory_raw, scratch=MemoryStore)


class TestSqlite(ServiceTests):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return Harness(
            open=lambda: SqliteStore.open(tmp_path / "kb.db"),
            persistent=True,
            scratch=MemoryStore,
        )


class TestFilesystem(ServiceTests):
    @pytest.fixture
    def harness(self, tmp_path: Path) -> Harness:
        return Harness(
            open=lambda: FilesStore.open(tmp_path / "kb"),
            persistent=True,
            raw=files_raw,
            scratch=MemoryStore,
        )
