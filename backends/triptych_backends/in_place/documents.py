"""`InPlaceDocuments`: rows of tables that are not ours, as documents."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import attrs

from triptych.contracts.defaults import DocumentRepoBase
from triptych.records import Condition, DocumentInfo, FilterTree, SourceDocument
from triptych.records.filters import NAME, all_of
from triptych_backends.in_place.read_only import ReadOnlyDocuments
from triptych_backends.in_place.rows import Row
from triptych_backends.in_place.source import InPlaceSource
from triptych_backends.in_place.table import OpenTable


@attrs.frozen(eq=False)
class InPlaceDocuments(ReadOnlyDocuments, DocumentRepoBase):
    """A `DocumentRepo` over tables, which it reads."""

    _source: InPlaceSource[OpenTable]

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`."""
        row = self._row(dataset_id, name)
        return None if row is None else row.document

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`."""
        row = self._row(dataset_id, name)
        return None if row is None else row.info

    def _row(self, dataset_id: str, name: str) -> Row | None:
        found = self._source.read_one(dataset_id, lambda table: table.rows_named([name]), ())
        return next(iter(found), None)

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        """See `DocumentRepo.list`."""
        tree = all_of(
            where,
            Condition(NAME, "starts", (("text", prefix),)) if prefix else None,
            Condition(NAME, "gt", (("text", after),)) if after else None,
        )
        most = None if limit is None else max(limit, 0)
        rows = self._source.read_one(dataset_id, lambda table: table.rows_in_order(tree, most), ())
        return [row.info for row in rows]

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`. Without ``where`` the number may be a minute old, and that of
        a large collection is of its points."""
        if where is None:
            return self._source.read_one(dataset_id, self._source.count_rows, 0)
        return self._source.read_one(dataset_id, lambda table: table.count(where), 0)

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """See `DocumentRepo.with_expired`: rows of a table do not expire."""
        return []

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`: the tables, whether they are there or not."""
        return self._source.names
