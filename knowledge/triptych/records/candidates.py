"""A ranked list of candidates kept as plain rows, made into records as they are looked at.

A hybrid search moves two lanes of 50 candidates and shows ten: making a record of each costs
more than ranking them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, ClassVar, overload

from triptych.records.queries import Candidate

CandidateRow = tuple[Any, ...]
"""(minus the score, document name, chunk index, dataset, key, …): rows in ascending order are
best first, with ties in their defined order. What comes after the key is the repository's."""

IN_ORDER = itemgetter(0, 1, 2, 3)
"""The part of a row that ranks: keys need not compare."""


class Candidates(Sequence[Candidate]):
    """A sequence of `Candidate` records over `CandidateRow`s; equal to a list of the same.

    ``source`` is the lane's name, or the sources one by one; ``scores`` are the scores by lane
    of each row, none when left out.
    """

    __slots__ = ("rows", "scores", "source")

    def __init__(
        self,
        rows: Sequence[CandidateRow],
        source: str | Sequence[str] = "",
        scores: Sequence[Mapping[str, float]] | None = None,
    ) -> None:
        self.rows: Sequence[CandidateRow] = rows
        self.source: str | Sequence[str] = source
        self.scores: Sequence[Mapping[str, float]] | None = scores

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> Candidates:
        """The same candidates as rows; ``candidates`` itself when it has them."""
        if isinstance(candidates, cls):
            return candidates
        return cls(
            [(-c.score, c.doc_name, c.index, c.dataset_id, c.key) for c in candidates],
            [c.source for c in candidates],
            [c.scores for c in candidates],
        )

    def where(self, admits: Callable[[CandidateRow], bool]) -> Candidates:
        """Those whose row is admitted, in the same order."""
        return self.at([at for at, row in enumerate(self.rows) if admits(row)])

    def at(self, places: Iterable[int]) -> Candidates:
        """Those at ``places``, in that order."""
        places = list(places)
        source, scores = self.source, self.scores
        return Candidates(
            [self.rows[at] for at in places],
            source if isinstance(source, str) else [source[at] for at in places],
            None if scores is None else [scores[at] for at in places],
        )

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, at: int) -> Candidate: ...

    @overload
    def __getitem__(self, at: slice) -> Candidates: ...

    def __getitem__(self, at: int | slice) -> Candidate | Candidates:
        if isinstance(at, slice):
            return self.at(range(len(self.rows))[at])
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
