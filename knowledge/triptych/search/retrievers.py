"""The lanes that ship: BM25 and vectors, over chunks, layers and whole documents."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych.contracts import (
    ChunkRepo,
    CoverageEmbedder,
    DocLevelSearcher,
    DocVectorSearcher,
    Embedder,
    LayerRepo,
)
from triptych.embedding import embed_query
from triptych.errors import NotAvailableError
from triptych.records import Candidate, ChunkQuery, LayerQuery, Mode, ResolvedQuery, Vector

__all__ = [
    "BM25Retriever",
    "DocumentBM25Retriever",
    "DocumentVectorRetriever",
    "LayerRetriever",
    "VectorRetriever",
]


def chunk_query(query: ResolvedQuery, mode: Mode, vector: Vector | None = None) -> ChunkQuery:
    """What one lane asks a repository."""
    return ChunkQuery(
        dataset_ids=query.dataset_ids if mode is Mode.BM25 else query.vector_dataset_ids,
        mode=mode,
        text=query.text,
        vector=vector,
        embed_sig=query.embed_sig if mode is Mode.VECTOR else "",
        top_k=query.limit,
        filter=query.filter,
    )


def query_vector(embedder: Embedder | None, query: ResolvedQuery) -> Vector:
    """The query's vector, or the reason why this lane cannot run."""
    if embedder is None:
        raise NotAvailableError(
            "vector search needs an embedder and none is wired: open the knowledge base with "
            "embedder='local' (pip install 'triptych[local]'), or search with mode='bm25'"
        )
    if not query.vector_dataset_ids:
        raise NotAvailableError(
            f"none of the datasets asked has vectors of {embedder.signature!r}: rebuild them "
            "with this embedder, or search with mode='bm25'"
        )
    if isinstance(embedder, CoverageEmbedder):
        share = embedder.coverage(query.text)
        if share < embedder.coverage_floor:
            raise NotAvailableError(
                f"the embedder's vocabulary covers {share:.0%} of the query, below its floor "
                f"of {embedder.coverage_floor:.0%}: its vectors would mislead "
                "(use a multilingual embedder, or mode='bm25')"
            )
    return embed_query(embedder, query.text) if query.vector is None else query.vector


@attrs.frozen
class BM25Retriever:
    """The keyword lane over chunks."""

    chunks: ChunkRepo
    name: str = "bm25"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best chunks by Lucene's BM25."""
        return self.chunks.search(chunk_query(query, Mode.BM25))


@attrs.frozen
class VectorRetriever:
    """The vector lane over chunks; the query is embedded when the lane runs."""

    chunks: ChunkRepo
    embedder: Embedder | None
    name: str = "vector"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The nearest chunks by cosine similarity."""
        vector = query_vector(self.embedder, query)
        return self.chunks.search(chunk_query(query, Mode.VECTOR, vector))


@attrs.frozen
class LayerRetriever:
    """A lane over abstracts or overviews: by keyword without an embedder, else by vector."""

    layers: LayerRepo
    mode: Mode
    embedder: Embedder | None = None

    @property
    def name(self) -> str:
        """The mode it serves."""
        return str(self.mode)

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best layers of ``query.layer``."""
        vector = None if self.mode is Mode.BM25 else query_vector(self.embedder, query)
        asked = chunk_query(query, self.mode, vector)
        return self.layers.search(
            LayerQuery(layer=query.layer, **attrs.asdict(asked, recurse=False))
        )


@attrs.frozen
class DocumentBM25Retriever:
    """The keyword lane over whole documents."""

    chunks: ChunkRepo
    name: str = "bm25"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by BM25 over their full text."""
        if not isinstance(self.chunks, DocLevelSearcher):
            raise NotAvailableError(
                f"{type(self.chunks).__name__} cannot search whole documents: use search(), or "
                "another backend"
            )
        return self.chunks.search_docs(chunk_query(query, Mode.BM25))


@attrs.frozen
class DocumentVectorRetriever:
    """The vector lane over whole documents: the nearest of all their chunks counts."""

    chunks: ChunkRepo
    embedder: Embedder | None
    name: str = "vector"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by their nearest chunk."""
        if not isinstance(self.chunks, DocVectorSearcher):
            raise NotAvailableError(
                f"{type(self.chunks).__name__} cannot search whole documents by vector: use "
                "mode='bm25', or another backend"
            )
        vector = query_vector(self.embedder, query)
        return self.chunks.search_docs_by_vector(chunk_query(query, Mode.VECTOR, vector))
