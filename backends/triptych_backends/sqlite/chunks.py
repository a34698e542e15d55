"""Chunk sets in an SQLite file, and the checks and repairs of the file itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from triptych.records import DerivedChunk, DerivedSig, Finding, HealthCheck
from triptych_backends.index import LocalIndex
from triptych_backends.sql import Searcher, SqlChunks
from triptych_backends.sqlite.database import SqliteDatabase

__all__ = ["SqliteChunks"]


class SqliteChunks(SqlChunks):
    """`SqlChunks` with `Diagnostics`, whose modules no search needs and each imports at its use."""

    def __init__(self, database: SqliteDatabase, searcher: Searcher, index: LocalIndex) -> None:
        super().__init__(database, searcher)
        self._file = database
        self._index = index

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        """See `ChunkRepo.replace_many`."""
        done = super().replace_many(dataset_id, sets)
        written = [len(one[1]) for one, is_done in zip(sets, done, strict=True) if is_done]
        self._index.written(dataset_id, sum(written))
        return done

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`."""
        from triptych_backends.sqlite.health import check_store

        return check_store(self._file, self._index)

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`."""
        from triptych_backends.sqlite.checks import check_integrity

        return check_integrity(self._file, self._index, dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        from triptych_backends.sqlite.repair import repair

        return repair(self._file, self._index, checks, dataset_ids)
