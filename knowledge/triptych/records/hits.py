"""Candidates, stored units, hits and results of searches."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, overload

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych._internal.xml_text import element_text
from triptych.errors import NotAvailableError
from triptych.installation import install_command
from triptych.records.documents import (
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    chunk_id,
)
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
    from triptych.text import CorpusStats
    from triptych.text.injection import Sign

_REPR_LENGTH = 60
_REPR_HITS = 10


@attrs.frozen(kw_only=True, slots=True)
class Candidate:
    """One result of a lane: a unit and its score in the lane.

    ``key`` is the repository's handle for `fetch`. It identifies one state of the unit, so that a
    candidate of a replaced set is never mistaken for a new one. ``index`` is the chunk's index or
    `NO_CHUNK`, ``source`` the lane's name. If your own lane does not know keys, leave ``key`` None:
    the chunk is then looked up by its document and index.
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
    """The key of a candidate whose lane does not know the store's keys: document and chunk
    index."""

    dataset_id: str
    doc_name: str
    index: int


@attrs.frozen(kw_only=True, slots=True)
class RankedList:
    """The candidates of one lane for one variant of a query, best first.

    ``weight`` is the variant's weight. ``cosine_range`` is the range of the embedder if the scores
    are its cosines (see `Embedder`), None if unknown.
    """

    lane: str
    candidates: Sequence[Candidate]
    weight: float = 1.0
    cosine_range: tuple[float, float] | None = None


@attrs.frozen(kw_only=True, slots=True)
class StoredUnit:
    """The unit that a candidate's key names, read in one snapshot with its document.

    It is a ``chunk``, a ``layer`` or a whole document. The latter has ``opening``, the first
    `OPENING` code points of its content. ``sig`` is the signature of the chunk set or the layer;
    ``DerivedSig()`` for a document without a chunk set. ``document`` is None for layers of folders
    and datasets.
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
        from triptych.text import snippet  # worked out when asked for: most callers do not

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


CandidateRow = tuple[Any, ...]
"""(minus the score, document name, chunk index, dataset, key, …): rows in ascending order are
best first, with ties in their defined order. What comes after the key is the repository's."""

IN_ORDER = itemgetter(0, 1, 2, 3)
"""The part of a row that determines the order; keys need not be comparable."""


@attrs.frozen(eq=False)
class TermMatches:
    """The terms of a query that each candidate of a keyword lane contains.

    Attributes:
        terms: the distinct terms of the query from the analyzers of all datasets, sorted.
        counts: whether a candidate contains a term, float of shape (candidates, terms): 1 in its
            text, 0.5 only in its label (`triptych.text.label_of`), else 0.
    """

    terms: Sequence[str]
    counts: NDArray[np.float64]

    @classmethod
    def of(cls, terms: Iterable[str], texts: Sequence[Mapping[str, float]]) -> TermMatches:
        """Build the matches from how often each candidate contains each term."""
        terms = sorted(set(terms))
        counts = [[min(text.get(term, 0), 1) for term in terms] for text in texts]
        return cls(terms, np.array(counts, np.float64).reshape(len(texts), len(terms)))

    def at(self, places: Sequence[int]) -> TermMatches:
        """Return the matches of the candidates at ``places``, in that order."""
        return TermMatches(self.terms, self.counts[places])


@attrs.define(eq=False, repr=False)
class Candidates(Sequence[Candidate]):
    """A sequence of `Candidate` records over `CandidateRow`s; it equals a list with the same items.

    ``source`` is the lane's name, or a sequence with the source of each row; ``scores`` are the
    scores by lane of each row, if given. ``matches`` returns the query's terms in each row,
    ``stats`` the statistics of terms of the query in the chunks of its datasets, each with all that
    it stands for (`Analyzer.variants`), None of other terms; each is None if the lane knows none.
    """

    rows: Sequence[CandidateRow]
    source: str | Sequence[str] = ""
    scores: Sequence[Mapping[str, float]] | None = None
    matches: Callable[[], TermMatches] | None = None
    stats: Callable[[Collection[str]], CorpusStats | None] | None = None

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Candidates:
        """Convert candidates to rows; return ``candidates`` itself if it has rows."""
        if isinstance(candidates, cls):
            return candidates
        return cls(
            [(-c.score, c.doc_name, c.index, c.dataset_id, c.key) for c in candidates],
            [c.source for c in candidates],
            [c.scores for c in candidates],
        )

    def where(self, admits: Callable[[CandidateRow], bool]) -> Candidates:
        """Return the candidates whose row is admitted, in the same order."""
        return self.at([at for at, row in enumerate(self.rows) if admits(row)])

    def at(self, places: Iterable[int]) -> Candidates:
        """Return the candidates at ``places``, in that order."""
        places = list(places)
        source, scores, matches = self.source, self.scores, self.matches
        return Candidates(
            [self.rows[at] for at in places],
            source if isinstance(source, str) else [source[at] for at in places],
            None if scores is None else [scores[at] for at in places],
            None if matches is None else lambda: matches().at(places),
            self.stats,
        )

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...

    @overload
    def __getitem__(self, at: slice) -> Candidates: ...

    def __getitem__(self, at: int | slice) -> Candidate | Candidates:
        if isinstance(at, slice):
            source, scores, matches = self.source, self.scores, self.matches
            places = list(range(len(self.rows))[at])
            return Candidates(
                self.rows[at],
                source if isinstance(source, str) else source[at],
                None if scores is None else scores[at],
                None if matches is None else lambda: matches().at(places),
                self.stats,
            )
        negative, name, index, dataset_id, key = self.rows[at][:5]
        return Candidate(
            dataset_id=dataset_id,
            doc_name=name,
            index=index,
            key=key,
            score=-negative,
            source=self.source if isinstance(self.source, str) else self.source[at],
            scores={} if self.scores is None else self.scores[at],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return f"Candidates({list(self)!r})"


@attrs.frozen(kw_only=True, slots=True)
class CacheStats:
    """The number of cached results, and of searches that hit or missed the cache."""

    entries: int = 0
    hits: int = 0
    misses: int = 0
