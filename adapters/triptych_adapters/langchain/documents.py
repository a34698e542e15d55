"""LangChain's documents as documents of a dataset, and back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document

from triptych.errors import NotFoundError, ValidationError
from triptych.records import Hit, NewDocument, SourceDocument, check_metadata
from triptych.service import Service

_OTHER = "langchain.metadata"
"""The metadata key of what Triptych's metadata cannot hold, as JSON: nested objects and None."""


def new_documents(documents: Iterable[Document], ids: Sequence[str | None]) -> list[NewDocument]:
    """What is to be put; a document without an id gets a random one."""
    return [
        NewDocument(
            name=name or document.id or str(uuid.uuid4()),
            content=document.page_content,
            metadata=_plain(document.metadata),
        )
        for document, name in zip(documents, ids, strict=True)
    ]


def document_of(stored: SourceDocument) -> Document:
    """The whole document, as it was put."""
    return Document(
        id=stored.name, page_content=stored.content, metadata=_metadata(stored.metadata)
    )


def passage_of(hit: Hit) -> Document:
    """A passage, with where it is from: ``metadata["triptych"]``."""
    source = {
        "dataset_id": hit.dataset_id,
        "doc_name": hit.doc_name,
        "version": hit.version,
        "start": hit.start,
        "end": hit.end,
        "start_line": hit.start_line,
        "heading_path": list(hit.heading_path),
        "score": hit.score,
        "stale": None if hit.stale is None else str(hit.stale),
    }
    metadata = {"source": hit.doc_name, **_metadata(hit.metadata), "triptych": source}
    return Document(page_content=hit.content, metadata=metadata)


def put(kb: Service, dataset_id: str, documents: list[NewDocument]) -> list[str]:
    """Put them; their ids, which are the names.

    Raises:
        TriptychError: what failed first. What was stored before stays.
    """
    if documents:
        kb.put_documents(dataset_id, documents).raise_for_failures()
    return [document.name for document in documents]


def get(kb: Service, dataset_id: str, ids: Iterable[str]) -> list[Document]:
    """Those of ``ids`` that there are, in this order."""
    found = []
    for name in ids:
        try:
            found.append(document_of(kb.get_document(dataset_id, name)))
        except NotFoundError:
            continue
    return found


def delete(kb: Service, dataset_id: str, ids: Iterable[str] | None) -> list[str]:
    """Delete them; those that there were.

    Raises:
        ValueError: no ids are given. `Service.delete_dataset` deletes all.
    """
    if ids is None:
        raise ValueError("ids says which documents are deleted: give a list")
    return [name for name in dict.fromkeys(ids) if kb.delete_document(dataset_id, name)]


def search(
    kb: Service, dataset_id: str, query: Any, limit: int, options: Mapping[str, Any]
) -> list[tuple[Document, float]]:
    """The best documents, each once and whole, with their scores."""
    if dataset_id not in kb.list_datasets():
        return []
    hits = kb.search(query, dataset_id=dataset_id, top_k=limit, per_document=1, **options).hits
    return [
        (document, hit.score) for hit in hits for document in get(kb, dataset_id, [hit.doc_name])
    ]


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that Triptych can hold."""
    plain: dict[str, Any] = {}
    other: dict[str, Any] = {}
    for key, value in metadata.items():
        try:
            plain |= check_metadata({key: value})
        except ValidationError:
            other[key] = value
    if other:
        try:
            plain[_OTHER] = json.dumps(other, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise ValidationError(
                f"the metadata {sorted(other)} is neither text, numbers, dates and lists of these "
                f"nor JSON: {error}"
            ) from error
    return plain


def _metadata(plain: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(plain)
    other = found.pop(_OTHER, None)
    return found if other is None else {**found, **json.loads(other)}
