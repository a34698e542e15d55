"""Fusion of ranked lists: pure functions, and a class for each method."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar, overload

import attrs
import numpy as np

from triptych.contracts import Ranker
from triptych.errors import ValidationError
from triptych.records import (
    IN_ORDER,
    Candidate,
    CandidateRow,
    Candidates,
    RankedList,
    ResolvedQuery,
)
from triptych.records.values import number, whole
from triptych.search.evidence import (
    KeywordEvidence,
    deviation,
    keyword_evidence,
    scores_of,
    telling_apart,
)
from triptych.search.query import over_fetch

DEFAULT_RRF_K = 60
"""The constant of reciprocal rank fusion; a smaller one favours the first ranks of a lane."""

DEFAULT_Z_SCORE_DEPTH = 50
"""The number of candidates from each lane for `ZScoreRanker`: docs/explanation/retrieval.md."""

_EQUAL = 1e-12  # a share of the scores: what differs by less differs by rounding

_Key = tuple[str, Hashable]  # dataset, and the repository's own key
_KEY = itemgetter(3, 4)
_REST = tuple(map(itemgetter, (1, 2, 3, 4)))  # of a row, from the name to the key
_Value = TypeVar("_Value")

_DIGITS = 9  # neighbouring reciprocal ranks differ by more down to rank 30,000


def in_order(candidates: Sequence[Candidate], lane: str) -> Candidates:
    """Sort one lane's candidates, best first, with their scores under the lane's name.

    Ties are sorted by document name, chunk index and dataset.
    """
    rows = sorted(Candidates.of(candidates).rows, key=IN_ORDER)
    return Candidates(rows, lane, [{lane: -row[0]} for row in rows])


def best_of(rankings: Sequence[Sequence[Candidate]]) -> Candidates:
    """Return each distinct candidate of the rankings with its best score, best first.

    ``scores`` has the best of each lane. Ties are sorted by document name, chunk index and dataset.
    """
    best: dict[_Key, CandidateRow] = {}
    scores: dict[_Key, dict[str, float]] = {}
    for ranking in rankings:
        known = Candidates.of(ranking)
        for at, row in enumerate(known.rows):
            key = _KEY(row)
            if key not in best or row[0] < best[key][0]:
                best[key] = row
            held = scores.setdefault(key, {})
            for lane, score in ({} if known.scores is None else known.scores[at]).items():
                held[lane] = max(score, held.get(lane, score))
    rows = sorted(best.values(), key=IN_ORDER)
    return Candidates(rows, "", [scores[_KEY(row)] for row in rows])


class _PerCandidate(Sequence[_Value]):
    """A value of each fused candidate, made when asked for: few of many are shown."""

    __slots__ = ("_rows", "_value_of")

    def __init__(self, rows: Sequence[CandidateRow], value_of: Callable[[_Key], _Value]) -> None:
        self._rows = rows
        self._value_of = value_of

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> _Value: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[_Value]: ...

    def __getitem__(self, at: int | slice) -> _Value | Sequence[_Value]:
        if isinstance(at, slice):
            return _PerCandidate(self._rows[at], self._value_of)
        return self._value_of(_KEY(self._rows[at]))


def _fuse(lists: Sequence[RankedList], shares: Sequence[Sequence[float]]) -> Candidates:
    """Sum each candidate's shares over the lists that hold it.

    A list counts a candidate once, at its best rank. Of several lists of one lane, the best score
    is the candidate's score in that lane.
    """
    every: list[CandidateRow] = []
    sources: list[str] = []
    list_of: list[int] = []
    for at, ranked in enumerate(lists):
        known = Candidates.of(ranked.candidates)
        count = len(known.rows)
        every += known.rows
        sources += [known.source] * count if isinstance(known.source, str) else known.source
        list_of += [at] * count
    totals = list(chain.from_iterable(shares))
    first: dict[_Key, int] = {}  # the place in `every` where each candidate is first
    places = map(first.setdefault, map(_KEY, every), range(len(every)))
    others: dict[int, list[int]] = {}  # by the first place, also that in each further list
    for at, place in enumerate(places):
        if place != at:
            held = others.setdefault(place, [place])
            if list_of[held[-1]] != list_of[at]:
                held.append(at)
                totals[place] += totals[at]
    distinct = list(first.values())
    negative = np.round(np.negative(list(map(totals.__getitem__, distinct))), _DIGITS)
    order = negative.argsort(kind="stable")
    negative = negative[order]
    best_first = [every[distinct[at]] for at in order.tolist()]
    rows = list(zip(negative.tolist(), *[map(each, best_first) for each in _REST], strict=True))
    if (negative[1:] == negative[:-1]).any():
        # Of equal totals the name, index and dataset decide, then the order of the lists: keys
        # need not compare.
        rows.sort(key=IN_ORDER)

    def scores_of(key: _Key) -> Mapping[str, float]:
        scores: dict[str, float] = {}
        for at in others.get(first[key], [first[key]]):
            lane, score = lists[list_of[at]].lane, -every[at][0]
            scores[lane] = max(score, scores.get(lane, score))
        return scores

    source = _PerCandidate(rows, lambda key: sources[first[key]])
    return Candidates(rows, source, _PerCandidate(rows, scores_of))


def _check_weights(instance: Any, field: Any, weights: Mapping[str, float]) -> None:
    for lane, weight in weights.items():
        if not (math.isfinite(weight) and weight >= 0):
            raise ValidationError(
                f"the weight of lane {lane!r} must be a finite number from 0 up, not {weight}"
            )


@attrs.frozen(kw_only=True)
class RRFRanker:
    """Reciprocal rank fusion: ``score(d) = Σ w / (k + rank(d))`` over the lists, ranks from 1.

    ``w`` is the weight of the lane in ``weights``, 1 by default, times that of the query's variant,
    where a rewriter weighs them.

    Source: Cormack, Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and
    individual Rank Learning Methods", SIGIR 2009.
    """

    k: int = attrs.field(default=DEFAULT_RRF_K, validator=number("the constant k of rank fusion"))
    weights: Mapping[str, float] = attrs.field(factory=dict, validator=_check_weights)

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Candidates:
        """Fuse by rank only; scores of the lanes need not be comparable."""
        return _fuse(
            ranked_lists,
            [
                reciprocal_ranks(
                    len(each.candidates), self.k, each.weight * self.weights.get(each.lane, 1.0)
                )
                for each in ranked_lists
            ],
        )


@attrs.frozen(kw_only=True)
class WeightedRanker:
    """Fuses by the weighted sum of min-max normalised scores.

    ``score(d) = Σ w · (s(d) - min) / (max - min)`` over the lists. A list whose scores are all
    equal contributes 1, a list without ``d`` 0. Weights default to 1 and are divided by the sum of
    the weights of the given lists. Source: Fox and Shaw, "Combination of Multiple Searches"
    (CombSUM), TREC-2, 1994.
    """

    weights: Mapping[str, float] = attrs.field(factory=dict, validator=_check_weights)

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Candidates:
        """Fuse by normalised score."""
        return _fuse(
            ranked_lists,
            [
                min_max(scores_of(each), weight)
                for each, weight in zip(
                    ranked_lists, _weights_of(ranked_lists, self.weights), strict=True
                )
            ],
        )


@attrs.frozen(kw_only=True)
class ZScoreRanker:
    """Fuses by the weighted mean of standardised scores. This is the default ranker.

    ``score(d) = Σ w · (s(d) - last) / deviation`` over the lists with ``d``: how many standard
    deviations a candidate is above the last one of its list. A list without ``d`` contributes 0, a
    list whose scores are all equal 1. ``deviation`` is the standard deviation of the best ``depth``
    scores of the list. Weights default to 1 and are divided by the sum of the weights of the given
    lists, so that scores of one or several lanes have the same scale: from 0, rarely above 10.

    A lane that returns fewer than ``depth`` candidates, such as a keyword lane, has found all
    matches; the list is filled up with zeros. So the only text with a rare name is far above all
    others, but twenty texts with a common word are not.

    With ``evidence``, the weights depend on the results of the keyword lane for this query
    (`keyword_evidence`). At strength p, a dense lane has weight ``1 - p``, and a keyword score is
    multiplied by the text's coverage of the query to the power p. For a name that only one text
    contains p is near 1, for an ordinary question near 0. Without a list of a dense lane, p is 0.
    The weight of a dense list also depends on the spread of its scores (`telling_apart`).

    Source: Montague and Aslam, "Relevance Score Normalization for Metasearch" (ZMUV), CIKM 2001,
    with each list's zero at its last candidate.

    Attributes:
        weights: the weight of a lane by its name, a finite number from 0 up.
        depth: the minimum number of candidates from each lane: see `Ranker`.
        dense_lanes: the names of the lanes in which every text has a score, such as vector lanes.
        evidence: whether weights depend on the query's evidence.
    """

    weights: Mapping[str, float] = attrs.field(factory=dict, validator=_check_weights)
    depth: int = attrs.field(default=DEFAULT_Z_SCORE_DEPTH, validator=whole(least=2))
    dense_lanes: frozenset[str] = attrs.field(default=frozenset(["vector"]), converter=frozenset)
    evidence: bool = True

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Candidates:
        """Fuse by standardised score.

        Raises:
            ValidationError: a score of a lane is not a finite number.
        """
        scores = [scores_of(each) for each in ranked_lists]
        for each, own in zip(ranked_lists, scores, strict=True):
            if not all(map(math.isfinite, own)):
                raise ValidationError(
                    f"the {each.lane} lane gave a score that is not a finite number: z-score "
                    "fusion needs scores that are, the ranker rrf does not"
                )
        weighed = zip(ranked_lists, scores, self.weigh(ranked_lists), strict=True)
        return _fuse(
            ranked_lists,
            [self._standardised(each.lane, own, *weight) for each, own, weight in weighed],
        )

    def weigh(
        self, ranked_lists: Sequence[RankedList]
    ) -> Sequence[tuple[float, KeywordEvidence | None]]:
        """Return the normalised weight of each list for this query, and its evidence.

        A list has no evidence if its lane knows no terms, or if there is no dense list.
        """
        weights = _weights_of(ranked_lists, self.weights)
        dense = [each.lane in self.dense_lanes for each in ranked_lists]
        listed = zip(ranked_lists, weights, dense, strict=True)
        voting = [each for each, weight, of_dense in listed if of_dense and weight]
        if not self.evidence or not any(each.candidates for each in voting):
            return [(weight, None) for weight in weights]
        # A dense lane brings every text of a dataset that has fewer.
        depth = min(self.depth, max([len(each.candidates) for each in ranked_lists]))
        found = [keyword_evidence(Candidates.of(each.candidates), depth) for each in ranked_lists]
        left = 1 - _mean_strength(weights, found)
        weights = _shares(
            [
                weight * left * telling_apart(each, self.depth) if of_dense else weight
                for each, weight, of_dense in zip(ranked_lists, weights, dense, strict=True)
            ]
        )
        return list(zip(weights, found, strict=True))

    def _standardised(
        self, lane: str, scores: list[float], weight: float, known: KeywordEvidence | None
    ) -> list[float]:
        if known is not None:
            scores = (np.array(scores) * known.coverage**known.strength).tolist()
        unfound = self.depth - len(scores)
        if scores and unfound > 0 and lane not in self.dense_lanes and min(scores) >= 0.0:
            padded = standard_scores([*scores, *[0.0] * unfound], weight)
            return padded[: len(scores)]
        return standard_scores(scores, weight, first=self.depth)


def depth_of(ranker: Ranker, top_k: int) -> int:
    """Return the number of candidates that ``ranker`` needs from each lane for ``top_k`` hits."""
    return max(over_fetch(top_k), getattr(ranker, "depth", 0))


def _weights_of(lists: Sequence[RankedList], weights: Mapping[str, float]) -> list[float]:
    """The weight of each list, divided by their sum."""
    return _shares([weights.get(each.lane, 1.0) * each.weight for each in lists])


def _shares(weights: Sequence[float]) -> list[float]:
    total = math.fsum(weights) or 1.0
    return [weight / total for weight in weights]


def _mean_strength(weights: Sequence[float], found: Sequence[KeywordEvidence | None]) -> float:
    """That of all keyword lists: of several wordings of a query, each has one."""
    told = [(weight, each.strength) for weight, each in zip(weights, found, strict=True) if each]
    total = math.fsum([weight for weight, _ in told])
    return math.fsum([weight * strength for weight, strength in told]) / total if total else 0.0


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


def standard_scores(
    scores: Sequence[float], weight: float = 1.0, *, first: int | None = None
) -> list[float]:
    """Return ``weight * (s - min) / deviation`` for each score; ``weight`` if all are equal.

    ``deviation`` is the population standard deviation of the ``first`` best scores, or of all
    scores if those are equal.
    """
    if not scores:
        return []
    low, high = min(scores), max(scores)
    if math.isinf(high - low):
        return standard_scores([score / 4 for score in scores], weight, first=first)
    # Differences of rounding alone say nothing, and would be scaled up to a full vote.
    if high - low <= _EQUAL * max(abs(low), abs(high)):
        return [weight] * len(scores)
    span = high - low
    above = [(score - low) / span for score in scores]
    best = above if first is None or first >= len(above) else sorted(above, reverse=True)[:first]
    scale = weight / (deviation(best) or deviation(above))
    return [scale * each for each in above]


RANKERS: Mapping[str, Callable[..., Ranker]] = {
    "z-score": ZScoreRanker,
    "rrf": RRFRanker,
    "min-max": WeightedRanker,
}
"""The built-in rankers by their name in settings, built with ``weights`` by lane; the first is the
default."""


def build_ranker(ranker: Ranker | str, weights: Mapping[str, float] | None = None) -> Ranker:
    """Build the ranker of a name with ``weights`` by lane; return a `Ranker` unchanged.

    Raises:
        ValidationError: the name is unknown, or a weight is not a number from 0 up.
    """
    if not isinstance(ranker, str):
        return ranker
    if ranker not in RANKERS:
        raise ValidationError(f"no ranker is called {ranker!r}: use one of {', '.join(RANKERS)}")
    return RANKERS[ranker](weights=weights or {})
