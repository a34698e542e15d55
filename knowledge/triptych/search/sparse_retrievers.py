"""The sparse lane, over chunks and over whole documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from triptych.contracts import Store
from triptych.errors import NotAvailableError
from triptych.ingestion.sparse_encoding import SparseLane, encode_sparse
from triptych.records import Candidate, Layer, ResolvedQuery, SparseQuery, SparseVector

__all__ = ["SPARSE", "DocumentSparseRetriever", "SparseRetriever"]

SPARSE = "sparse"
"""The lane's name: a mode, and a key of ``min_scores`` and `Hit.scores`."""


class SparseRetriever:
    """Finds the chunks with the greatest dot product of sparse vectors; the query is encoded when
    the lane runs."""

    name = SPARSE

    def __init__(self, lane: SparseLane) -> None:
        self._lane = lane
        self._last: tuple[str, SparseVector] | None = None

    def over(self, store: Store) -> SparseRetriever:
        """See `Retriever`.

        Raises:
            NotAvailableError: the store keeps no sparse vectors.
        """
        repo = store.capabilities.sparse
        if repo is None:
            raise NotAvailableError("the other store keeps no sparse vectors: give one that does")
        return type(self)(attrs.evolve(self._lane, repo=repo))

    @property
    def in_process(self) -> bool:
        """See `Retriever`."""
        return self._lane.repo.in_process

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """Encodes the query."""
        if query.sparse is not None or not query.sparse_dataset_ids:
            return None
        return lambda: attrs.evolve(query, sparse=self._vector(query))

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best chunks; none for a query of layers, which have no sparse vectors."""
        if query.layer is not Layer.DETAIL:
            return []
        return self._lane.repo.search_sparse(self._asked(query))

    def _asked(self, query: ResolvedQuery) -> SparseQuery:
        """What the repository is asked.

        Raises:
            NotAvailableError: no dataset has sparse vectors of this encoder.
            ProviderError: the encoder could not answer.
        """
        if not query.sparse_dataset_ids:
            raise NotAvailableError(
                f"none of the datasets asked has sparse vectors of {self._lane.signature!r}: "
                "`triptych embed` adds them, or search in another mode"
            )
        return SparseQuery(
            dataset_ids=query.sparse_dataset_ids,
            vector=self._vector(query),
            sparse_sig=query.sparse_sig,
            top_k=query.limit,
            filter=query.filter,
        )

    def _vector(self, query: ResolvedQuery) -> SparseVector:
        if query.sparse is not None:
            return query.sparse
        last = self._last  # a lane that is asked again goes deeper with the same query
        if last is not None and last[0] == query.text:
            return last[1]
        (vector,) = encode_sparse(self._lane.encoder, [query.text], kind="query")
        self._last = (query.text, vector)
        return vector


class DocumentSparseRetriever(SparseRetriever):
    """Finds whole documents by the best of all their chunks."""

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """The best documents."""
        return self._lane.repo.search_docs_by_sparse(self._asked(query))
