"""Candidates, stored units, hits and results of searches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import attrs

from triptych._internal.xml_text import element_text
from triptych.errors import NotAvailableError
from triptych.installation import install_command
from triptych.records.derived import DerivedSig, chunk_id
from triptych.records.metadata import Metadata
from triptych.records.models import ModelUsage
from triptych.records.serialization import to_json
from triptych.records.values import (
    NO_CHUNK,
    SNIPPET_LENGTH,
    Layer,
    StaleReason,
    Strength,
)

if TYPE_CHECKING:
    from triptych.text.injection import Sign

_REPR_LENGTH = 60
_REPR_HITS = 10


@attrs.frozen(kw_only=True, slots=False, repr=False)  # as `records` says
class Hit:
    """One ranked result.

    ``score`` is the fused score, ``scores`` the score in each lane that found it (bm25, vector). A
    step after fusion adds its score to ``scores`` (rerank, mmr, filter), and the earlier score as
    "fused". ``content`` is the stored text of document version ``sig.source_version``, from
    ``start`` to ``end`` in code points. ``terms`` are the query's terms in the dataset's analyzer.
    ``stale`` is None, or the reason why the text may be out of date. ``chunk_index`` is `NO_CHUNK`
    for layers and documents; ``layer`` is None for documents. ``occurrence`` is the chunk's (see
    `DerivedChunk`). ``window`` is the wider text from ``window_start`` to ``window_end`` that a
    window chunker sets; None if there is none, or if the document's text has changed since
    (``stale``). ``metadata`` is the document's. ``locator`` is the position in the original file in
    words ("page 3"), if the parser knows it.
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
        """The file on this machine that the document came from: ``file`` as a path.

        It is known for folders that the store remembers, else None. The file may have changed or
        been deleted since.
        """
        return None if self.file is None else Path(self.file)

    @property
    def version(self) -> int:
        """The version of the hit's document: ``sig.source_version``."""
        return self.sig.source_version

    @property
    def end_line(self) -> int:
        """The number of the last line of ``content``, from 1; the first is ``start_line``."""
        text = self.content
        ended = text.endswith(("\n", "\r"))
        ends = text.count("\n") + text.count("\r") - text.count("\r\n")
        return self.start_line + max(ends - ended, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return the hit as plain data for JSON: its fields, `chunk_id`, `version`, `end_line`,
        `signs` and `snippet`."""
        fields: dict[str, Any] = to_json(self)
        return fields

    @property
    def chunk_id(self) -> str | None:
        """The chunk's stable id, a UUID; None for layers and documents, identified by their names.

        It changes only with the chunk's text, its headings or the document's title (its name, where
        that is embedded), not with other edits. `triptych.shortcuts.get_chunk` reads the chunk.
        """
        if self.chunk_index == NO_CHUNK:
            return None
        return chunk_id(self.dataset_id, self.doc_name, self.sig.input_sig, self.occurrence)

    @property
    def signs(self) -> tuple[Sign, ...]:
        """Parts of ``content`` that look like instructions to a model or are invisible to
        readers."""
        from triptych.text.injection import suspicious  # its patterns take a while to compile

        return suspicious(self.content)

    @property
    def snippet(self) -> str:
        """The 240 code points of ``content`` with the most terms of the query."""
        if len(self.content) <= SNIPPET_LENGTH:
            return self.content
        from triptych.text.snippets import snippet  # worked out when asked for: most callers do not

        start, end = snippet(self.content, self.terms, length=SNIPPET_LENGTH)
        return self.content[start:end]


@attrs.frozen(kw_only=True, slots=True)
class Evidence:
    """How far the hits of a search are about its query.

    Attributes:
        level: "strong", "fair", "weak" or "none".
        reason: what that means, in words for people.
        numbers: what it was read from; "" without any.
        calibrated: whether the dataset's calibration said it (`triptych_evaluation.calibrate`):
            "strong" then means that the hits answer the question.
        weak_from: the index of the first hit from which on there is hardly any evidence; None where
            there is some for each.
    """

    level: Strength
    reason: str
    numbers: str = ""
    calibrated: bool = False
    weak_from: int | None = None


@attrs.frozen(kw_only=True, slots=True, repr=False)
class Result(Sequence[Hit]):
    """The hits of a search, best first, with warnings.

    A result is a sequence of hits: `len`, indexing and iteration work, and it is falsy without
    hits. ``usage`` is the usage of each language model that rewrote the query. ``cache_similarity``
    is the cosine of this question and the one whose cached result is returned (`SemanticCache`),
    None for a new search. ``as_of`` is the moment or version that was searched, None for the
    current state. ``evidence`` says how far the hits are about the query; it is None where chunks
    were not searched, and in tables that are searched in place.
    """

    hits: tuple[Hit, ...] = ()
    warnings: tuple[str, ...] = ()
    exhausted: bool = False
    usage: tuple[ModelUsage, ...] = ()
    cache_similarity: float | None = None
    as_of: int | datetime | None = None
    evidence: Evidence | None = None

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
        """Return an HTML table for notebooks: rank, section, score and snippet of each hit;
        warnings."""
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
        """Return the hits as plain data for JSON."""
        return [hit.to_dict() for hit in self.hits]

    def to_pandas(self) -> Any:
        """Return the hits as a `pandas.DataFrame`: a row for each, with the columns of `to_dicts`.

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


@attrs.frozen(kw_only=True, slots=True)
class CacheStats:
    """The number of cached results, and of searches that hit or missed the cache."""

    entries: int = 0
    hits: int = 0
    misses: int = 0
