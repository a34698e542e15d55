"""Documents and their derived data: chunks, layers, signatures, configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import ClassVar, Final, Literal

import attrs

from triptych._internal.digests import digest
from triptych.errors import ValidationError
from triptych.records.filters import EXPIRES_AT, Condition, FilterTree, Not, Subject
from triptych.records.metadata import Metadata, comparison_key, optional_metadata
from triptych.records.unread import Unread, read_unread
from triptych.records.values import (
    Layer,
    SpaceKind,
    StaleReason,
    Vector,
    check_document_name,
    document_content,
    expiry,
    layer_content,
    optional_expiry,
    optional_system_text,
    optional_version,
    provenance,
    summary_part,
    system_text,
    to_layer,
    vector_comparison,
)


@attrs.frozen(kw_only=True, slots=True)
class SystemData:
    """Triptych's own data about a document, separate from the user's metadata.

    ``outline`` is the structure that a parser found (`triptych.chunking.outline`), ``sync_root``
    the `triptych.sync.SyncRoot.key` of the root that owns the document; "" is none. From
    ``expires_at``, in UTC, on no search finds the document; None is never.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = ("unread",)

    outline: str = attrs.field(default="", converter=system_text)
    sync_root: str = attrs.field(default="", converter=system_text)
    expires_at: datetime | None = attrs.field(default=None, converter=expiry)

    @property
    def unread(self) -> Unread:
        """What of the document's file its text lacks."""
        return read_unread(self.outline)


@attrs.frozen(kw_only=True, slots=True)
class NewDocument:
    """A document to store.

    ``metadata["title"]`` overrides the first heading as the title, and ``metadata["kind"]``
    ("markdown", "text", …) the kind given by the name's extension. ``if_version`` is the version
    that must be stored (0: no document); None accepts any.

    ``metadata`` None keeps the document's metadata; ``{}`` removes it. These fields set the
    document's `SystemData`:

    - ``outline`` is the outline of ``content``, "" for none. None keeps the stored outline if the
      content is unchanged, else removes it.
    - ``sync_root`` names the root that owns the document, "" for none. None keeps the stored one.
    - ``expires_at`` is when the document expires, in UTC if it has no offset; "never" is none. None
      keeps the stored time.

    A put over an expired document keeps only its version count; ``if_version`` must then be 0.
    """

    name: str = attrs.field(converter=check_document_name)
    content: str = attrs.field(converter=document_content)
    metadata: Metadata | None = attrs.field(default=None, converter=optional_metadata)
    if_version: int | None = attrs.field(default=None, converter=optional_version)
    original_sha256: str = attrs.field(default="", converter=provenance)
    parser_sig: str = attrs.field(default="", converter=provenance)
    outline: str | None = attrs.field(default=None, converter=optional_system_text)
    sync_root: str | None = attrs.field(default=None, converter=optional_system_text)
    expires_at: datetime | Literal["never"] | None = attrs.field(
        default=None, converter=optional_expiry
    )


@attrs.frozen(kw_only=True, slots=True)
class SourceDocument:
    """A stored document: the source from which all other data is derived.

    ``content`` is exactly the text that was stored. ``version`` grows with every change and never
    repeats for a name, not even after a delete. If a parser made the content, ``original_sha256``
    is the digest of the file and ``parser_sig`` the parser's signature. ``metadata`` is the user's,
    ``system`` Triptych's own.
    """

    dataset_id: str
    name: str
    content: str
    metadata: Metadata
    version: int
    updated_at: datetime
    original_sha256: str = ""
    parser_sig: str = ""
    system: SystemData = SystemData()


@attrs.frozen(kw_only=True, slots=True)
class DocumentInfo:
    """A document without its content.

    ``content_sha256`` is the hex digest of the content in UTF-8, ``size`` its length in bytes, and
    ``input_sig`` the digest of everything that chunking and embedding read of the document.
    """

    dataset_id: str
    name: str
    metadata: Metadata
    version: int
    updated_at: datetime
    content_sha256: str
    size: int
    input_sig: str
    original_sha256: str = ""
    parser_sig: str = ""
    system: SystemData = SystemData()


def document_subject(
    document: DocumentInfo | SourceDocument, headings: Collection[str] = ()
) -> Subject:
    """A document, or the chunk of one under ``headings``."""
    return Subject(
        name=document.name,
        metadata=document.metadata,
        version=document.version,
        updated_at=document.updated_at,
        expires_at=document.system.expires_at,
        headings=headings,
    )


@attrs.frozen(kw_only=True, slots=True)
class DocumentSummary:
    """A document's name and abstract (L0), from which the layers of a folder or dataset are
    made."""

    name: str = attrs.field(converter=summary_part)
    abstract: str = attrs.field(converter=summary_part)


def expired_by(moment: datetime) -> Condition:
    """Return the condition that a document expires at ``moment`` or earlier."""
    return Condition(EXPIRES_AT, "lte", (comparison_key(moment),))


def not_expired_by(moment: datetime) -> FilterTree:
    """Return the condition that a document never expires, or expires after ``moment``.

    Layers of folders and datasets always meet it.
    """
    return Not(expired_by(moment))


def has_expired(
    document: DocumentInfo | SourceDocument | None, moment: datetime | None = None
) -> bool:
    """Return whether the document has expired at ``moment`` (None: now); False without a
    document."""
    return document is not None and system_has_expired(document.system, moment)


def living_version(document: SourceDocument | DocumentInfo | None) -> int:
    """The ``if_version`` of a put over ``document``: 0 if there is none, or it has expired."""
    return 0 if document is None or has_expired(document) else document.version


def system_has_expired(system: SystemData | None, moment: datetime | None = None) -> bool:
    """Return `has_expired` for a document with this system data."""
    expires_at = None if system is None else system.expires_at
    return expires_at is not None and expires_at <= (moment or datetime.now(UTC))


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


@attrs.frozen(kw_only=True, slots=True)
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


@attrs.frozen(kw_only=True, slots=True)
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


@attrs.frozen(kw_only=True, slots=True)
class PutOutcome:
    """The outcome for one document of a bulk put: its ``document`` or its ``error``.

    ``input_sig`` is the document's `DocumentInfo.input_sig`, or "" if the store does not have it.
    """

    name: str
    change: Literal["added", "updated", "unchanged", "failed"]
    document: SourceDocument | None = None
    error: Exception | None = attrs.field(default=None, eq=False)
    input_sig: str = attrs.field(default="", eq=False)
