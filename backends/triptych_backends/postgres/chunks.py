"""Chunk sets on a server, and what can be told and repaired of its search tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from triptych.records import Finding, HealthCheck
from triptych_backends.postgres import diagnostics
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.replica_checks import replica_checks
from triptych_backends.sql import Searcher, SqlChunks

__all__ = ["PostgresChunks"]


class PostgresChunks(SqlChunks):
    """`SqlChunks` with `Diagnostics`."""

    def __init__(self, database: PostgresDatabase, searcher: Searcher) -> None:
        super().__init__(database, searcher)
        self._server = database

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`."""
        with self._server.only_primary():
            return [*diagnostics.check_health(self._server), *replica_checks(self._server)]

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`."""
        with self._server.only_primary():
            return iter(list(diagnostics.check_integrity(self._server, dataset_ids)))

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        with self._server.only_primary():
            return diagnostics.repair(self._server, checks, dataset_ids)
