"""Deleting documents whose files are gone, many at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from triptych import deadlines
from triptych.contracts import DocumentRepo
from triptych.errors import CancelledError, StoreAwayError, TriptychError
from triptych.records import DocumentInfo, Failure, Layer
from triptych.service import Service
from triptych.sync.roots import SyncRoot

DELETED_AT_ONCE = 64
"""Documents that go in one transaction: the disk is waited for once, and other writers soon
have their turn. No more than a scope can name."""


def delete_documents(
    service: Service, dataset_id: str, infos: Sequence[DocumentInfo]
) -> tuple[list[str], list[Failure]]:
    """Delete these documents of a dataset, as far as they are as ``infos`` say.

    The names of those that were deleted, and what failed.
    """
    documents = service.documents
    try:
        deleted = documents.delete_many(dataset_id, {info.name: info.version for info in infos})
    except (CancelledError, StoreAwayError):
        raise
    except TriptychError as error:
        left = [info for info in infos if _is_left(documents, info)]
        gone = [info.name for info in infos if info not in left]
        return gone, [Failure(dataset_id=dataset_id, name=each.name, error=error) for each in left]
    return list(deleted), []


def documents_of(service: Service, root: SyncRoot) -> list[DocumentInfo]:
    """The documents that a folder brought in, ordered by name."""
    infos = service.documents.list(root.dataset_id)
    return [info for info in infos if info.system.sync_root in root.keys]


def delete_documents_of(service: Service, root: SyncRoot) -> tuple[list[str], list[Failure]]:
    """Delete the documents that a folder brought in: the names of those deleted, and failures."""
    infos = documents_of(service, root)
    deleted: list[str] = []
    failed: list[Failure] = []
    for start in range(0, len(infos), DELETED_AT_ONCE):
        deadlines.check("deleting documents")
        done, not_done = delete_documents(
            service, root.dataset_id, infos[start : start + DELETED_AT_ONCE]
        )
        deleted += done
        failed += not_done
    return deleted, failed


def _is_left(documents: DocumentRepo, info: DocumentInfo) -> bool:
    """Whether the document is as it was, as far as the store can tell."""
    try:
        return documents.get_info(info.dataset_id, info.name) is not None
    except (CancelledError, StoreAwayError):
        raise
    except TriptychError:
        return True


def layered(service: Service, dataset_id: str, names: Collection[str]) -> set[str]:
    """Those of ``names`` that have layers."""
    if len(names) > DELETED_AT_ONCE:
        return {layer.doc_name for layer in service.layer_repo.list(dataset_id)}.intersection(names)
    kinds = (Layer.ABSTRACT, Layer.OVERVIEW)
    return {
        name
        for name in names
        if any(service.layer_repo.get(dataset_id, name, kind) is not None for kind in kinds)
    }
