"""Which segments are merged, and what then becomes of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from triptych_backends.index.merge import merge
from triptych_backends.index.segment import SegmentReader, SortedVocabulary

# How hard to merge: "little" while more is about to come, "usual", or "all" that is worth it.
Effort = Literal["little", "usual", "all"]

# More units than this are never merged into one segment: it bounds the memory of a merge.
MAX_MERGED = 200_000
FAN_IN = 8
# Segments of fewer units are all of one size class.
SMALL = 4_096
# So few units are one segment: every segment costs a search half a millisecond, and merging these
# takes a fraction of a second.
ONE_SEGMENT = 16_384
# A field has so many segments more than it needs, at most, before all are merged.
SPARE = 3
# A segment is rewritten with smaller ones unless it is so many times as large as all of them.
RATIO = 4


@frozen(eq=False)
class Replacement:
    """`before`, views of one snapshot, hold the same live units as `after`."""

    before: tuple[SegmentReader, ...]
    after: SegmentReader


def compact(views: Sequence[SegmentReader], effort: Effort = "usual") -> list[Replacement]:
    """Merge the groups that `plan` gives. What needs no change is in no replacement."""
    return [
        Replacement(group, SegmentReader(merge(group)))
        for group in plan(views, effort)
        if _needs_merge(group)
    ]


def has_work(views: Sequence[SegmentReader], effort: Effort) -> bool:
    """Whether `compact` would replace anything."""
    return any(map(_needs_merge, plan(views, effort)))


def _needs_merge(group: Sequence[SegmentReader]) -> bool:
    return len(group) > 1 or not _settled(group[0])


def plan(
    views: Sequence[SegmentReader], effort: Effort = "usual"
) -> list[tuple[SegmentReader, ...]]:
    """The groups of views that are to be one segment each.

    With "little", the delta becomes one segment, and size classes that are full a larger one:
    a unit is rewritten as rarely as can be. With "all", there are as few segments as can be had
    without rewriting one that is much larger than what it is merged with. The "usual" is the
    first, unless a field is small or has several segments too many.
    """
    if effort == "all":
        return _fewest(views)
    if effort == "usual" and _size(views) <= ONE_SEGMENT:
        return [tuple(views)] if views else []
    loose = [view for view in views if not _settled(view)]
    groups: list[tuple[SegmentReader, ...]] = [(view,) for view in views if _settled(view)]
    groups += _packed(loose)
    while (merged := _merge_a_class(groups)) is not None:
        groups = merged
    if effort == "usual" and len(groups) > len(_packed(views)) + SPARE:
        return _fewest(views)
    return groups


def _fewest(views: Sequence[SegmentReader]) -> list[tuple[SegmentReader, ...]]:
    groups: list[tuple[SegmentReader, ...]] = []
    for packed in _packed(views):
        group = sorted(packed, key=lambda view: view.live_count)
        while len(group) > 1 and group[-1].live_count > RATIO * _size(group[:-1]):
            groups.append((group.pop(),))
        groups.append(tuple(group))
    return groups


def _settled(view: SegmentReader) -> bool:
    """True for a segment that stays as it is: with its own words, and not mostly dead."""
    own = isinstance(view.segment.text.vocabulary, SortedVocabulary)
    return own and len(view.dead) <= view.live_count


def _packed(views: Sequence[SegmentReader]) -> list[tuple[SegmentReader, ...]]:
    groups: list[tuple[SegmentReader, ...]] = []
    for view in sorted(views, key=lambda view: view.live_count):
        if groups and _size(groups[-1]) + view.live_count <= MAX_MERGED:
            groups[-1] = (*groups[-1], view)
        else:
            groups.append((view,))
    return groups


def _merge_a_class(
    groups: Sequence[tuple[SegmentReader, ...]],
) -> list[tuple[SegmentReader, ...]] | None:
    classes: dict[int, list[tuple[SegmentReader, ...]]] = {}
    for group in sorted(groups, key=_size):
        classes.setdefault(_size_class(_size(group)), []).append(group)
    for members in classes.values():
        if len(members) < FAN_IN:
            continue
        packed = _packed([view for group in members for view in group])
        if len(packed) < len(members):
            rest = [group for group in groups if group not in members]
            return rest + packed
    return None


def _size(group: Sequence[SegmentReader]) -> int:
    return sum(view.live_count for view in group)


def _size_class(size: int) -> int:
    size_class = 0
    while size >= SMALL:
        size //= FAN_IN
        size_class += 1
    return size_class


def carried_over(
    replacements: Sequence[Replacement], views: Sequence[SegmentReader]
) -> tuple[SegmentReader, ...]:
    """`views`, a later state of a field, with the replacements made in an earlier one.

    Owners that died in between are dead in what replaces their segments as well.
    """
    current = {id(view.segment): view for view in views}
    replaced: set[int] = set()
    result = []
    for replacement in replacements:
        gone = [
            _died_since(before, current.get(id(before.segment))) for before in replacement.before
        ]
        replaced |= {id(before.segment) for before in replacement.before}
        after = replacement.after.without(np.unique(np.concatenate(gone)))
        if after.live_count:
            result.append(after)
    return (*(view for view in views if id(view.segment) not in replaced), *result)


def _died_since(before: SegmentReader, now: SegmentReader | None) -> NDArray[np.int64]:
    """Owners that were live in a segment before and are not now."""
    if now is before:
        return np.empty(0, np.int64)
    dead = np.arange(len(before.segment), dtype=np.int32) if now is None else now.dead
    fresh = np.setdiff1d(dead, before.dead, assume_unique=True)
    return np.unique(before.segment.owners[before.segment.group_numbers(fresh)])
