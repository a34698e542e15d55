"""Rank fusion: pure functions behind two small classes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence

import attrs

from triptych.errors import ValidationError
from triptych.records import Candidate

__all__ = ["DEFAULT_RRF_K", "RRFRanker", "WeightedRanker", "in_order"]

DEFAULT_RRF_K = 60
"""The constant of reciprocal rank fusion; a smaller one weighs the head of a lane more."""

_DIGITS = 9  # neighbouring reciprocal ranks differ by more down to rank 30,000


def in_order(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first; ties by document name, chunk index, dataset."""
    return sorted(candidates, key=lambda c: (-c.score, c.doc_name, c.index, c.dataset_id))


def rescored(candidate: Candidate, score: float, scores: Mapping[str, float]) -> Candidate:
    """The candidate with another score; several times faster than `attrs.evolve`."""
    return Candidate(
        dataset_id=candidate.dataset_id,
        doc_name=candidate.doc_name,
        index=candidate.index,
        key=candidate.key,
        score=score,
        source=candidate.source,
        scores=scores,
    )


def _fuse(
    lanes: Mapping[str, Sequence[Candidate]], shares: Mapping[str, Sequence[float]]
) -> list[Candidate]:
    """Sum each candidate's shares over the lanes that hold it."""
    first: dict[tuple[str, Hashable], Candidate] = {}
    totals: dict[tuple[str, Hashable], float] = {}
    scores: dict[tuple[str, Hashable], dict[str, float]] = {}
    for lane, candidates in lanes.items():
        for candidate, share in zip(candidates, shares[lane], strict=True):
            key = (candidate.dataset_id, candidate.key)
            known = scores.get(key)
            if known is None:
                first[key], totals[key], scores[key] = candidate, share, {lane: candidate.score}
            elif lane not in known:  # a lane counts a candidate once, at its best rank
                totals[key] += share
                known[lane] = candidate.score
    ordered = sorted(
        [
            (-round(total, _DIGITS), c.doc_name, c.index, c.dataset_id, at)
            for at, (total, c) in enumerate(zip(totals.values(), first.values(), strict=True))
        ]
    )
    keys = list(totals)
    return [
        rescored(first[keys[at]], -negative, scores[keys[at]]) for negative, _, _, _, at in ordered
    ]


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

    def rank(self, lanes: Mapping[str, Sequence[Candidate]]) -> list[Candidate]:
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

    def rank(self, lanes: Mapping[str, Sequence[Candidate]]) -> list[Candidate]:
        """Fuse by normalised score."""
        total = sum(self.weights.get(lane, 1.0) for lane in lanes) or 1.0
        shares = {
            lane: _min_max(
                [candidate.score for candidate in candidates],
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
