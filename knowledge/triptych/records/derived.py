"""What is derived from documents, and the signatures that say of what state it is."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import attrs

from triptych._internal.digests import digest
from triptych.errors import ValidationError
from triptych.records.documents import SourceDocument
from triptych.records.values import (
    Layer,
    SpaceKind,
    StaleReason,
    Vector,
    layer_content,
    to_layer,
    vector_comparison,
)

_CHUNKS: Final = bytes.fromhex("b648290031b652d6af5d00d5479f083c")
"""The UUID namespace of chunk ids; it must never change."""


def chunk_id(dataset_id: str, doc_name: str, input_sig: str, occurrence: int) -> str:
    """Return the stable id of a chunk: a UUID of version 5, unique in a store.

    It is derived from the chunk's document and from the input of its vector (`embedding_input_sig`
    of title, headings and text), and changes only with these. ``occurrence`` is the number of
    earlier chunks of the document with the same ``input_sig``.
    """
    name = digest("chunk", dataset_id, doc_name, input_sig, str(occurrence))
    # As `uuid.uuid5` and its string, at a third of their time: each hit that is written has one.
    made = bytearray(hashlib.sha1(_CHUNKS + name.encode(), usedforsecurity=False).digest()[:16])
    made[6] = made[6] & 0x0F | 0x50
    made[8] = made[8] & 0x3F | 0x80
    text = made.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


@attrs.frozen(kw_only=True, slots=False)  # as `records` says
class DerivedSig:
    """The signatures of the input and configuration from which something was derived.

    ``input_sig`` is the digest of the exact input. It and the three configuration signatures decide
    freshness; ``source_version`` only records the origin. An empty string means that the part does
    not apply (a layer has no chunker, a chunk no prompt). A chunk set without an ``embed_sig``, in
    a dataset that has one, lacks its vectors.
    """

    source_version: int = 0
    chunker_sig: str = ""
    prompt_sig: str = ""
    embed_sig: str = ""
    input_sig: str = ""

    def stale_reason(self, want: DerivedSig) -> StaleReason | None:
        """Return why this is stale, given the signature ``want`` of a fresh result; None if fresh.

        If either side lacks an input digest, the source versions are compared. An empty
        ``want.embed_sig`` matches any; if only this one is empty, the reason is "vector".
        """
        if self.input_sig and want.input_sig:
            if self.input_sig != want.input_sig:
                return "source"
        elif self.source_version < want.source_version:
            return "source"
        if self.chunker_sig != want.chunker_sig:
            return "chunker"
        if self.prompt_sig != want.prompt_sig:
            return "prompt"
        if want.embed_sig and self.embed_sig != want.embed_sig:
            return "embedder" if self.embed_sig else "vector"
        return None

    def has_text_of(self, want: DerivedSig) -> bool:
        """Return whether only the vectors may differ from a fresh result with signature ``want``.

        If so, the stored texts can be embedded without deriving them again.
        """
        return self.stale_reason(want) in (None, "vector", "embedder")

    def is_stale(self, want: DerivedSig) -> bool:
        """Return whether the input or the configuration differs from ``want``."""
        return self.stale_reason(want) is not None


@attrs.frozen(kw_only=True, slots=False)  # as `records` says
class DerivedChunk:
    """A passage of a document, the unit of retrieval.

    ``source.content[start:end] == content`` in code points; ``offset`` is ``start`` in UTF-8 bytes;
    ``start_line`` counts from 1. ``window_start`` and ``window_end`` delimit the wider text to show
    with a hit, if the chunker sets one. ``vector`` is a unit vector or None. ``sig.input_sig`` is
    the digest of the text to embed. ``occurrence`` is the number of earlier chunks of the document
    with the same digest; comparisons ignore it.
    """

    dataset_id: str
    doc_name: str
    index: int
    start: int
    end: int
    offset: int
    start_line: int
    content: str
    sig: DerivedSig
    vector: Vector | None = attrs.field(default=None, eq=vector_comparison, repr=False)
    heading_path: tuple[str, ...] = ()
    window_start: int | None = None
    window_end: int | None = None
    locator: str | None = None
    occurrence: int = attrs.field(default=0, eq=False)

    @property
    def chunk_id(self) -> str:
        """The chunk's stable id, a UUID."""
        return chunk_id(self.dataset_id, self.doc_name, self.sig.input_sig, self.occurrence)

    def __attrs_post_init__(self) -> None:
        if self.start < 0 or self.end - self.start != len(self.content):
            raise ValidationError(
                f"chunk {self.index} of {self.doc_name!r} spans {self.start}:{self.end} but "
                f"holds {len(self.content)} code points"
            )


@attrs.frozen(kw_only=True, slots=True)
class DerivedLayer:
    """An abstract (L0) or overview (L1) of a document, a folder or a dataset.

    ``doc_name`` is "" for a layer of the dataset and ends in "/" for a folder. The Service sets
    ``stale`` when it returns the layer.
    """

    dataset_id: str
    doc_name: str
    layer: Layer = attrs.field(converter=to_layer)
    content: str = attrs.field(converter=layer_content)
    sig: DerivedSig
    vector: Vector | None = attrs.field(default=None, eq=vector_comparison, repr=False)
    stale: StaleReason | None = None


@attrs.frozen(kw_only=True, slots=True)
class DatasetConfig:
    """The configuration of a dataset's derived data, stored with its documents.

    ``embed_sig`` is "" if the dataset has no vectors, ``sparse_sig`` if it has no sparse vectors.
    ``language`` is the language of its text analysis.
    """

    chunker_sig: str
    embed_sig: str = ""
    language: str = "english"
    sparse_sig: str = ""

    @property
    def sigs(self) -> Mapping[SpaceKind, str]:
        """The signature of each model by the kind of its space, "" for none."""
        return {"dense": self.embed_sig, "sparse": self.sparse_sig}

    def with_sigs(self, sigs: Mapping[SpaceKind, str]) -> DatasetConfig:
        """Return the same with the signatures of these models, by kind, and its own others."""
        embed_sig = sigs.get("dense", self.embed_sig)
        return attrs.evolve(
            self, embed_sig=embed_sig, sparse_sig=sigs.get("sparse", self.sparse_sig)
        )


@attrs.frozen(kw_only=True, slots=True)
class DocumentContext:
    """The abstract (L0) and overview (L1) of a document; "" for a missing one."""

    abstract: str = ""
    overview: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DatasetContext:
    """The abstract (L0) and overview (L1) of a dataset; "" for a missing one."""

    abstract: str = ""
    overview: str = ""


@attrs.frozen(kw_only=True, slots=True)
class NameState:
    """All data of a dataset for a document, a folder ("name/") or the dataset itself ("").

    Attributes:
        name: the name.
        versions: the kept versions of the document, oldest first, then the current one; empty for a
            folder or dataset.
        sig: the signature of the chunk set, None without a set.
        chunks: its chunks in order, each with its vector; the chunk's ``sig`` names its space.
        layers: the layers with their vectors.
        further: by the kind of their space, the chunks' vectors of models other than embedders,
            by the digest of their text: the base64 of ``to_bytes``.
    """

    name: str
    versions: tuple[SourceDocument, ...] = ()
    sig: DerivedSig | None = None
    chunks: tuple[DerivedChunk, ...] = ()
    layers: tuple[DerivedLayer, ...] = ()
    further: Mapping[SpaceKind, Mapping[str, str]] = attrs.field(factory=dict)

    @property
    def units(self) -> tuple[DerivedChunk | DerivedLayer, ...]:
        """The chunks, then the layers. The ``sig`` of each names the space of its vector."""
        return (*self.chunks, *self.layers)
