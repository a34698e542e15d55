"""Source documents in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from triptych.errors import ConflictError
from triptych.records import (
    DocumentInfo,
    NewDocument,
    PutOutcome,
    SourceDocument,
)
from triptych_backends.memory.truth import Truth

__all__ = ["MemoryDocuments"]


class MemoryDocuments:
    """`DocumentRepo` and `BulkDocumentRepo`."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            version = dataset.version(document.name)
            if document.if_version not in (None, version):
                raise ConflictError(
                    f"document {document.name!r} of dataset {dataset_id!r} is at version "
                    f"{version}, not {document.if_version}: read it again and repeat the change",
                    expected=document.if_version,
                    actual=version,
                )
            old = self.get(dataset_id, document.name)
            if old and (old.content, old.metadata) == (document.content, document.metadata):
                return old
            new = SourceDocument(
                dataset_id=dataset_id,
                name=document.name,
                content=document.content,
                metadata=dict(document.metadata),
                version=max(version, dataset.floor) + 1,
                updated_at=datetime.now(UTC),
                original_sha256=document.original_sha256,
                parser_sig=document.parser_sig,
            )
            truth.store_document(new)
            return new

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        with self._truth:
            return [self._outcome(dataset_id, document) for document in documents]

    def _outcome(self, dataset_id: str, document: NewDocument) -> PutOutcome:
        before = self._truth.read(dataset_id).version(document.name)
        try:
            after = self.put(dataset_id, document)
        except ConflictError as error:
            return PutOutcome(name=document.name, change="failed", error=error)
        if after.version == before:
            return PutOutcome(name=document.name, change="unchanged", document=after)
        return PutOutcome(
            name=document.name, change="updated" if before else "added", document=after
        )

    def load(self, document: SourceDocument) -> None:
        with self._truth as truth:
            if self.get(document.dataset_id, document.name) == document:
                return
            dataset = truth.read(document.dataset_id)
            version = dataset.version(document.name)
            if document.version <= max(version, dataset.floor):
                raise ConflictError(
                    f"document {document.name!r} of dataset {document.dataset_id!r} cannot be "
                    f"loaded as version {document.version}: versions up to "
                    f"{max(version, dataset.floor)} are used up; load into another dataset",
                    expected=document.version,
                    actual=version,
                )
            truth.store_document(document)

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        with self._truth as truth:
            stored = truth.read(dataset_id).documents.get(name)
            return stored.copied_document() if stored else None

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        with self._truth as truth:
            stored = truth.read(dataset_id).documents.get(name)
            return stored.copied_info() if stored else None

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
    ) -> Sequence[DocumentInfo]:
        with self._truth as truth:
            documents = truth.read(dataset_id).documents
            names = sorted(name for name in documents if name.startswith(prefix) and name > after)
            return [documents[name].copied_info() for name in names[:limit]]

    def list_datasets(self) -> Sequence[str]:
        with self._truth as truth:
            return sorted(name for name, dataset in truth.datasets.items() if dataset.exists)

    def delete(self, dataset_id: str, name: str) -> bool:
        with self._truth as truth:
            if name not in truth.read(dataset_id).documents:
                return False
            truth.remove_document(dataset_id, name)
            return True

    def delete_dataset(self, dataset_id: str) -> bool:
        with self._truth as truth:
            existed = truth.read(dataset_id).exists
            if dataset_id in truth.datasets:
                truth.remove_dataset(dataset_id)
            return existed
