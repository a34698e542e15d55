"""Chunk sets: all in the derived database, but for the dataset's configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triptych.records import DatasetConfig, HealthCheck
from triptych_backends.sql.chunks import SqlChunks

if TYPE_CHECKING:
    from .store import FilesStore

__all__ = ["FilesChunks"]


class FilesChunks(SqlChunks):
    """`ChunkRepo` over a `FilesStore`, with the powers of `SqlChunks`."""

    def __init__(self, files: FilesStore) -> None:
        super().__init__(files.sql)
        self._files = files
        self._keeper = files.keeper

    def check_health(self) -> Sequence[HealthCheck]:
        """See `HealthReader.check_health`: also the files that were not adopted."""
        unadopted = [
            HealthCheck(
                name="store",
                status="warning",
                detail=f"{problem.path}: {problem.reason}",
                remedy=problem.remedy,
            )
            for problem in self._files.problems()
        ]
        return [*super().check_health(), *unadopted]

    def close(self) -> None:
        """Close the store, for its other repositories too. Idempotent."""
        self._files.close()

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """See `ChunkRepo.configure`."""
        keeper = self._keeper
        with keeper.locked():
            change = keeper.change(dataset_id)
            # What a checkout brought is the dataset's, whatever becomes of this.
            change.commit()
            if change.home.config != expected:
                return False
            change = keeper.change(dataset_id)
            change.set_home(config=config)
            change.commit()
            return True

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `ChunkRepo.delete_by_dataset`."""
        keeper = self._keeper
        with keeper.locked():
            if keeper.folder(dataset_id) is None:
                return
            change = keeper.change(dataset_id)
            change.set_home(config=None)
            change.commit()
        super().delete_by_dataset(dataset_id)
