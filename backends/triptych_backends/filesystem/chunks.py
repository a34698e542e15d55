"""Chunk sets: all in the derived database, but for the dataset's configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from triptych.records import DatasetConfig, Finding, HealthCheck
from triptych_backends.filesystem.checks import examine_files, mend_files
from triptych_backends.sql.chunks import SqlChunks

if TYPE_CHECKING:
    from triptych_backends.filesystem.store import FilesStore

__all__ = ["FilesChunks"]


class FilesChunks(SqlChunks):
    """`ChunkRepo` over a `FilesStore`, with the capabilities of `SqlChunks`."""

    def __init__(self, files: FilesStore) -> None:
        super().__init__(files.sql)
        self._files = files
        self._keeper = files.keeper

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`: also the files that were not adopted."""
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

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`: the files, then the derived database."""
        yield from examine_files(self._files, dataset_ids)
        yield from super().check_integrity(dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        # What is taken over from the files needs a database whose rows fit each other.
        done = super().repair(checks, dataset_ids)
        return [*done, *mend_files(self._files, checks, dataset_ids)]

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
