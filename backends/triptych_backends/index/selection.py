"""Which units a search may find: a snapshot of a dataset's segments, and what passes a filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from triptych.records import And, Condition, FilterTree, Not, Or
from triptych.records.filters import HEADING, all_of, conditions_of
from triptych_backends.index.change_log import Field, LogPosition
from triptych_backends.index.segment import Segment, SegmentReader, union

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
        return segment.units_without(self.part.units(dataset, segment, among))


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


@frozen(kw_only=True, eq=False)
class Snapshot:
    """A dataset's index after all changes up to `seq` of the change log `nonce`.

    It may have units of changes up to `horizon`, which were committed while it was made;
    `epoch` is the one that `horizon` is in. The snapshot is of use while the log has that
    number in that epoch (see `ChangeLog.epoch`).

    `analyzer` is the analyzer's signature, `language` what it was made from, `space` the
    embedding space, `sparse` the encoder of the sparse vectors. In each field an owner is live in
    one view at most.
    """

    nonce: str
    seq: int
    horizon: int
    epoch: str
    analyzer: str
    language: str
    space: str
    sparse: str = ""
    fields: Mapping[Field, tuple[SegmentReader, ...]] = field(factory=dict)

    @property
    def made_as(self) -> tuple[str, str, str]:
        """What it was made with: analyzer, embedding space, sparse encoder."""
        return self.analyzer, self.space, self.sparse

    def is_at(self, head: LogPosition) -> bool:
        """True when it is the very state that `head` names."""
        return (
            self.seq == head.seq
            and self.horizon == head.seq
            and self.epoch == head.epoch
            and self.nonce == head.nonce
        )

    def views(self, name: Field) -> tuple[SegmentReader, ...]:
        """The segments of a field, without what is dead."""
        return self.fields.get(name, ())

    def with_fields(self, fields: Mapping[Field, tuple[SegmentReader, ...]]) -> Snapshot:
        """The same moment with other segments."""
        return evolve(self, fields={name: views for name, views in fields.items() if views})


@frozen(kw_only=True)
class Stats:
    """What a dataset's index is made of: live units of each field, dead ones, segments, bytes.

    `pending` is about how many units another process would have to replay.
    """

    units: Mapping[Field, int]
    dead: int
    segments: int
    pending: int
    nbytes: int


def stats(snapshot: Snapshot, pending: int) -> Stats:
    """Statistics of a snapshot."""
    views = [view for some in snapshot.fields.values() for view in some]
    return Stats(
        units={
            name: sum(view.live_count for view in some) for name, some in snapshot.fields.items()
        },
        dead=sum(len(view.dead) for view in views),
        segments=len(views),
        pending=pending,
        nbytes=sum(view.segment.nbytes for view in views),
    )


@frozen(eq=False)
class Part:
    """One segment as a query sees it. `allowed`: the only ordinals that count, ascending."""

    dataset: str
    view: SegmentReader
    allowed: NDArray[np.int32] | None


def parts_of(
    dataset: str, views: Sequence[SegmentReader], selection: Selection | None
) -> list[Part]:
    """The views of a dataset, restricted by ``selection``; those left with nothing are left out."""
    found = []
    for view in views:
        allowed = None if selection is None else selection.units(dataset, view.segment)
        if allowed is None or len(allowed):
            found.append(Part(dataset, view, allowed))
    return found


@frozen(eq=False)
class Corpus:
    """The units that statistics are of: these ordinals, ascending, or where they are `apart` all
    others."""

    units: Units
    apart: bool = False


def bounded(
    snapshots: Mapping[str, Snapshot], field: Field, corpus: Selection | None
) -> tuple[list[SegmentReader], list[Corpus | None]]:
    """The views of a field, and for each what its statistics are of, None for all of it."""
    views: list[SegmentReader] = []
    corpora: list[Corpus | None] = []
    apart = isinstance(corpus, _Without)
    counted = corpus.part if isinstance(corpus, _Without) else corpus
    for dataset, snapshot in snapshots.items():
        for view in snapshot.views(field):
            views.append(view)
            units = None if counted is None else counted.units(dataset, view.segment)
            corpora.append(None if units is None else Corpus(units, apart))
    return views, corpora
