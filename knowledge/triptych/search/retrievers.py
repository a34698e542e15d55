"""The built-in lanes: BM25 and vectors, over chunks, layers and whole documents."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Generic, Self, TypeVar

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
)
from triptych.vectors.lanes import lane_of

R = TypeVar("R", bound=ChunkRepo | LayerRepo | DocLevelSearcher)

_WORTH_A_THREAD = 0.0005  # seconds: having another thread do it costs about half of this


def _keywords(query: ResolvedQuery) -> ChunkQuery:
    """What a keyword lane asks a repository."""
    return ChunkQuery(
        dataset_ids=query.dataset_ids,
        mode=Mode.BM25,
        text=query.text,
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
    """A lane that makes the query's vector when it runs."""

    name: str = "vector"

    def __init__(self, repo: R, model: Embedder | SparseEncoder | None) -> None:
        super().__init__(repo)
        self._lane = lane_of(model)
        self.name = str(self._lane.name)
        self._seconds = 1.0  # what making a query's vector took lately; a guess at first

    def over(self, store: Store) -> Self:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store keeps no such vectors, or has no such repository.
        """
        if self._lane.kind not in store.chunks.kinds:
            raise NotAvailableError(
                f"the other store keeps no {self._lane.vectors}: give one that does"
            )
        return super().over(store)

    def cosine_range(self, query: ResolvedQuery) -> tuple[float, float] | None:
        """That of the query's model, None where it tells none."""
        return getattr(self._lane.model, "cosine_range", None)

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """The making of the query's vector, should it not be there yet, nor be at once."""
        name = self.name
        if self._lane.model is None or name in query.vectors or not query.datasets_of.get(name):
            return None
        if self._seconds < _WORTH_A_THREAD:
            return None
        return lambda: attrs.evolve(query, vectors={**query.vectors, name: self._vector(query)})

    def _asked(self, query: ResolvedQuery) -> ChunkQuery:
        """What the repository is asked.

        Raises:
            NotAvailableError: there is no model, no dataset of its space, or too little of the
                query in its vocabulary.
            ProviderError: the model could not answer.
        """
        vector = self._vector(query)
        return ChunkQuery(
            dataset_ids=query.datasets_of[self.name],
            mode=self._lane.name,
            text=query.text,
            vector=vector,
            embed_sig=self._lane.sig,
            top_k=query.limit,
            filter=query.filter,
        )

    def _vector(self, query: ResolvedQuery) -> Any:
        lane = self._lane
        if lane.model is None:
            raise NotAvailableError(
                f"{lane.name} search needs an {lane.maker}, and none is configured: "
                f"{how_to_set(lane.option)}, or search in the mode bm25"
            )
        if not query.datasets_of.get(self.name):
            raise NotAvailableError(
                f"none of the searched datasets has {lane.vectors} of {lane.sig!r}: "
                "`triptych embed` adds them, or search in another mode"
            )
        if self.name in query.vectors:
            return query.vectors[self.name]
        began = time.perf_counter()
        vector = lane.query_vector(query)
        self._seconds += (time.perf_counter() - began - self._seconds) / 4
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
        return self._repo.search(_keywords(query))


class VectorRetriever(_ByVector[ChunkRepo], _OfChunks):
    """Finds the chunks whose vectors are nearest to the query's: by an embedder, or by a sparse
    encoder, whose lane is "sparse"."""

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Return the best chunks, by the dot product of vectors; none for a query for layers."""
        return self._repo.search(self._asked(query)) if query.layer is Layer.DETAIL else []


class LayerRetriever(_ByVector[LayerRepo], _OfLayers):
    """A lane over abstracts or overviews: by keyword, or by vector."""

    def __init__(self, layers: LayerRepo, mode: Mode, embedder: Embedder | None = None) -> None:
        super().__init__(layers, embedder)
        self.name: str = str(mode)
        self._mode = mode

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """Return a function that embeds the query, or None."""
        return None if self._mode is Mode.BM25 else super().preparation(query)

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Return the best layers of ``query.layer``; none for a query for chunks."""
        if query.layer is Layer.DETAIL:
            return []
        asked = _keywords(query) if self._mode is Mode.BM25 else self._asked(query)
        return self._repo.search(
            LayerQuery(layer=query.layer, **attrs.asdict(asked, recurse=False))
        )


class DocumentBM25Retriever(_OfDocuments):
    """The keyword lane over whole documents."""

    name = "bm25"

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by BM25 over their full text."""
        return self._repo.search_docs(_keywords(query))


class DocumentVectorRetriever(_ByVector[DocLevelSearcher], _OfDocuments):
    """A lane of vectors over whole documents: the best of all their chunks counts."""

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents by their best chunk."""
        return self._repo.search_docs_by_vector(self._asked(query))
