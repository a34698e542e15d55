"""Chunk sets: stored in the truth, found by the local index."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from triptych.records import (
    Candidate,
    ChunkQuery,
    ChunkVector,
    CompleteSet,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    EmbeddingSpace,
    FilterTree,
    SparseQuery,
    SparseSpace,
    SparseVector,
    StoredUnit,
    Vector,
)
from triptych.text import CorpusStats
from triptych_backends.sql.chunk_rows import SIG_COLUMNS, sig_of
from triptych_backends.sql.chunk_sets import configure, replace_sets, update_source_version
from triptych_backends.sql.deferred import bindparam, func, select, tables as t
from triptych_backends.sql.deletes import remove_chunk_set, remove_chunk_sets
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.kept_spaces import (
    drop_space,
    keep_vectors,
    kept_spaces,
    unprepared_names,
)
from triptych_backends.sql.pending_vectors import (
    add_vectors,
    complete_sets,
    count_pending,
    pending_names,
)
from triptych_backends.sql.reads import fetch_chunks, fetch_documents, integers, iter_chunks
from triptych_backends.sql.repository import Repository
from triptych_backends.sql.sparse import (
    add_sparse_vectors,
    count_sparse_pending,
    known_sparse_vectors,
    sparse_pending_names,
    sparse_spaces,
)
from triptych_backends.sql.transaction import find_dataset, find_datasets
from triptych_backends.sql.vectors import known_vectors

__all__ = ["SqlChunks"]

_SETS = select(func.count()).where(t.derivation.c.dataset_id == bindparam("dataset"))
_SIGS = (
    select(t.document.c.name, *SIG_COLUMNS)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.dataset.c.name == bindparam("dataset"), in_list(t.document.c.name, "names"))
)
_NAMES = (
    select(t.document.c.name)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.dataset.c.name == bindparam("dataset"))
    .order_by(t.document.c.name)
)
_DOCUMENT = (
    select(t.document.c.dataset_id, t.document.c.id)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"), t.document.c.name == bindparam("name"))
)


class SqlChunks(Repository):
    """`ChunkRepo` over a `Database`, `DocLevelSearcher`, `SparseRepo` and
    `SpaceRepo`.

    A chunk's key is its row's id, a document's the revision of its content.
    """

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """See `ChunkRepo.config`."""
        with self.database.cached() as session:
            found = find_dataset(session, dataset_id)
        return found.config if found else None

    def configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        """See `ChunkRepo.configs`."""
        with self.database.cached() as session:
            found = find_datasets(session, dataset_ids)
        return {each.name: each.config for each in found if each.config is not None}

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """See `ChunkRepo.configure`."""
        with self.database.writing() as tx:
            return configure(tx, dataset_id, config, expected)

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """See `ChunkSigReader.get_doc_sig`."""
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """See `ChunkSigReader.get_doc_sigs`."""
        with self.database.reading() as session:
            rows = session.all(_SIGS, dataset=dataset_id, names=list(doc_names))
        return {row[0]: sig_of(row[1:]) for row in rows}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkSigReader.doc_names`."""
        with self.database.reading() as session:
            return [row[0] for row in session.all(_NAMES, dataset=dataset_id)]

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[DerivedChunk], *, sig: DerivedSig
    ) -> bool:
        """See `ChunkRepo.replace`."""
        return self.replace_many(dataset_id, [(doc_name, chunks, sig)])[0]

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        """See `ChunkRepo.replace_many`."""
        if not sets:
            return []
        with self.database.writing(durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is None:
                return [False] * len(sets)
            return replace_sets(tx, dataset, sets)

    def add_vectors(
        self,
        dataset_id: str,
        embed_sig: str,
        vectors: Sequence[ChunkVector],
        complete: Sequence[CompleteSet] = (),
    ) -> Sequence[str]:
        """See `ChunkRepo.add_vectors`."""
        with self.database.writing(durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            if not embed_sig or dataset is None or dataset.embed_sig != embed_sig:
                return []
            add_vectors(tx, dataset, embed_sig, vectors)
            return complete_sets(tx, dataset, complete)

    def pending(self, dataset_id: str, embed_sig: str) -> Sequence[str]:
        """See `ChunkRepo.pending`."""
        with self.database.reading() as session:
            return pending_names(session, find_dataset(session, dataset_id), embed_sig)

    def count_pending(self, dataset_ids: Sequence[str], embed_sig: str) -> int:
        """See `ChunkRepo.count_pending`: counted in an index of the sets, chunks are not read."""
        with self.database.cached() as session:
            return count_pending(session, find_datasets(session, dataset_ids), embed_sig)

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """See `ChunkRepo.count_sets`: counted in an index of the sets."""
        with self.database.reading() as session:
            found = find_datasets(session, dataset_ids)
            return sum(session.all(_SETS, dataset=each.id)[0][0] for each in found)

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        """See `ChunkRepo.update_source_version`."""
        with self.database.writing(durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            return dataset is not None and update_source_version(tx, dataset, doc_name, sig)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """See `ChunkRepo.delete_by_doc`."""
        with self.database.writing() as tx:
            found = tx.one(_DOCUMENT, dataset=dataset_id, name=doc_name)
            if found is not None:
                remove_chunk_set(tx, *found)

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `ChunkRepo.delete_by_dataset`."""
        with self.database.writing() as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is not None:
                remove_chunk_sets(tx, dataset)

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        """See `ChunkRepo.known_vectors`. The arrays are read-only."""
        with self.database.reading() as session:
            return known_vectors(session, dataset_id, embed_sig, input_sigs, self.where)

    def keep_vectors(
        self,
        dataset_id: str,
        embed_sig: str,
        names: Sequence[str],
        vectors: Mapping[str, Vector | None],
    ) -> Sequence[str]:
        """See `SpaceRepo.keep_vectors`. Durable: what a model made costs money to make again."""
        with self.database.writing() as tx:
            dataset = find_dataset(tx, dataset_id)
            if not embed_sig or dataset is None or dataset.embed_sig == embed_sig:
                return []
            return keep_vectors(tx, dataset, embed_sig, names, vectors)

    def unprepared(
        self, dataset_id: str, embed_sig: str, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """See `SpaceRepo.unprepared`."""
        with self.database.reading() as session:
            return unprepared_names(session, find_dataset(session, dataset_id), embed_sig, names)

    def kept_spaces(self, dataset_id: str) -> Sequence[EmbeddingSpace]:
        """See `SpaceRepo.kept_spaces`."""
        with self.database.reading() as session:
            return kept_spaces(session, find_dataset(session, dataset_id))

    def drop_space(self, dataset_id: str, embed_sig: str) -> bool:
        """See `SpaceRepo.drop_space`."""
        with self.database.writing() as tx:
            dataset = find_dataset(tx, dataset_id)
            return dataset is not None and drop_space(tx, dataset, embed_sig)

    def add_sparse_vectors(
        self,
        dataset_id: str,
        sparse_sig: str,
        doc_names: Sequence[str],
        vectors: Mapping[str, SparseVector],
    ) -> Sequence[str]:
        """See `SparseRepo.add_sparse_vectors`."""
        with self.database.writing(durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            if not sparse_sig or dataset is None or dataset.sparse_sig != sparse_sig:
                return []
            return add_sparse_vectors(tx, dataset, doc_names, vectors)

    def known_sparse_vectors(
        self, dataset_id: str, sparse_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, SparseVector]:
        """See `SparseRepo.known_sparse_vectors`."""
        with self.database.reading() as session:
            return known_sparse_vectors(session, dataset_id, sparse_sig, input_sigs, self.where)

    def sparse_pending(
        self, dataset_id: str, sparse_sig: str, doc_names: Collection[str] | None = None
    ) -> Sequence[str]:
        """See `SparseRepo.sparse_pending`."""
        with self.database.reading() as session:
            found = find_dataset(session, dataset_id)
            return sparse_pending_names(session, found, sparse_sig, doc_names)

    def count_sparse_pending(self, dataset_ids: Sequence[str], sparse_sig: str) -> int:
        """See `SparseRepo.count_sparse_pending`: counted in an index of those that wait."""
        with self.database.cached() as session:
            return count_sparse_pending(session, find_datasets(session, dataset_ids), sparse_sig)

    def sparse_spaces(self, dataset_id: str) -> Sequence[SparseSpace]:
        """See `SparseRepo.sparse_spaces`."""
        with self.database.reading() as session:
            return sparse_spaces(session, find_dataset(session, dataset_id))

    def search_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """See `SparseRepo.search_sparse`."""
        return self.find_sparse("chunk", query)

    def search_docs_by_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """See `SparseRepo.search_docs_by_sparse`."""
        return self.find_sparse("document", query)

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`."""
        return self.find("chunk", query)

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs`."""
        return self.find("document", query)

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs_by_vector`."""
        return self.find("document", query)

    def corpus_stats(
        self,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `DocLevelSearcher.corpus_stats`."""
        self.database.require_open()
        return self.searcher.corpus_stats("chunk", dataset_ids, terms, within=within)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `ChunkRepo.fetch`."""
        with self.database.reading() as session:
            return fetch_chunks(session, integers(keys), self.where)

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `DocLevelSearcher.fetch_docs`. ``sig`` is the chunk set's, empty without one."""
        with self.database.reading() as session:
            return fetch_documents(session, integers(keys), self.where)

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`.

        Documents are read a few at a time, each from one state; no snapshot stays open while
        the caller works, and what changes meanwhile may show or not.
        """
        self.database.require_open()
        return iter_chunks(self.database, dataset_id, doc_name, vectors)
