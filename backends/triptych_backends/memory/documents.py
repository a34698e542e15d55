"""Source documents in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from triptych.contracts import rules
from triptych.records import DocumentInfo, FilterTree, NewDocument, PutOutcome, SourceDocument
from triptych_backends.memory.dataset import StoredDocument
from triptych_backends.memory.index_source import documents_passing
from triptych_backends.memory.truth import Truth


class MemoryDocuments:
    """`DocumentRepo` and `VersionReader`."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        return rules.document_of(self.put_many(dataset_id, [document])[0])

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        with self._truth.writing() as truth:
            dataset = truth.read(dataset_id)
            names = {document.name for document in documents} & dataset.documents.keys()
            stored = {name: dataset.documents[name].document for name in names}
            outcomes, _ = rules.after_puts(dataset_id, documents, stored, dataset.floor)
            for outcome in outcomes:
                # Each in turn: of a name that comes twice the first is a version as well.
                if outcome.document is not None and outcome.change != "unchanged":
                    truth.store_document(outcome.document)
            return outcomes

    def load(self, document: SourceDocument) -> None:
        with self._truth.writing() as truth:
            dataset = truth.read(document.dataset_id)
            stored = dataset.documents.get(document.name)
            if rules.check_loadable(document, stored.document if stored else None, dataset.floor):
                truth.store_document(document)

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        with self._truth as truth:
            stored = truth.read(dataset_id).documents.get(name)
            return rules.copy_document(stored.document) if stored else None

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        with self._truth as truth:
            stored = truth.read(dataset_id).documents.get(name)
            return rules.copy_document(stored.info) if stored else None

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            documents = dataset.documents
            passing = documents if where is None else documents_passing(where, dataset)
            names = rules.page_of_names(passing, prefix, after, limit)
            return [rules.copy_document(documents[name].info) for name in names]

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            return len(dataset.documents if where is None else documents_passing(where, dataset))

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        with self._truth as truth:
            return [
                each
                for each in dataset_ids
                if any(at <= moment for at in truth.read(each).expiring.values())
            ]

    def list_datasets(self) -> Sequence[str]:
        with self._truth as truth:
            return sorted(name for name, dataset in truth.datasets.items() if dataset.exists)

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        with self._truth as truth:
            return [
                rules.copy_document(stored.info) for stored in _versions(truth, dataset_id, name)
            ]

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        with self._truth as truth:
            for stored in _versions(truth, dataset_id, name):
                if stored.document.version == version:
                    return rules.copy_document(stored.document)
            return None

    def deleted_version(self, dataset_id: str) -> int:
        with self._truth as truth:
            return truth.read(dataset_id).floor

    def create_dataset(self, dataset_id: str) -> bool:
        with self._truth.writing() as truth:
            dataset = truth.write(dataset_id)
            created, dataset.exists = not dataset.exists, True
            return created

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        with self._truth.writing() as truth:
            version = truth.read(dataset_id).version(name)
            rules.check_delete(dataset_id, name, if_version, version)
            truth.remove(dataset_id, name)
            return version > 0

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        with self._truth.writing() as truth:
            dataset = truth.read(dataset_id)
            found = [
                name
                for name, version in sorted(versions.items())
                if name in dataset.documents and dataset.version(name) == version
            ]
            for name in found:
                truth.remove(dataset_id, name)
            return found

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        with self._truth.writing() as truth:
            documents = truth.read(dataset_id).documents
            left = [name for name in sorted(set(names)) if not rules.has_source(name, documents)]
            return [name for name in left if truth.remove(dataset_id, name)]

    def delete_dataset(self, dataset_id: str) -> bool:
        with self._truth.writing() as truth:
            existed = truth.read(dataset_id).exists
            if dataset_id in truth.datasets:
                truth.remove_dataset(dataset_id)
            return existed


def _versions(truth: Truth, dataset_id: str, name: str) -> list[StoredDocument]:
    """The current one first."""
    dataset = truth.read(dataset_id)
    current = dataset.documents.get(name)
    return [] if current is None else [current, *dataset.replaced.get(name, ())]
