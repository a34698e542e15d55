"""Chunk sets and configurations, each on the server of its dataset."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from triptych.records import (
    Candidate,
    ChunkQuery,
    ChunkVector,
    CompleteSet,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    FilterTree,
    SparseQuery,
    SparseSpace,
    SparseVector,
    StoredUnit,
    Vector,
)
from triptych.text import CorpusStats
from triptych_backends.shards.ownership import ElsewhereError
from triptych_backends.shards.routing import Router
from triptych_backends.shards.search import ShardedSearcher

__all__ = ["ShardedChunks"]


class ShardedChunks:
    """`ChunkRepo` over the servers of a `Router`, and what else finds chunks and documents."""

    in_process = False

    def __init__(self, router: Router, searcher: ShardedSearcher) -> None:
        self._router = router
        self._searcher = searcher

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """See `ChunkRepo.config`."""
        return self._router.run(dataset_id, lambda store: store.chunks.config(dataset_id))

    def configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        """See `ChunkRepo.configs`."""
        found = self._router.run_all(
            dataset_ids, lambda part, store: store.chunks.configs(part.dataset_ids)
        )
        return {name: config for part in found for name, config in part.items()}

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """See `ChunkRepo.configure`."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.configure(dataset_id, config, expected=expected),
            places=True,
        )

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """See `ChunkSigReader.get_doc_sig`."""
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """See `ChunkSigReader.get_doc_sigs`."""
        return self._router.run(
            dataset_id, lambda store: store.chunks.get_doc_sigs(dataset_id, doc_names)
        )

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkSigReader.doc_names`."""
        return self._router.run(dataset_id, lambda store: store.chunks.doc_names(dataset_id))

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[DerivedChunk], *, sig: DerivedSig
    ) -> bool:
        """See `ChunkRepo.replace`."""
        return self.replace_many(dataset_id, [(doc_name, chunks, sig)])[0]

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        """See `ChunkRepo.replace_many`."""
        return self._router.run(
            dataset_id, lambda store: store.chunks.replace_many(dataset_id, sets)
        )

    def add_vectors(
        self,
        dataset_id: str,
        embed_sig: str,
        vectors: Sequence[ChunkVector],
        complete: Sequence[CompleteSet] = (),
    ) -> Sequence[str]:
        """See `ChunkRepo.add_vectors`."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.add_vectors(dataset_id, embed_sig, vectors, complete),
        )

    def pending(self, dataset_id: str, embed_sig: str) -> Sequence[str]:
        """See `ChunkRepo.pending`."""
        return self._router.run(
            dataset_id, lambda store: store.chunks.pending(dataset_id, embed_sig)
        )

    def count_pending(self, dataset_ids: Sequence[str], embed_sig: str) -> int:
        """See `ChunkRepo.count_pending`."""
        return sum(
            self._router.run_all(
                dataset_ids,
                lambda part, store: store.chunks.count_pending(part.dataset_ids, embed_sig),
            )
        )

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """See `ChunkRepo.count_sets`."""
        return sum(
            self._router.run_all(
                dataset_ids, lambda part, store: store.chunks.count_sets(part.dataset_ids)
            )
        )

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        """See `ChunkRepo.update_source_version`."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.update_source_version(dataset_id, doc_name, sig),
        )

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """See `ChunkRepo.delete_by_doc`."""
        self._router.run(dataset_id, lambda store: store.chunks.delete_by_doc(dataset_id, doc_name))

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `ChunkRepo.delete_by_dataset`."""
        self._router.run(dataset_id, lambda store: store.chunks.delete_by_dataset(dataset_id))

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        """See `ChunkRepo.known_vectors`. The arrays are read-only."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.known_vectors(dataset_id, embed_sig, input_sigs),
        )

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`. Where the dataset moves meanwhile, it goes on there."""
        self._router.place(dataset_id).server.database.require_open()
        return self._iterate(dataset_id, doc_name, vectors=vectors)

    def _iterate(
        self, dataset_id: str, doc_name: str | None, *, vectors: bool
    ) -> Iterator[DerivedChunk]:
        last = None
        while True:
            place = self._router.place(dataset_id)
            expected = {dataset_id: place.expected}
            try:
                with place.server.expecting(expected) as store:
                    chunks = store.chunks.iter_chunks(dataset_id, doc_name, vectors=vectors)
                documents = groupby(chunks, attrgetter("doc_name"))
                while True:
                    # What is expected is of this thread, and the caller's turn comes in between.
                    with place.server.expecting(expected):
                        name, of_name = next(documents, (None, iter(())))
                        found = list(of_name)
                    if name is None:
                        return
                    if last is None or name > last:
                        yield from found
                        last = name
            except ElsewhereError:
                self._router.forget(dataset_id)

    def add_sparse_vectors(
        self,
        dataset_id: str,
        sparse_sig: str,
        doc_names: Sequence[str],
        vectors: Mapping[str, SparseVector],
    ) -> Sequence[str]:
        """See `SparseRepo.add_sparse_vectors`."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.add_sparse_vectors(
                dataset_id, sparse_sig, doc_names, vectors
            ),
        )

    def known_sparse_vectors(
        self, dataset_id: str, sparse_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, SparseVector]:
        """See `SparseRepo.known_sparse_vectors`."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.known_sparse_vectors(dataset_id, sparse_sig, input_sigs),
        )

    def sparse_pending(
        self, dataset_id: str, sparse_sig: str, doc_names: Collection[str] | None = None
    ) -> Sequence[str]:
        """See `SparseRepo.sparse_pending`."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.sparse_pending(dataset_id, sparse_sig, doc_names),
        )

    def count_sparse_pending(self, dataset_ids: Sequence[str], sparse_sig: str) -> int:
        """See `SparseRepo.count_sparse_pending`."""
        return sum(
            self._router.run_all(
                dataset_ids,
                lambda part, store: store.chunks.count_sparse_pending(part.dataset_ids, sparse_sig),
            )
        )

    def sparse_spaces(self, dataset_id: str) -> Sequence[SparseSpace]:
        """See `SparseRepo.sparse_spaces`."""
        return self._router.run(dataset_id, lambda store: store.chunks.sparse_spaces(dataset_id))

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`."""
        return self._searcher.search("chunk", query)

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs`."""
        return self._searcher.search("document", query)

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocVectorSearcher.search_docs_by_vector`."""
        return self._searcher.search("document", query)

    def search_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """See `SparseRepo.search_sparse`."""
        return self._searcher.search_sparse("chunk", query)

    def search_docs_by_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """See `SparseRepo.search_docs_by_sparse`."""
        return self._searcher.search_sparse("document", query)

    def corpus_stats(
        self,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `CorpusStatsReader.corpus_stats`: the sum of what the servers have."""
        return self._searcher.corpus_stats("chunk", dataset_ids, terms, within=within)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `ChunkRepo.fetch`."""
        return self._searcher.fetch(keys, lambda store, mine: store.chunks.fetch(mine))

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `DocLevelSearcher.fetch_docs`."""
        return self._searcher.fetch(keys, lambda store, mine: store.chunks.fetch_docs(mine))
