"""The sparse lane, over chunks and over whole documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from triptych.contracts import ChunkRepo, DocLevelSearcher, SparseEncoder, Store
from triptych.errors import NotAvailableError
from triptych.records import Candidate, ChunkQuery, Layer, ResolvedQuery, SparseVector
from triptych.vectors.sparse_encoding import encode_sparse

SPARSE = "sparse"
"""The lane's name: a mode, and a key of ``min_scores`` and `Hit.scores`."""


class _SparseLane:
    """What both lanes do: the query is encoded when the lane runs."""

    name = SPARSE

    def __init__(self, encoder: SparseEncoder) -> None:
        self._encoder = encoder
        self._last: tuple[str, SparseVector] | None = None

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """Encodes the query."""
        if query.sparse is not None or not query.sparse_dataset_ids:
            return None
        return lambda: attrs.evolve(query, sparse=self._vector(query))

    def _asked(self, query: ResolvedQuery) -> ChunkQuery:
        """What the repository is asked.

        Raises:
            NotAvailableError: no dataset has sparse vectors of this encoder.
            ProviderError: the encoder could not answer.
        """
        if not query.sparse_dataset_ids:
            raise NotAvailableError(
                f"none of the datasets asked has sparse vectors of {self._encoder.signature!r}: "
                "`triptych embed` adds them, or search in another mode"
            )
        return ChunkQuery(
            dataset_ids=query.sparse_dataset_ids,
            mode="sparse",
            vector=self._vector(query),
            embed_sig=query.sparse_sig,
            top_k=query.limit,
            filter=query.filter,
        )

    def _vector(self, query: ResolvedQuery) -> SparseVector:
        if query.sparse is not None:
            return query.sparse
        last = self._last  # a lane that is asked again goes deeper with the same query
        if last is not None and last[0] == query.text:
            return last[1]
        (vector,) = encode_sparse(self._encoder, [query.text], kind="query")
        self._last = (query.text, vector)
        return vector


class SparseRetriever(_SparseLane):
    """Finds the chunks with the greatest dot product of sparse vectors."""

    def __init__(self, chunks: ChunkRepo, encoder: SparseEncoder) -> None:
        super().__init__(encoder)
        self._chunks = chunks

    def over(self, store: Store) -> SparseRetriever:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store keeps no sparse vectors.
        """
        _check(store)
        return SparseRetriever(store.chunks, self._encoder)

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._chunks.in_process

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best chunks; none for a query of layers, which have no sparse vectors."""
        return self._chunks.search(self._asked(query)) if query.layer is Layer.DETAIL else []


class DocumentSparseRetriever(_SparseLane):
    """Finds whole documents by the best of all their chunks."""

    def __init__(self, documents: DocLevelSearcher, encoder: SparseEncoder) -> None:
        super().__init__(encoder)
        self._documents = documents

    def over(self, store: Store) -> DocumentSparseRetriever:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store keeps no sparse vectors, or finds no documents by them.
        """
        _check(store)
        searcher = store.capabilities.document_search
        if searcher is None:
            raise NotAvailableError(
                "the other store cannot search whole documents: give one that can"
            )
        return DocumentSparseRetriever(searcher, self._encoder)

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._documents.in_process

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents."""
        return self._documents.search_docs_by_vector(self._asked(query))


def _check(store: Store) -> None:
    if store.capabilities.sparse is None:
        raise NotAvailableError("the other store keeps no sparse vectors: give one that does")
