"""Documents on a server that may have replicas."""

from __future__ import annotations

from triptych.records import NewDocument, SourceDocument
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.sql import Searcher, SqlDocuments

__all__ = ["PostgresDocuments"]


class PostgresDocuments(SqlDocuments):
    """`SqlDocuments` whose puts are compared with what the primary has."""

    def __init__(self, database: PostgresDatabase, searcher: Searcher) -> None:
        super().__init__(database, searcher)
        self._server = database

    def find_unchanged(self, dataset_id: str, document: NewDocument) -> SourceDocument | None:
        """See `SqlDocuments.find_unchanged`: a replica may not have the last put of another."""
        with self._server.only_primary():
            return super().find_unchanged(dataset_id, document)
