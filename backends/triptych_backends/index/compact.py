"""Which segments are merged, how, without what has died, and what then becomes of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from triptych_backends.index.build import invert
from triptych_backends.index.quantization import make_signs
from triptych_backends.index.segment import (
    NO_SIGNS,
    IntArray,
    PostingsLists,
    Segment,
    SegmentReader,
    SharedVocabulary,
    SortedVocabulary,
    Vocabulary,
    pack,
    ranges,
)
from triptych_backends.index.sparse_postings import merge_postings


def merge(views: Sequence[SegmentReader], *, shared: bool = False) -> Segment:
    """One segment of the live units of all views, among which every owner is live once at most.

    With `shared` the views' segments share one dictionary, and so does the result; else it gets
    vocabularies of its own.
    """
    segments = [view.segment for view in views]
    bases = np.cumsum([0] + [len(segment) for segment in segments])
    groups = sorted(entry for at, view in enumerate(views) for entry in _live_groups(at, view))
    first = [int(bases[at] + segments[at].starts[group]) for _, _, at, group in groups]
    last = [int(bases[at] + segments[at].starts[group + 1]) for _, _, at, group in groups]
    order = ranges(np.array(first, np.int64), np.array(last, np.int64))
    places = np.full(bases[-1], -1, np.int32)
    places[order] = np.arange(len(order))
    remaps = [places[bases[at] : bases[at + 1]] for at in range(len(segments))]
    owners = np.array([owner for _, owner, _, _ in groups], np.int64)
    name_blob, name_offsets = pack([name.encode() for name, _, _, _ in groups])
    rows = _rows(segments, remaps)
    return Segment(
        starts=np.concatenate(([0], np.cumsum(np.subtract(last, first)))).astype(np.int32),
        owners=owners,
        owner_order=np.argsort(owners).astype(np.int32),
        name_blob=name_blob,
        name_offsets=name_offsets,
        keys=np.concatenate([segment.keys for segment in segments])[order],
        indexes=np.concatenate([segment.indexes for segment in segments])[order],
        lengths=np.concatenate([segment.lengths for segment in segments])[order],
        text=_postings([segment.text for segment in segments], remaps, len(order), shared),
        headings=_postings([segment.headings for segment in segments], remaps, len(order), shared),
        row_units=rows.units,
        row_keys=rows.keys,
        codes=rows.codes,
        scales=rows.scales,
        signs=NO_SIGNS if shared else make_signs(rows.codes, rows.scales),
        sparse=merge_postings([segment.sparse for segment in segments], remaps),
    )


def _live_groups(at: int, view: SegmentReader) -> list[tuple[str, int, int, int]]:
    """(name, owner, `at`, group) of the groups that are live: a group lives or dies as a whole."""
    segment = view.segment
    live = np.ones(len(segment.owners), np.bool_)
    live[segment.group_numbers(view.dead)] = False
    names, owners = segment.names, segment.owners.tolist()
    return [(names[group], owners[group], at, group) for group in np.flatnonzero(live).tolist()]


def _postings(
    parts: Sequence[PostingsLists], remaps: Sequence[NDArray[np.int32]], count: int, shared: bool
) -> PostingsLists:
    numberings, vocabulary = number_words([part.vocabulary for part in parts], shared)
    terms: list[IntArray] = []
    units: list[IntArray] = []
    counts = []
    for part, remap, numbering in zip(parts, remaps, numberings, strict=True):
        moved = remap[part.ids]
        live = moved >= 0
        terms.append(np.repeat(numbering, np.diff(part.offsets))[live])
        units.append(moved[live])
        counts.append(part.counts[live])
    return invert(
        np.concatenate(terms), np.concatenate(units), np.concatenate(counts), count, vocabulary
    )


_Kept = Callable[[NDArray[np.int32]], Vocabulary]


def number_words(
    vocabularies: Sequence[Vocabulary], shared: bool
) -> tuple[list[NDArray[np.int32]], _Kept]:
    """One numbering of all words: for each vocabulary the numbers of its words, and what gives the
    vocabulary of the words with some numbers, ascending."""
    if shared:
        deltas = [each for each in vocabularies if isinstance(each, SharedVocabulary)]
        assert len(deltas) == len(vocabularies)
        words = deltas[0].shared
        return [each.numbers for each in deltas], lambda kept: SharedVocabulary(words, kept)
    parts = [
        each if isinstance(each, SortedVocabulary) else SortedVocabulary.of(each.words())
        for each in vocabularies
    ]
    blob = np.concatenate([part.blob for part in parts])
    prefixes = np.concatenate([part.prefixes for part in parts])
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    ends = np.cumsum(lengths)
    starts = ends - lengths
    # Of words that begin with the same eight bytes, the shorter is the first, and of those that
    # are longer the rests decide.
    rests = np.minimum(lengths, 9)
    longer = np.flatnonzero(lengths > 8)
    places = zip(starts[longer].tolist(), ends[longer].tolist(), strict=True)
    tails = [blob[start + 8 : end].tobytes() for start, end in places]
    number_of = {tail: number for number, tail in enumerate(sorted(set(tails)), 9)}
    rests[longer] = [number_of[tail] for tail in tails]
    order = np.lexsort((rests, prefixes))
    new = np.ones(len(order), np.bool_)
    new[1:] = np.diff(prefixes[order]).astype(np.bool_) | np.diff(rests[order]).astype(np.bool_)
    numbers = np.empty(len(order), np.int32)
    numbers[order] = np.cumsum(new) - 1
    first = order[new]

    def vocabulary(kept: NDArray[np.int32]) -> Vocabulary:
        at = first[kept]
        return SortedVocabulary.of_pieces(blob, starts[at], ends[at], prefixes[at])

    return np.split(numbers, np.cumsum([len(part) for part in parts])[:-1]), vocabulary


def _concatenated(parts: Sequence[NDArray[Any]], order: IntArray) -> NDArray[Any]:
    """Rows of several arrays as one, in this order; of no arrays, an empty one."""
    return np.concatenate(parts)[order] if parts else np.empty(0, np.int8)


class _Rows(NamedTuple):
    units: NDArray[np.int32]
    keys: NDArray[np.int64]
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]


def _rows(segments: Sequence[Segment], remaps: Sequence[NDArray[np.int32]]) -> _Rows:
    """The live vector rows of all segments in the order of their new units."""
    units = [remap[segment.row_units] for segment, remap in zip(segments, remaps, strict=True)]
    live = [moved >= 0 for moved in units]
    kept = np.concatenate([moved[mask] for moved, mask in zip(units, live, strict=True)])
    order = np.argsort(kept)
    masked = [(s, mask) for s, mask in zip(segments, live, strict=True) if s.dimension]
    return _Rows(
        units=kept[order].astype(np.int32),
        keys=_concatenated([s.row_keys[mask] for s, mask in masked], order),
        codes=_concatenated([s.codes[mask] for s, mask in masked], order),
        scales=_concatenated([s.scales[mask] for s, mask in masked], order),
    )


# How hard to merge: "little" while more is about to come, "usual", or "all" that is worth it.
Effort = Literal["little", "usual", "all"]

# More units than this are never merged into one segment: it bounds the memory of a merge.
MAX_MERGED = 200_000
FAN_IN = 8
# While a bulk write goes on: at sixteen, merges were a fifth of its index's time, and a first
# search could wait seconds for one. All segments are merged when it has ended.
BULK_FAN_IN = 32
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
    fan_in = BULK_FAN_IN if effort == "little" else FAN_IN
    while (merged := _merge_a_class(groups, fan_in)) is not None:
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
    groups: Sequence[tuple[SegmentReader, ...]], fan_in: int
) -> list[tuple[SegmentReader, ...]] | None:
    classes: dict[int, list[tuple[SegmentReader, ...]]] = {}
    for group in sorted(groups, key=_size):
        classes.setdefault(_size_class(_size(group)), []).append(group)
    for members in classes.values():
        if len(members) < fan_in:
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
