"""Another embedding space for units whose texts stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from triptych_backends.index.binary_quantization import make_signs
from triptych_backends.index.change_log import ChangeLog, Field, Unit
from triptych_backends.index.scalar_quantization import quantise
from triptych_backends.index.segment import (
    NO_SIGNS,
    Segment,
    SegmentReader,
    SharedVocabulary,
)

_OWNERS_AT_ONCE = 256
_ROWS_AT_ONCE = 2_048


def revectored(
    feed: ChangeLog, dataset: str, field: Field, views: Sequence[SegmentReader]
) -> tuple[SegmentReader, ...]:
    """The views with the vectors that their units have now; nothing is analysed again.

    A unit that is another by now has none: the log names its owner.
    """
    if field == "document":
        return tuple(views)  # which have no vectors
    return tuple(
        SegmentReader(_revectored(feed, dataset, field, view), view.dead) for view in views
    )


def _revectored(feed: ChangeLog, dataset: str, field: Field, view: SegmentReader) -> Segment:
    segment = view.segment
    rows = _Rows(segment)
    owners = segment.owners.tolist()
    for at in range(0, len(owners), _OWNERS_AT_ONCE):
        for unit in feed.units(dataset, field, owners[at : at + _OWNERS_AT_ONCE]):
            rows.add(unit)
    units, keys, codes, scales = rows.finish()
    is_shared = isinstance(segment.text.vocabulary, SharedVocabulary)
    return evolve(
        segment,
        row_units=units,
        row_keys=keys,
        codes=codes,
        scales=scales,
        signs=NO_SIGNS if is_shared else make_signs(codes, scales),
        file=None,
    )


class _Rows:
    """The vector rows of a segment, in the order of its units."""

    def __init__(self, segment: Segment) -> None:
        self._order = np.argsort(segment.keys)
        self._sorted = segment.keys[self._order]
        self._units: list[int] = []
        self._keys: list[int] = []
        self._waiting: list[NDArray[np.float32]] = []
        self._done: list[tuple[NDArray[np.int8], NDArray[np.float32]]] = []

    def add(self, unit: Unit) -> None:
        """Take the unit's vector, if it has one and is in the segment."""
        if unit.vector is None or not len(self._sorted):
            return
        place = min(int(self._sorted.searchsorted(unit.key)), len(self._sorted) - 1)
        if self._sorted[place] != unit.key:
            return
        self._units.append(int(self._order[place]))
        self._keys.append(unit.key if unit.vector_key is None else unit.vector_key)
        self._waiting.append(unit.vector)
        if len(self._waiting) >= _ROWS_AT_ONCE:
            self._quantise()

    def _quantise(self) -> None:
        if self._waiting:
            self._done.append(quantise(np.stack(self._waiting)))
            self._waiting = []

    def finish(
        self,
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int8], NDArray[np.float32]]:
        """Units, keys of their vectors, codes and scales, by ascending unit."""
        self._quantise()
        units = np.array(self._units, np.int32)
        order = np.argsort(units)
        keys = np.array(self._keys, np.int64)[order]
        if not self._done:
            return units, keys, np.empty((0, 0), np.int8), np.empty(0, np.float32)
        codes = np.concatenate([codes for codes, _ in self._done])[order]
        scales = np.concatenate([scales for _, scales in self._done])[order]
        return units[order], keys, codes, scales
