"""Documents, and what is derived from them: chunks, layers, signatures, configuration."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final, Literal

import attrs

from triptych._internal.digests import digest
from triptych.errors import ValidationError
from triptych.records.filters import EXPIRES_AT, Condition, FilterTree, Not, Subject
from triptych.records.metadata import Metadata, comparison_key, optional_metadata
from triptych.records.models import QuarantinedLayer
from triptych.records.values import (
    Layer,
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
    """What Triptych itself keeps of a document, apart from the user's metadata.

    ``outline`` is what a parser knows of the content (`triptych.chunking.outline`), ``sync_root``
    the `triptych.sync.SyncRoot.key` of the root that the document is of. "" is none.
    ``expires_at`` is the moment, in UTC, from which on nothing finds the document; None is never.
    """

    outline: str = attrs.field(default="", converter=system_text)
    sync_root: str = attrs.field(default="", converter=system_text)
    expires_at: datetime | None = attrs.field(default=None, converter=expiry)


@attrs.frozen(kw_only=True, slots=True)
class NewDocument:
    """A document to put.

    ``metadata["title"]`` overrides its first heading as the title, ``metadata["kind"]``
    ("markdown", "text", …) its name's ending. ``if_version`` is the
    version it must still have in the store (0: it must not exist), None for any.

    ``metadata`` None keeps the document's metadata; ``{}`` removes it. Neither changes the
    document's `SystemData`, which these fields set:

    - ``outline`` is the outline of ``content``, "" for none. None keeps that of the stored
      document if its content is the same; new content begins without one.
    - ``sync_root`` names the root that the document is of from now on, "" for none. None keeps
      that of the stored document.
    - ``expires_at`` is the moment from which on nothing finds the document, "never" for none. A
      datetime without an offset is in UTC. None keeps that of the stored document.

    An expired document counts as none: a put keeps nothing of it except the count of versions,
    and ``if_version`` must be 0.
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
    """The lossless input: the single truth everything else is derived from.

    ``content`` is what was put, code point for code point. ``version`` grows with every
    change and never repeats for a name, not even over a delete. If a parser made the
    content, ``original_sha256`` is the file's digest and ``parser_sig`` the parser's signature.
    ``metadata`` is the user's, ``system`` Triptych's own.
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

    ``content_sha256`` is the hex digest of the content in UTF-8, ``size`` its bytes, and
    ``input_sig`` the digest of all that chunking and embedding read of the document.
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
    """A document's name and its L0, as a dataset's layers are made from."""

    name: str = attrs.field(converter=summary_part)
    abstract: str = attrs.field(converter=summary_part)


def expired_by(moment: datetime) -> Condition:
    """The condition that a document's `SystemData.expires_at` is ``moment`` or before."""
    return Condition(EXPIRES_AT, "lte", (comparison_key(moment),))


def not_expired_by(moment: datetime) -> FilterTree:
    """The condition that a document never expires, or expires after ``moment``.

    It holds for the layers of folders and datasets, which do not expire.
    """
    return Not(expired_by(moment))


def has_expired(
    document: DocumentInfo | SourceDocument | None, moment: datetime | None = None
) -> bool:
    """Whether the document has expired by ``moment``, None for now; False without a document."""
    return document is not None and system_has_expired(document.system, moment)


def system_has_expired(system: SystemData | None, moment: datetime | None = None) -> bool:
    """`has_expired` of the document with this system data."""
    expires_at = None if system is None else system.expires_at
    return expires_at is not None and expires_at <= (moment or datetime.now(UTC))


_CHUNKS: Final = uuid.UUID("b6482900-31b6-52d6-af5d-00d5479f083c")
"""The namespace of chunk ids; never to be changed."""


def chunk_id(dataset_id: str, doc_name: str, input_sig: str, occurrence: int) -> str:
    """The stable id of a chunk: a UUID of version 5, unique among all chunks of a store.

    It is made of what the chunk's vector is made of (`embedding_input_sig` of title, headings and
    text) and of its document, so it changes if and only if one of these does. ``occurrence`` is
    the number of chunks before it in the document that have the same ``input_sig``.
    """
    name = digest("chunk", dataset_id, doc_name, input_sig, str(occurrence))
    return str(uuid.uuid5(_CHUNKS, name))


@attrs.frozen(kw_only=True, slots=True)
class DerivedSig:
    """The input and the configuration that something derived was made with.

    ``input_sig`` is the digest of the exact input, and decides freshness together with the
    three configurations; ``source_version`` is provenance. An empty string means
    that the part plays no role (a layer has no chunker, a chunk no prompt). A chunk set without an
    ``embed_sig``, in a dataset that has one, waits for its vectors.
    """

    source_version: int = 0
    chunker_sig: str = ""
    prompt_sig: str = ""
    embed_sig: str = ""
    input_sig: str = ""

    def stale_reason(self, want: DerivedSig) -> StaleReason | None:
        """Why this is stale when ``want`` is what a fresh one would carry; None if it is not.

        Without an input digest on both sides the source version decides. An empty
        ``want.embed_sig`` means "don't care"; where only ours is empty the reason is "vector".
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
        """Whether only vectors, if anything, are other than in a fresh one that ``want`` describes.

        Such a thing need not be made again: its texts are embedded where they are.
        """
        return self.stale_reason(want) in (None, "vector", "embedder")

    def is_stale(self, want: DerivedSig) -> bool:
        """Whether this was made from something else, or with something else, than ``want``."""
        return self.stale_reason(want) is not None


@attrs.frozen(kw_only=True, slots=True)
class DerivedChunk:
    """One retrieval unit of a document.

    ``source.content[start:end] == content`` in code points; ``offset`` is ``start`` in UTF-8
    bytes; ``start_line`` counts from 1. ``window_start`` and ``window_end`` span the wider
    text to show with a hit, where the chunker has one. ``vector`` is a unit vector or None.
    ``sig.input_sig`` is the digest of the text that was (or would be) embedded. ``occurrence``
    counts the chunks before it in its document with the same digest; it is part of no comparison.
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

    ``doc_name`` is "" for the dataset's own layer and ends in "/" for a folder's.
    ``stale`` is filled in by the Service when it answers.
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
    """The configuration of a dataset's derived data; one per dataset, in the truth.

    ``embed_sig`` is "" when the dataset has no vectors, ``sparse_sig`` when it has no sparse ones.
    ``language`` is the analyzer's.
    """

    chunker_sig: str
    embed_sig: str = ""
    language: str = "english"
    sparse_sig: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DocumentContext:
    """A document's L0 and L1; "" for what was not made."""

    abstract: str = ""
    overview: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DatasetContext:
    """A dataset's L0 and L1; "" for what was not made."""

    abstract: str = ""
    overview: str = ""


@attrs.frozen(kw_only=True, slots=True)
class NameState:
    """What a dataset holds under the name of a document, of a folder ("name/") or its own ("").

    Attributes:
        name: the name.
        versions: the document, its kept versions first, oldest first; none under other names.
        sig: the signature of the chunk set, None without a set.
        chunks: its chunks in order, each with its vector and, in its ``sig``, the space of that.
        layers: the layers with their vectors.
        sparse: the sparse vectors of the chunks' texts, by digest, of the dataset's encoder: the
            base64 of `SparseVector.to_bytes`.
        quarantined: the layers that could not be made.
        checkpoints: the intermediate results of making layers, by key.
    """

    name: str
    versions: tuple[SourceDocument, ...] = ()
    sig: DerivedSig | None = None
    chunks: tuple[DerivedChunk, ...] = ()
    layers: tuple[DerivedLayer, ...] = ()
    sparse: Mapping[str, str] = attrs.field(factory=dict)
    quarantined: tuple[QuarantinedLayer, ...] = ()
    checkpoints: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def units(self) -> tuple[DerivedChunk | DerivedLayer, ...]:
        """What may have a vector: the chunks, then the layers. Its space is in its ``sig``."""
        return (*self.chunks, *self.layers)


@attrs.frozen(kw_only=True, slots=True)
class PutOutcome:
    """What became of one document of a bulk put: ``document`` without error, else ``error``.

    ``input_sig`` is the document's `DocumentInfo.input_sig`, where the store has it at hand; "" has
    whoever needs it work it out.
    """

    name: str
    change: Literal["added", "updated", "unchanged", "failed"]
    document: SourceDocument | None = None
    error: Exception | None = attrs.field(default=None, eq=False)
    input_sig: str = attrs.field(default="", eq=False)
