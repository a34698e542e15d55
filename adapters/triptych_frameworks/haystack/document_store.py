"""A Haystack document store over a dataset."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from haystack import default_from_dict, default_to_dict
from haystack.dataclasses import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils import Secret, deserialize_secrets_inplace
from haystack.utils.filters import document_matches_filter

from triptych import open as open_service
from triptych.errors import ConflictError, NotFoundError, ValidationError
from triptych.records import Hit, NewDocument, SourceDocument, check_metadata
from triptych.resources import shown_url
from triptych.service import KnowledgeBase
from triptych_frameworks.in_threads import in_thread

_REST = "haystack.document"
"""The metadata key for values that Triptych cannot hold, as JSON: embeddings, blobs, nested
meta."""
_SECRETS = ("key", "pass", "token", "secret")
"""What the names of a URL's secret options hold."""


def new_document(document: Document, *, if_version: int | None = None) -> NewDocument:
    """Convert a document for storing: its id is the name.

    Raises:
        ValidationError: its meta has values that JSON cannot hold.
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
    """Convert a stored document back."""
    rest = _rest(stored.metadata)
    content = None if "content" in rest else stored.content
    meta = {**_plain(stored.metadata), **rest.pop("meta", {})}
    return Document.from_dict({**rest, "id": stored.name, "content": content, "meta": meta})


def passage_of(hit: Hit) -> Document:
    """Convert a hit to a document with its score and its source in ``meta["triptych"]``."""
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
    """Return the original meta."""
    return {**_plain(metadata), **_rest(metadata).get("meta", {})}


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in metadata.items() if key != _REST}


def _rest(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(metadata[_REST])) if _REST in metadata else {}


class TriptychDocumentStore:
    """Keeps Haystack's documents in a dataset: an id is a document's name.

    Triptych chunks, indexes and embeds them itself; an embedding of a document is stored and
    returned, but not searched. Filters have Haystack's semantics: they are evaluated for each
    document, which takes time proportional to the size of the dataset.

    Args:
        url: the store, as in `triptych.open`; opened at first use. A URL with a password or a key
            is a `Secret`: `Secret.from_env_var("NAME")`.
        dataset_id: the dataset.
        embedder: as in `triptych.open`.
        kb: an open knowledge base, instead of ``url`` and ``embedder``. It is not closed, and not
            included in `to_dict`.
    """

    def __init__(
        self,
        url: str | Secret = "memory://",
        dataset_id: str = "haystack",
        *,
        embedder: str | None = "auto",
        kb: KnowledgeBase | None = None,
    ) -> None:
        self.url = url
        self.dataset_id = dataset_id
        self.embedder = embedder
        self._given = kb
        self._kb = kb
        self._lock = threading.Lock()

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, opened at first use."""
        with self._lock:
            if self._kb is None:
                url = self.url.resolve_value() if isinstance(self.url, Secret) else self.url
                self._kb = open_service(url, embedder=self.embedder)
            return self._kb

    def close(self) -> None:
        """Close the knowledge base, if it was opened here. Idempotent."""
        with self._lock:
            if self._kb is not None and self._given is None:
                self._kb.close()
                self._kb = None

    def to_dict(self) -> dict[str, Any]:
        """Return the arguments, for a pipeline's file.

        Raises:
            ValueError: a password or a key would be written, or the `Secret` is a token.
        """
        for given in (self.url, self.embedder):
            if isinstance(given, str) and _has_secret(given):
                raise ValueError(
                    f"{shown_url(given)} holds a secret, which must not be written: give url as "
                    'Secret.from_env_var("NAME"), and the key of an embedder by its variable'
                )
        url = self.url.to_dict() if isinstance(self.url, Secret) else self.url
        made: dict[str, Any] = default_to_dict(
            self, url=url, dataset_id=self.dataset_id, embedder=self.embedder
        )
        return made

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> TriptychDocumentStore:
        """Create the store from `to_dict`."""
        if isinstance(data["init_parameters"].get("url"), dict):
            deserialize_secrets_inplace(data["init_parameters"], keys=["url"])
        store: TriptychDocumentStore = default_from_dict(cls, data)
        return store

    def count_documents(self) -> int:
        """Count the documents."""
        return self.kb.count_documents(self.dataset_id) if self._exists() else 0

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the matching documents, sorted by id.

        Raises:
            FilterError: the filters are invalid.
        """
        _check(filters)
        return [
            document
            for document in self._documents()
            if not filters or document_matches_filter(filters, document)
        ]

    def matching_names(self, filters: dict[str, Any]) -> list[str]:
        """Return the sorted ids of matching documents; texts are read only if the filters need
        them.

        Raises:
            FilterError: the filters are invalid.
        """
        _check(filters)
        if not _is_of_meta(filters):
            return [each.id for each in self.filter_documents(filters)]
        infos = self.kb.list_documents(self.dataset_id) if self._exists() else ()
        found = (Document(id=info.name, meta=meta_of(info.metadata)) for info in infos)
        return [each.id for each in found if document_matches_filter(filters, each)]

    def write_documents(
        self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE
    ) -> int:
        """Write documents; return their number. The default policy is to fail on duplicates.

        Raises:
            ValueError: ``documents`` is not a list of documents.
            DuplicateDocumentError: an id exists, and the policy is to fail. The other documents are
                written.
        """
        if not isinstance(documents, list) or not all(
            isinstance(each, Document) for each in documents
        ):
            raise ValueError("write_documents takes a list of haystack Documents")
        if not documents:
            return 0
        over = None if policy == DuplicatePolicy.OVERWRITE else 0
        new = [new_document(each, if_version=over) for each in documents]
        report = self.kb.put_documents(self.dataset_id, new)
        taken = [each.name for each in report.failed if isinstance(each.error, ConflictError)]
        if taken and policy != DuplicatePolicy.SKIP:
            raise DuplicateDocumentError(f"there are documents with these ids: {taken[:10]}")
        if len(taken) < len(report.failed):
            report.raise_for_failures()
        return len(documents) - len(taken)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents, which need not exist."""
        for name in document_ids:
            self.kb.delete_document(self.dataset_id, name)

    def delete_all_documents(self) -> None:
        """Delete all documents."""
        self.kb.delete_dataset(self.dataset_id)

    def delete_by_filter(self, filters: dict[str, Any]) -> int:
        """Delete the matching documents; return their number.

        Raises:
            FilterError: the filters are invalid.
        """
        found = self.filter_documents(filters)
        return sum(self.kb.delete_document(self.dataset_id, each.id) for each in found)

    def update_by_filter(self, filters: dict[str, Any], meta: dict[str, Any]) -> int:
        """Set fields of the meta of matching documents; return their number.

        Raises:
            FilterError: the filters are invalid.
        """
        found = self.filter_documents(filters)
        for each in found:
            each.meta.update(meta)
        return self.write_documents(found, DuplicatePolicy.OVERWRITE)

    count_documents_async = in_thread(count_documents)
    filter_documents_async = in_thread(filter_documents)
    write_documents_async = in_thread(write_documents)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    update_by_filter_async = in_thread(update_by_filter)

    def _exists(self) -> bool:
        return self.dataset_id in self.kb.list_datasets()

    def _documents(self) -> Iterator[Document]:
        if not self._exists():
            return
        for info in self.kb.list_documents(self.dataset_id):
            try:
                yield document_of(self.kb.get_document(self.dataset_id, info.name))
            except NotFoundError:
                continue  # another process has deleted it meanwhile


def _check(filters: dict[str, Any] | None) -> None:
    if filters and "operator" not in filters and "conditions" not in filters:
        raise FilterError("a filter has an operator, and a field or conditions")


def _is_of_meta(filters: Any) -> bool:
    """Return whether only meta is compared."""
    if not isinstance(filters, dict):
        return False
    if "field" in filters:
        return str(filters["field"]).startswith("meta.")
    conditions = filters.get("conditions")
    return isinstance(conditions, list) and all(map(_is_of_meta, conditions))


def _has_secret(url: str) -> bool:
    parts = urlsplit(url)
    names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return bool(parts.password) or any(word in name for name in names for word in _SECRETS)
