"""Rank fusion: pure functions behind two small classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import repeat

import attrs

from triptych.errors import ValidationError
from triptych.records import (
    IN_ORDER,
    Candidate,
    CandidateRow,
    Candidates,
    RankedList,
    ResolvedQuery,
)

__all__ = [
    "DEFAULT_RRF_K",
    "RANKERS",
    "RRFRanker",
    "WeightedRanker",
    "in_order",
    "min_max",
    "reciprocal_ranks",
]

DEFAULT_RRF_K = 60
"""The constant of reciprocal rank fusion; a smaller one weighs the head of a lane more."""

_DIGITS = 9  # neighbouring reciprocal ranks differ by more down to rank 30,000


def in_order(candidates: Sequence[Candidate], lane: str) -> Candidates:
    """One lane's candidates, best first, each with its score under the lane's name.

    Ties come in order of document name, chunk index, dataset.
    """
    rows = sorted(Candidates.of(candidates).rows, key=IN_ORDER)
    return Candidates(rows, lane, [{lane: -row[0]} for row in rows])


def _fuse(lists: Sequence[RankedList], shares: Sequence[Sequence[float]]) -> Candidates:
    """Sum each candidate's shares over the lists that hold it.

    A list counts a candidate once, at its best rank. Of several lists of one lane, the best score
    is the candidate's score in that lane.
    """
    totals: dict[tuple[str, Hashable], float] = {}
    scores: dict[tuple[str, Hashable], dict[str, float]] = {}
    first: list[tuple[CandidateRow, str]] = []
    for ranked, share_of in zip(lists, shares, strict=True):
        lane = ranked.lane
        known = Candidates.of(ranked.candidates)
        sources = repeat(known.source) if isinstance(known.source, str) else known.source
        met: set[tuple[str, Hashable]] = set()
        for row, source, share in zip(known.rows, sources, share_of, strict=False):
            key = (row[3], row[4])
            if key in met:
                continue
            met.add(key)
            if key not in totals:
                totals[key] = share
                scores[key] = {lane: -row[0]}
                first.append((row, source))
            else:
                totals[key] += share
                by_lane = scores[key]
                by_lane[lane] = max(-row[0], by_lane.get(lane, -row[0]))
    # The place breaks the last ties, for keys need not compare.
    ordered = sorted(
        [
            (-round(total, _DIGITS), row[1], row[2], row[3], at)
            for at, (total, (row, _)) in enumerate(zip(totals.values(), first, strict=True))
        ]
    )
    each_by_lane = list(scores.values())
    return Candidates(
        [(*entry[:4], first[entry[4]][0][4]) for entry in ordered],
        [first[entry[4]][1] for entry in ordered],
        [each_by_lane[entry[4]] for entry in ordered],
    )


@attrs.frozen(kw_only=True)
class RRFRanker:
    """Reciprocal rank fusion: ``score(d) = Σ w / (k + rank(d))`` over the lists, ranks from 1.

    ``w`` is the list's weight: 1, unless a rewriter weighs the variants of a query.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """

    k: int = attrs.field(default=DEFAULT_RRF_K)

    def __attrs_post_init__(self) -> None:
        if self.k < 0:
            raise ValidationError(f"the constant k of rank fusion is 0 or more, not {self.k}")

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Candidates:
        """Fuse by rank only; scores of the lanes need not be comparable."""
        return _fuse(
            ranked_lists,
            [reciprocal_ranks(len(each.candidates), self.k, each.weight) for each in ranked_lists],
        )


@attrs.frozen(kw_only=True)
class WeightedRanker:
    """Weighted sum of min-max normalised scores, lane by lane.

    ``score(d) = Σ w · (s(d) - min) / (max - min)`` over a list's candidates; a list whose
    scores are all equal gives each 1; a list without ``d`` gives 0. Weights default to 1 and
    are divided by their sum over the lists at hand. Source: Fox and Shaw, "Combination of
    Multiple Searches" (CombSUM), TREC-2, 1994.
    """

    weights: Mapping[str, float] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for lane, weight in self.weights.items():
            if not (math.isfinite(weight) and weight >= 0):
                raise ValidationError(
                    f"the weight of lane {lane!r} must be a finite number from 0 up, not {weight}"
                )

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Candidates:
        """Fuse by normalised score."""
        weights = [self.weights.get(each.lane, 1.0) * each.weight for each in ranked_lists]
        total = sum(weights) or 1.0
        return _fuse(
            ranked_lists,
            [
                min_max([-row[0] for row in Candidates.of(each.candidates).rows], weight / total)
                for each, weight in zip(ranked_lists, weights, strict=True)
            ],
        )


def reciprocal_ranks(count: int, k: float, weight: float = 1.0) -> list[float]:
    """Return ``weight / (k + rank)`` for the ranks 1 to ``count``."""
    return [weight / (k + rank) for rank in range(1, count + 1)]


def min_max(scores: Sequence[float], weight: float = 1.0) -> list[float]:
    """Return ``weight * (s - min) / (max - min)`` for each score; ``weight`` if all are equal."""
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if high == low:
        return [weight] * len(scores)
    return [weight * (score - low) / (high - low) for score in scores]


RANKERS: Mapping[str, Callable[[], RRFRanker | WeightedRanker]] = {
    "rrf": RRFRanker,
    "min-max": WeightedRanker,
}
"""The rankers that ship, by the name that settings give them."""
