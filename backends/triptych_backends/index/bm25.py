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
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from .segment import IntArray, Inverted, View
from .select import SLACK, best

K1 = 1.2
B = 0.75
# Telling the candidates costs about as much as walking so many postings.
WORTH_PRUNING = 8_192
# Looking a unit up in a list costs about as much as walking so many of its postings.
LOOK_UP_COST = 8.0


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

    `allowed` are the only ordinals that count, ascending. Postings of the heaviest terms are
    walked in full; as soon as the terms that are left cannot lift another unit to the best, only
    the candidates are looked up in theirs (Turtle and Flood, Query Evaluation: Strategies and
    Optimizations, 1995).
    """
    text = view.segment.text
    norms = view.segment.norms(weights.slope, weights.base)
    lists = [
        (weight, int(text.offsets[numbers[term]]), int(text.offsets[numbers[term] + 1]))
        for term, weight in weights.terms.items()
        if term in numbers
    ]
    weight_left = sum(weight for weight, _, _ in lists)
    weight_done = 0.0
    postings_left = sum(end - start for _, start, end in lists)
    scores = _zeros(view, allowed)
    walked: list[NDArray[np.int32]] = []
    for at, (weight, start, end) in enumerate(lists):
        ids = text.ids[start:end]
        np.add.at(scores, ids, _parts(norms.take(ids), text.counts[start:end], weight))
        walked.append(ids)
        weight_left -= weight
        weight_done += weight
        postings_left -= end - start
        # A term adds less than its weight: only now can something reach what is left.
        if postings_left >= WORTH_PRUNING and max(weight_done, bar) > weight_left:
            candidates = _candidates(scores, walked, limit, bar, weight_left, postings_left)
            if candidates is not None:
                return _finished(
                    candidates, scores[candidates], limit, text, norms, lists[at + 1 :]
                )
    units = best(scores, limit, floor=0.0)
    return units, scores[units]


def _zeros(view: View, allowed: NDArray[np.int32] | None) -> NDArray[np.float64]:
    """Zero for each unit that counts, -inf for the others: they stay there."""
    if allowed is None:
        scores = np.zeros(len(view.segment))
    else:
        scores = np.full(len(view.segment), -np.inf)
        scores[allowed] = 0.0
    if len(view.dead):
        scores[view.dead] = -np.inf
    return scores


def _parts(
    norms: NDArray[np.float64], counts: NDArray[np.unsignedinteger[Any]], weight: float
) -> NDArray[np.float64]:
    """Each posting's part of a score; `norms` is overwritten."""
    norms += counts
    np.divide(counts, norms, out=norms)
    norms *= weight
    return norms


def _candidates(
    scores: NDArray[np.float64],
    walked: Sequence[NDArray[np.int32]],
    limit: int,
    bar: float,
    weight_left: float,
    postings_left: int,
) -> NDArray[np.int32] | None:
    """Units that can still be among the best, ascending.

    None while a unit in none of the `walked` postings could be, or they are too many to look up.
    """
    touched = walked[0] if len(walked) == 1 else np.concatenate(walked)
    if len(touched) * LOOK_UP_COST > postings_left:
        return None
    sums = scores[touched]
    # A unit is here once for each of its terms: at least `limit` units reach this.
    rank = limit * len(walked)
    if len(sums) >= rank:
        bar = max(bar, float(np.partition(sums, len(sums) - rank)[len(sums) - rank]))
    reach = bar - weight_left - SLACK
    if reach <= 0:
        return None
    candidates = np.sort(touched[sums >= reach])
    candidates = candidates[np.diff(candidates, prepend=-1) > 0]
    return candidates if len(candidates) * LOOK_UP_COST < postings_left else None


def _finished(
    candidates: NDArray[np.int32],
    sums: NDArray[np.float64],
    limit: int,
    text: Inverted,
    norms: NDArray[np.float64],
    lists: Sequence[tuple[float, int, int]],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The best of the candidates after the terms of `lists` were looked up for them."""
    weight_left = sum(weight for weight, _, _ in lists)
    for weight, start, end in lists:
        ids = text.ids[start:end]
        places = np.minimum(ids.searchsorted(candidates), len(ids) - 1)
        hits = np.flatnonzero(ids[places] == candidates)
        counts = text.counts[start:end][places[hits]]
        sums[hits] += _parts(norms[candidates[hits]], counts, weight)
        weight_left -= weight
        if len(candidates) > 4 * limit:
            bar = np.partition(sums, len(sums) - limit)[len(sums) - limit]
            kept = sums >= bar - weight_left - SLACK
            candidates, sums = candidates[kept], sums[kept]
    chosen = best(sums, limit)
    return candidates[chosen], sums[chosen]


def count_terms(terms: Sequence[str]) -> dict[str, int]:
    """Distinct terms with their repeats."""
    return dict(Counter(terms))
