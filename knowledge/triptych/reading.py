"""The reads of the three repositories, answered from datasets that are held in memory.

Inherit from these and add the writes: `triptych.rules` says which are allowed. ``store`` is
the store itself, for the writes to use.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import attrs

from triptych.kept import Kept
from triptych.records import (
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    Layer,
    LayerQuery,
    SourceDocument,
    StoredUnit,
    Vector,
)
from triptych.rules import copy_document, page_of_names, read_chunk
from triptych.search import exhaustive

__all__ = ["InMemory", "ReadChunks", "ReadDocuments", "ReadLayers"]


class InMemory(Protocol):
    """A store whose datasets are held in memory."""

    def datasets(self) -> Mapping[str, Kept]:
        """All datasets by id, as they are now. Asked once for each read, which so is of one state.

        Raises:
            StoreError: the store is closed.
        """
        ...


S = TypeVar("S", bound=InMemory)


class _Reads(Generic[S]):
    def __init__(self, store: S) -> None:
        self.store = store

    def _dataset(self, dataset_id: str) -> Kept:
        return self.store.datasets().get(dataset_id) or Kept()


class ReadDocuments(_Reads[S]):
    """What `DocumentRepo` reads."""

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """See `DocumentRepo.get`."""
        document = self._dataset(dataset_id).documents.get(name)
        return copy_document(document) if document else None

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """See `DocumentRepo.get_info`."""
        return self._dataset(dataset_id).info(name)

    def list(
        self, dataset_id: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> Sequence[DocumentInfo]:
        """See `DocumentRepo.list`."""
        kept = self._dataset(dataset_id)
        infos = map(kept.info, page_of_names(kept.documents, prefix, after, limit))
        return [info for info in infos if info]

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`."""
        return sorted(name for name, kept in self.store.datasets().items() if kept.exists)


class ReadChunks(_Reads[S]):
    """What `ChunkRepo` reads, with the power `VectorReader`. Vectors are read-only arrays."""

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """See `ChunkRepo.config`."""
        return self._dataset(dataset_id).config

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """See `ChunkSigReader.get_doc_sig`."""
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """See `ChunkSigReader.get_doc_sigs`."""
        sets = self._dataset(dataset_id).sets
        return {name: sets[name].sig for name in doc_names if name in sets}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """See `ChunkSigReader.doc_names`."""
        return sorted(self._dataset(dataset_id).sets)

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`. A closed store is told here, not at the first chunk."""
        sets = self._dataset(dataset_id).sets
        names = sorted(sets) if doc_name is None else [doc_name] * (doc_name in sets)
        return (
            read_chunk(chunk, sets[name].sig, vectors=vectors)
            for name in names
            for chunk in sets[name].chunks
        )

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        """See `VectorReader.known_vectors`."""
        wanted = set(input_sigs)
        return {
            chunk.sig.input_sig: chunk.vector
            for its in self._dataset(dataset_id).sets.values()
            if its.sig.embed_sig == embed_sig
            for chunk in its.chunks
            if chunk.vector is not None and chunk.sig.input_sig in wanted
        }

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`."""
        return exhaustive.search_chunks(query, self.store.datasets())

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `ChunkRepo.fetch`."""
        return exhaustive.fetch(keys, self.store.datasets())


class ReadLayers(_Reads[S]):
    """What `LayerRepo` reads."""

    def get(self, dataset_id: str, doc_name: str, layer: Layer) -> DerivedLayer | None:
        """See `LayerRepo.get`."""
        its = self._dataset(dataset_id).layers.get(doc_name, {}).get(layer)
        return attrs.evolve(its.layer, vector=None) if its else None

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        """See `LayerRepo.list`."""
        return [
            attrs.evolve(kinds[kind].layer, vector=None)
            for _, kinds in sorted(self._dataset(dataset_id).layers.items())
            for kind in sorted(kinds)
            if layer in (None, kind)
        ]

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        """See `LayerRepo.search`."""
        return exhaustive.search_layers(query, self.store.datasets())

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `LayerRepo.fetch`."""
        return exhaustive.fetch(keys, self.store.datasets())
