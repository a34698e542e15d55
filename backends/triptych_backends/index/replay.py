"""Changes of the truth become segments: what changed dies, its current state is added."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError
from triptych.text.term_ids import Encoded, join_encoded, split_encoded
from triptych_backends.index.build import SegmentBuilder, TermDictionary
from triptych_backends.index.change_log import ChangeLog, Field, Unit
from triptych_backends.index.compact import merge
from triptych_backends.index.segment import (
    Segment,
    SegmentReader,
    SharedVocabulary,
    ranges,
)

OWNERS_AT_ONCE = 512
# So much text is turned to numbers at once.
UNITS_AT_ONCE = 8_192
CHARACTERS_AT_ONCE = 4_000_000
# From so many owners on a batch is built with a vocabulary of its own, as a segment to stay.
BULK_OWNERS = 256

GROWTH = 4


def replay(
    feed: ChangeLog,
    dataset: str,
    changed: Mapping[Field, Sequence[int]],
    fields: Mapping[Field, tuple[SegmentReader, ...]],
    words: TermDictionary,
    bulk_words: Callable[[], TermDictionary],
    *,
    always_bulk: bool = False,
) -> dict[Field, tuple[SegmentReader, ...]]:
    """The views of each field after the owners in `changed` changed.

    `words` are the dictionaries of the current delta, `bulk_words` gives those of a segment that
    is to stay, as one of many owners is, or any with `always_bulk`.

    Raises ModelMismatchError when a vector is not as wide as the others of its field.
    """
    bulk = always_bulk or max(map(len, changed.values()), default=0) >= BULK_OWNERS
    builders = {
        field: _Building(feed, dataset, field, bulk_words() if bulk else words, shared=not bulk)
        for field in changed
    }
    if bulk and "chunk" in builders and "document" in builders:
        builders["document"].words = builders["chunk"].words
    # In step, so that a document's terms are found by its chunks, before those are forgotten.
    for owners in _batches(sorted(set().union(*changed.values()))):
        chunks = _ChunkTerms()
        for field, building in builders.items():
            mine = set(changed[field])
            building.read([owner for owner in owners if owner in mine], chunks)
    after = dict(fields)
    for field, building in builders.items():
        gone = np.array(sorted(set(changed[field])), np.int64)
        kept = [view.without(gone) for view in fields.get(field, ())]
        kept = [view for view in kept if view.live_count]
        for segment in building.segments():
            _require_width(segment, kept, dataset, field)
            kept = _absorb(kept, SegmentReader(segment), words)
        after[field] = tuple(kept)
    return after


def _batches(owners: Sequence[int]) -> Iterator[Sequence[int]]:
    return (owners[at : at + OWNERS_AT_ONCE] for at in range(0, len(owners), OWNERS_AT_ONCE))


class _ChunkTerms:
    """The terms of a batch of owners' chunks, from which those of the documents follow.

    Analysis never looks across white space: where chunks follow each other through a document
    with nothing but white space between them, their terms one after the other are its own.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, list[tuple[str, NDArray[np.int32]]]] = {}

    def remember(
        self, units: Sequence[Unit], numbers: NDArray[np.int32], sizes: NDArray[np.int64]
    ) -> None:
        ends = np.cumsum(sizes).tolist()
        for unit, start, end in zip(units, [0, *ends], ends, strict=False):
            self._pieces.setdefault(unit.owner, []).append((unit.text, numbers[start:end]))

    def of_document(self, unit: Unit) -> NDArray[np.int32] | None:
        """The numbers of a document's terms, None where they have to be worked out."""
        text, at = unit.text, 0
        pieces = []
        for piece, known in self._pieces.get(unit.owner, ()):
            start = text.find(piece, at)
            if start < 0 or (at and start == at) or not _is_blank(text, at, start):
                return None
            pieces.append(known)
            at = start + len(piece)
        return np.concatenate(pieces) if at and _is_blank(text, at, len(text)) else None


def _is_blank(text: str, start: int, end: int) -> bool:
    return start == end or text[start:end].isspace()


@attrs.define(eq=False)
class _Building:
    """The segments of one field that a replay makes."""

    _feed: ChangeLog
    _dataset: str
    _field: Field
    words: TermDictionary
    _shared: bool
    _done: list[Segment] = attrs.field(factory=list, init=False)
    _builder: SegmentBuilder | None = attrs.field(default=None, init=False)

    def read(self, owners: Sequence[int], chunks: _ChunkTerms) -> None:
        """Add the current units of `owners`."""
        if not owners:
            return
        waiting: list[Unit] = []
        characters = 0
        for unit in self._feed.units(self._dataset, self._field, owners):
            if len(waiting) >= UNITS_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
                self._add(waiting, chunks)
                waiting, characters = [], 0
            waiting.append(unit)
            characters += len(unit.text)
        if waiting:
            self._add(waiting, chunks)

    def _add(self, units: Sequence[Unit], chunks: _ChunkTerms) -> None:
        builder = self._builder
        if builder is not None and builder.full and builder.begins_owner(units[0]):
            self._done.append(builder.finish())
            builder = None
        if builder is None:
            builder = self._builder = SegmentBuilder(self.words, shared=self._shared)
        texts = self._encoded(units, chunks)
        if self._field == "chunk":
            chunks.remember(units, *texts)
        labels = encode_labels(units, self.words)
        of_units = [unit.text for unit in units], texts, [unit.label for unit in units], labels
        builder.add(units, *self.words.in_language(*of_units))

    def _encoded(self, units: Sequence[Unit], chunks: _ChunkTerms) -> Encoded:
        """The numbers of the units' terms, those of documents by their chunks where they can be."""
        if self._field != "document":
            return self.words.encode_all([unit.text for unit in units])
        known = [chunks.of_document(unit) for unit in units]
        rest = [unit.text for unit, numbers in zip(units, known, strict=True) if numbers is None]
        others = iter(split_encoded(self.words.encode_all(rest)))
        return join_encoded([next(others) if numbers is None else numbers for numbers in known])

    def segments(self) -> list[Segment]:
        """Everything that was read, as segments."""
        if self._builder is not None:
            self._done.append(self._builder.finish())
            self._builder = None
        return self._done


def encode_labels(units: Sequence[Unit], words: TermDictionary) -> Encoded:
    """The numbers of the terms of the units' labels; many have the same."""
    every = {label: at for at, label in enumerate({unit.label: None for unit in units})}
    numbers, sizes = words.encode_all(list(every))
    which = np.array([every[unit.label] for unit in units], np.intp)
    ends = np.cumsum(sizes)[which]
    return numbers[ranges(ends - sizes[which], ends)], sizes[which]


def _absorb(
    views: list[SegmentReader], added: SegmentReader, words: TermDictionary
) -> list[SegmentReader]:
    """`views` and `added`, merged with those delta segments that it is not small beside.

    The sizes of the delta segments then grow by more than `GROWTH` from one to the next, so that
    there are few of them and a unit is rewritten a logarithmic number of times.
    """
    if not is_delta(added, words):
        return [*views, added]
    others = [view for view in views if not is_delta(view, words)]
    deltas = sorted(
        (view for view in views if is_delta(view, words)), key=lambda view: view.live_count
    )
    absorbed, total = [added], added.live_count
    while deltas and deltas[0].live_count <= GROWTH * total:
        total += deltas[0].live_count
        absorbed.append(deltas.pop(0))
    if len(absorbed) > 1:
        added = SegmentReader(merge(absorbed, shared=True))
    return [*others, *deltas, added]


def is_delta(view: SegmentReader, words: TermDictionary) -> bool:
    """True for a segment that shares the dictionaries of the current delta."""
    vocabulary = view.segment.text.vocabulary
    return isinstance(vocabulary, SharedVocabulary) and vocabulary.shared is words.terms.numbers


def _require_width(
    segment: Segment, views: Sequence[SegmentReader], dataset: str, field: Field
) -> None:
    widths = {view.segment.dimension for view in views} | {segment.dimension}
    if len(widths - {0}) > 1:
        raise ModelMismatchError(
            f"dataset {dataset!r} has {field} vectors of widths {sorted(widths - {0})}: "
            "embed it again with one model"
        )
