"""Queries, from what a caller writes to what a lane is asked, and what comes back."""

from __future__ import annotations

import importlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import attrs

from triptych._internal.xml_text import element_text
from triptych.errors import NotAvailableError
from triptych.installation import install_command
from triptych.records.checks import vector_comparison
from triptych.records.chunk_ids import chunk_id
from triptych.records.derived import DerivedChunk, DerivedLayer, DerivedSig
from triptych.records.documents import DocumentInfo
from triptych.records.filters import FilterTree, Subject
from triptych.records.journal import ModelUsage
from triptych.records.metadata import Metadata
from triptych.records.models import Message
from triptych.records.serialization import to_json
from triptych.records.sparse import SparseVector
from triptych.records.values import (
    NO_CHUNK,
    SNIPPET_LENGTH,
    Answerability,
    EmbedKind,
    Layer,
    Mode,
    Scope,
    StaleReason,
    Vector,
    to_layer,
)

if TYPE_CHECKING:
    from triptych.text.injection import Sign

_REPR_LENGTH = 60
_REPR_HITS = 10


@attrs.frozen(kw_only=True, slots=True)
class Query:
    """What to find.

    Attributes:
        text: the question, or some words. Empty with a ``where``: all that passes it is listed, by
            dataset, document name and chunk index, with the score 0.
        dataset_id: which dataset; needed unless ``dataset_ids`` or ``scope`` says where.
        dataset_ids: several datasets, searched as one, in place of ``dataset_id``.
        scope: "single" or "all".
        mode: "bm25", "vector" or "hybrid", or the name of another lane; None is hybrid when an
            embedder is wired.
        layer: "L2" finds chunks, "L0" abstracts, "L1" overviews.
        top_k: the maximum number of hits to return.
        threshold: the least fused score, None for no floor.
        min_scores: the least score in a lane ("bm25", "vector", or one of your own), before
            fusion.
        where: conditions on metadata and on the document's own fields, all of which must hold:
            ``{"lang": "en"}``, ``{"lang": ["en", "de"]}`` for any of several,
            ``{"year": {"$gte": 2024}}``; ``doc_name``, ``doc_prefix`` and ``heading`` by their
            text. See `triptych.records.parse_filter`.
        fresh_only: leave out what is stale.
        keyword_boost: raise a hit's score by this share for each word of the query that its
            text holds, after ``threshold``; 0.1 is 10 percent, 0 leaves scores as they are.
        syntax: whether ``text`` is read as the query language: ``"a phrase"``, ``-word``,
            ``word*``, ``field:value``. Without it every character is part of a word.
        offset: how many of the best hits to skip: those of the pages before.
        per_document: the most hits of one document, its best; None for any number.
        conversation: what was said before ``text``, oldest first: for a rewriter that makes a
            follow-up question whole (`FollowUpRewriter`). Nothing else reads it.
        as_of: search what was stored at a moment, over the versions that are kept: a datetime (in
            UTC if it has no offset) or its ISO 8601 text; or a version: each document at its
            greatest version up to this one. None searches what is stored now.
    """

    text: str
    dataset_id: str = ""
    dataset_ids: Sequence[str] = ()
    scope: Scope | str = Scope.SINGLE
    mode: Mode | str | None = None
    layer: Layer | str = Layer.DETAIL
    top_k: int = 10
    threshold: float | None = None
    min_scores: Mapping[str, float] = attrs.field(factory=dict)
    where: Mapping[str, Any] = attrs.field(factory=dict)
    fresh_only: bool = False
    keyword_boost: float = 0.0
    syntax: bool = False
    offset: int = 0
    per_document: int | None = None
    conversation: Sequence[Message] = ()
    as_of: int | datetime | str | None = None


@attrs.frozen(kw_only=True, slots=True)
class Filter:
    """A validated ``where``, and whether what is stale is left out.

    ``tree`` None lets everything pass. ``within`` are conditions on documents that hold besides,
    that are evaluated first, and that bound the collection: what does not pass them has no part in
    the statistics that BM25 scores by, as if it were not stored; None bounds nothing. ``fresh``
    holds the chunker and embedder signatures (and prompt signature, for layers) that a fresh set
    carries; an empty one of the latter two means "don't care".
    """

    tree: FilterTree | None = None
    fresh: DerivedSig | None = None
    within: FilterTree | None = None

    def admits(self, subject: Subject) -> bool:
        """Whether ``subject`` passes both trees; freshness is not looked at."""
        return all(tree is None or tree.admits(subject) for tree in (self.within, self.tree))

    @property
    def is_trivial(self) -> bool:
        """Whether everything passes."""
        return self == Filter()


@attrs.frozen(kw_only=True, slots=True)
class ResolvedQuery:
    """A query that `Service.search` has judged: what a `Retriever` works from.

    ``dataset_ids`` exist; ``vector_dataset_ids`` are those whose vectors live in
    ``embed_sig``, the embedder's space. ``top_k`` counts the hits that ``offset`` skips, too.
    ``limit`` is how deep each lane should reach (lanes over-fetch: it is ``top_k`` or more).
    ``as_of`` is the moment that is asked for; lanes need not look at it, for they search a store of
    that moment.

    A `QueryRewriter` makes several of one query: ``text`` is what keyword lanes look for,
    ``embed_text`` ("" for ``text``) what vector lanes embed, as ``embed_kind``, and ``weight``
    how much the lists of this variant count in fusion. ``embed_texts`` are several texts whose
    mean vector is searched for, ``embed_own_text`` adds ``text`` to them, and ``group`` is the
    variant's (see `QueryVariant`). ``vector`` is what vector lanes search for when the caller has
    it already.

    ``lanes`` are those that a hybrid search runs, None for all of them. ``sparse_dataset_ids`` are
    the datasets whose sparse vectors are of ``sparse_sig``, the sparse encoder's signature, and
    ``sparse`` is what it made of ``text``.
    """

    text: str
    dataset_ids: tuple[str, ...]
    vector_dataset_ids: tuple[str, ...] = ()
    embed_sig: str = ""
    mode: Mode | str
    layer: Layer
    top_k: int
    limit: int
    offset: int = 0
    per_document: int | None = None
    threshold: float | None = None
    min_scores: Mapping[str, float] = attrs.field(factory=dict)
    filter: Filter = attrs.field(factory=Filter)
    keyword_boost: float = 0.0
    as_of: int | datetime | None = None
    embed_text: str = ""
    embed_kind: EmbedKind = "query"
    embed_texts: tuple[str, ...] = ()
    embed_own_text: bool = False
    weight: float = 1.0
    group: str = ""
    vector: Vector | None = attrs.field(default=None, eq=vector_comparison, repr=False)
    lanes: tuple[str, ...] | None = None
    sparse_dataset_ids: tuple[str, ...] = ()
    sparse_sig: str = ""
    sparse: SparseVector | None = attrs.field(default=None, repr=False)

    @property
    def embedded(self) -> tuple[tuple[EmbedKind, str], ...]:
        """The texts whose mean vector vector lanes search for, each once, with its kind."""
        if not self.embed_texts:
            return ((self.embed_kind, self.embed_text or self.text),)
        own: tuple[tuple[EmbedKind, str], ...] = (
            (("query", self.text),) if self.embed_own_text else ()
        )
        several = [(self.embed_kind, text) for text in self.embed_texts]
        return tuple(dict.fromkeys((*own, *several)))


@attrs.frozen(kw_only=True, slots=True)
class ChunkQuery:
    """One lane's question to a `ChunkRepo`: BM25 over ``text`` or nearness to ``vector``.

    ``mode`` is BM25, VECTOR, or "sparse" for a `SparseVector`. ``embed_sig`` names the space that
    ``vector`` lives in: the signature of the embedder, or of the sparse encoder.
    """

    dataset_ids: tuple[str, ...]
    mode: Mode | Literal["sparse"]
    text: str = ""
    vector: Vector | SparseVector | None = attrs.field(
        default=None, eq=vector_comparison, repr=False
    )
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
    chunk's, or `NO_CHUNK`. ``source`` is the lane's name. A lane of your own that does not know
    keys leaves ``key`` None: the chunk is then found by its document and index.
    """

    dataset_id: str
    doc_name: str
    index: int
    key: Hashable = None
    score: float
    source: str = ""
    scores: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(slots=True)
class ChunkPlace:
    """Where a chunk is: the key of a candidate whose lane knows no keys of the store."""

    dataset_id: str
    doc_name: str
    index: int


@attrs.frozen(kw_only=True, slots=True)
class RankedList:
    """What one lane found for one variant of a query, best first; ``weight`` is the variant's."""

    lane: str
    candidates: Sequence[Candidate]
    weight: float = 1.0


@attrs.frozen(kw_only=True, slots=True)
class StoredUnit:
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


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Hit:
    """One ranked result.

    ``score`` is the fused score, ``scores`` the score in each lane that found it (bm25, vector).
    A step after fusion adds its own to ``scores`` (rerank, mmr, filter), and the score from before
    as fused. ``content`` is the stored text of document version ``sig.source_version``, which it
    spans from ``start`` to ``end`` (code points). ``terms`` are the query's, as the dataset's
    analyzer sees them. ``stale`` is None, or why the text may no longer be true.
    ``chunk_index`` is `NO_CHUNK` for layers and documents; ``layer`` is None for documents.
    ``occurrence`` is the chunk's (see `DerivedChunk`).
    ``window`` is the wider text from ``window_start`` to ``window_end`` that a window chunker
    shows with a chunk. It is None where the chunk has no window, and where the document's text
    has changed since, as ``stale`` says. ``metadata`` is the document's. ``locator`` is the
    place in the original file, in words ("page 3"), where a parser told it.
    """

    __plain_properties__: ClassVar[tuple[str, ...]] = (
        "chunk_id",
        "version",
        "end_line",
        "signs",
        "snippet",
    )

    dataset_id: str
    doc_name: str
    layer: Layer | None
    content: str
    score: float
    chunk_index: int = NO_CHUNK
    occurrence: int = 0
    sig: DerivedSig
    metadata: Metadata = attrs.field(factory=dict)
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
    file: str | None = attrs.field(default=None, eq=False)

    def __repr__(self) -> str:
        where = self.doc_name if self.layer is None else f"{self.doc_name}:{self.start_line}"
        if self.layer not in (None, Layer.DETAIL):
            where = f"{self.doc_name} {self.layer}"
        text = " ".join(self.snippet.split())
        text = text if len(text) <= _REPR_LENGTH else f"{text[:_REPR_LENGTH].rstrip()}…"
        stale = f", stale: {self.stale}" if self.stale else ""
        return f"<Hit {self.dataset_id}/{where}, {self.score:.4f}{stale}: {text!r}>"

    @property
    def path(self) -> Path | None:
        """The file on this machine that the document came from, ``file`` as a path.

        None where that is not known: it is for folders that the store remembers. The file may have
        changed since, or be gone.
        """
        return None if self.file is None else Path(self.file)

    @property
    def version(self) -> int:
        """The version of the document that the hit is of: ``sig.source_version``."""
        return self.sig.source_version

    @property
    def end_line(self) -> int:
        """The last line of ``content`` in the document, from 1; the first is ``start_line``."""
        text = self.content
        ended = text.endswith(("\n", "\r"))
        ends = text.count("\n") + text.count("\r") - text.count("\r\n")
        return self.start_line + max(ends - ended, 0)

    def to_dict(self) -> dict[str, Any]:
        """The hit as JSON has it: its fields, and `chunk_id`, `version`, `end_line`, `signs` and
        `snippet`."""
        fields: dict[str, Any] = to_json(self)
        return fields

    @property
    def chunk_id(self) -> str | None:
        """The chunk's stable id, a UUID; None for layers and documents: their names are their ids.

        It stays while the chunk's text, its headings and the document's title stay, whatever is
        edited elsewhere in the document (see `triptych.signatures.chunk_id`).
        `triptych.shortcuts.get_chunk` reads the chunk.
        """
        if self.chunk_index == NO_CHUNK:
            return None
        return chunk_id(self.dataset_id, self.doc_name, self.sig.input_sig, self.occurrence)

    @property
    def signs(self) -> tuple[Sign, ...]:
        """What in ``content`` looks like instructions to a model, or hides from a reader."""
        from triptych.text.injection import suspicious  # its patterns take a while to compile

        return suspicious(self.content)

    @property
    def snippet(self) -> str:
        """The part of ``content`` that holds most of the query's terms: 240 code points."""
        if len(self.content) <= SNIPPET_LENGTH:
            return self.content
        from triptych.text import snippet  # worked out when asked for: most callers do not

        start, end = snippet(self.content, self.terms, length=SNIPPET_LENGTH)
        return self.content[start:end]


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Result(Sequence[Hit]):
    """The ordered hits, what went wrong on the way, and whether there is nothing more.

    ``usage`` is what language models took to word the query, an entry each. ``cache_similarity``
    is None, or where another search's answer was served (`SemanticCache`) the cosine of its
    question and this one.
    ``as_of`` is the moment or version that was searched, None for what is stored now.
    ``answerability`` is whether the hits answer the question, where the dataset has a calibration
    (`triptych.evaluation.calibrate`) that holds: "enough", "weak" or "nothing". Without one it is
    None; without a hit it is "nothing" either way.
    A result is the sequence of its hits: it has their number, is falsy without any, and gives
    them by index and in order.
    """

    hits: tuple[Hit, ...] = ()
    warnings: tuple[str, ...] = ()
    exhausted: bool = False
    usage: tuple[ModelUsage, ...] = ()
    cache_similarity: float | None = None
    as_of: int | datetime | None = None
    answerability: Answerability | None = None

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __repr__(self) -> str:
        number = "1 hit" if len(self.hits) == 1 else f"{len(self.hits)} hits"
        head = f"<Result: {number}"
        if self.warnings:
            head += f", {len(self.warnings)} warning{'s' if len(self.warnings) > 1 else ''}"
        lines = [f"  {hit!r}" for hit in self.hits[:_REPR_HITS]]
        more = len(self.hits) - _REPR_HITS
        lines += [f"  and {more} more"] if more > 0 else []
        return "\n".join([head, *lines]) + ">"

    def _repr_html_(self) -> str:
        """A table for a notebook: place, section, score and snippet of each hit; then warnings."""
        rows = []
        for hit in self.hits:
            place = hit.doc_name if hit.layer is None else f"{hit.doc_name}:{hit.start_line}"
            cells = (
                f"{hit.dataset_id}/{place}",
                " > ".join(hit.heading_path),
                f"{hit.score:.4f}",
                hit.snippet,
            )
            row = "".join(f"<td>{element_text(each)}</td>" for each in cells)
            rows.append(f"<tr>{row}</tr>")
        notes = [f"<p>{element_text(each)}</p>" for each in self.warnings]
        if not rows:
            return "\n".join(["<p>no hits</p>", *notes])
        head = "<tr><th>place</th><th>section</th><th>score</th><th>text</th></tr>"
        return "\n".join(["<table>", head, *rows, "</table>", *notes])

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each hit as JSON has it."""
        return [hit.to_dict() for hit in self.hits]

    def to_pandas(self) -> Any:
        """The hits as a `pandas.DataFrame`: a row each, the columns of `to_dicts`.

        Raises:
            NotAvailableError: pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise NotAvailableError(
                "to_pandas needs the package pandas, which is not installed: "
                f"{install_command('pandas')}"
            ) from error
        columns = [field.name for field in attrs.fields(Hit)] + [*Hit.__plain_properties__]
        return pandas.DataFrame(self.to_dicts(), columns=columns)
