"""Chunk sets: stored in the truth, found by the repository's searcher."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from triptych.records import (
    AnySpace,
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    FilterTree,
    StoredSpace,
    StoredUnit,
    VectorSpace,
)
from triptych.records.spaces import KINDS
from triptych.text import CorpusStats
from triptych_backends.sql.chunk_rows import (
    FETCHED_AT_ONCE,
    SIG_COLUMNS,
    fetch_chunks,
    fetch_documents,
    integers,
    iter_chunks,
    sig_of,
)
from triptych_backends.sql.chunk_sets import configure, replace_sets, update_source_version
from triptych_backends.sql.database import Repository
from triptych_backends.sql.deferred import bindparam, func, in_list, select, tables as t
from triptych_backends.sql.deletes import remove_chunk_set, remove_chunk_sets
from triptych_backends.sql.text_vectors import further_spaces, put_further
from triptych_backends.sql.transaction import Session, find_dataset, find_datasets
from triptych_backends.sql.vectors import count_waiting, give_vectors, known_vectors, waiting_names

V = TypeVar("V")

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
    """`ChunkRepo` over a `Database`, and `DocLevelSearcher`.

    A chunk's key is its row's id, a document's the revision of its content.
    """

    kinds = KINDS

    def config(self, dataset_id: str) -> DatasetConfig | None:
        found = find_dataset(self.database.known, dataset_id)
        return found.config if found else None

    def configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        found = find_datasets(self.database.known, dataset_ids)
        return {each.name: each.config for each in found if each.config is not None}

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        with self.database.writing(dataset_id) as tx:
            return configure(tx, dataset_id, config, expected)

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """See `ChunkRepo.get_doc_sig`."""
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """See `ChunkRepo.get_doc_sigs`."""
        with self.database.reading() as session:
            rows = session.all(_SIGS, dataset=dataset_id, names=list(doc_names))
        return {row[0]: sig_of(row[1:]) for row in rows}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkRepo.doc_names`."""
        with self.database.reading() as session:
            return [row[0] for row in session.all(_NAMES, dataset=dataset_id)]

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[DerivedChunk], *, sig: DerivedSig
    ) -> bool:
        return self.replace_many(dataset_id, [(doc_name, chunks, sig)])[0]

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        if not sets:
            return []
        with self.database.writing(dataset_id, durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is None:
                return [False] * len(sets)
            return replace_sets(tx, dataset, sets)

    def put_vectors(
        self,
        dataset_id: str,
        space: VectorSpace[V],
        names: Sequence[str],
        vectors: Mapping[str, V | None],
    ) -> Sequence[str]:
        with self.database.writing(dataset_id, durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is None or not space.serves(dataset.config):
                return []
            given: dict[str, Any] = dict(vectors)
            if space.kind == "dense":
                return give_vectors(tx, dataset, names, given)
            given = {digest: each for digest, each in given.items() if each is not None}
            return put_further(tx, dataset, space, names, given)

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """See `VectorRepo.known_vectors`. The arrays are read-only."""
        with self.database.reading() as session:
            return known_vectors(session, dataset_id, space, digests, self.where)

    def waiting(
        self, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """See `VectorRepo.waiting`."""
        with self.database.reading() as session:
            dataset = find_dataset(session, dataset_id)
            if dataset is None or not space.sig:
                return []
            return waiting_names(session, dataset, space, names)

    def count_waiting(self, dataset_ids: Sequence[str], space: AnySpace) -> int:
        """See `VectorRepo.count_waiting`: counted in an index, chunks are not read."""
        known = self.database.known
        return count_waiting(known, find_datasets(known, dataset_ids), space)

    def further_spaces(self, dataset_id: str) -> Sequence[StoredSpace]:
        """See `VectorRepo.further_spaces`."""
        with self.database.reading() as session:
            dataset = find_dataset(session, dataset_id)
            return [] if dataset is None else further_spaces(session, dataset)

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """See `ChunkRepo.count_sets`: counted in an index of the sets."""
        with self.database.reading() as session:
            found = find_datasets(session, dataset_ids)
            return sum(session.all(_SETS, dataset=each.id)[0][0] for each in found)

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        with self.database.writing(dataset_id, durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            return dataset is not None and update_source_version(tx, dataset, doc_name, sig)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self.database.writing(dataset_id) as tx:
            found = tx.one(_DOCUMENT, dataset=dataset_id, name=doc_name)
            if found is not None:
                remove_chunk_set(tx, *found)

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self.database.writing(dataset_id) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is not None:
                remove_chunk_sets(tx, dataset)

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self.find("chunk", query)

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self.find("document", query)

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self.find("document", query)

    def corpus_stats(
        self, dataset_ids: Sequence[str], terms: Sequence[str], *, within: FilterTree | None = None
    ) -> CorpusStats:
        self.database.require_open()
        return self.searcher.corpus_stats("chunk", dataset_ids, terms, within=within)

    def _reading(self, keys: Sequence[Hashable]) -> AbstractContextManager[Session]:
        # One statement sees one state by itself.
        return self.database.reading() if len(keys) <= FETCHED_AT_ONCE else self.database.snapshot()

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        with self._reading(keys) as session:
            return fetch_chunks(session, integers(keys), self.where)

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `DocLevelSearcher.fetch_docs`. ``sig`` is the chunk set's, empty without one."""
        with self._reading(keys) as session:
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
