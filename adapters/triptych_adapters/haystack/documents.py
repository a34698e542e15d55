"""Haystack's documents as documents of a dataset, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from haystack.dataclasses import Document

from triptych.errors import ValidationError
from triptych.records import Hit, NewDocument, SourceDocument, check_metadata

_REST = "haystack.document"
"""The metadata key of what Triptych has no place for, as JSON: embeddings, blobs, nested meta."""


def new_document(document: Document, *, if_version: int | None = None) -> NewDocument:
    """What is to be put: the id is the name.

    Raises:
        ValidationError: its meta has values that are not JSON.
    """
    plain: dict[str, Any] = {}
    other: dict[str, Any] = {}
    for key, value in document.meta.items():
        try:
            plain |= check_metadata({key: value})
        except ValidationError:
            other[key] = value
    rest = document.to_dict(flatten=False)
    for key in ("id", "content", "meta"):
        rest.pop(key)
    rest = {key: value for key, value in rest.items() if value is not None}
    if other:
        rest["meta"] = other
    if document.content is None:
        rest["content"] = None
    if rest:
        try:
            plain[_REST] = json.dumps(rest, ensure_ascii=False)
        except (TypeError, ValueError) as error:
            raise ValidationError(
                f"the document {document.id!r} has meta that is neither text, numbers, dates and "
                f"lists of these nor JSON: {error}"
            ) from error
    return NewDocument(
        name=document.id, content=document.content or "", metadata=plain, if_version=if_version
    )


def document_of(stored: SourceDocument) -> Document:
    """The whole document, as it was written."""
    rest = _rest(stored.metadata)
    content = None if "content" in rest else stored.content
    meta = {**_plain(stored.metadata), **rest.pop("meta", {})}
    return Document.from_dict({**rest, "id": stored.name, "content": content, "meta": meta})


def passage_of(hit: Hit) -> Document:
    """A passage with its score, and where it is from: ``meta["triptych"]``."""
    source = {
        "dataset_id": hit.dataset_id,
        "doc_name": hit.doc_name,
        "version": hit.version,
        "start": hit.start,
        "end": hit.end,
        "start_line": hit.start_line,
        "heading_path": list(hit.heading_path),
        "stale": None if hit.stale is None else str(hit.stale),
    }
    meta = {**meta_of(hit.metadata), "triptych": source}
    return Document(content=hit.content, meta=meta, score=hit.score)


def meta_of(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The meta that was written."""
    return {**_plain(metadata), **_rest(metadata).get("meta", {})}


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != _REST}


def _rest(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(metadata[_REST])) if _REST in metadata else {}
