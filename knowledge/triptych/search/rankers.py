"""Rank fusion: pure functions behind two small classes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from itertools import repeat
from operator import itemgetter

import attrs

from triptych.errors import ValidationError
from triptych.records import Candidate, CandidateRow, Candidates

__all__ = ["DEFAULT_RRF_K", "RRFRanker", "WeightedRanker", "in_order"]

DEFAULT_RRF_K = 60
"""The constant of reciprocal rank fusion; a smaller one weighs the head of a lane more."""

_IN_ORDER = itemgetter(0, 1, 2, 3)  # a key may not compare
_DIGITS = 9  # neighbouring reciprocal ranks differ by more down to rank 30,000


def in_order(candidates: Sequence[Candidate], lane: str) -> Candidates:
    """One lane's candidates, best first, each with its score under the lane's name.

    Ties come in order of document name, chunk index, dataset.
    """
    lane_rows = Candidates.of(candidates)
    rows = sorted(lane_rows.rows, key=_IN_ORDER)
    return Candidates(rows, lane, [{lane: -row.negative_score} for row in rows])


def _fuse(
    lanes: Mapping[str, Sequence[Candidate]], shares: Mapping[str, Sequence[float]]
) -> Candidates:
    """Sum each candidate's shares over the lanes that hold it."""
    first: dict[tuple[str, Hashable], tuple[CandidateRow, str]] = {}
    totals: dict[tuple[str, Hashable], float] = {}
    scores: dict[tuple[str, Hashable], dict[str, float]] = {}
    for lane, candidates in lanes.items():
        columns = Candidates.of(candidates)
        sources = repeat(columns.source) if isinstance(columns.source, str) else columns.source
        for row, source, share in zip(columns.rows, sources, shares[lane], strict=False):
            key = (row.dataset_id, row.key)
            known = scores.get(key)
            if known is None:
                first[key], totals[key] = (row, source), share
                scores[key] = {lane: -row.negative_score}
            elif lane not in known:  # a lane counts a candidate once, at its best rank
                totals[key] += share
                known[lane] = -row.negative_score
    ordered = sorted(
        [
            (-round(total, _DIGITS), row.doc_name, row.chunk_index, row.dataset_id, at)
            for at, (total, (row, _)) in enumerate(
                zip(totals.values(), first.values(), strict=True)
            )
        ]
    )
    keys = list(totals)
    return Candidates(
        [CandidateRow(*entry[:4], keys[entry[4]][1]) for entry in ordered],
        [first[keys[entry[4]]][1] for entry in ordered],
        [scores[keys[entry[4]]] for entry in ordered],
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
                [-row.negative_score for row in Candidates.of(candidates).rows],
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
