"""Deleting documents whose files are gone, many at a time where the store can."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from triptych.contracts import BulkDeleter
from triptych.errors import CancelledError, ConflictError, TriptychError
from triptych.records import DocumentInfo, Failure, Layer
from triptych.service import Service

__all__ = ["DELETED_AT_ONCE", "delete_documents", "layered"]

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
    if not isinstance(documents, BulkDeleter):
        return _one_by_one(service, dataset_id, infos)
    try:
        deleted = documents.delete_many(dataset_id, {info.name: info.version for info in infos})
    except CancelledError:
        raise
    except TriptychError as error:
        return [], [Failure(dataset_id=dataset_id, name=info.name, error=error) for info in infos]
    return list(deleted), []


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


def _one_by_one(
    service: Service, dataset_id: str, infos: Sequence[DocumentInfo]
) -> tuple[list[str], list[Failure]]:
    deleted, failed = [], []
    for info in infos:
        try:
            service.delete_document(dataset_id, info.name, if_version=info.version)
        except CancelledError:
            raise
        except ConflictError:
            continue  # another has put or deleted it meanwhile
        except TriptychError as error:
            failed.append(Failure(dataset_id=dataset_id, name=info.name, error=error))
        else:
            deleted.append(info.name)
    return deleted, failed
