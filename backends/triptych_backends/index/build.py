"""From units to a segment: one sort for all postings of a batch."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError
from triptych.records import SparseVector
from triptych_backends.index.binary_quantization import make_signs
from triptych_backends.index.change_log import Unit
from triptych_backends.index.dictionary import Dictionary, TermDictionary
from triptych_backends.index.scalar_quantization import quantise
from triptych_backends.index.segment import (
    EMPTY_ORDINALS,
    NO_SIGNS,
    IntArray,
    PostingsLists,
    Segment,
    SharedVocabulary,
    Vocabulary,
    pack,
)
from triptych_backends.index.sparse_postings import invert_vectors

# A batch ends at whichever comes first; together they bound the memory of building to ~350 MB.
MAX_UNITS = 131_072
MAX_TOKENS = 10_000_000
VECTOR_BATCH = 2_048
BLOCK = 1 << 18


class SegmentBuilder:
    """Collects units, then makes them a segment.

    A `shared` segment keeps referring to the dictionaries of `words` (a delta); otherwise it gets
    vocabularies of its own. Not thread-safe.
    """

    def __init__(self, words: TermDictionary, *, shared: bool) -> None:
        self._words = words
        self._shared = shared
        self._tokens = array("i")
        self._lengths = array("q")
        self._headings = array("i")
        self._heading_units = array("i")
        self._keys: list[int] = []
        self._indexes: list[int] = []
        self._groups: list[tuple[str, int, int]] = []  # name, owner, first unit
        self._vector_units = array("i")
        self._vector_keys = array("q")
        self._vectors: list[NDArray[np.float32]] = []
        self._quantised: list[tuple[NDArray[np.int8], NDArray[np.float32]]] = []
        self._width = 0
        self._sparse_units = array("i")
        self._sparse: list[SparseVector] = []
        self._sparse_terms = 0

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def full(self) -> bool:
        """True when the batch has to be finished before the next owner is added."""
        return (
            len(self._keys) >= MAX_UNITS
            or len(self._tokens) >= MAX_TOKENS
            or self._sparse_terms >= MAX_TOKENS
        )

    def begins_owner(self, unit: Unit) -> bool:
        """True unless `unit` has the same owner as the unit added last."""
        return not self._groups or self._groups[-1][1] != unit.owner

    def add(
        self, units: Sequence[Unit], numbers: NDArray[np.int32], sizes: NDArray[np.int64]
    ) -> None:
        """Add units with the numbers of their terms, as `TermDictionary.encode_all` gives them.

        An owner's units come one after the other. Raises ModelMismatchError when a vector is not
        as wide as the others.
        """
        # One block that grows: pieces among what is soon given back would keep the rest in place.
        self._tokens.frombytes(np.ascontiguousarray(numbers, np.int32).data.cast("B"))
        self._lengths.frombytes(np.ascontiguousarray(sizes, np.int64).data.cast("B"))
        known = self._words.headings.numbers
        for unit in units:
            ordinal = len(self._keys)
            if self.begins_owner(unit):
                self._groups.append((unit.name, unit.owner, ordinal))
            self._keys.append(unit.key)
            self._indexes.append(unit.index)
            if unit.headings:
                for heading in {heading.casefold() for heading in unit.headings}:
                    self._headings.append(known.setdefault(heading, len(known)))
                    self._heading_units.append(ordinal)
            if unit.vector is not None:
                self._add_vector(ordinal, unit)
            if unit.sparse is not None:
                self._sparse_units.append(ordinal)
                self._sparse.append(unit.sparse)
                self._sparse_terms += len(unit.sparse)

    def _add_vector(self, ordinal: int, unit: Unit) -> None:
        vector = unit.vector
        assert vector is not None
        if not self._width:
            self._width = vector.shape[-1]
        if vector.shape != (self._width,):
            raise ModelMismatchError(
                f"the vector of {unit.name!r}, unit {unit.index}, has shape {vector.shape}; the "
                f"others are {self._width} wide: embed the dataset again with one model"
            )
        self._vector_units.append(ordinal)
        self._vector_keys.append(unit.key if unit.vector_key is None else unit.vector_key)
        self._vectors.append(vector)
        if len(self._vectors) == VECTOR_BATCH:
            self._quantise()

    def _quantise(self) -> None:
        self._quantised.append(quantise(np.stack(self._vectors)))
        self._vectors = []

    def finish(self) -> Segment:
        """The segment of all units added. The builder must not be used again."""
        count = len(self._keys)
        order, groups, starts = self._ordered()
        rank = np.empty(count, np.int32)
        rank[order] = np.arange(count)
        lengths = np.array(self._lengths, np.int64)
        if self._vectors:
            self._quantise()
        rows = rank[np.frombuffer(self._vector_units, np.int32)] if self._vector_units else None
        rows_first = EMPTY_ORDINALS if rows is None else np.argsort(rows)
        name_blob, name_offsets = pack([name.encode() for name, _, _ in groups])
        owners = np.array([owner for _, owner, _ in groups], np.int64)
        codes, scales = self._codes(rows_first)
        tokens, self._tokens = [self._tokens], array("i")
        return Segment(
            starts=starts,
            owners=owners,
            owner_order=np.argsort(owners).astype(np.int32),
            name_blob=name_blob,
            name_offsets=name_offsets,
            keys=np.array(self._keys, np.int64)[order],
            indexes=np.array(self._indexes, np.int32)[order],
            lengths=lengths[order].astype(np.uint32),
            text=self._invert(
                self._words.terms,
                tokens,
                lambda: np.repeat(rank, lengths),
                count,
                int(lengths.max(initial=0)),
            ),
            headings=self._invert(
                self._words.headings,
                [self._headings],
                lambda: rank[np.array(self._heading_units, np.int64)],
                count,
                1,
            ),
            row_units=EMPTY_ORDINALS if rows is None else rows[rows_first],
            row_keys=np.array(self._vector_keys, np.int64)[rows_first],
            codes=codes,
            scales=scales,
            signs=NO_SIGNS if self._shared else make_signs(codes, scales),
            sparse=invert_vectors(rank[np.array(self._sparse_units, np.int64)], self._sparse),
        )

    def _ordered(
        self,
    ) -> tuple[NDArray[np.int64], list[tuple[str, int, int]], NDArray[np.int32]]:
        """Units by (name, owner, index): their order, the groups in order, the groups' starts."""
        ends = [first for _, _, first in self._groups[1:]] + [len(self._keys)]
        indexes = self._indexes
        pieces: list[Sequence[int]] = []
        places = sorted(range(len(self._groups)), key=self._groups.__getitem__)
        for place in places:
            run = range(self._groups[place][2], ends[place])
            pieces.append(sorted(run, key=indexes.__getitem__))
        starts = np.zeros(len(places) + 1, np.int32)
        np.cumsum([len(piece) for piece in pieces], out=starts[1:])
        flat = [unit for piece in pieces for unit in piece]
        return np.array(flat, np.int64), [self._groups[place] for place in places], starts

    def _codes(self, order: IntArray) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """All rows in this order; each batch is let go of as it is copied."""
        if not self._quantised:
            return np.empty((0, 0), np.int8), np.empty(0, np.float32)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        codes = np.empty((len(order), self._width), np.int8)
        scales = np.empty(len(order), np.float32)
        self._quantised.reverse()
        at = 0
        while self._quantised:
            some, their_scales = self._quantised.pop()
            rows = places[at : at + len(some)]
            codes[rows], scales[rows] = some, their_scales
            at += len(some)
        return codes, scales

    def _invert(
        self,
        words: Dictionary,
        numbers: list[array[int]],
        units: Callable[[], IntArray],
        count: int,
        most: int,
    ) -> PostingsLists:
        """Postings of the one array in `numbers`, which is taken out, and the units beside it.

        Nothing of either is kept while the keys are sorted: that is where memory peaks.
        """
        tokens = numbers.pop()
        flat = np.frombuffer(tokens, np.int32) if tokens else np.empty(0, np.int32)
        if self._shared:
            key = keys_of(flat, units(), count)
            return postings_lists(
                key, count, most, lambda kept: SharedVocabulary(words.numbers, kept)
            )
        key = words.ranks()[flat]
        del flat, tokens
        join_keys(key, units(), count)
        return postings_lists(key, count, most, words.vocabulary)


def join_keys(terms: NDArray[np.int64], units: IntArray, unit_count: int) -> None:
    """Make terms one 64-bit number each with their units, in place: by term, then unit."""
    terms <<= _bits(unit_count)
    terms |= units


def keys_of(terms: IntArray, units: IntArray, unit_count: int) -> NDArray[np.int64]:
    """Occurrences of terms in units as one 64-bit number each, by term, then unit."""
    key = terms.astype(np.int64)
    join_keys(key, units, unit_count)
    return key


def postings_lists(
    key: NDArray[np.int64],
    unit_count: int,
    most: int,
    vocabulary: Callable[[NDArray[np.int32]], Vocabulary],
) -> PostingsLists:
    """Postings of occurrences in any order, as `keys_of` makes them; `key` is overwritten.

    `most` is how often one term can be in one unit, at most. A plain sort of
    numbers, the fastest there is, does all the work. `vocabulary` is given the term numbers that
    occur, ascending.
    """
    key.sort()
    new = _changes(key)
    total = int(np.count_nonzero(new))
    ids, counts = np.empty(total, np.int32), np.empty(total, np.min_scalar_type(most))
    bits, at, before, last = _bits(unit_count), 0, -1, 0
    starts: list[NDArray[np.int64]] = []
    terms: list[NDArray[np.int64]] = []
    # In blocks, since each number in between takes eight bytes and more.
    for begin in range(0, len(key), BLOCK):
        first = np.flatnonzero(new[begin : begin + BLOCK])
        if not len(first):
            continue
        first += begin
        end = at + len(first)
        if at:
            counts[at - 1] = first[0] - last
        np.subtract(first[1:], first[:-1], out=counts[at : end - 1], casting="unsafe")
        found = key[first]
        np.bitwise_and(found, (1 << bits) - 1, out=ids[at:end], casting="unsafe")
        found >>= bits
        changed = np.flatnonzero(np.diff(found, prepend=before))
        starts.append(changed + at)
        terms.append(found[changed])
        at, before, last = end, int(found[-1]), int(first[-1])
    if at:
        counts[at - 1] = len(key) - last
    kept = np.concatenate([*terms, np.empty(0, np.int64)]).astype(np.int32)
    offsets = np.concatenate([*starts, np.array([total])])
    return PostingsLists(vocabulary(kept), offsets, ids, _narrow(counts))


def invert(
    terms: IntArray,
    units: IntArray,
    counts: NDArray[np.unsignedinteger[Any]],
    unit_count: int,
    vocabulary: Callable[[NDArray[np.int32]], Vocabulary],
) -> PostingsLists:
    """Postings of (term, unit, count) triples in any order, each (term, unit) once.

    The count shares the number that is sorted.
    """
    key = keys_of(terms, units, unit_count)
    count_bits = int(counts.max(initial=0)).bit_length()
    key <<= count_bits
    key |= counts
    key.sort()
    found = _narrow(key & ((1 << count_bits) - 1))
    key >>= count_bits
    return _postings(key, found, unit_count, vocabulary)


def _postings(
    key: NDArray[np.int64],
    counts: NDArray[np.unsignedinteger[Any]],
    unit_count: int,
    vocabulary: Callable[[NDArray[np.int32]], Vocabulary],
) -> PostingsLists:
    bits = _bits(unit_count)
    ids = np.empty(len(key), np.int32)
    np.bitwise_and(key, (1 << bits) - 1, out=ids, casting="unsafe")
    key >>= bits
    starts = np.flatnonzero(_changes(key))
    kept = key[starts].astype(np.int32)
    return PostingsLists(
        vocabulary(kept), np.append(starts, len(key)).astype(np.int64), ids, counts
    )


def _narrow(counts: IntArray) -> NDArray[np.unsignedinteger[Any]]:
    return counts.astype(np.min_scalar_type(int(counts.max(initial=1))))


def _bits(unit_count: int) -> int:
    return max(unit_count - 1, 0).bit_length()


def _changes(values: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True where a sorted array has a value for the first time."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes


def concatenated(parts: Sequence[NDArray[Any]], order: IntArray) -> NDArray[Any]:
    """Rows of several arrays as one, in this order; of no arrays, an empty one."""
    return np.concatenate(parts)[order] if parts else np.empty(0, np.int8)
