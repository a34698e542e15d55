"""Documents, each on the server of its dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from triptych.records import DocumentInfo, FilterTree, NewDocument, PutOutcome, SourceDocument
from triptych_backends.shards.listing import visible_datasets
from triptych_backends.shards.routing import Router

__all__ = ["ShardedDocuments"]


class ShardedDocuments:
    """`DocumentRepo` and `VersionReader` over the servers of a `Router`."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """See `DocumentRepo.put`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.put(dataset_id, document), places=True
        )

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        """See `DocumentRepo.put_many`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.put_many(dataset_id, documents), places=True
        )

    def load(self, document: SourceDocument) -> None:
        """See `DocumentRepo.load`."""
        self._router.run(
            document.dataset_id, lambda store: store.documents.load(document), places=True
        )

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`."""
        return self._router.run(dataset_id, lambda store: store.documents.get(dataset_id, name))

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.get_info(dataset_id, name)
        )

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
        return self._router.run(
            dataset_id,
            lambda store: store.documents.list(
                dataset_id, prefix=prefix, after=after, limit=limit, where=where
            ),
        )

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.count(dataset_id, where=where)
        )

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """See `DocumentRepo.with_expired`."""
        found = self._router.run_all(
            dataset_ids,
            lambda part, store: store.documents.with_expired(part.dataset_ids, moment),
        )
        names = {name for part in found for name in part}
        return [each for each in dataset_ids if each in names]

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`. Every server is asked."""
        return visible_datasets(self._router)

    def create_dataset(self, dataset_id: str) -> bool:
        """See `DocumentRepo.create_dataset`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.create_dataset(dataset_id), places=True
        )

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """See `DocumentRepo.delete`."""
        return self._router.run(
            dataset_id,
            lambda store: store.documents.delete(dataset_id, name, if_version=if_version),
        )

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        """See `DocumentRepo.delete_many`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.delete_many(dataset_id, versions)
        )

    def delete_dataset(self, dataset_id: str) -> bool:
        """See `DocumentRepo.delete_dataset`. Its place stays: its versions are used up there."""
        return self._router.run(
            dataset_id, lambda store: store.documents.delete_dataset(dataset_id)
        )

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        """See `DocumentRepo.delete_orphans`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.delete_orphans(dataset_id, names)
        )

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """See `VersionReader.versions`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.versions(dataset_id, name)
        )

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """See `VersionReader.get_version`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.get_version(dataset_id, name, version)
        )

    def deleted_version(self, dataset_id: str) -> int:
        """See `VersionReader.deleted_version`."""
        return self._router.run(
            dataset_id, lambda store: store.documents.deleted_version(dataset_id)
        )
