"""`CollectionDocuments`: points of collections that are not ours, as documents."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from datetime import datetime
from itertools import islice

import attrs

from triptych.records import DocumentInfo, FilterTree, SourceDocument
from triptych.repositories import DocumentRepoBase
from triptych_backends.collections.catalog import Passing
from triptych_backends.collections.source import CollectionSource
from triptych_backends.in_place import ReadOnlyDocuments, Row

__all__ = ["CollectionDocuments"]


@attrs.frozen(eq=False)
class CollectionDocuments(ReadOnlyDocuments, DocumentRepoBase):
    """A `DocumentRepo` over collections, which it reads."""

    _source: CollectionSource

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`."""
        row = self._row(dataset_id, name)
        return None if row is None else row.document

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`."""
        row = self._row(dataset_id, name)
        return None if row is None else row.info

    def _row(self, dataset_id: str, name: str) -> Row | None:
        collection = self._source.collection(dataset_id)
        if collection is None:
            return None
        return next((row for _, row in self._source.by_names(collection, [name])), None)

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        """See `DocumentRepo.list`. Qdrant sorts no texts: every point that may pass is read."""
        collection = self._source.collection(dataset_id)
        if collection is None:
            return []
        infos = (
            row.info
            for _, row in self._source.scan(Passing.of(collection, where))
            if row.name.startswith(prefix) and row.name > after
        )
        found: builtins.list[DocumentInfo] = sorted(infos, key=lambda info: info.name)
        return found if limit is None else builtins.list(islice(found, max(limit, 0)))

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`. Without ``where`` the number may be a minute old, and that of
        a large collection is of its points."""
        collection = self._source.collection(dataset_id)
        if collection is None:
            return 0
        if where is None:
            return self._source.count_rows(collection)
        return sum(1 for _ in self._source.scan(Passing.of(collection, where)))

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """See `DocumentRepo.with_expired`: points of a collection do not expire."""
        return []

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`: the collections, whether they are there or not."""
        return self._source.names
