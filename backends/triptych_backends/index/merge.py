"""From several segments to one, without what has died."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triptych_backends.index.binary_quantization import make_signs
from triptych_backends.index.build import concatenated, invert
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
    places = np.full(bases[-1], -1, np.int64)
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
    names, owners = segment.names(), segment.owners.tolist()
    return [(names[group], owners[group], at, group) for group in np.flatnonzero(live).tolist()]


def _postings(
    parts: Sequence[PostingsLists], remaps: Sequence[NDArray[np.int64]], count: int, shared: bool
) -> PostingsLists:
    numberings, words = _number(parts, shared)
    terms: list[IntArray] = []
    units: list[IntArray] = []
    counts = []
    for part, remap, numbering in zip(parts, remaps, numberings, strict=True):
        moved = remap[part.ids]
        live = moved >= 0
        terms.append(np.repeat(numbering, np.diff(part.offsets))[live])
        units.append(moved[live])
        counts.append(part.counts[live])

    def vocabulary(kept: NDArray[np.int32]) -> Vocabulary:
        if isinstance(words, dict):
            return SharedVocabulary(words, kept)
        return SortedVocabulary.of([words[number] for number in kept.tolist()])

    return invert(
        np.concatenate(terms), np.concatenate(units), np.concatenate(counts), count, vocabulary
    )


def _number(
    parts: Sequence[PostingsLists], shared: bool
) -> tuple[list[NDArray[np.int32]], dict[str, int] | list[str]]:
    """One numbering of all words: for each part the numbers of its words; and the words."""
    if shared:
        vocabularies = [part.vocabulary for part in parts]
        assert all(isinstance(one, SharedVocabulary) for one in vocabularies)
        numbers = [one.numbers for one in vocabularies if isinstance(one, SharedVocabulary)]
        first = vocabularies[0]
        assert isinstance(first, SharedVocabulary)
        return numbers, first.shared
    lists = [part.vocabulary.words() for part in parts]
    words = sorted(set().union(*lists))
    number = {word: at for at, word in enumerate(words)}
    return [np.array([number[word] for word in one], np.int32) for one in lists], words


class _Rows(NamedTuple):
    units: NDArray[np.int32]
    keys: NDArray[np.int64]
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]


def _rows(segments: Sequence[Segment], remaps: Sequence[NDArray[np.int64]]) -> _Rows:
    """The live vector rows of all segments in the order of their new units."""
    units = [remap[segment.row_units] for segment, remap in zip(segments, remaps, strict=True)]
    live = [moved >= 0 for moved in units]
    kept = np.concatenate([moved[mask] for moved, mask in zip(units, live, strict=True)])
    order = np.argsort(kept)
    masked = [(s, mask) for s, mask in zip(segments, live, strict=True) if s.dimension]
    return _Rows(
        units=kept[order].astype(np.int32),
        keys=concatenated([s.row_keys[mask] for s, mask in masked], order),
        codes=concatenated([s.codes[mask] for s, mask in masked], order),
        scales=concatenated([s.scales[mask] for s, mask in masked], order),
    )
