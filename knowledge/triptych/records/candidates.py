"""What lanes find: candidates in order, before they are hits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.records.derived import DerivedChunk, DerivedLayer, DerivedSig
from triptych.records.documents import DocumentInfo

if TYPE_CHECKING:
    from triptych.text import CorpusStats


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


@attrs.frozen(kw_only=True, slots=False)  # as `records` says
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

    def __repr__(self) -> str:
        return f"Candidates({list(self)!r})"
