"""From scored units of many segments to one ranked list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from triptych_backends.index.change_log import Field, Scored
from triptych_backends.index.segment import IntArray, SegmentReader
from triptych_backends.index.selection import Selection
from triptych_backends.index.snapshot import Snapshot
from triptych_backends.index.top_k import DECIMALS


@frozen(eq=False)
class Part:
    """One segment as a query sees it. `allowed`: the only ordinals that count, ascending."""

    dataset: str
    view: SegmentReader
    allowed: NDArray[np.int32] | None


@frozen(eq=False)
class RankedUnits:
    """Units of one part, by ordinal, with their scores."""

    part: Part
    units: IntArray
    scores: NDArray[np.float64]


def parts_of(
    dataset: str,
    views: Sequence[SegmentReader],
    selection: Selection | None,
) -> list[Part]:
    """The views of a dataset, restricted by ``selection``; those left with nothing are left out."""
    found = []
    for view in views:
        allowed = None if selection is None else selection.units(dataset, view.segment)
        if allowed is None or len(allowed):
            found.append(Part(dataset, view, allowed))
    return found


def bounded(
    snapshots: Mapping[str, Snapshot], field: Field, corpus: Selection | None
) -> tuple[list[SegmentReader], list[NDArray[np.int32] | None]]:
    """The views of a field, and for each the only ordinals that its statistics are of."""
    views, corpora = [], []
    for dataset, snapshot in snapshots.items():
        for view in snapshot.views(field):
            views.append(view)
            corpora.append(None if corpus is None else corpus.units(dataset, view.segment))
    return views, corpora


def best_of_group(found: RankedUnits) -> RankedUnits:
    """Only the best unit of each group, the first of equal ones."""
    groups = found.part.view.segment.group_numbers(found.units)
    order = np.lexsort((found.units, -found.scores, groups))
    first = order[np.flatnonzero(np.diff(groups[order], prepend=-1))]
    return RankedUnits(found.part, found.units[first], found.scores[first])


def rank(found: Sequence[RankedUnits], limit: int) -> list[Scored]:
    """The `limit` best: by score rounded to 1e-6, name, index, dataset."""
    found = [one for one in found if len(one.units)]
    if not found:
        return []
    rounded = [np.round(one.scores, DECIMALS) for one in found]
    count = sum(map(len, rounded))
    bar = -np.inf
    if count > limit:
        every = np.concatenate(rounded)
        bar = np.partition(every, count - limit)[count - limit]
    hits: list[tuple[float, str, int, str, int, int]] = []
    for one, scores in zip(found, rounded, strict=True):
        segment, dataset, units = one.part.view.segment, one.part.dataset, one.units
        kept = scores >= bar
        if not kept.all():
            units, scores = units[kept], scores[kept]
            if not len(units):
                continue
        groups = segment.group_numbers(units)
        names = segment.names()
        hits += [
            (negative, names[group], index, dataset, key, owner)
            for negative, group, index, key, owner in zip(
                (-scores).tolist(),
                groups.tolist(),
                segment.indexes.take(units).tolist(),
                segment.keys.take(units).tolist(),
                segment.owners.take(groups).tolist(),
                strict=True,
            )
        ]
    hits.sort()
    # As `Scored._make`, at a third of its cost.
    return [tuple.__new__(Scored, hit) for hit in hits[:limit]]
