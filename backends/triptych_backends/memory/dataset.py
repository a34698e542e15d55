"""What a dataset holds: in dicts, and as a value that can be written down and read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from datetime import datetime

import attrs

from triptych.contracts import rules
from triptych.records import (
    AnySpace,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    Layer,
    ModelUsage,
    QuarantinedLayer,
    SourceDocument,
    Vector,
)
from triptych.records.spaces import sparse
from triptych_backends.index.change_log import Field
from triptych_backends.memory.vectors import Entries, VectorState, owner_of, texts_of

FIELDS: dict[Layer, Field] = {Layer.ABSTRACT: "abstract", Layer.OVERVIEW: "overview"}
"""The index field of each kind of layer."""

Place = tuple[str, str, int | Layer]
"""What a key stands for: dataset, name, and a chunk's index, a layer, or `NO_CHUNK`."""


@attrs.frozen(kw_only=True, slots=True)
class ChunkSetState:
    """A document's chunk set, vectors included."""

    sig: DerivedSig
    chunks: tuple[DerivedChunk, ...]


@attrs.frozen(kw_only=True, slots=True)
class DatasetState:
    """One dataset at one moment; of a deleted one, only ``floor`` is left.

    ``floor`` is the greatest version ever deleted. ``replaced`` holds the old versions of each
    document, newest first, ``widths`` the dimension of each embedding space, and ``layers`` the
    layers by name and kind. ``entries`` has the vectors that no chunk has, as base64, by kind and
    signature of their space and by digest: sparse ones, and those of spaces that do not serve.
    `triptych.records.serialization` makes plain data of it, and it of plain data.
    """

    exists: bool = False
    floor: int = 0
    config: DatasetConfig | None = None
    widths: Mapping[str, int] = attrs.field(factory=dict)
    documents: Mapping[str, SourceDocument] = attrs.field(factory=dict)
    replaced: Mapping[str, tuple[SourceDocument, ...]] = attrs.field(factory=dict)
    sets: Mapping[str, ChunkSetState] = attrs.field(factory=dict)
    layers: Mapping[str, Mapping[Layer, DerivedLayer]] = attrs.field(factory=dict)
    quarantined: tuple[QuarantinedLayer, ...] = ()
    usage: tuple[ModelUsage, ...] = ()
    checkpoints: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    entries: Mapping[str, Mapping[str, Mapping[str, str]]] = attrs.field(factory=dict)


@attrs.frozen
class StoredDocument:
    key: int
    document: SourceDocument
    info: DocumentInfo


@attrs.frozen
class ChunkSet:
    """A chunk's own signature is its set's, but for the input: another source version
    writes no chunk.

    As it is kept, that of a chunk with a vector has the vector's space.
    """

    sig: DerivedSig
    keys: tuple[int, ...]
    chunks: tuple[DerivedChunk, ...]

    def chunk(self, index: int, *, vectors: bool = False) -> DerivedChunk:
        return rules.read_chunk(self.chunks[index], self.sig, vectors=vectors)


@attrs.frozen
class StoredLayer:
    key: int
    layer: DerivedLayer


@attrs.define
class Dataset:
    """One dataset. After its deletion only ``floor`` and the log's reset are left.

    ``floor`` is the greatest version ever deleted. ``expiring`` has the moment of each document
    that expires. ``replaced`` holds the versions of each
    document that are kept, newest first. ``vectors`` are those of the chunks, by
    embedding space and digest of the embedded text, with ``references`` counting the chunks;
    ``widths`` holds the dimension of each space.
    ``quarantined``, ``usage`` and ``checkpoints`` (by name and key) are the journal of layers.
    ``owners`` numbers the names that have anything indexed. ``log`` holds the latest
    sequence number of each field and owner, in the order of these numbers.
    """

    exists: bool = False
    floor: int = 0
    config: DatasetConfig | None = None
    documents: dict[str, StoredDocument] = attrs.field(factory=dict)
    expiring: dict[str, datetime] = attrs.field(factory=dict)
    replaced: dict[str, tuple[StoredDocument, ...]] = attrs.field(factory=dict)
    sets: dict[str, ChunkSet] = attrs.field(factory=dict)
    layers: dict[tuple[str, Layer], StoredLayer] = attrs.field(factory=dict)
    vectors: dict[tuple[str, str], Vector] = attrs.field(factory=dict)
    references: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    widths: dict[str, int] = attrs.field(factory=dict)
    quarantined: dict[tuple[str, Layer], QuarantinedLayer] = attrs.field(factory=dict)
    usage: dict[str, ModelUsage] = attrs.field(factory=dict)
    checkpoints: dict[str, dict[str, str]] = attrs.field(factory=dict)
    owners: dict[str, int] = attrs.field(factory=dict)
    names: dict[int, str] = attrs.field(factory=dict)
    log: dict[tuple[Field | None, int], int] = attrs.field(factory=dict)
    kept: VectorState = attrs.field(factory=VectorState)

    @property
    def sparse_space(self) -> AnySpace | None:
        """The sparse space that serves, None for none."""
        return sparse(self.config.sparse_sig) if self.config and self.config.sparse_sig else None

    def version(self, name: str) -> int:
        """The document's version, 0 when there is none."""
        stored = self.documents.get(name)
        return stored.document.version if stored else 0

    def copy(self) -> Dataset:
        """The dataset as it is now, which changes of this one leave as it is."""
        parts = {name: getattr(self, name) for name in attrs.fields_dict(Dataset)}
        return Dataset(**{name: copy(part) for name, part in parts.items()})

    def state(self) -> DatasetState:
        """What is stored, without what an index needs."""
        layers: dict[str, dict[Layer, DerivedLayer]] = {}
        for (name, kind), made in self.layers.items():
            layers.setdefault(name, {})[kind] = made.layer
        return DatasetState(
            exists=self.exists,
            floor=self.floor,
            config=self.config,
            widths=self.widths,
            documents={name: stored.document for name, stored in self.documents.items()},
            replaced={
                name: tuple(stored.document for stored in old)
                for name, old in self.replaced.items()
            },
            sets={
                name: ChunkSetState(sig=chunks.sig, chunks=chunks.chunks)
                for name, chunks in self.sets.items()
            },
            layers=layers,
            quarantined=tuple(self.quarantined.values()),
            usage=tuple(self.usage.values()),
            checkpoints=self.checkpoints,
            entries=self.kept.plain(),
        )

    def indexed(self) -> Iterator[tuple[Field, str]]:
        """The fields that an index has of it, and their names."""
        for name in self.documents:
            yield "document", name
        for name in self.sets:
            yield "chunk", name
        for name, layer in self.layers:
            yield FIELDS[layer], name

    def give(self, entries: Entries) -> None:
        """Give all sets and layers the entries that were written down."""
        if not entries:
            return
        serving = self.sparse_space
        for name, chunks in self.sets.items():
            owner, digests = (name, ""), texts_of(chunks.chunks)
            self.kept.bind(owner, digests, entries, sparse=serving)
            if serving is None or name in self.kept.waiting:
                others = {
                    key: vector
                    for key, vector in entries.items()
                    if key[0].kind == "sparse" and key[0] != serving and key[1] in digests
                }
                self.kept.keep(owner, others)
        for made in self.layers.values():
            self.kept.bind(owner_of(made.layer), texts_of(made.layer), entries)

    def shared(self, space: str, chunk: DerivedChunk, *, waits: bool = False) -> DerivedChunk:
        """The chunk with the dataset's one array for what it embeds, and that array's space.

        Of a set that waits for vectors, a chunk without one takes what the dataset has.
        """
        digest = (space, chunk.sig.input_sig)
        vector = chunk.vector
        if vector is None and waits:
            vector = self.vectors.get(digest)
        if vector is None:
            return chunk
        self.references[digest] += 1
        return attrs.evolve(
            chunk,
            vector=self.vectors.setdefault(digest, vector),
            sig=attrs.evolve(chunk.sig, embed_sig=space),
        )

    def unshare(self, chunk: DerivedChunk) -> None:
        """Count one user less of the array of what ``chunk`` embeds."""
        if chunk.vector is not None:
            digest = (chunk.sig.embed_sig, chunk.sig.input_sig)
            self.references[digest] -= 1
            if not self.references[digest]:
                del self.references[digest], self.vectors[digest]


def has_vector(chunk: DerivedChunk, space: str) -> bool:
    """Whether a kept chunk has a vector of ``space``."""
    return chunk.vector is not None and chunk.sig.embed_sig == space
