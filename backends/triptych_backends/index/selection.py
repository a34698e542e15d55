"""Which units of a segment pass a filter: of chunks, their own headings decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from triptych.records import And, Condition, FilterTree, Not, Or
from triptych.records.filters import HEADING, all_of, conditions_of
from triptych_backends.index.segment import Segment, union

AT_ONCE = 500
"""So many documents are judged between two looks at the deadline."""

Units = NDArray[np.int32]
Owners = Mapping[str, NDArray[np.int64]]


class Selection(Protocol):
    """What of a dataset's segments a query may find."""

    def units(self, dataset: str, segment: Segment, among: Units | None = None) -> Units:
        """The ordinals of the units that pass, ascending.

        With ``among``, which is ascending too, only these need be right: no other is looked at.
        """
        ...


@frozen(eq=False)
class OwnedBy:
    """Units of these owners: a sorted int64 array for each dataset, none for one it lacks."""

    owners: Owners

    def units(self, dataset: str, segment: Segment, among: Units | None = None) -> Units:
        """See `Selection.units`."""
        owners = self.owners.get(dataset)
        return segment.units_of(np.empty(0, np.int64) if owners is None else owners)


@frozen(eq=False)
class Under:
    """Units under any of these headings, case-folded."""

    headings: tuple[str, ...]

    def units(self, dataset: str, segment: Segment, among: Units | None = None) -> Units:
        """See `Selection.units`."""
        return segment.units_under(self.headings, among)


@frozen(eq=False)
class _All:
    parts: tuple[Selection, ...]

    def units(self, dataset: str, segment: Segment, among: Units | None = None) -> Units:
        found = self.parts[0].units(dataset, segment, among)
        for part in self.parts[1:]:
            others = part.units(dataset, segment, found)
            found = np.intersect1d(found, others, assume_unique=True)
        return found


@frozen(eq=False)
class _Any:
    parts: tuple[Selection, ...]

    def units(self, dataset: str, segment: Segment, among: Units | None = None) -> Units:
        return union(*(part.units(dataset, segment, among) for part in self.parts))


@frozen(eq=False)
class _Without:
    part: Selection

    def units(self, dataset: str, segment: Segment, among: Units | None = None) -> Units:
        kept = np.ones(len(segment.keys), np.bool_)
        kept[self.part.units(dataset, segment, among)] = False
        return np.flatnonzero(kept).astype(np.int32)


def both(left: Selection, right: Selection) -> Selection:
    """The units that pass ``left`` and ``right``, which looks only at what passes ``left``."""
    return _All((left, right))


def without(part: Selection) -> Selection:
    """The units that do not pass ``part``."""
    return _Without(part)


def without_part(tree: FilterTree | None, part: FilterTree | None) -> FilterTree | None:
    """What is left to ask of what passes ``part``: ``tree`` without that condition."""
    if part is None or tree is None:
        return tree
    if tree == part:
        return None
    if isinstance(tree, And) and part in tree.parts:
        return all_of(*(each for each in tree.parts if each != part))
    return tree


def has_headings(tree: FilterTree | None) -> bool:
    """Whether a condition of ``tree`` is on headings."""
    return any(condition.field == HEADING for condition in conditions_of(tree))


def select(tree: FilterTree, owners: Callable[[FilterTree], Owners]) -> Selection:
    """The units that pass ``tree``; ``owners`` finds those of a tree without headings."""
    if isinstance(tree, Condition) and tree.field == HEADING:
        return Under(tuple(sorted(text for _, text in tree.values)))
    if not has_headings(tree) and not isinstance(tree, Not):
        return OwnedBy(owners(tree))
    if isinstance(tree, Not):
        return _Without(select(tree.part, owners))
    assert isinstance(tree, And | Or)
    # What the truth knows is asked at once.
    headed = [part for part in tree.parts if has_headings(part)]
    plain = tuple(part for part in tree.parts if not has_headings(part))
    parts = [select(part, owners) for part in headed]
    if plain:
        parts.append(select(_over(tree, plain), owners))
    return _All(tuple(parts)) if isinstance(tree, And) else _Any(tuple(parts))


def _over(tree: And | Or, parts: tuple[FilterTree, ...]) -> FilterTree:
    """``tree`` over other parts."""
    if len(parts) == 1:
        return parts[0]
    return And(parts) if isinstance(tree, And) else Or(parts)
