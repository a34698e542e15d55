"""What a dataset holds: in dicts, and as a value that can be written down and read again."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from itertools import accumulate

import attrs
import numpy as np

from triptych.records import (
    AnySpace,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    Layer,
    SourceDocument,
    Vector,
)
from triptych.records.spaces import further
from triptych_backends.index.change_log import Field
from triptych_backends.memory.text_vectors import Entries, Plain, TextVectors

FIELDS: dict[Layer, Field] = {Layer.ABSTRACT: "abstract", Layer.OVERVIEW: "overview"}
"""The index field of each kind of layer."""

Place = tuple[str, str, int | Layer]
"""What a key stands for: dataset, name, and a chunk's place, a layer, or `NO_CHUNK`."""

CHUNK_BITS = 24
"""The low bits of a key are a chunk's place in its set, so that a set takes one place."""


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
    layers by name and kind. ``entries`` has the vectors that are not dense, as text.
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
    entries: Plain = attrs.field(factory=dict)


@attrs.frozen
class StoredDocument:
    key: int
    document: SourceDocument
    info: DocumentInfo


def decoded(data: bytes) -> Vector:
    """A kept vector, read-only."""
    return np.frombuffer(data, np.float32)


_NUMBERS = 6  # of each chunk: index, start, end, offset, line, where its text begins
_PLAIN = (None, None, None, 0)


@attrs.frozen
class ChunkSet:
    """A document's chunks, in columns: records would take more memory than short texts do.

    A chunk's own signature is its set's, but for the input: another source version writes no
    chunk. ``key`` is that of the first, and the others' follow. ``text`` has their texts, one after
    the other. ``vectors`` are float32 as bytes, and ``spaces`` those that they are of.
    """

    dataset_id: str
    name: str
    sig: DerivedSig
    key: int
    text: str
    numbers: array[int]
    digests: tuple[str, ...]
    headings: tuple[tuple[str, ...], ...]
    extras: tuple[tuple[int | None, int | None, str | None, int], ...]
    vectors: tuple[bytes | None, ...] = ()
    spaces: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, place: tuple[str, str, int], sig: DerivedSig, chunks: Sequence[DerivedChunk]
    ) -> ChunkSet:
        """A set of ``chunks``, without their vectors, at a place: dataset, name and key."""
        begins = accumulate((len(each.content) for each in chunks), initial=0)
        numbers = array("q")
        for chunk, begin in zip(chunks, begins, strict=False):
            at = chunk.index, chunk.start, chunk.end, chunk.offset, chunk.start_line, begin
            numbers.extend(at)
        extras = [(c.window_start, c.window_end, c.locator, c.occurrence) for c in chunks]
        dataset_id, name, key = place
        return cls(
            dataset_id,
            name,
            sig,
            key,
            "".join([chunk.content for chunk in chunks]),
            numbers,
            tuple([chunk.sig.input_sig for chunk in chunks]),
            tuple([chunk.heading_path for chunk in chunks]),
            tuple([_PLAIN if each == _PLAIN else each for each in extras]),
        )

    def with_vectors(
        self, sig: DerivedSig, vectors: Sequence[tuple[str, bytes | None]]
    ) -> ChunkSet:
        """The same chunks with other vectors, each given with its space."""
        data, spaces = [data for _, data in vectors], [space for space, _ in vectors]
        return attrs.evolve(self, sig=sig, vectors=tuple(data), spaces=tuple(spaces))

    @property
    def keys(self) -> range:
        return range(self.key, self.key + len(self.digests))

    @property
    def texts(self) -> frozenset[str]:
        """The digests of the texts; a chunk without one has no vector."""
        return frozenset(self.digests) - {""}

    @property
    def chunks(self) -> tuple[DerivedChunk, ...]:
        """The chunks with their vectors; the signature of each with one has the vector's space."""
        return tuple([self.chunk(at, vectors=True) for at in range(len(self.digests))])

    def chunk(self, at: int, *, vectors: bool = False) -> DerivedChunk:
        """One chunk; with ``vectors``, its ``embed_sig`` is the space of its vector, even in a set
        that waits."""
        index, start, end, offset, line, begin = self.numbers[_NUMBERS * at : _NUMBERS * (at + 1)]
        window_start, window_end, locator, occurrence = self.extras[at]
        vector = self.vector(at) if vectors else None
        sig = self.sig
        return DerivedChunk(
            dataset_id=self.dataset_id,
            doc_name=self.name,
            index=index,
            start=start,
            end=end,
            offset=offset,
            start_line=line,
            content=self.text[begin : begin + end - start],
            sig=DerivedSig(
                source_version=sig.source_version,
                chunker_sig=sig.chunker_sig,
                prompt_sig=sig.prompt_sig,
                embed_sig=sig.embed_sig if vector is None else self.spaces[at],
                input_sig=self.digests[at],
            ),
            vector=vector,
            heading_path=self.headings[at],
            window_start=window_start,
            window_end=window_end,
            locator=locator,
            occurrence=occurrence,
        )

    def vector(self, at: int) -> Vector | None:
        """The vector of one chunk, read-only."""
        data = self.vectors[at]
        return None if data is None else decoded(data)


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
    embedding space and digest of the embedded text, with ``repeats`` counting the chunks beyond
    the first; ``widths`` holds the dimension of each space.
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
    vectors: dict[str, dict[str, bytes]] = attrs.field(factory=dict)
    repeats: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    widths: dict[str, int] = attrs.field(factory=dict)
    owners: dict[str, int] = attrs.field(factory=dict)
    names: dict[int, str] = attrs.field(factory=dict)
    log: dict[tuple[Field | None, int], int] = attrs.field(factory=dict)
    kept: TextVectors = attrs.field(factory=TextVectors)

    @property
    def further(self) -> Sequence[AnySpace]:
        """The spaces that serve and are not dense."""
        return further(self.config)

    def version(self, name: str) -> int:
        """The document's version, 0 when there is none."""
        stored = self.documents.get(name)
        return stored.document.version if stored else 0

    def copy(self) -> Dataset:
        """The dataset as it is now, which changes of this one leave as it is."""
        parts = {name: getattr(self, name) for name in attrs.fields_dict(Dataset)}
        parts["vectors"] = {space: dict(some) for space, some in self.vectors.items()}
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
        serving = self.further
        for name, chunks in self.sets.items():
            digests = chunks.texts
            self.kept.bind(name, digests, serving, entries)
            lacks = self.kept.waits.get(name, ())
            done = {space.kind for space in serving if space not in lacks}
            others = [k for k in entries if k[0].kind not in done and k[1] in digests]
            self.kept.keep(name, [k for k in others if k[0] not in serving], entries)

    def shared(
        self, space: str, digest: str, vector: Vector | None, *, waits: bool = False
    ) -> bytes | None:
        """The dataset's one copy of the vector of what a chunk embeds.

        Of a set that waits for vectors, a chunk without one takes what the dataset has.
        """
        known = self.vectors.setdefault(space, {})
        data = known.get(digest)
        if data is not None and (vector is not None or waits):
            self.repeats[space, digest] += 1
            return data
        if vector is None:
            return None
        data = known[digest] = np.asarray(vector, np.float32).tobytes()
        return data

    def unshare(self, chunks: ChunkSet) -> None:
        """Count one user less of each vector of a set."""
        for space, digest, data in zip(chunks.spaces, chunks.digests, chunks.vectors, strict=True):
            if data is None:
                continue
            if self.repeats[space, digest] > 1:
                self.repeats[space, digest] -= 1
            elif not self.repeats.pop((space, digest), 0):
                del self.vectors[space][digest]
