"""Rank fusion: pure functions behind two small classes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import repeat

import attrs

from triptych.errors import ValidationError
from triptych.records import IN_ORDER, Candidate, CandidateRow, Candidates

__all__ = ["DEFAULT_RRF_K", "RRFRanker", "WeightedRanker", "in_order"]

DEFAULT_RRF_K = 60
"""The constant of reciprocal rank fusion; a smaller one weighs the head of a lane more."""

_DIGITS = 9  # neighbouring reciprocal ranks differ by more down to rank 30,000


def in_order(candidates: Sequence[Candidate], lane: str) -> Candidates:
    """One lane's candidates, best first, each with its score under the lane's name.

    Ties come in order of document name, chunk index, dataset.
    """
    rows = sorted(Candidates.of(candidates).rows, key=IN_ORDER)
    return Candidates(rows, lane, [{lane: -row[0]} for row in rows])


def _fuse(
    lanes: Mapping[str, Sequence[Candidate]], shares: Mapping[str, Sequence[float]]
) -> Candidates:
    """Sum each candidate's shares over the lanes that hold it."""
    totals: dict[tuple[str, Hashable], float] = {}
    scores: dict[tuple[str, Hashable], dict[str, float]] = {}
    first: list[tuple[CandidateRow, str]] = []
    for lane, candidates in lanes.items():
        known = Candidates.of(candidates)
        sources = repeat(known.source) if isinstance(known.source, str) else known.source
        for row, source, share in zip(known.rows, sources, shares[lane], strict=False):
            key = (row[3], row[4])
            if key not in totals:
                totals[key] = share
                scores[key] = {lane: -row[0]}
                first.append((row, source))
            elif lane not in scores[key]:  # a lane counts a candidate once, at its best rank
                totals[key] += share
                scores[key][lane] = -row[0]
    # The place breaks the last ties, for keys need not compare.
    ordered = sorted(
        [
            (-round(total, _DIGITS), row[1], row[2], row[3], at)
            for at, (total, (row, _)) in enumerate(zip(totals.values(), first, strict=True))
        ]
    )
    by_lane = list(scores.values())
    return Candidates(
        [(*entry[:4], first[entry[4]][0][4]) for entry in ordered],
        [first[entry[4]][1] for entry in ordered],
        [by_lane[entry[4]] for entry in ordered],
    )


@attrs.frozen(kw_only=True)
class RRFRanker:
    """Reciprocal rank fusion: ``score(d) = Σ 1 / (k + rank(d))`` over the lanes, ranks from 1.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """

    k: int = attrs.field(default=DEFAULT_RRF_K)

    def __attrs_post_init__(self) -> None:
        if self.k < 0:
            raise ValidationError(f"the constant k of rank fusion is 0 or more, not {self.k}")

    def rank(self, lanes: Mapping[str, Sequence[Candidate]]) -> Candidates:
        """Fuse by rank alone; scores of the lanes need not be comparable."""
        shares = {
            lane: [1.0 / (self.k + rank) for rank in range(1, len(candidates) + 1)]
            for lane, candidates in lanes.items()
        }
        return _fuse(lanes, shares)


@attrs.frozen(kw_only=True)
class WeightedRanker:
    """Weighted sum of min-max normalised scores, lane by lane.

    ``score(d) = Σ w · (s(d) - min) / (max - min)`` over a lane's candidates; a lane whose
    scores are all equal gives each 1; a lane without ``d`` gives 0. Weights default to 1 and
    are divided by their sum over the lanes at hand. Source: Fox and Shaw, "Combination of
    Multiple Searches" (CombSUM), TREC-2, 1994.
    """

    weights: Mapping[str, float] = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for lane, weight in self.weights.items():
            if not (math.isfinite(weight) and weight >= 0):
                raise ValidationError(
                    f"the weight of lane {lane!r} must be a finite number from 0 up, not {weight}"
                )

    def rank(self, lanes: Mapping[str, Sequence[Candidate]]) -> Candidates:
        """Fuse by normalised score."""
        total = sum(self.weights.get(lane, 1.0) for lane in lanes) or 1.0
        shares = {
            lane: _min_max(
                [-row[0] for row in Candidates.of(candidates).rows],
                self.weights.get(lane, 1.0) / total,
            )
            for lane, candidates in lanes.items()
        }
        return _fuse(lanes, shares)


def _min_max(scores: Sequence[float], weight: float) -> list[float]:
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if high == low:
        return [weight] * len(scores)
    return [weight * (score - low) / (high - low) for score in scores]
