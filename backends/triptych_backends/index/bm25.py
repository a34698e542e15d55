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

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from .segment import View

K1 = 1.2
B = 0.75


@frozen
class Weights:
    """What a query's scores are made of: each word's weight, and the length normalisation."""

    words: Mapping[str, float]
    slope: float
    base: float


def document_frequencies(views: Sequence[View], words: Sequence[str]) -> list[int]:
    """How many live units have each of the words."""
    totals = [0] * len(words)
    for view in views:
        for at, number in enumerate(view.segment.text.vocabulary.find(words)):
            if number >= 0:
                totals[at] += view.document_frequency(number)
    return totals


@frozen
class Statistics:
    """A corpus as a query sees it: live units, their total length, units that have each term."""

    count: int
    length: int
    frequencies: Mapping[str, int]


def statistics(views: Sequence[View], terms: Sequence[str]) -> Statistics:
    """The statistics of all live units of `views` together."""
    return Statistics(
        sum(view.live_count for view in views),
        sum(view.live_length for view in views),
        dict(zip(terms, document_frequencies(views, terms), strict=True)),
    )


def weigh(corpus: Statistics, repeats: Mapping[str, int]) -> Weights:
    """The weights of a query whose terms are repeated as `repeats` says."""
    words = {}
    for term, times in repeats.items():
        frequency = corpus.frequencies[term]
        words[term] = times * math.log1p((corpus.count - frequency + 0.5) / (frequency + 0.5))
    slope = K1 * B * corpus.count / corpus.length if corpus.length else 0.0
    return Weights(words, slope, K1 * (1 - B))


def score(view: View, weights: Weights) -> NDArray[np.float64]:
    """Scores of all units of a view: 0 for what has none of the words, or is dead.

    A unit's sum runs over the words in their order, whatever segment the unit is in: the same
    corpus gives the same scores bit for bit.
    """
    segment = view.segment
    scores = np.zeros(len(segment))
    words = list(weights.words)
    text = segment.text
    norms = segment.norms(weights.slope, weights.base)
    for word, number in zip(words, text.vocabulary.find(words), strict=True):
        if number < 0:
            continue
        start, end = text.offsets[number], text.offsets[number + 1]
        ids, counts = text.ids[start:end], text.counts[start:end]
        parts = norms.take(ids)
        parts += counts
        np.divide(counts, parts, out=parts)
        parts *= weights.words[word]
        np.add.at(scores, ids, parts)
    if len(view.dead):
        scores[view.dead] = 0.0
    return scores


def count_terms(terms: Sequence[str]) -> dict[str, int]:
    """Distinct terms with their repeats, in the one order in which scores are summed."""
    return dict(sorted(Counter(terms).items()))
