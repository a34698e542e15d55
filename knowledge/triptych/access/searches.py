"""Searches of whole documents and by sparse vectors, and statistics, of what an access shows."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

import attrs

from triptych.access.chunks import ReadTexts, narrow, visible_units
from triptych.access.view import AccessView
from triptych.contracts import DocLevelSearcher, SparseRepo
from triptych.records import (
    Candidate,
    ChunkQuery,
    FilterTree,
    SparseQuery,
    SparseSpace,
    SparseVector,
    StoredUnit,
)
from triptych.text.scoring import CorpusStats

__all__ = ["AccessDocumentSearch", "AccessSparse"]

_BATCH = 1_000


@attrs.frozen(eq=False)
class AccessDocumentSearch:
    """A `DocLevelSearcher` of what an access shows."""

    _view: AccessView
    _searcher: DocLevelSearcher

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs`."""
        return self._searcher.search_docs(narrow(self._view, query))

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs_by_vector`."""
        return self._searcher.search_docs_by_vector(narrow(self._view, query))

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `DocLevelSearcher.fetch_docs`."""
        return visible_units(self._view, self._searcher.fetch_docs(keys))

    def corpus_stats(
        self,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `DocLevelSearcher.corpus_stats`."""
        view = self._view
        return self._searcher.corpus_stats(
            view.named(dataset_ids), terms, within=view.where(within)
        )

    @property
    def in_process(self) -> bool:
        """See `DocLevelSearcher.in_process`."""
        return self._searcher.in_process


@attrs.frozen(eq=False)
class AccessSparse:
    """A `SparseRepo` of what an access shows."""

    _view: AccessView
    _repo: SparseRepo
    _seen: ReadTexts

    def add_sparse_vectors(
        self,
        dataset_id: str,
        sparse_sig: str,
        doc_names: Sequence[str],
        vectors: Mapping[str, SparseVector],
    ) -> Sequence[str]:
        """See `SparseRepo.add_sparse_vectors`."""
        self._view.check_write(dataset_id)
        names = self._visible(dataset_id, doc_names)
        return self._repo.add_sparse_vectors(dataset_id, sparse_sig, names, vectors)

    def known_sparse_vectors(
        self, dataset_id: str, sparse_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, SparseVector]:
        """See `SparseRepo.known_sparse_vectors`; under a filter, of texts that were read."""
        view = self._view
        if not view.access.names(dataset_id):
            return {}
        if view.tree is not None:
            input_sigs = self._seen.among(dataset_id, input_sigs)
        return self._repo.known_sparse_vectors(dataset_id, sparse_sig, input_sigs)

    def sparse_pending(
        self, dataset_id: str, sparse_sig: str, doc_names: Collection[str] | None = None
    ) -> Sequence[str]:
        """See `SparseRepo.sparse_pending`."""
        if not self._view.access.names(dataset_id):
            return []
        return self._visible(
            dataset_id, self._repo.sparse_pending(dataset_id, sparse_sig, doc_names)
        )

    def count_sparse_pending(self, dataset_ids: Sequence[str], sparse_sig: str) -> int:
        """See `SparseRepo.count_sparse_pending`."""
        named = self._view.named(dataset_ids)
        pending = self._repo.count_sparse_pending(named, sparse_sig)
        if self._view.tree is None or not pending:
            return pending
        return sum(len(self.sparse_pending(each, sparse_sig)) for each in dict.fromkeys(named))

    def sparse_spaces(self, dataset_id: str) -> Sequence[SparseSpace]:
        """See `SparseRepo.sparse_spaces`. Under a filter the vectors of the caller's chunks are
        read, which takes time in proportion to them."""
        view = self._view
        if not view.access.names(dataset_id):
            return []
        spaces = self._repo.sparse_spaces(dataset_id)
        if view.tree is None:
            return spaces
        digests = list(dict.fromkeys(self._digests(dataset_id)))
        found = []
        for space in spaces:
            count = size = 0
            for start in range(0, len(digests), _BATCH):
                vectors = self._repo.known_sparse_vectors(
                    dataset_id, space.sparse_sig, digests[start : start + _BATCH]
                ).values()
                count += len(vectors)
                size += sum(len(each.to_bytes()) for each in vectors)
            if count:
                found.append(attrs.evolve(space, vectors=count, size=size))
        return found

    def search_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """See `SparseRepo.search_sparse`."""
        return self._repo.search_sparse(self._narrow(query))

    def search_docs_by_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """See `SparseRepo.search_docs_by_sparse`."""
        return self._repo.search_docs_by_sparse(self._narrow(query))

    @property
    def in_process(self) -> bool:
        """See `SparseRepo.in_process`."""
        return self._repo.in_process

    def _narrow(self, query: SparseQuery) -> SparseQuery:
        view = self._view
        return attrs.evolve(
            query, dataset_ids=view.named(query.dataset_ids), filter=view.filter(query.filter)
        )

    def _visible(self, dataset_id: str, doc_names: Sequence[str]) -> Sequence[str]:
        view = self._view
        if view.tree is None:
            return doc_names
        there = view.infos(dataset_id, doc_names)
        return [name for name in doc_names if name in there]

    def _digests(self, dataset_id: str) -> Iterator[str]:
        there = self._view.every_info(dataset_id)
        for chunk in self._view.store.chunks.iter_chunks(dataset_id):
            if chunk.doc_name in there and chunk.sig.input_sig:
                yield chunk.sig.input_sig
