"""From scores of many segments to one ranked list, with ties decided."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from triptych_backends.index.change_log import Scored
from triptych_backends.index.segment import IntArray, SegmentReader

DECIMALS = 6
# Two scores that round to the same value lie no further apart than this.
SLACK = 1.01e-6
STRIDE = 64

Scores = NDArray[np.float64] | NDArray[np.float32]


def top_k(scores: Scores, limit: int, *, floor: float = -np.inf) -> NDArray[np.int64]:
    """Places of the `limit` best of the scores above `floor`, best first.

    Scores are compared after rounding to 1e-6; of equal ones the smaller place comes first, at
    the cut as well.
    """
    if len(scores) <= limit:
        # As most segments of many small datasets are.
        places = np.flatnonzero(scores > floor)
        values = np.round(scores[places].astype(np.float64), DECIMALS)
        return places[np.argsort(-values, kind="stable")] if len(places) > 1 else places
    places = _passing(scores, limit, floor)
    values = scores[places].astype(np.float64)
    if len(values) > limit:
        near = values >= np.partition(values, len(values) - limit)[len(values) - limit] - SLACK
        places, values = places[near], values[near]
    order = np.argsort(-np.round(values, DECIMALS), kind="stable")[:limit]
    chosen: NDArray[np.int64] = places[order]
    return chosen


def _passing(scores: Scores, limit: int, floor: float) -> NDArray[np.int64]:
    """Places of a superset of the best: a sample sets a bar that only few others pass."""
    rank = limit // STRIDE + 6
    if len(scores) > 4 * STRIDE * rank:
        sample = scores[::STRIDE]
        bar = np.partition(sample, len(sample) - rank)[len(sample) - rank] - SLACK
        if bar > floor:
            places = np.flatnonzero(scores >= bar)
            if np.count_nonzero(scores[places] >= bar + SLACK) >= limit:
                return places
    return np.flatnonzero(scores > floor)


class Bar:
    """The `limit`-th best of the scores added so far, or somewhat less: 0 while there are fewer.

    It is worked out once in so many scores, so that many small additions cost no more than one.
    """

    def __init__(self, limit: int) -> None:
        self.value = 0.0
        self._limit = limit
        self._parts: list[Scores] = []
        self._count = 0
        self._due = limit

    def add(self, scores: Scores) -> None:
        """Take more scores into account."""
        self._parts.append(scores)
        self._count += len(scores)
        if self._count >= self._due:
            kept: NDArray[Any] = np.concatenate(self._parts)
            cut = len(kept) - self._limit
            kept.partition(cut)
            kept = kept[cut:]
            self.value = max(self.value, float(kept[0]))
            self._parts = [kept]
            self._count = len(kept)
            self._due = 2 * self._limit


def lowest_of_best(parts: Sequence[Scores], limit: int) -> float:
    """The `limit`-th best of all scores, -inf when there are fewer."""
    if sum(map(len, parts)) < limit:
        return -np.inf
    every: NDArray[Any] = np.concatenate(parts)
    every = every[_passing(every, limit, -np.inf)]
    if len(every) < limit:
        return -np.inf
    return float(np.partition(every, len(every) - limit)[len(every) - limit])


@frozen(eq=False)
class RankedUnits:
    """Units of one view of a dataset, by ordinal, with their scores."""

    dataset: str
    view: SegmentReader
    units: IntArray
    scores: NDArray[np.float64]


def best_of_group(found: RankedUnits) -> RankedUnits:
    """Only the best unit of each group, the first of equal ones."""
    groups = found.view.segment.group_numbers(found.units)
    order = np.lexsort((found.units, -found.scores, groups))
    first = order[np.flatnonzero(np.diff(groups[order], prepend=-1))]
    return evolve(found, units=found.units[first], scores=found.scores[first])


def rank(found: Sequence[RankedUnits], limit: int) -> tuple[list[Scored], list[tuple[Any, ...]]]:
    """The `limit` best: by score rounded to 1e-6, name, index, dataset; and the same followed by
    where in ``found`` each is, and its ordinal there."""
    rounded = [one.scores.round(DECIMALS) for one in found]
    count = sum(map(len, rounded))
    bar = -np.inf
    if count > limit:
        every = np.concatenate(rounded)
        every.partition(count - limit)
        bar = every[count - limit]
    hits: list[tuple[Any, ...]] = []
    for at, (one, scores) in enumerate(zip(found, rounded, strict=True)):
        segment, units = one.view.segment, one.units
        if count > limit:
            kept = scores >= bar
            units, scores = units[kept], scores[kept]
        if not len(units):
            continue
        groups = segment.group_numbers(units)
        hits += zip(
            (-scores).tolist(),
            map(segment.names.__getitem__, groups.tolist()),
            segment.indexes.take(units).tolist(),
            repeat(one.dataset),
            segment.keys.take(units).tolist(),
            segment.owners.take(groups).tolist(),
            repeat(at),
            units.tolist(),
            strict=False,
        )
    hits.sort()
    del hits[limit:]
    # As `Scored._make`, at a third of its cost.
    return list(map(tuple.__new__, repeat(Scored), map(itemgetter(slice(6)), hits))), hits
