"""Chunk sets in memory, and whole documents as search finds them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from triptych.contracts import rules
from triptych.contracts.defaults import ChunkRepoBase
from triptych.records import (
    NO_CHUNK,
    OPENING,
    AnySpace,
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    FilterTree,
    Finding,
    HealthCheck,
    Layer,
    StoredSpace,
    StoredUnit,
    VectorSpace,
)
from triptych.records.spaces import KINDS
from triptych.text import CorpusStats
from triptych_backends.index import LocalSearcher
from triptych_backends.index.checks import examine_index
from triptych_backends.memory.dataset import Dataset, decoded
from triptych_backends.memory.truth import Truth

V = TypeVar("V")


def _waiting(dataset: Dataset, space: AnySpace) -> Collection[str]:
    """The documents with a set that lacks vectors of the space."""
    further = space.kind != "dense"
    if further and space.serves(dataset.config):
        return dataset.kept.waiting(space)
    return [
        name
        for name, chunks in dataset.sets.items()
        if chunks.digests and space.sig and (further or rules.is_pending(chunks.sig, space.sig))
    ]


class MemoryChunks(ChunkRepoBase):
    """`ChunkRepo`, `DocLevelSearcher` and `Diagnostics`."""

    in_process = True
    kinds = KINDS

    def __init__(self, truth: Truth, searcher: LocalSearcher) -> None:
        self._truth = truth
        self._searcher = searcher

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`: there is nothing that a quick look would find."""
        return []

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics`; only the index: the Service checks the rest."""
        for dataset in dataset_ids:
            yield from examine_index(self._searcher.index, dataset)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        if not any(name.startswith("index.") for name in checks):
            return []
        with self._truth:
            pass  # a store that is closed says so
        self._searcher.renew()
        return ["dropped the search index"]

    def config(self, dataset_id: str) -> DatasetConfig | None:
        with self._truth as truth:
            return truth.read(dataset_id).config

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        with self._truth.writing() as truth:
            if truth.read(dataset_id).config != expected:
                return False
            truth.write(dataset_id).config = config
            truth.rebind(dataset_id)
            truth.reset(dataset_id)
            return True

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        with self._truth as truth:
            sets = truth.read(dataset_id).sets
            return {name: sets[name].sig for name in doc_names if name in sets}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        with self._truth as truth:
            return sorted(truth.read(dataset_id).sets)

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[DerivedChunk], *, sig: DerivedSig
    ) -> bool:
        return self.replace_many(dataset_id, [(doc_name, chunks, sig)])[0]

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        with self._truth.writing() as truth:
            dataset = truth.read(dataset_id)
            done = [
                rules.can_replace(dataset.config, dataset.version(name), sig)
                for name, _, sig in sets
            ]
            allowed = list(itertools.compress(sets, done))
            # All are checked before the first is stored: they are one write.
            space = dataset.config.embed_sig if dataset.config else ""
            truth.check_widths(
                dataset_id, [(space, chunk.vector) for _, chunks, _ in allowed for chunk in chunks]
            )
            for name, chunks, sig in allowed:
                truth.store_set(dataset_id, name, chunks, sig)
            return done

    def put_vectors(
        self,
        dataset_id: str,
        space: VectorSpace[V],
        names: Sequence[str],
        vectors: Mapping[str, V | None],
    ) -> Sequence[str]:
        with self._truth.writing() as truth:
            dataset = truth.read(dataset_id)
            some = sorted(set(names))
            if not space.serves(dataset.config):
                return []
            given: dict[str, Any] = dict(vectors)
            if space.kind != "dense":
                entries = {(space, d): vector for d, vector in given.items() if vector is not None}
                return [n for n in some if truth.put_further(dataset_id, n, space, entries)]
            sets = (dataset.sets[name] for name in some if name in dataset.sets)
            texts = {digest for each in sets for digest in each.digests}
            given = {
                digest: None if vector is None else rules.read_only(vector)
                for digest, vector in given.items()
                if digest in texts
            }
            truth.check_widths(dataset_id, [(space.sig, each) for each in given.values()])
            return [n for n in some if truth.put_dense(dataset_id, n, space.sig, given)]

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            found: dict[str, Any] = {}
            dense = dataset.vectors.get(space.sig, {})
            for digest in digests:
                if space.kind != "dense":
                    vector = dataset.kept.entries.get((space, digest))
                elif digest in dense:
                    vector = decoded(dense[digest])
                else:
                    vector = None
                if vector is not None:
                    found[digest] = vector
            return found

    def waiting(
        self, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            found = _waiting(dataset, space)
            return sorted(found if names is None else set(found).intersection(names))

    def count_waiting(self, dataset_ids: Sequence[str], space: AnySpace) -> int:
        with self._truth as truth:
            names = dict.fromkeys(dataset_ids)
            return sum(len(_waiting(truth.read(name), space)) for name in names)

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        with self._truth as truth:
            return sum(len(truth.read(name).sets) for name in dict.fromkeys(dataset_ids))

    def further_spaces(self, dataset_id: str) -> Sequence[StoredSpace]:
        with self._truth as truth:
            return truth.read(dataset_id).kept.counts()

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        with self._truth.writing() as truth:
            dataset = truth.read(dataset_id)
            old = dataset.sets.get(doc_name)
            if not rules.can_update_source_version(
                old.sig if old else None, dataset.version(doc_name), sig
            ):
                return False
            truth.update_source_version(dataset_id, doc_name, sig)
            return True

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self._truth.writing() as truth:
            truth.remove_set(dataset_id, doc_name)

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self._truth.writing() as truth:
            for name in list(truth.read(dataset_id).sets):
                truth.remove_set(dataset_id, name)
            if truth.read(dataset_id).config is not None:
                truth.write(dataset_id).config = None
                truth.reset(dataset_id)

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self._searcher.search("chunk", query)

    def corpus_stats(
        self, dataset_ids: Sequence[str], terms: Sequence[str], *, within: FilterTree | None = None
    ) -> CorpusStats:
        with self._truth:
            pass  # a store that is closed says so
        return self._searcher.corpus_stats("chunk", dataset_ids, terms, within=within)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        with self._truth as truth:
            found = {}
            for key in keys:
                dataset_id, name, what = truth.place(key)
                if isinstance(what, Layer) or what == NO_CHUNK:
                    continue
                dataset = truth.read(dataset_id)
                chunks = dataset.sets.get(name)
                if chunks is None or key not in chunks.keys:
                    continue
                found[key] = StoredUnit(
                    key=key,
                    sig=chunks.sig,
                    document=rules.copy_document(dataset.documents[name].info),
                    chunk=chunks.chunk(what),
                )
            return found

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self._searcher.search("document", query)

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self._searcher.search("document", query)

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        with self._truth as truth:
            found: dict[Hashable, StoredUnit] = {}
            for key in keys:
                dataset_id, name, what = truth.place(key)
                dataset = truth.read(dataset_id)
                stored = dataset.documents.get(name)
                if what != NO_CHUNK or stored is None or stored.key != key:
                    continue
                document, content = rules.copy_document(stored.info), stored.document.content
                chunks = dataset.sets.get(name)
                sig = chunks.sig if chunks else DerivedSig()
                found[key] = StoredUnit(
                    key=key, sig=sig, document=document, opening=content[:OPENING]
                )
            return found

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        with self._truth as truth:
            sets = truth.read(dataset_id).sets
            names = sorted(sets) if doc_name is None else [doc_name] * (doc_name in sets)
            snapshot = [sets[name] for name in names]
        return (
            chunks.chunk(index, vectors=vectors)
            for chunks in snapshot
            for index in range(len(chunks.digests))
        )
