"""Chunk sets: stored in the truth, found by the local index."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, select

from triptych.records import (
    NO_CHUNK,
    Candidate,
    Candidates,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    Finding,
    HealthCheck,
    Mode,
    StoredUnit,
    Vector,
)
from triptych_backends.index import Field, LocalIndex, Owners, Scored
from triptych_backends.sql import tables as t
from triptych_backends.sql.checks import check_integrity
from triptych_backends.sql.chunk_rows import SIG_COLUMNS, sig_of
from triptych_backends.sql.chunk_sets import configure, replace_sets, update_source_version
from triptych_backends.sql.deletes import remove_chunk_set, remove_chunk_sets
from triptych_backends.sql.filters import document_owners, restricts_documents
from triptych_backends.sql.health import check_store
from triptych_backends.sql.reads import fetch_chunks, fetch_documents, iter_chunks, revisions
from triptych_backends.sql.repair import repair
from triptych_backends.sql.repository import Repository
from triptych_backends.sql.sqlite import bind_list, in_list
from triptych_backends.sql.transaction import find_dataset, find_datasets
from triptych_backends.sql.vectors import known_vectors

if TYPE_CHECKING:
    from triptych_backends.sql.store import SqlStore

__all__ = ["SqlChunks", "candidates", "find", "integers"]

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
    """`ChunkRepo`, `DocLevelSearcher`, `DocVectorSearcher` and `Diagnostics` over a `SqlStore`.

    A chunk's key is its row's id, a document's the revision of its content.
    """

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store)

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`."""
        return check_store(self.store)

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`."""
        return check_integrity(self.store, dataset_ids)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        return repair(self.store, checks, dataset_ids)

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """See `ChunkRepo.config`."""
        with self.store.reading() as session:
            found = find_dataset(session, dataset_id)
        return found.config if found else None

    def configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        """See `ChunkRepo.configs`."""
        with self.store.reading() as session:
            found = find_datasets(session, dataset_ids)
        return {each.name: each.config for each in found if each.config is not None}

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """See `ChunkRepo.configure`."""
        with self.store.writing() as tx:
            return configure(tx, dataset_id, config, expected)

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """See `ChunkSigReader.get_doc_sig`."""
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """See `ChunkSigReader.get_doc_sigs`."""
        with self.store.reading() as session:
            rows = session.all(_SIGS, dataset=dataset_id, names=bind_list(doc_names))
        return {row[0]: sig_of(row[1:]) for row in rows}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkSigReader.doc_names`."""
        with self.store.reading() as session:
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
        with self.store.writing(durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is None:
                return [False] * len(sets)
            return replace_sets(tx, dataset, sets)

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        """See `ChunkRepo.update_source_version`."""
        with self.store.writing(durable=False) as tx:
            dataset = find_dataset(tx, dataset_id)
            return dataset is not None and update_source_version(tx, dataset, doc_name, sig)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """See `ChunkRepo.delete_by_doc`."""
        with self.store.writing() as tx:
            found = tx.one(_DOCUMENT, dataset=dataset_id, name=doc_name)
            if found is not None:
                remove_chunk_set(tx, *found)

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `ChunkRepo.delete_by_dataset`."""
        with self.store.writing() as tx:
            dataset = find_dataset(tx, dataset_id)
            if dataset is not None:
                remove_chunk_sets(tx, dataset)

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        """See `ChunkRepo.known_vectors`. The arrays are read-only."""
        with self.store.reading() as session:
            return known_vectors(session, dataset_id, embed_sig, input_sigs, self.where)

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`."""
        return candidates(find(self.store.index, "chunk", query, self._owners(query)), query.mode)

    def _owners(self, query: ChunkQuery, *, headings: bool = False) -> Owners | None:
        if not restricts_documents(query.filter, headings=headings):
            return None
        with self.store.snapshot() as session:
            return document_owners(session, query.dataset_ids, query.filter, headings=headings)

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs`."""
        found = find(self.store.index, "document", query, self._owners(query, headings=True))
        return candidates(found, query.mode, of_chunks=False)

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocVectorSearcher.search_docs_by_vector`."""
        if query.vector is None:
            return []
        found = find(self.store.index, "document", query, self._owners(query, headings=True))
        with self.store.reading() as session:
            keys = revisions(session, [scored.owner for scored in found])
        return candidates(found, query.mode, of_chunks=False, keys=keys)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `ChunkRepo.fetch`."""
        with self.store.reading() as session:
            return fetch_chunks(session, integers(keys), self.where)

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `DocLevelSearcher.fetch_docs`. ``sig`` is the chunk set's, empty without one."""
        with self.store.reading() as session:
            return fetch_documents(session, integers(keys), self.where)

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`.

        Documents are read a few at a time, each from one state; no snapshot stays open while
        the caller works, and what changes meanwhile may show or not.
        """
        self.store.require_open()
        return iter_chunks(self.store, dataset_id, doc_name, vectors)


def find(
    index: LocalIndex, field: Field, query: ChunkQuery, owners: Owners | None
) -> Sequence[Scored]:
    """Ask the index: by keyword, or by vector in the datasets of the vector's space."""
    limit, datasets = query.top_k, query.dataset_ids
    headings = query.filter.headings if field == "chunk" else None
    if query.mode is Mode.BM25:
        return index.bm25(
            datasets, field, query.text, limit=limit, owners=owners, headings=headings
        )
    if query.vector is None:
        return []
    space = query.embed_sig
    if field == "document":
        return index.document_vector(
            datasets, query.vector, limit=limit, owners=owners, space=space
        )
    return index.vector(
        datasets,
        field,
        query.vector,
        limit=limit,
        owners=owners,
        headings=headings,
        space=space,
    )


def candidates(
    found: Sequence[Scored],
    mode: Mode,
    *,
    of_chunks: bool = True,
    keys: Mapping[int, int] | None = None,
) -> Candidates:
    """What the index found as candidates; ``keys`` by owner replace the index's own."""
    rows: Sequence[Scored] = found
    if keys is not None:
        rows = [row._replace(key=keys[row.owner]) for row in rows if row.owner in keys]
    if not of_chunks:
        rows = [row._replace(index=NO_CHUNK) for row in rows]
    return Candidates(rows, str(mode))


def integers(keys: Sequence[Hashable]) -> list[int]:
    """Those of ``keys`` that this store can have given out."""
    return [key for key in keys if isinstance(key, int)]
