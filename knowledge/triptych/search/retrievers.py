"""The built-in lanes: BM25, vectors, sparse vectors, over chunks, layers and whole documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from typing import Generic, Self, TypeVar

import attrs

from triptych.contracts import (
    ChunkRepo,
    DocLevelSearcher,
    Embedder,
    LayerRepo,
    SparseEncoder,
    Store,
)
from triptych.contracts.models import how_to_set
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

R = TypeVar("R", bound=ChunkRepo | LayerRepo | DocLevelSearcher)

SPARSE = "sparse"
"""The name of the sparse lane: also a mode, and a key of ``min_scores`` and `Hit.scores`."""

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


class _Lane(Generic[R]):
    """A lane over one repository, which another store has too."""

    def __init__(self, repo: R) -> None:
        self._repo: R = repo

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._repo.in_process

    def over(self, store: Store) -> Self:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store has no such repository, or keeps no such vectors.
        """
        made = copy(self)
        made._repo = self._repo_of(store)
        return made

    def _repo_of(self, store: Store) -> R:
        raise NotImplementedError


class _OfChunks(_Lane[ChunkRepo]):
    def _repo_of(self, store: Store) -> ChunkRepo:
        return store.chunks


class _OfLayers(_Lane[LayerRepo]):
    def _repo_of(self, store: Store) -> LayerRepo:
        return store.layers


class _OfDocuments(_Lane[DocLevelSearcher]):
    def _repo_of(self, store: Store) -> DocLevelSearcher:
        whole = store.capabilities.document_search
        if whole is None:
            raise NotAvailableError(
                "the other store cannot search whole documents: give one that can"
            )
        return whole


class _ByVector(_Lane[R]):
    """A lane that embeds the query when it runs.

    ``following`` embeds the queries of its own space, ``embedder`` all others.
    """

    def __init__(
        self, repo: R, embedder: Embedder | None, following: Embedder | None = None
    ) -> None:
        super().__init__(repo)
        self._embedder = embedder
        self._following = following
        self._gates = CoverageGate(embedder), CoverageGate(following)
        self._seconds = 1.0  # what embedding a query took lately; a guess at first

    def cosine_range(self, query: ResolvedQuery) -> tuple[float, float] | None:
        """That of the query's embedder, None where it tells none."""
        return getattr(self._of(query)[0], "cosine_range", None)

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """The embedding of the query, should it not be embedded yet, nor that be at once."""
        embedder, _ = self._of(query)
        if embedder is None or query.vector is not None or not query.vector_dataset_ids:
            return None
        if self._seconds < _WORTH_A_THREAD:
            return None
        return lambda: attrs.evolve(query, vector=self._vector(query))

    def _vector(self, query: ResolvedQuery) -> Vector:
        """Return the vector of ``query.embedded``: of its text, or the mean of several.

        Raises:
            NotAvailableError: there is no embedder, no dataset of its space, or too little of
                the query in its vocabulary.
        """
        embedder, gate = self._of(query)
        if embedder is None:
            raise NotAvailableError(
                "vector search needs an embedder, and none is configured: "
                f"{how_to_set('embedder')}, or search in the mode bm25"
            )
        if not query.vector_dataset_ids:
            raise NotAvailableError(
                f"none of the searched datasets has vectors of {embedder.signature!r}: "
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

    def _of(self, query: ResolvedQuery) -> tuple[Embedder | None, CoverageGate]:
        following = self._following
        if following is not None and following.signature == query.embed_sig:
            return following, self._gates[1]
        return self._embedder, self._gates[0]


class _BySparseVector(_Lane[R]):
    """A lane that encodes the query when it runs."""

    name = SPARSE

    def __init__(self, repo: R, encoder: SparseEncoder) -> None:
        super().__init__(repo)
        self._encoder = encoder
        self._last: tuple[str, SparseVector] | None = None

    def over(self, store: Store) -> Self:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store keeps no sparse vectors, or finds no documents by them.
        """
        if store.capabilities.sparse is None:
            raise NotAvailableError("the other store keeps no sparse vectors: give one that does")
        return super().over(store)

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
                f"none of the searched datasets has sparse vectors of {self._encoder.signature!r}: "
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


class BM25Retriever(_OfChunks):
    """The keyword lane over chunks."""

    name: str = "bm25"

    def __init__(self, chunks: ChunkRepo, name: str = "bm25") -> None:
        super().__init__(chunks)
        self.name = name

    @property
    def chunks(self) -> ChunkRepo:
        """The repository that it searches."""
        return self._repo

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Return the best chunks by Lucene's BM25; none for a query for layers."""
        if query.layer is not Layer.DETAIL:
            return []
        return self._repo.search(chunk_query(query, Mode.BM25))


class VectorRetriever(_ByVector[ChunkRepo], _OfChunks):
    """The vector lane over chunks; the query is embedded when the lane runs."""

    name = "vector"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Return the nearest chunks by cosine similarity; none for a query for layers."""
        if query.layer is not Layer.DETAIL:
            return []
        return self._repo.search(chunk_query(query, Mode.VECTOR, self._vector(query)))


class SparseRetriever(_BySparseVector[ChunkRepo], _OfChunks):
    """Finds the chunks with the greatest dot product of sparse vectors."""

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Return the best chunks; none for a query for layers, which have no sparse vectors."""
        return self._repo.search(self._asked(query)) if query.layer is Layer.DETAIL else []


class LayerRetriever(_ByVector[LayerRepo], _OfLayers):
    """A lane over abstracts or overviews: by keyword, or by vector."""

    name: str = ""

    def __init__(
        self,
        layers: LayerRepo,
        mode: Mode,
        embedder: Embedder | None = None,
        following: Embedder | None = None,
    ) -> None:
        super().__init__(layers, embedder, following)
        self.name = str(mode)
        self._mode = mode

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """Return a function that embeds the query, or None."""
        return None if self._mode is Mode.BM25 else super().preparation(query)

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Return the best layers of ``query.layer``; none for a query for chunks."""
        if query.layer is Layer.DETAIL:
            return []
        vector = None if self._mode is Mode.BM25 else self._vector(query)
        asked = chunk_query(query, self._mode, vector)
        return self._repo.search(
            LayerQuery(layer=query.layer, **attrs.asdict(asked, recurse=False))
        )


class DocumentBM25Retriever(_OfDocuments):
    """The keyword lane over whole documents."""

    name = "bm25"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by BM25 over their full text."""
        return self._repo.search_docs(chunk_query(query, Mode.BM25))


class DocumentVectorRetriever(_ByVector[DocLevelSearcher], _OfDocuments):
    """The vector lane over whole documents: the nearest of all their chunks counts."""

    name = "vector"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by their nearest chunk."""
        return self._repo.search_docs_by_vector(
            chunk_query(query, Mode.VECTOR, self._vector(query))
        )


class DocumentSparseRetriever(_BySparseVector[DocLevelSearcher], _OfDocuments):
    """Finds whole documents by the best of all their chunks."""

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents."""
        return self._repo.search_docs_by_vector(self._asked(query))
