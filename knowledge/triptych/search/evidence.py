"""The evidence of a lane for one query, by which `ZScoreRanker` weighs lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import compress
from operator import mul

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych._internal.turns import SEARCHES
from triptych.records import NO_CHUNK, Candidates, RankedList

_SHARPNESS = 1.5
_IN_LABEL = 0.5  # of `TermMatches.counts`: what only the label has counts no less
_USUAL_SPREAD = 1 / 9, 1 / 6  # of a shortlist's cosines, as shares of the embedder's range


@attrs.frozen(eq=False)
class KeywordEvidence:
    """How far a keyword list settles its query: ``strength`` from 0 to 1.

    ``coverage`` is the share of the query, by idf, that each candidate holds, from 0 to 1.
    """

    strength: float
    coverage: NDArray[np.float64]


def keyword_evidence(candidates: Candidates, depth: int) -> KeywordEvidence | None:
    """The evidence of a list of passages by keyword, best first; None for whole documents and
    layers, and where its lane knows no terms.

    A term's idf is Lucene's over the ``depth`` best candidates, where those that the list lacks
    hold nothing: what no other holds tells the first from all that could take its place.
    ``strength`` is ``(coverage · gap) ** 1.5`` of the first candidate: how much of the query it
    holds, and by how much more idf than the mean of the others, as a share of ``ln depth``, the
    information that singles out one of ``depth``. What only names a document counts for its best
    passage alone: that the others have the same name is no reason to doubt that one.
    """
    if candidates.matches is None or not len(candidates) or depth < 2:
        return None
    if candidates.rows[0][2] == NO_CHUNK:
        return None  # a long text holds most words of most questions
    counts = candidates.matches().counts
    SEARCHES.pass_on("the search")
    named, least = set[tuple[str, str]](), list[float]()
    for row in candidates.rows[:depth]:
        document = row[1], row[3]
        least.append(1.0 if document in named else _IN_LABEL)
        named.add(document)
    counted = np.array(least) <= counts[:depth].T
    holding = counted.sum(axis=1).tolist()
    idf = [math.log1p((depth - number + 0.5) / (number + 0.5)) for number in holding]
    mass = math.fsum(compress(idf, counted[:, 0].tolist()))
    others = (math.fsum(map(mul, idf, holding)) - mass) / (depth - 1)
    gap = min(max((mass - others) / math.log(depth), 0.0), 1.0)
    coverage = ((counts > 0) @ np.array(idf)) / math.fsum(idf)
    return KeywordEvidence((min(float(coverage[0]), 1.0) * gap) ** _SHARPNESS, coverage)


def telling_apart(ranked: RankedList, depth: int) -> float:
    """How well a list of cosines tells its texts apart: 1 as usual, from 1/2 to 2.

    As usual is a deviation of the ``depth`` best cosines from a ninth to a sixth of the embedder's
    range; beyond, it is the root of what the deviation is of that: halfway between standardised
    scores, which count alike however close together they are, and the cosines themselves. It is 1
    where the embedder tells no range, and for a list shorter than ``depth``: it holds all texts
    that there are, and not the nearest.
    """
    if ranked.cosine_range is None or len(ranked.candidates) < depth:
        return 1.0
    low, high = (each * (ranked.cosine_range[1] - ranked.cosine_range[0]) for each in _USUAL_SPREAD)
    spread = deviation(scores_of(ranked)[:depth])
    return min(max(math.sqrt(spread / min(max(spread, low), high)), 0.5), 2.0)


def scores_of(ranked: RankedList) -> list[float]:
    return [-row[0] for row in Candidates.of(ranked.candidates).rows]


def deviation(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.dist(values, [mean] * len(values)) / math.sqrt(len(values))
