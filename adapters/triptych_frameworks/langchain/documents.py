"""LangChain's retriever, vector store, document index and embedder over a dataset."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing import UpsertResponse
from langchain_core.indexing.base import DeleteResponse, DocumentIndex
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from triptych import open as open_service
from triptych.errors import NotFoundError, ValidationError
from triptych.records import (
    EmbedKind,
    Hit,
    NewDocument,
    Query,
    SourceDocument,
    check_metadata,
    reported,
)
from triptych.search import MMR, one_rewriter
from triptych.service import KnowledgeBase, service_of
from triptych_frameworks.in_threads import in_thread


class LangChainEmbedder:
    """An embedder that uses LangChain's ``embeddings``, scaled to unit length.

    ``signature`` names the model and its revision: vectors of different signatures are never
    compared. By default it is the class and its ``model`` or ``model_name``, if any.
    """

    def __init__(self, embeddings: Embeddings, *, signature: str | None = None) -> None:
        self.embeddings = embeddings
        model = getattr(embeddings, "model", None) or getattr(embeddings, "model_name", "")
        self.signature: str = signature or f"langchain/{type(embeddings).__name__}/{model}"
        self.dimension: int | None = None  # known after the first text

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """See `Embedder.embed`."""
        if kind == "query":
            rows = [self.embeddings.embed_query(text) for text in texts]
        else:
            rows = self.embeddings.embed_documents(list(texts))
        if not rows:
            return np.empty((0, 0), np.float32)
        vectors = np.asarray(rows, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, lengths, out=vectors, where=lengths > 0)


_OTHER = "langchain.metadata"
"""The metadata key for values that Triptych's metadata cannot hold, as JSON: objects and None."""


def new_documents(documents: Iterable[Document], ids: Sequence[str | None]) -> list[NewDocument]:
    """Convert documents for storing; a document without an id gets a random one."""
    return [
        NewDocument(
            name=name or document.id or str(uuid.uuid4()),
            content=document.page_content,
            metadata=_plain(document.metadata),
        )
        for document, name in zip(documents, ids, strict=True)
    ]


def document_of(stored: SourceDocument) -> Document:
    """Convert a stored document back."""
    return Document(
        id=stored.name, page_content=stored.content, metadata=_metadata(stored.metadata)
    )


def passage_of(hit: Hit) -> Document:
    """Convert a hit to a document with its source in ``metadata["triptych"]``."""
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


def get_documents(kb: KnowledgeBase, dataset_id: str, ids: Iterable[str]) -> list[Document]:
    """Return the existing documents of ``ids``, in this order."""
    found = []
    for name in ids:
        try:
            found.append(document_of(kb.get_document(dataset_id, name)))
        except NotFoundError:
            continue
    return found


def delete_documents(kb: KnowledgeBase, dataset_id: str, ids: Iterable[str] | None) -> list[str]:
    """Delete documents; return the ids that existed.

    Raises:
        ValueError: no ids are given. `Service.delete_dataset` deletes all.
    """
    if ids is None:
        raise ValueError("ids is required: give a list of documents to delete")
    return [name for name in dict.fromkeys(ids) if kb.delete_document(dataset_id, name)]


def search_documents(
    kb: KnowledgeBase,
    dataset_id: str,
    query: str,
    limit: int,
    options: Mapping[str, Any],
    by: Any = None,
) -> list[tuple[Document, float]]:
    """Return the best distinct documents, complete, with their scores; ``by`` searches."""
    if dataset_id not in kb.list_datasets():
        return []
    asked = Query(text=query, dataset_id=dataset_id, top_k=limit, per_document=1, **options)
    hits = (by or kb).search(asked).hits
    return [
        (document, hit.score)
        for hit in hits
        for document in get_documents(kb, dataset_id, [hit.doc_name])
    ]


def _plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Convert metadata to Triptych's types."""
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


class TriptychRetriever(BaseRetriever):
    """Finds passages: ``retriever.invoke("…")`` returns a `Document` for each hit, best first.

    Their ``metadata`` is the document's, with its name as ``source``, and with position, version,
    score and staleness of the passage in ``triptych``.

    Attributes:
        kb: an open knowledge base, local or on a server; it is not closed.
        dataset_id: the dataset to search; "" for all.
        k: the maximum number of passages; ``invoke(query, k=…)`` overrides it.
        options: further options of `Service.search`, such as ``{"mode": "bm25", "where": {…}}``.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kb: KnowledgeBase
    dataset_id: str = ""
    k: int = 4
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **given: Any
    ) -> list[Document]:
        options = {**self.options, **given}
        top_k = options.pop("k", self.k)
        if "scope" not in options and "dataset_ids" not in options:
            options |= {"dataset_id": self.dataset_id} if self.dataset_id else {"scope": "all"}
        return [passage_of(hit) for hit in self.kb.search(query, top_k=top_k, **options).hits]


class TriptychDocumentIndex(DocumentIndex):
    """Keeps LangChain's documents in a dataset, and retrieves whole documents.

    Attributes:
        kb: an open knowledge base; it is not closed.
        dataset_id: the dataset.
        k: the maximum number of documents to retrieve.
        options: further options of `Service.search`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    kb: KnowledgeBase
    dataset_id: str = "langchain"
    k: int = 4
    options: dict[str, Any] = Field(default_factory=dict)

    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Store documents; return the ids that were stored and that failed."""
        new = new_documents(items, [None] * len(items))
        if not new:
            return UpsertResponse(succeeded=[], failed=[])
        report = reported(lambda: self.kb.put_documents(self.dataset_id, new))
        failed = [each.name for each in report.failed]
        names = list(dict.fromkeys(document.name for document in new))
        return UpsertResponse(
            succeeded=[name for name in names if name not in failed], failed=failed
        )

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents; return the ids that existed.

        Raises:
            ValueError: no ids are given.
        """
        gone = delete_documents(self.kb, self.dataset_id, ids)
        return DeleteResponse(succeeded=gone, num_deleted=len(gone), num_failed=0, failed=[])

    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Those that there are."""
        return get_documents(self.kb, self.dataset_id, ids)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        found = search_documents(self.kb, self.dataset_id, query, self.k, self.options)
        return [document for document, _ in found]


class TriptychVectorStore(VectorStore):
    """Keeps LangChain's documents in a dataset: an id is a document's name.

    A search returns distinct whole documents of any length: Triptych cuts them into chunks itself.
    It is hybrid if the knowledge base has an embedder; ``mode="vector"`` and ``"bm25"`` search one
    lane. ``filter`` is a ``where``. Nested metadata is preserved, but filters cannot use it.
    """

    def __init__(self, kb: KnowledgeBase, dataset_id: str = "langchain") -> None:
        """Use a dataset of ``kb``, which has the embedder and is not closed."""
        self.kb = kb
        self.dataset_id = dataset_id

    @property
    def embeddings(self) -> Embeddings | None:
        """LangChain's embeddings, if the knowledge base uses them."""
        embedder = self.kb.options.embedder
        return embedder.embeddings if isinstance(embedder, LangChainEmbedder) else None

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        url: str = "memory://",
        dataset_id: str = "langchain",
        **kwargs: Any,
    ) -> TriptychVectorStore:
        """Open the store at ``url`` with these embeddings, and add texts. Close its ``kb``."""
        kb = open_service(url, embedder=LangChainEmbedder(embedding), **kwargs)
        store = cls(kb, dataset_id)
        try:
            store.add_texts(texts, metadatas, ids=ids)
        except BaseException:
            kb.close()
            raise
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts, replacing those with existing ids; return the ids.

        Raises:
            ValueError: the number of metadatas or ids differs from the number of texts.
        """
        every = list(texts)
        for what, given in (("metadatas", metadatas), ("ids", ids)):
            if given is not None and len(given) != len(every):
                raise ValueError(f"there are {len(every)} texts and {len(given)} {what}")
        found = metadatas or [{} for _ in every]
        documents = [
            Document(page_content=text, metadata=metadata)
            for text, metadata in zip(every, found, strict=True)
        ]
        return self.add_documents(documents, ids=ids)

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """Store documents under ``ids``, their own ids, or random ones; return the ids.

        Raises:
            TriptychError: the first failure. Documents stored before it remain.
        """
        ids = kwargs.get("ids") or [None] * len(documents)
        new = new_documents(documents, ids)
        if new:
            self.kb.put_documents(self.dataset_id, new).raise_for_failures()
        return [document.name for document in new]

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Those that there are."""
        return get_documents(self.kb, self.dataset_id, ids)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents, which need not exist.

        Raises:
            ValueError: no ids are given.
        """
        delete_documents(self.kb, self.dataset_id, ids)
        return True

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the best documents; ``filter`` and options are passed to `Service.search`."""
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the best documents with their scores; higher is better."""
        return search_documents(self.kb, self.dataset_id, query, k, _options(kwargs))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Return the best documents by `MMR`, which sets the candidates: not ``fetch_k``.

        Raises:
            NotAvailableError: the dataset has no vectors, or the knowledge base is on a server.
        """
        kb, rewriter = self.kb, one_rewriter(self.kb.options.rewriter)
        steps = [MMR(lambda_mult), *kb.options.postprocessors]
        searches = service_of(kb, "another search").searches
        by = searches.derived(rewriter=rewriter, postprocessors=steps)
        found = search_documents(kb, self.dataset_id, query, k, _options(kwargs), by)
        return [document for document, _ in found]

    def _similarity_search_with_relevance_scores(
        self, query: str, /, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return cosines: a fused score has no fixed scale that a threshold could name."""
        if kwargs.setdefault("mode", "vector") != "vector":
            raise ValueError('score_threshold compares cosines: leave mode out, or give "vector"')
        found = self.similarity_search_with_score(query, k, **kwargs)
        return [(document, min(max(score, 0.0), 1.0)) for document, score in found]

    _asimilarity_search_with_relevance_scores = in_thread(_similarity_search_with_relevance_scores)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Not available: the knowledge base embeds queries itself.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("search by text: the knowledge base embeds it")


def _options(given: dict[str, Any]) -> dict[str, Any]:
    options = dict(given)
    where = options.pop("filter", None)
    return options if where is None else {**options, "where": where}
