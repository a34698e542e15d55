"""Changes of the truth become segments: what changed dies, its current state is added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from triptych.errors import ValidationError

from .build import SegmentBuilder, Words
from .feed import ChangeFeed, Field
from .merge import merge
from .segment import Segment, SharedVocabulary, View

OWNERS_AT_ONCE = 512
# From so many owners on a batch is built with a vocabulary of its own, as a segment to stay.
BULK_OWNERS = 256

GROWTH = 4


def replay(
    feed: ChangeFeed,
    dataset: str,
    field: Field,
    owners: Sequence[int],
    views: Sequence[View],
    encode: Callable[[str, dict[str, int]], list[int]],
    words: Words,
) -> tuple[View, ...]:
    """The views of a field after `owners` changed.

    Raises ValidationError when a vector is not as wide as the others of the field.
    """
    changed = np.unique(np.array(owners, np.int64))
    kept = [view.without(changed) for view in views]
    kept = [view for view in kept if view.live_count]
    shared = None if len(owners) >= BULK_OWNERS else words
    for segment in _segments(feed, dataset, field, owners, encode, shared):
        _require_width(segment, kept, dataset, field)
        kept = _absorb(kept, View(segment), words)
    return tuple(kept)


def _segments(
    feed: ChangeFeed,
    dataset: str,
    field: Field,
    owners: Sequence[int],
    encode: Callable[[str, dict[str, int]], list[int]],
    words: Words | None,
) -> Sequence[Segment]:
    segments = []
    builder = SegmentBuilder(encode, words)
    remaining = iter(owners)
    while batch := list(islice(remaining, OWNERS_AT_ONCE)):
        for unit in feed.units(dataset, field, batch):
            if builder.full and builder.begins_owner(unit):
                segments.append(builder.finish())
                builder = SegmentBuilder(encode, words)
            builder.add(unit)
    if len(builder):
        segments.append(builder.finish())
    return segments


def _absorb(views: list[View], added: View, words: Words) -> list[View]:
    """`views` and `added`, merged with those delta segments that it is not small beside.

    The sizes of the delta segments then grow by more than `GROWTH` from one to the next, so that
    there are few of them and a unit is rewritten a logarithmic number of times.
    """
    if not is_delta(added, words):
        return [*views, added]
    others = [view for view in views if not is_delta(view, words)]
    deltas = sorted((view for view in views if is_delta(view, words)), key=_live_count)
    absorbed, total = [added], added.live_count
    while deltas and deltas[0].live_count <= GROWTH * total:
        total += deltas[0].live_count
        absorbed.append(deltas.pop(0))
    if len(absorbed) > 1:
        added = View(merge(absorbed, shared=True))
    return [*others, *deltas, added]


def is_delta(view: View, words: Words) -> bool:
    """True for a segment that shares the dictionaries of the current delta."""
    vocabulary = view.segment.text.vocabulary
    return isinstance(vocabulary, SharedVocabulary) and vocabulary.shared is words.terms


def _live_count(view: View) -> int:
    return view.live_count


def _require_width(segment: Segment, views: Sequence[View], dataset: str, field: Field) -> None:
    widths = {view.segment.dimension for view in views} | {segment.dimension}
    if len(widths - {0}) > 1:
        raise ValidationError(
            f"dataset {dataset!r} has {field} vectors of widths {sorted(widths - {0})}: "
            "embed it again with one model"
        )
