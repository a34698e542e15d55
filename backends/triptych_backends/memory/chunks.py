"""Chunk sets in memory, and whole documents as search finds them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

from triptych import rules
from triptych.records import (
    NO_CHUNK,
    OPENING,
    Candidate,
    ChunkQuery,
    ChunkVector,
    CompleteSet,
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    EmbeddingSpace,
    FilterTree,
    Finding,
    HealthCheck,
    Layer,
    SparseQuery,
    SparseSpace,
    SparseVector,
    StoredUnit,
    Vector,
)
from triptych.repositories import ChunkRepoBase
from triptych.text import CorpusStats
from triptych_backends.index import LocalSearcher
from triptych_backends.index.checks import examine_index
from triptych_backends.memory.kept_spaces import KeptState, Owner, owner_of, texts_of
from triptych_backends.memory.truth import FIELDS, Dataset, Truth

__all__ = ["MemoryChunks"]


def _pending(dataset: Dataset, embed_sig: str) -> list[str]:
    return [
        name
        for name, chunks in dataset.sets.items()
        if chunks.chunks and rules.is_pending(chunks.sig, embed_sig)
    ]


def _sparse_pending(dataset: Dataset, sparse_sig: str) -> Collection[str]:
    if not sparse_sig:
        return ()
    if sparse_sig == dataset.sparse_sig:
        return dataset.sparse.waiting
    return [name for name, chunks in dataset.sets.items() if chunks.chunks]


def _owners(dataset: Dataset, names: Collection[str]) -> dict[Owner, frozenset[str]]:
    """The sets and layers under ``names``, each with the digests of its texts; "" is of a chunk
    without one."""
    owners: dict[Owner, frozenset[str]] = {}
    for name in names:
        if name in dataset.sets:
            chunks = dataset.sets[name].chunks
            owners[name, ""] = frozenset(chunk.sig.input_sig for chunk in chunks)
        for layer in FIELDS:
            if (name, layer) in dataset.layers:
                made = dataset.layers[name, layer].layer
                owners[owner_of(made)] = texts_of(made)
    return owners


def _lacking(dataset: Dataset, space: str, owners: Mapping[Owner, frozenset[str]]) -> set[str]:
    """The names of those owners that lack an entry."""
    return {
        owner[0] for owner, digests in owners.items() if dataset.kept.lacks(owner, space, digests)
    }


class MemoryChunks(ChunkRepoBase):
    """`ChunkRepo`, `DocLevelSearcher`, `SparseRepo`, `SpaceRepo` and
    `Diagnostics`."""

    in_process = True

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
        """See `Diagnostics.repair`."""
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
            if config.embed_sig != (expected.embed_sig if expected else ""):
                truth.swap_in(dataset_id, config.embed_sig)
            truth.write(dataset_id).config = config
            truth.rebind_sparse(dataset_id)
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
        self,
        dataset_id: str,
        sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]],
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
                dataset_id,
                [(space, chunk.vector) for _, chunks, _ in allowed for chunk in chunks],
            )
            for name, chunks, sig in allowed:
                truth.store_set(dataset_id, name, chunks, sig)
            return done

    def add_vectors(
        self,
        dataset_id: str,
        embed_sig: str,
        vectors: Sequence[ChunkVector],
        complete: Sequence[CompleteSet] = (),
    ) -> Sequence[str]:
        with self._truth.writing() as truth:
            config = truth.read(dataset_id).config
            if not embed_sig or config is None or config.embed_sig != embed_sig:
                return []
            by_name: dict[str, list[ChunkVector]] = {}
            for each in vectors:
                by_name.setdefault(each.doc_name, []).append(each)
            truth.check_widths(dataset_id, [(embed_sig, each.vector) for each in vectors])
            for name, some in by_name.items():
                truth.add_vectors(dataset_id, name, embed_sig, some)
            return sorted(end.doc_name for end in complete if truth.complete(dataset_id, end))

    def pending(self, dataset_id: str, embed_sig: str) -> Sequence[str]:
        with self._truth as truth:
            return sorted(_pending(truth.read(dataset_id), embed_sig))

    def count_pending(self, dataset_ids: Sequence[str], embed_sig: str) -> int:
        with self._truth as truth:
            names = dict.fromkeys(dataset_ids)
            return sum(len(_pending(truth.read(name), embed_sig)) for name in names)

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        with self._truth as truth:
            return sum(len(truth.read(name).sets) for name in dict.fromkeys(dataset_ids))

    def keep_vectors(
        self,
        dataset_id: str,
        embed_sig: str,
        names: Sequence[str],
        vectors: Mapping[str, Vector | None],
    ) -> Sequence[str]:
        with self._truth.writing() as truth:
            dataset = truth.read(dataset_id)
            if not embed_sig or (dataset.config and dataset.config.embed_sig == embed_sig):
                return []
            owners = _owners(dataset, names)
            texts = {digest for each in owners.values() for digest in each}
            new = {
                (embed_sig, digest): None if vector is None else rules.read_only(vector)
                for digest, vector in vectors.items()
                if digest in texts
            }
            truth.check_widths(dataset_id, [(embed_sig, vector) for vector in new.values()])
            if owners:
                kept = truth.write(dataset_id).kept
                for owner, digests in owners.items():
                    kept.bind(owner, digests - {""}, new)
            lacking = _lacking(dataset, embed_sig, owners)
            return sorted({name for name, _ in owners} - lacking)

    def unprepared(
        self, dataset_id: str, embed_sig: str, names: Collection[str] | None = None
    ) -> Sequence[str]:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            if names is None:
                names = {*dataset.sets, *(name for name, _ in dataset.layers)}
            return sorted(_lacking(dataset, embed_sig, _owners(dataset, names)))

    def kept_spaces(self, dataset_id: str) -> Sequence[EmbeddingSpace]:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            return [
                EmbeddingSpace(
                    embed_sig=space,
                    dimension=dataset.widths.get(space, 0),
                    vectors=sum(
                        of == space and vector is not None
                        for (of, _), vector in dataset.kept.entries.items()
                    ),
                )
                for space in sorted(dataset.kept.spaces)
            ]

    def drop_space(self, dataset_id: str, embed_sig: str) -> bool:
        with self._truth.writing() as truth:
            return bool(truth.write(dataset_id).kept.take(embed_sig))

    def add_sparse_vectors(
        self,
        dataset_id: str,
        sparse_sig: str,
        doc_names: Sequence[str],
        vectors: Mapping[str, SparseVector],
    ) -> Sequence[str]:
        with self._truth.writing() as truth:
            if not sparse_sig or truth.read(dataset_id).sparse_sig != sparse_sig:
                return []
            names = sorted(set(doc_names))
            return [name for name in names if truth.add_sparse_vectors(dataset_id, name, vectors)]

    def known_sparse_vectors(
        self, dataset_id: str, sparse_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, SparseVector]:
        with self._truth as truth:
            return truth.read(dataset_id).sparse.known(sparse_sig, input_sigs)

    def sparse_pending(
        self, dataset_id: str, sparse_sig: str, doc_names: Collection[str] | None = None
    ) -> Sequence[str]:
        with self._truth as truth:
            waiting = _sparse_pending(truth.read(dataset_id), sparse_sig)
            return sorted(waiting if doc_names is None else set(waiting).intersection(doc_names))

    def count_sparse_pending(self, dataset_ids: Sequence[str], sparse_sig: str) -> int:
        with self._truth as truth:
            names = dict.fromkeys(dataset_ids)
            return sum(len(_sparse_pending(truth.read(name), sparse_sig)) for name in names)

    def sparse_spaces(self, dataset_id: str) -> Sequence[SparseSpace]:
        with self._truth as truth:
            return truth.read(dataset_id).sparse.spaces()

    def search_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        return self._searcher.search_sparse("chunk", query)

    def search_docs_by_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        return self._searcher.search_sparse("document", query)

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
            truth.write(dataset_id).kept = KeptState()
            if truth.read(dataset_id).config is not None:
                truth.write(dataset_id).config = None
                truth.reset(dataset_id)

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self._searcher.search("chunk", query)

    def corpus_stats(
        self,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        with self._truth:
            pass  # a store that is closed says so
        return self._searcher.corpus_stats("chunk", dataset_ids, terms, within=within)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        with self._truth as truth:
            found = {}
            for key in keys:
                dataset_id, name, what = truth.places.get(key, ("", "", NO_CHUNK))
                if isinstance(what, Layer) or what == NO_CHUNK:
                    continue
                dataset = truth.read(dataset_id)
                chunks = dataset.sets[name]
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
            found = {}
            for key in keys:
                dataset_id, name, what = truth.places.get(key, ("", "", NO_CHUNK))
                dataset = truth.read(dataset_id)
                if what != NO_CHUNK or name not in dataset.documents:
                    continue
                document = rules.copy_document(dataset.documents[name].info)
                content = dataset.documents[name].document.content
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
            for index in range(len(chunks.chunks))
        )

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        with self._truth as truth:
            dataset = truth.read(dataset_id)
            found = {}
            for digest in input_sigs:
                key = (embed_sig, digest)
                vector = dataset.vectors.get(key)
                vector = dataset.kept.entries.get(key) if vector is None else vector
                if vector is not None:
                    found[digest] = vector
            return found
