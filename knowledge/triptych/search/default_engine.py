"""The lanes that ship, over a store."""

from __future__ import annotations

from collections.abc import Sequence

from triptych.contracts import Capabilities, Embedder, Ranker, Retriever, SparseEncoder, Store
from triptych.records import Mode
from triptych.search.engine import SearchEngine
from triptych.search.retrievers import (
    BM25Retriever,
    DocumentBM25Retriever,
    DocumentVectorRetriever,
    LayerRetriever,
    VectorRetriever,
)
from triptych.search.sparse_retrievers import DocumentSparseRetriever, SparseRetriever
from triptych.vectors.sparse_encoding import check_keeps_sparse

__all__ = ["build_engine"]


def build_engine(
    store: Store,
    capabilities: Capabilities,
    *,
    embedder: Embedder | None,
    next_embedder: Embedder | None = None,
    sparse_encoder: SparseEncoder | None,
    retrievers: Sequence[Retriever],
    ranker: Ranker | None,
) -> SearchEngine:
    """The lanes that ship; those by vector are there even without an embedder, to say why not."""
    chunks, layers = store.chunks, store.layers
    check_keeps_sparse(capabilities.sparse, sparse_encoder)
    return SearchEngine(
        chunk=[
            BM25Retriever(chunks),
            VectorRetriever(chunks, embedder, next_embedder),
            *([] if sparse_encoder is None else [SparseRetriever(chunks, sparse_encoder)]),
            *retrievers,
        ],
        layer=[
            LayerRetriever(layers, Mode.BM25),
            LayerRetriever(layers, Mode.VECTOR, embedder, next_embedder),
        ],
        document=[
            *_document_lanes(capabilities, embedder, next_embedder, sparse_encoder),
        ],
        ranker=ranker,
    )


def _document_lanes(
    capabilities: Capabilities,
    embedder: Embedder | None,
    following: Embedder | None,
    encoder: SparseEncoder | None,
) -> list[Retriever]:
    """The lanes over whole documents that the store is capable of."""
    lanes: list[Retriever] = []
    if capabilities.document_search is not None:
        lanes.append(DocumentBM25Retriever(capabilities.document_search))
    if capabilities.document_vector_search is not None:
        searcher = capabilities.document_vector_search
        lanes.append(DocumentVectorRetriever(searcher, embedder, following))
        if encoder is not None:
            lanes.append(DocumentSparseRetriever(searcher, encoder))
    return lanes
