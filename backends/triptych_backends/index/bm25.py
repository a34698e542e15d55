"""BM25 as Lucene scores it, exact over live units.

`idf = ln(1 + (N - n + 0.5) / (n + 0.5))`, `tf / (tf + k1 * (1 - b + b * length / average))`
(Robertson and Zaragoza, The Probabilistic Relevance Framework, 2009, section 3, with the idf of
Lucene's BM25Similarity, which is never negative). N, n and the average are those of the live
units of all the datasets asked about.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from .segment import IntArray, Inverted, Segment, View
from .select import SLACK, best, lowest_of_best

K1 = 1.2
B = 0.75
# A term that more than this share of a segment's units have, and more than so many, is looked up
# instead of walked.
FREQUENT = 1 / 8
MANY = 256

# So many units are scored at once: their sums, eight bytes each, fit a processor's second cache.
SPAN = 1 << 17


@frozen
class Statistics:
    """A corpus as a query sees it: live units, their total length, units that have each term."""

    count: int
    length: int
    frequencies: Mapping[str, int]


@frozen
class Weights:
    """What scores are made of: each term's weight, greatest first, and length normalisation.

    A unit's sum runs over its terms in this order, whatever segment it is in: the same corpus
    gives the same scores bit for bit.
    """

    terms: Mapping[str, float]
    slope: float
    base: float


def find(views: Sequence[View], terms: Sequence[str]) -> list[dict[str, int]]:
    """For each view the numbers of those terms that its segment has."""
    return [
        {
            term: number
            for term, number in zip(terms, view.segment.text.vocabulary.find(terms), strict=True)
            if number >= 0
        }
        for view in views
    ]


def statistics(views: Sequence[View], numbers: Sequence[Mapping[str, int]]) -> Statistics:
    """The statistics of all live units of `views` together; `numbers` as from `find`."""
    frequencies: Counter[str] = Counter()
    for view, found in zip(views, numbers, strict=True):
        for term, number in found.items():
            frequencies[term] += view.document_frequency(number)
    return Statistics(
        sum(view.live_count for view in views),
        sum(view.live_length for view in views),
        frequencies,
    )


def weigh(corpus: Statistics, repeats: Mapping[str, int]) -> Weights:
    """The weights of a query whose terms are repeated as `repeats` says."""
    weights = {}
    for term, times in repeats.items():
        frequency = corpus.frequencies.get(term, 0)
        weights[term] = times * math.log1p((corpus.count - frequency + 0.5) / (frequency + 0.5))
    ordered = dict(sorted(weights.items(), key=lambda entry: (-entry[1], entry[0])))
    slope = K1 * B * corpus.count / corpus.length if corpus.length else 0.0
    return Weights(ordered, slope, K1 * (1 - B))


def top(
    view: View,
    numbers: Mapping[str, int],
    weights: Weights,
    limit: int,
    *,
    allowed: NDArray[np.int32] | None = None,
    bar: float = 0.0,
) -> tuple[IntArray, NDArray[np.float64]]:
    """The `limit` best live units of a view and their scores, those below `bar` perhaps left out.

    `allowed` are the only ordinals that count, ascending. A large segment is looked through span
    by span, so that what is added up stays in the processor's caches; each span raises the bar
    for the next.
    """
    segment = view.segment
    frequent = max(len(segment) * FREQUENT, MANY)
    count = len(segment)
    edges = np.minimum(np.arange(0, count + SPAN, SPAN), count).astype(np.int32)
    norms = segment.norms(weights.slope, weights.base)
    lists = []
    for term, weight in weights.terms.items():
        if (number := numbers.get(term)) is not None:
            lists.append(_List.of(segment.text, weight, number, frequent, edges))
    if len(edges) <= 2:
        span = _Span(segment, 0, norms, lists, 0)
        return _top_of(span, limit, allowed, view.dead, bar)
    found = []
    for at, (first, end) in enumerate(pairwise(edges.tolist())):
        span = _Span(segment, first, norms[first:end], lists, at)
        units, scores = _top_of(
            span, limit, _between(allowed, first, end), _between(view.dead, first, end), bar
        )
        found.append((units + first, scores))
        bar = max(bar, lowest_of_best([each for _, each in found], limit))
    units = np.concatenate([each for each, _ in found])
    scores = np.concatenate([each for _, each in found])
    order = np.argsort(units)
    chosen = order[best(scores[order], limit)]
    return units[chosen], scores[chosen]


@frozen(slots=True)
class _List:
    """A term's weight and number, whether many units have it, its postings' bounds by span."""

    weight: float
    number: int
    frequent: bool
    bounds: Sequence[int]

    @classmethod
    def of(
        cls, text: Inverted, weight: float, number: int, frequent: float, edges: NDArray[np.int32]
    ) -> _List:
        start, end = int(text.offsets[number]), int(text.offsets[number + 1])
        bounds = [start, end]
        if len(edges) > 2:
            bounds = (text.ids[start:end].searchsorted(edges) + start).tolist()
        return cls(weight, number, end - start > frequent, bounds)


@frozen(slots=True)
class _Span:
    """Units of a segment that follow each other, from `first` on; `at` is the span's number.

    Where numbers of units are spoken of, they are counted from `first`.
    """

    segment: Segment
    first: int
    norms: NDArray[np.float64]
    lists: Sequence[_List]
    at: int

    def walked(self, lists: Sequence[_List]) -> NDArray[np.float64]:
        """The sums of the parts of all postings of the lists, shape (units,)."""
        text = self.segment.text
        bounds = [(one.bounds[self.at], one.bounds[self.at + 1]) for one in lists]
        if all(start == end for start, end in bounds):
            return np.zeros(len(self.norms))
        ids = _joined([text.ids[start:end] for start, end in bounds])
        if self.first:
            ids = ids - np.int32(self.first)
        counts = _joined([text.counts[start:end] for start, end in bounds])
        weights = np.repeat([one.weight for one in lists], [end - start for start, end in bounds])
        # Sums in the order of the lists.
        parts = _parts(self.norms.take(ids), counts, weights)
        sums: NDArray[np.float64] = np.bincount(ids, parts, len(self.norms))  # type: ignore[assignment]  # NumPy's stubs forget the weights
        return sums

    def counts_of(self, number: int) -> NDArray[np.unsignedinteger[Any]]:
        """How often each unit has a word, shape (units,)."""
        counts = self.segment.counts_of(number)
        return counts[self.first : self.first + len(self.norms)]

    def look_up(self, lists: Sequence[_List], units: IntArray, sums: NDArray[np.float64]) -> None:
        """Add what the units have of the lists to their sums."""
        mine = self.norms.take(units)
        for one in lists:
            sums += _parts(mine.copy(), self.counts_of(one.number).take(units), one.weight)


def _top_of(
    span: _Span,
    limit: int,
    allowed: NDArray[np.int32] | None,
    dead: NDArray[np.int32],
    bar: float,
) -> tuple[IntArray, NDArray[np.float64]]:
    """The best units of one span.

    The heaviest terms' postings are walked, down to the first term that many units have. From
    there on terms are looked up for the units seen so far: as soon as `limit` of these reach more
    than all terms left can add, no other unit can be among the best (Turtle and Flood, Query
    Evaluation: Strategies and Optimizations, 1995). Where that does not come true, what is left is
    added to every unit.
    """
    lists, norms = span.lists, span.norms
    split = next((at for at, one in enumerate(lists) if one.frequent), len(lists))
    rest = lists[split:]
    scores = span.walked(lists[:split])
    _leave_out(scores, allowed, dead)
    if rest and split:
        units, sums = _seen(scores)
        span.look_up(rest, units, sums)
        chosen = best(sums, limit)
        if len(chosen) == limit:
            bar = max(bar, float(sums[chosen[-1]]))
        if bar - SLACK >= _weight(rest):
            return units[chosen], sums[chosen]
    for at, one in enumerate(rest):
        if one.frequent:
            scores += _parts(norms.copy(), span.counts_of(one.number), one.weight)
        else:
            scores += span.walked(rest[at : at + 1])
        left = rest[at + 1 :]
        if left and bar - SLACK >= _weight(left):
            units = np.flatnonzero(scores >= bar - SLACK - _weight(left))
            sums = scores.take(units)
            span.look_up(left, units, sums)
            chosen = best(sums, limit)
            return units[chosen], sums[chosen]
    units = best(scores, limit, floor=0.0)
    return units, scores[units]


@overload
def _between(ordinals: NDArray[np.int32], first: int, end: int) -> NDArray[np.int32]: ...
@overload
def _between(
    ordinals: NDArray[np.int32] | None, first: int, end: int
) -> NDArray[np.int32] | None: ...
def _between(ordinals: NDArray[np.int32] | None, first: int, end: int) -> NDArray[np.int32] | None:
    """Those of the ascending ordinals that lie in a span, counted from its beginning."""
    if ordinals is None or not len(ordinals):
        return ordinals
    start, stop = ordinals.searchsorted(np.array([first, end], ordinals.dtype)).tolist()
    return ordinals[start:stop] - np.int32(first)


def _weight(lists: Sequence[_List]) -> float:
    return sum(one.weight for one in lists)


def _seen(scores: NDArray[np.float64]) -> tuple[IntArray, NDArray[np.float64]]:
    """The units that have any score, ascending, and their scores."""
    units = np.flatnonzero(scores > 0)
    return units, scores.take(units)


def _joined(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _leave_out(
    scores: NDArray[np.float64], allowed: NDArray[np.int32] | None, dead: NDArray[np.int32]
) -> None:
    """Make the scores of units that do not count -inf: there they stay."""
    if allowed is not None:
        kept = scores[allowed]
        scores.fill(-np.inf)
        scores[allowed] = kept
    if len(dead):
        scores[dead] = -np.inf


def _parts(
    norms: NDArray[np.float64],
    counts: NDArray[np.unsignedinteger[Any]],
    weight: float | NDArray[np.float64],
) -> NDArray[np.float64]:
    """Each posting's part of a score; `norms` is overwritten."""
    norms += counts
    np.divide(counts, norms, out=norms)
    norms *= weight
    return norms


def count_terms(terms: Sequence[str]) -> dict[str, int]:
    """Distinct terms with their repeats."""
    return dict(Counter(terms))
