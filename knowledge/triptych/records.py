"""The records of Triptych: frozen values that cross every boundary of the library.

Records check what can be checked without a store and raise `ValidationError`. `Query` is
the exception: it carries whatever the caller wrote, and `Service.search` alone judges it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import StoreError, ValidationError

__all__ = [
    "NO_CHUNK",
    "OPENING",
    "Candidate",
    "ChangeEvent",
    "ChunkQuery",
    "DatasetConfig",
    "DatasetContext",
    "DatasetStats",
    "DerivedChunk",
    "DerivedLayer",
    "DerivedSig",
    "DocumentContext",
    "DocumentInfo",
    "DocumentSummary",
    "EventKind",
    "Failure",
    "Filter",
    "Found",
    "Hit",
    "Layer",
    "LayerQuery",
    "Mode",
    "NewDocument",
    "PutOutcome",
    "PutReport",
    "Query",
    "RebuildReport",
    "RebuildScope",
    "ResolvedQuery",
    "Result",
    "Scope",
    "SourceDocument",
    "StaleReason",
    "Vector",
]

Vector = NDArray[np.float32]
"""A float32 array of shape (dimension,)."""

StaleReason = Literal["source", "chunker", "prompt", "embedder", "input"]
"""Why a derived thing is stale: what it was made from, or with, has changed since."""

NO_CHUNK = -1
"""`Hit.chunk_index` of a hit that is a layer or a whole document."""

OPENING = 512
"""How many code points of a whole document a hit on it shows, at most."""

MAX_NAME_BYTES = 1024
SNIPPET_LENGTH = 240


class Layer(StrEnum):
    """How much of a document a text tells."""

    ABSTRACT = "L0"
    OVERVIEW = "L1"
    DETAIL = "L2"


class Mode(StrEnum):
    """Which lanes a search runs."""

    BM25 = "bm25"
    VECTOR = "vector"
    HYBRID = "hybrid"


class Scope(StrEnum):
    """Whether a search asks one dataset or every one."""

    SINGLE = "single"
    ALL = "all"


class EventKind(StrEnum):
    """What happened to a document, or to a whole dataset (`BULK`)."""

    PUT = "put"
    DELETE = "delete"
    BULK = "bulk"


_E = TypeVar("_E", bound=StrEnum)


def _member(kind: type[_E], value: object) -> _E:
    try:
        return kind(str(value))
    except ValueError:
        choices = ", ".join(repr(str(member)) for member in kind)
        raise ValidationError(
            f"{value!r} is no {kind.__name__.lower()}: choose one of {choices}"
        ) from None


def to_layer(value: object) -> Layer:
    """A `Layer`, or its plain string, as a `Layer`."""
    return _member(Layer, value)


def to_mode(value: object) -> Mode:
    """A `Mode`, or its plain string, as a `Mode`."""
    return _member(Mode, value)


def to_scope(value: object) -> Scope:
    """A `Scope`, or its plain string, as a `Scope`."""
    return _member(Scope, value)


def to_event_kind(value: object) -> EventKind:
    """An `EventKind`, or its plain string, as an `EventKind`."""
    return _member(EventKind, value)


def is_valid_layer(value: object) -> bool:
    """Whether ``value`` is a `Layer` or the plain string of one."""
    return isinstance(value, str) and value in set(Layer)


def is_valid_mode(value: object) -> bool:
    """Whether ``value`` is a `Mode` or the plain string of one."""
    return isinstance(value, str) and value in set(Mode)


def check_text(text: Any, what: str) -> str:
    """``text`` itself, if it is a string that UTF-8 can hold.

    Raises:
        ValidationError: it is no string, or holds a lone surrogate, which no encoding of
            Unicode can store; the message gives its position.
    """
    if not isinstance(text, str):
        raise ValidationError(f"{what} must be a string, not {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValidationError(
                f"{what} holds a lone surrogate (U+{ord(text[error.start]):04X}) at position "
                f"{error.start}, which no file or database can store: decode the original "
                "bytes with errors='replace', or remove it"
            ) from None
    return text


def check_identifier(name: Any, what: str) -> str:
    """A dataset id or document name: text without control characters, 1 to 1,024 bytes."""
    check_text(name, what)
    if not name or name.isspace():
        raise ValidationError(f"{what} is empty: give it at least one visible character")
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        raise ValidationError(
            f"{what} is longer than {MAX_NAME_BYTES} bytes in UTF-8: {name[:40]!r}…"
        )
    for character in name:
        if character < " " or character == "\x7f":
            raise ValidationError(
                f"{what} holds the control character {character!r}: {name!r} cannot be shown "
                "or stored safely under it"
            )
    return str(name)


def check_document_name(name: Any) -> str:
    """A document's name: an identifier that does not end in a slash."""
    check_identifier(name, "a document name")
    if name.endswith("/"):
        raise ValidationError(
            f"the document name {name!r} ends in a slash: such names are reserved for the "
            "layers of folders"
        )
    return str(name)


def check_whole(value: Any, what: str, *, least: int = 0) -> int:
    """``value`` itself, if it is a whole number from ``least`` up; a bool is none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValidationError(f"{what} must be a whole number from {least} up, not {value!r:.60}")
    return value


def check_metadata(metadata: Any) -> dict[str, str]:
    """A copy of ``metadata``: string keys to string values."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ValidationError(
            f"metadata must map strings to strings, not be a {type(metadata).__name__}"
        )
    copy = {}
    for key, value in metadata.items():
        check_text(key, "a metadata key")
        if not isinstance(value, str):
            raise ValidationError(
                f"metadata[{key!r}] must be a string, not {type(value).__name__}: "
                f"write it as str({value!r:.40})"
            )
        copy[key] = check_text(value, f"metadata[{key!r}]")
    return copy


def _same_vector(left: Vector | None, right: Vector | None) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)


_vector = attrs.cmp_using(eq=_same_vector)


def _optional_version(value: object) -> int | None:
    if value is None or (isinstance(value, int) and value >= 0 and value is not True):
        return value
    raise ValidationError(
        f"if_version is the version you read (0: there is no document yet), not {value!r}"
    )


def _document_content(text: object) -> str:
    return check_text(text, "a document's content")


def _layer_content(text: object) -> str:
    return check_text(text, "a layer's content")


def _summary_part(text: object) -> str:
    return check_text(text, "a summary's name or abstract")


def _provenance(text: object) -> str:
    return check_text(text, "original_sha256 or parser_sig")


@attrs.frozen(kw_only=True, slots=True)
class NewDocument:
    """A document on its way in.

    ``metadata["title"]`` is its title and ``metadata["kind"]`` its kind ("markdown", "text",
    …), where its first heading and its name's ending should not decide. ``if_version`` is the
    version it must still have in the store (0: it must not exist), None for any.
    """

    name: str = attrs.field(converter=check_document_name)
    content: str = attrs.field(converter=_document_content)
    metadata: Mapping[str, str] = attrs.field(factory=dict, converter=check_metadata)
    if_version: int | None = attrs.field(default=None, converter=_optional_version)
    original_sha256: str = attrs.field(default="", converter=_provenance)
    parser_sig: str = attrs.field(default="", converter=_provenance)


@attrs.frozen(kw_only=True, slots=True)
class SourceDocument:
    """The lossless input: the single truth everything else is derived from.

    ``content`` is what was put, code point for code point. ``version`` grows with every
    change and never repeats for a name, not even over a delete. Where a parser made the
    content, ``original_sha256`` and ``parser_sig`` say from what and how.
    """

    dataset_id: str
    name: str
    content: str
    metadata: Mapping[str, str]
    version: int
    updated_at: datetime
    original_sha256: str = ""
    parser_sig: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DocumentInfo:
    """A document without its content.

    ``content_sha256`` is the hex digest of the content in UTF-8, ``size`` its bytes, and
    ``input_sig`` the digest of all that chunking and embedding read of the document.
    """

    dataset_id: str
    name: str
    metadata: Mapping[str, str]
    version: int
    updated_at: datetime
    content_sha256: str
    size: int
    input_sig: str
    original_sha256: str = ""
    parser_sig: str = ""


@attrs.frozen(kw_only=True, slots=True)
class DerivedSig:
    """What a derived thing was made from, and with.

    ``input_sig`` is the digest of exactly what was fed in, and decides freshness together
    with the three configurations; ``source_version`` is provenance. An empty string means
    that the part plays no role (a layer has no chunker, a chunk no prompt).
    """

    source_version: int = 0
    chunker_sig: str = ""
    prompt_sig: str = ""
    embed_sig: str = ""
    input_sig: str = ""

    def stale_reason(self, want: DerivedSig) -> StaleReason | None:
        """Why this is stale when ``want`` is what a fresh one would carry; None if it is not.

        Without an input digest on both sides the source version decides. An empty
        ``want.embed_sig`` means "don't care".
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
            return "embedder"
        return None

    def is_stale(self, want: DerivedSig) -> bool:
        """Whether this was made from something else, or with something else, than ``want``."""
        return self.stale_reason(want) is not None


@attrs.frozen(kw_only=True, slots=True)
class DerivedChunk:
    """One retrieval unit of a document.

    ``source.content[start:end] == content`` in code points; ``offset`` is ``start`` in UTF-8
    bytes; ``start_line`` counts from 1. ``window_start`` and ``window_end`` span the wider
    text to show with a hit, where the chunker has one. ``vector`` is a unit vector or None.
    ``sig.input_sig`` is the digest of the text that was (or would be) embedded.
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
    vector: Vector | None = attrs.field(default=None, eq=_vector, repr=False)
    heading_path: tuple[str, ...] = ()
    window_start: int | None = None
    window_end: int | None = None
    locator: str | None = None

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
    content: str = attrs.field(converter=_layer_content)
    sig: DerivedSig
    vector: Vector | None = attrs.field(default=None, eq=_vector, repr=False)
    stale: StaleReason | None = None


@attrs.frozen(kw_only=True, slots=True)
class DatasetConfig:
    """With what a dataset's derived data is made; one per dataset, in the truth.

    ``embed_sig`` is "" when the dataset has no vectors. ``language`` is the analyzer's.
    """

    chunker_sig: str
    embed_sig: str = ""
    language: str = "english"


@attrs.frozen(kw_only=True, slots=True)
class Query:
    """What to find.

    Attributes:
        text: the question, or some words.
        dataset_id: which dataset; needed unless ``scope`` is "all".
        scope: "single" or "all".
        mode: "bm25", "vector" or "hybrid"; None is hybrid when an embedder is wired.
        layer: "L2" finds chunks, "L0" abstracts, "L1" overviews.
        top_k: the most hits to return.
        threshold: the least fused score, None for no floor.
        min_scores: the least score in a lane ("bm25", "vector"), before fusion.
        where: equality over metadata (a list of values: any of them), and over the reserved
            keys ``doc_name``, ``doc_prefix`` and ``heading``; all conditions must hold.
        fresh_only: leave out what is stale.
        keyword_boost: raise a hit's score by this share for each word of the query that its
            text holds, after ``threshold``; 0.1 is 10 percent, 0 leaves scores as they are.
    """

    text: str
    dataset_id: str = ""
    scope: Scope | str = Scope.SINGLE
    mode: Mode | str | None = None
    layer: Layer | str = Layer.DETAIL
    top_k: int = 10
    threshold: float | None = None
    min_scores: Mapping[str, float] = attrs.field(factory=dict)
    where: Mapping[str, Any] = attrs.field(factory=dict)
    fresh_only: bool = False
    keyword_boost: float = 0.0


@attrs.frozen(kw_only=True, slots=True)
class Filter:
    """A validated ``where``: every condition that is not None or empty must hold.

    ``metadata`` maps a key to the values it may have. ``fresh`` holds the chunker and
    embedder signatures (and prompt signature, for layers) that a fresh set carries.
    """

    doc_names: frozenset[str] | None = None
    doc_prefixes: tuple[str, ...] | None = None
    headings: frozenset[str] | None = None
    metadata: Mapping[str, frozenset[str]] = attrs.field(factory=dict)
    fresh: DerivedSig | None = None

    def admits(self, name: str, metadata: Mapping[str, str]) -> bool:
        """Whether a document of this name and metadata passes (headings and freshness aside)."""
        if self.doc_names is not None and name not in self.doc_names:
            return False
        if self.doc_prefixes is not None and not name.startswith(self.doc_prefixes):
            return False
        return all(metadata.get(key) in values for key, values in self.metadata.items())

    @property
    def is_trivial(self) -> bool:
        """Whether everything passes."""
        return self == Filter()


@attrs.frozen(kw_only=True, slots=True)
class ResolvedQuery:
    """A query that `Service.search` has judged: what a `Retriever` works from.

    ``dataset_ids`` exist; ``vector_dataset_ids`` are those whose vectors live in
    ``embed_sig``, the embedder's space. ``limit`` is how deep each lane should reach (lanes
    over-fetch: it is ``top_k`` or more). ``vector`` is the embedded text when the caller
    has it already.
    """

    text: str
    dataset_ids: tuple[str, ...]
    vector_dataset_ids: tuple[str, ...] = ()
    embed_sig: str = ""
    mode: Mode
    layer: Layer
    top_k: int
    limit: int
    threshold: float | None = None
    min_scores: Mapping[str, float] = attrs.field(factory=dict)
    filter: Filter = attrs.field(factory=Filter)
    vector: Vector | None = attrs.field(default=None, eq=_vector, repr=False)


@attrs.frozen(kw_only=True, slots=True)
class ChunkQuery:
    """One lane's question to a `ChunkRepo`: BM25 over ``text`` or nearness to ``vector``.

    ``mode`` is BM25 or VECTOR. ``embed_sig`` names the space that ``vector`` lives in.
    """

    dataset_ids: tuple[str, ...]
    mode: Mode
    text: str = ""
    vector: Vector | None = attrs.field(default=None, eq=_vector, repr=False)
    embed_sig: str = ""
    top_k: int = 10
    filter: Filter = attrs.field(factory=Filter)


@attrs.frozen(kw_only=True, slots=True)
class LayerQuery(ChunkQuery):
    """One lane's question to a `LayerRepo`."""

    layer: Layer = attrs.field(default=Layer.ABSTRACT, converter=to_layer)


@attrs.frozen(kw_only=True, slots=True)
class Candidate:
    """One entry of a lane: who it is and its score there.

    ``key`` is the repository's own handle for `fetch`; it names one state of the unit, so
    that a candidate of a replaced set is never mistaken for the new one. ``index`` is the
    chunk's, or `NO_CHUNK`. ``source`` is the lane's name.
    """

    dataset_id: str
    doc_name: str
    index: int
    key: Hashable
    score: float
    source: str = ""
    scores: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True, slots=True)
class Found:
    """What a candidate's key stands for, read in one snapshot with its document.

    One of ``chunk`` and ``layer`` is given; a whole document has neither, but ``opening``: the
    first `OPENING` code points of its content. ``sig`` is the signature of the set the chunk
    belongs to, or the layer's own; a whole document's is its chunk set's, ``DerivedSig()``
    where it has none. ``document`` is None for layers of folders and datasets.
    """

    key: Hashable
    sig: DerivedSig
    document: DocumentInfo | None = None
    chunk: DerivedChunk | None = None
    layer: DerivedLayer | None = None
    opening: str = ""


@attrs.frozen(kw_only=True, slots=True)
class Hit:
    """One ranked result.

    ``score`` is the fused score, ``scores`` the score in each lane that found it (bm25, vector).
    ``content`` is the stored text of document version ``sig.source_version``, which it spans
    from ``start`` to ``end`` (code points). ``terms`` are the query's, as the dataset's
    analyzer sees them. ``stale`` is None, or why the text may no longer be true.
    ``chunk_index`` is `NO_CHUNK` for layers and documents; ``layer`` is None for documents.
    ``window`` is the wider text from ``window_start`` to ``window_end`` that a window chunker
    shows with a chunk. It is None where the chunk has no window, and where the document's text
    has changed since, which ``stale`` tells.
    """

    dataset_id: str
    doc_name: str
    layer: Layer | None
    content: str
    score: float
    chunk_index: int = NO_CHUNK
    sig: DerivedSig
    metadata: Mapping[str, str] = attrs.field(factory=dict)
    scores: Mapping[str, float] = attrs.field(factory=dict)
    start: int = 0
    end: int = 0
    offset: int = 0
    start_line: int = 1
    heading_path: tuple[str, ...] = ()
    locator: str | None = None
    window_start: int | None = None
    window_end: int | None = None
    window: str | None = None
    terms: tuple[str, ...] = attrs.field(default=(), repr=False)
    stale: StaleReason | None = None

    @property
    def snippet(self) -> str:
        """The part of ``content`` that holds most of the query's terms: 240 code points."""
        if len(self.content) <= SNIPPET_LENGTH:
            return self.content
        from triptych.text import snippet  # worked out when asked for: most callers do not

        start, end = snippet(self.content, self.terms, length=SNIPPET_LENGTH)
        return self.content[start:end]


@attrs.frozen(kw_only=True, slots=True)
class Result:
    """The ordered hits, what went wrong on the way, and whether there is nothing more."""

    hits: tuple[Hit, ...] = ()
    warnings: tuple[str, ...] = ()
    exhausted: bool = False


@attrs.frozen(kw_only=True, slots=True)
class ChangeEvent:
    """Something changed outside: ``doc_name`` "" means the whole dataset."""

    kind: EventKind = attrs.field(converter=to_event_kind)
    dataset_id: str
    doc_name: str = ""

    def __attrs_post_init__(self) -> None:
        # Any text will do: what no document can be called still says that something changed.
        for what, name in (("dataset_id", self.dataset_id), ("doc_name", self.doc_name)):
            if not isinstance(name, str):
                raise ValidationError(
                    f"{what} of a ChangeEvent must be a string, not {type(name).__name__}"
                )


@attrs.frozen(kw_only=True, slots=True)
class RebuildScope:
    """What to rebuild: "" means every dataset, or every document of the dataset."""

    dataset_id: str = ""
    doc_name: str = ""

    def __attrs_post_init__(self) -> None:
        check_text(self.dataset_id, "dataset_id")
        check_text(self.doc_name, "doc_name")
        if self.doc_name and not self.dataset_id:
            raise ValidationError(
                f"a rebuild of document {self.doc_name!r} needs its dataset_id as well"
            )


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
class DocumentSummary:
    """A document's name and its L0, as a dataset's layers are made from."""

    name: str = attrs.field(converter=_summary_part)
    abstract: str = attrs.field(converter=_summary_part)


@attrs.frozen(slots=True)
class Message:
    """One turn of what a language model is told."""

    role: Literal["system", "user", "assistant"]
    content: str


@attrs.frozen(kw_only=True, slots=True)
class Usage:
    """Tokens that one answer took."""

    input_tokens: int = 0
    output_tokens: int = 0


@attrs.frozen(slots=True)
class Generation:
    """A language model's answer.

    ``truncated``: the model stopped at its ceiling of tokens, not at the end of its answer.
    """

    text: str
    usage: Usage = attrs.field(factory=Usage)
    truncated: bool = False


@attrs.frozen(kw_only=True, slots=True)
class PutOutcome:
    """What became of one document of a bulk put: ``document`` without error, else ``error``."""

    name: str
    change: Literal["added", "updated", "unchanged", "failed"]
    document: SourceDocument | None = None
    error: Exception | None = attrs.field(default=None, eq=False)


@attrs.frozen(kw_only=True, slots=True)
class Failure:
    """One item that failed, and why; the others were done."""

    dataset_id: str
    name: str
    error: Exception = attrs.field(eq=False)


@attrs.frozen(kw_only=True, slots=True)
class PutReport:
    """What a bulk put did: counts of documents, then of chunks.

    ``embedded`` chunks were sent to the embedder, ``reused`` ones had their vectors already.
    A document in ``failed`` may be stored with its derivation missing: then its error is a
    `DerivationError`.
    """

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class RebuildReport:
    """What a rebuild did: ``checked`` documents are ``fresh``, ``rebuilt`` or in ``failed``.

    ``embedded`` counts chunks, and layers embedded anew; ``reused`` counts chunks; ``removed``
    counts the documents whose derived data had no source any more.
    """

    checked: int = 0
    fresh: int = 0
    rebuilt: int = 0
    embedded: int = 0
    reused: int = 0
    removed: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class DatasetStats:
    """Counts of one dataset.

    ``stale`` counts documents whose chunks are missing or behind; ``vectors`` the chunks
    that have one; ``size`` is the sources' size in bytes of UTF-8.
    """

    dataset_id: str
    documents: int
    chunks: int
    vectors: int
    layers: int
    stale: int
    size: int
    config: DatasetConfig | None = None


@attrs.frozen(kw_only=True, slots=True)
class HealthCheck:
    """One thing that was looked at: fine, worth knowing, or in the way of work.

    Attributes:
        name: what was looked at: "store", "index", "embedder" or a dataset.
        status: "failed" is what makes puts or searches fail; a "warning" costs quality or time.
        detail: what was found.
        remedy: what to do about it, "" where nothing is to be done.
        error: what a failed check ended with.
    """

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    remedy: str = ""
    error: Exception | None = attrs.field(default=None, eq=False)

    def __str__(self) -> str:
        return f"{self.detail}: {self.remedy}" if self.remedy else self.detail


@attrs.frozen(kw_only=True, slots=True)
class Health:
    """What a health check found, in the order in which it looked."""

    checks: tuple[HealthCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed; there may be warnings."""
        return all(check.status != "failed" for check in self.checks)

    @property
    def problems(self) -> tuple[HealthCheck, ...]:
        """What failed, then the warnings."""
        order = ("failed", "warning")
        return tuple(c for status in order for c in self.checks if c.status == status)

    def require(self) -> None:
        """Raise what the first failed check ended with; nothing when none failed.

        Raises:
            TriptychError: something is in the way of work.
        """
        for check in self.checks:
            if check.status == "failed":
                raise check.error or StoreError(str(check))
