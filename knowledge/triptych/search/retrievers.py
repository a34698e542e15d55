"""The lanes that ship: BM25, vectors, sparse vectors, over chunks, layers and whole documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import attrs

from triptych.contracts import (
    ChunkRepo,
    DocLevelSearcher,
    Embedder,
    LayerRepo,
    SparseEncoder,
    Store,
)
from triptych.errors import NotAvailableError
from triptych.records import (
    Candidate,
    ChunkQuery,
    Layer,
    LayerQuery,
    Mode,
    ResolvedQuery,
    SparseVector,
    Vector,
)
from triptych.vectors.embedding import CoverageGate, embed_each, encode_sparse, mean_vector

_WORTH_A_THREAD = 0.0005  # seconds: having another thread do it costs about half of this


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


class QueryEmbedder:
    """Gives a lane the query's vector, or the reason why the lane cannot run.

    ``following`` embeds the queries of its own space, ``embedder`` all others.
    """

    def __init__(self, embedder: Embedder | None, following: Embedder | None = None) -> None:
        self._embedder = embedder
        self._following = following
        self._gates = CoverageGate(embedder), CoverageGate(following)
        self._seconds = 1.0  # what embedding a query took lately; a guess at first

    def vector(self, query: ResolvedQuery) -> Vector:
        """Return the vector of ``query.embedded``: of its text, or the mean of several.

        Raises:
            NotAvailableError: there is no embedder, no dataset of its space, or too little of
                the query in its vocabulary.
        """
        embedder, gate = self._of(query)
        if embedder is None:
            raise NotAvailableError(
                "vector search needs an embedder, and none is in use: choose one, such as local, "
                "or search in the mode bm25"
            )
        if not query.vector_dataset_ids:
            raise NotAvailableError(
                f"none of the datasets asked has vectors of {embedder.signature!r}: "
                "rebuild them with this embedder, or search in the mode bm25"
            )
        if query.vector is not None:
            return query.vector
        texts = query.embedded
        admitted = [each for each in texts if gate.admits(each[1])]
        if not admitted:
            raise NotAvailableError(gate.objection(texts[0][1]) or "nothing to embed")
        began = time.perf_counter()
        vector = mean_vector(list(embed_each(embedder, admitted).values()))
        self._seconds += (time.perf_counter() - began - self._seconds) / 4
        return vector

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """The embedding of the query, should it not be embedded yet, nor that be at once."""
        embedder, _ = self._of(query)
        if embedder is None or query.vector is not None or not query.vector_dataset_ids:
            return None
        if self._seconds < _WORTH_A_THREAD:
            return None
        return lambda: attrs.evolve(query, vector=self.vector(query))

    def _of(self, query: ResolvedQuery) -> tuple[Embedder | None, CoverageGate]:
        following = self._following
        if following is not None and following.signature == query.embed_sig:
            return following, self._gates[1]
        return self._embedder, self._gates[0]


@attrs.frozen
class BM25Retriever:
    """The keyword lane over chunks."""

    chunks: ChunkRepo
    name: str = "bm25"

    def over(self, store: Store) -> BM25Retriever:
        """See `Retriever`."""
        return BM25Retriever(store.chunks)

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self.chunks.in_process

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best chunks by Lucene's BM25; none for a query of layers."""
        if query.layer is not Layer.DETAIL:
            return []
        return self.chunks.search(chunk_query(query, Mode.BM25))


class VectorRetriever:
    """The vector lane over chunks; the query is embedded when the lane runs."""

    name = "vector"

    def __init__(
        self, chunks: ChunkRepo, embedder: Embedder | None, following: Embedder | None = None
    ) -> None:
        self._chunks = chunks
        self._embedders = embedder, following
        self._queries = QueryEmbedder(embedder, following)

    def over(self, store: Store) -> VectorRetriever:
        """See `Retriever`."""
        return VectorRetriever(store.chunks, *self._embedders)

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._chunks.in_process

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """Embeds the query."""
        return self._queries.preparation(query)

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The nearest chunks by cosine similarity; none for a query of layers."""
        if query.layer is not Layer.DETAIL:
            return []
        vector = self._queries.vector(query)
        return self._chunks.search(chunk_query(query, Mode.VECTOR, vector))


class LayerRetriever:
    """A lane over abstracts or overviews: by keyword, or by vector."""

    name: str = ""

    def __init__(
        self,
        layers: LayerRepo,
        mode: Mode,
        embedder: Embedder | None = None,
        following: Embedder | None = None,
    ) -> None:
        self.name = str(mode)
        self._layers = layers
        self._mode = mode
        self._embedders = embedder, following
        self._queries = QueryEmbedder(embedder, following)

    def over(self, store: Store) -> LayerRetriever:
        """See `Retriever`."""
        return LayerRetriever(store.layers, self._mode, *self._embedders)

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._layers.in_process

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """Embeds the query."""
        return None if self._mode is Mode.BM25 else self._queries.preparation(query)

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best layers of ``query.layer``; none for a query of chunks."""
        if query.layer is Layer.DETAIL:
            return []
        vector = None if self._mode is Mode.BM25 else self._queries.vector(query)
        asked = chunk_query(query, self._mode, vector)
        return self._layers.search(
            LayerQuery(layer=query.layer, **attrs.asdict(asked, recurse=False))
        )


class DocumentBM25Retriever:
    """The keyword lane over whole documents."""

    name = "bm25"

    def __init__(self, documents: DocLevelSearcher) -> None:
        self._documents = documents

    def over(self, store: Store) -> DocumentBM25Retriever:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store cannot search whole documents.
        """
        return DocumentBM25Retriever(_required(store.capabilities.document_search))

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._documents.in_process

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by BM25 over their full text."""
        return self._documents.search_docs(chunk_query(query, Mode.BM25))


class DocumentVectorRetriever:
    """The vector lane over whole documents: the nearest of all their chunks counts."""

    name = "vector"

    def __init__(
        self,
        documents: DocLevelSearcher,
        embedder: Embedder | None,
        following: Embedder | None = None,
    ) -> None:
        self._documents = documents
        self._embedders = embedder, following
        self._queries = QueryEmbedder(embedder, following)

    def over(self, store: Store) -> DocumentVectorRetriever:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store cannot search whole documents.
        """
        return DocumentVectorRetriever(
            _required(store.capabilities.document_search), *self._embedders
        )

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._documents.in_process

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """Embeds the query."""
        return self._queries.preparation(query)

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by their nearest chunk."""
        vector = self._queries.vector(query)
        return self._documents.search_docs_by_vector(chunk_query(query, Mode.VECTOR, vector))


def _required(searcher: DocLevelSearcher | None) -> DocLevelSearcher:
    if searcher is None:
        raise NotAvailableError("the other store cannot search whole documents: give one that can")
    return searcher


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
