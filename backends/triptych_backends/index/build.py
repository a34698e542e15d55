"""From units to a segment: dictionaries of words, and one sort for all postings of a batch."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triptych.records import SparseVector
from triptych.text import TEXT_WEIGHT, Analyzer, headings_in
from triptych.text.term_ids import Encoded
from triptych_backends.index import kernels
from triptych_backends.index.change_log import Unit
from triptych_backends.index.quantization import VectorRows, make_signs
from triptych_backends.index.segment import (
    EMPTY_ORDINALS,
    NO_SIGNS,
    IntArray,
    PostingsLists,
    Segment,
    SharedVocabulary,
    SortedVocabulary,
    Vocabulary,
    pack,
)
from triptych_backends.index.sparse_postings import invert_vectors

# A dictionary that is kept from batch to batch begins again after so many words.
_KEPT_WORDS = 1 << 19


class Dictionary:
    """Words and their numbers, given in the order in which they were met.

    What it knows of the words' order is brought up to date, not made again, when words are added:
    a bulk write asks for it with every batch.
    """

    __slots__ = ("_blob", "_ends", "_every", "_order", "_prefixes", "_ranks", "numbers")

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._every: list[str] = []
        self._order = np.empty(0, np.int64)
        self._ranks = np.empty(0, np.int64)
        self._blob = bytearray()
        self._ends = array("q", [0])
        self._prefixes = bytearray()

    def ranks(self) -> NDArray[np.int64]:
        """For each number its word's place among all words, sorted by code point."""
        if len(self.numbers) > len(self._order):
            self._sort()
        return self._ranks

    def _sort(self) -> None:
        known, count = len(self._order), len(self.numbers)
        new = list(islice(self.numbers, known, None))
        encoded = [word.encode() for word in new]
        self._every += new
        self._ends.extend((np.cumsum([len(word) for word in encoded]) + self._ends[-1]).tolist())
        self._blob += b"".join(encoded)
        self._prefixes += b"".join([word[:8].ljust(8, b"\0") for word in encoded])
        added = sorted(range(known, count), key=self._every.__getitem__)
        self._order = np.insert(self._order, self._places(added), added)
        self._ranks = np.empty(count, np.int64)
        self._ranks[self._order] = np.arange(count)

    def _places(self, added: list[int]) -> list[int]:
        """Where among the words in order each of others goes, which are in order themselves."""
        order, every = self._order, self._every
        prefixes = np.frombuffer(self._prefixes, ">u8").astype(np.uint64)
        known, wanted = prefixes[order], prefixes[added]
        places: list[int] = known.searchsorted(wanted).tolist()
        ends = known.searchsorted(wanted, "right").tolist()
        for at, end in enumerate(ends):
            if places[at] < end:  # others begin with the same eight bytes
                word = every[added[at]]
                places[at] = bisect_left(order, word, places[at], end, key=every.__getitem__)
        return places

    def vocabulary(self, kept: NDArray[np.int32]) -> SortedVocabulary:
        """The words at these ranks, ascending, as `ranks` gave them last."""
        numbers = self._order[kept]
        # Copies, so that what is looked at here may grow again.
        ends = np.array(self._ends)
        blob = np.frombuffer(self._blob, np.uint8) if self._blob else np.empty(0, np.uint8)
        prefixes = np.frombuffer(self._prefixes, ">u8")[numbers] if len(numbers) else np.empty(0)
        return SortedVocabulary.of_pieces(
            blob, ends[numbers], ends[numbers + 1], prefixes.astype(np.uint64)
        )


class TermDictionary:
    """The dictionaries of terms and of folded headings, and what numbers terms."""

    __slots__ = ("encode_all", "headings", "in_language", "terms")

    def __init__(self, analyzer: Analyzer) -> None:
        self.terms = Dictionary()
        self.headings = Dictionary()
        runs = None if kernels.compiled is None else kernels.compiled.runs
        numbering = analyzer.numbering(self.terms.numbers, runs)
        self.encode_all = numbering.encode_all
        self.in_language = numbering.in_language

    @property
    def is_full(self) -> bool:
        """True when another is to take its place, so that memory stays bounded."""
        return max(len(self.terms.numbers), len(self.headings.numbers)) >= _KEPT_WORDS


# A batch ends at whichever comes first; together they bound the memory of building to ~350 MB.
MAX_UNITS = 131_072
MAX_TOKENS = 10_000_000
BLOCK = 1 << 18
_NARROW_BITS = 32

_Occurrences = tuple["array[int]", Callable[[], IntArray], int]
"""Numbers of words, what gives the units that they are in, and what each counts."""


class SegmentBuilder:
    """Collects units, then makes them a segment.

    A `shared` segment keeps referring to the dictionaries of `words` (a delta); otherwise it gets
    vocabularies of its own. Not thread-safe.
    """

    def __init__(self, words: TermDictionary, *, shared: bool) -> None:
        self._words = words
        self._shared = shared
        self._tokens = array("i")
        self._sizes = array("q")
        self._labels = array("i")
        self._label_sizes = array("q")
        self._headings = array("i")
        self._heading_units = array("i")
        self._keys: list[int] = []
        self._indexes: list[int] = []
        self._groups: list[tuple[str, int, int]] = []  # name, owner, first unit
        self._rows = VectorRows()
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

    def add(self, units: Sequence[Unit], texts: Encoded, labels: Encoded) -> None:
        """Add units with the numbers of their terms, as `TermDictionary.encode_all` gives them.

        An owner's units come one after the other. Raises ModelMismatchError when a vector is not
        as wide as the others.
        """
        # One block that grows: pieces among what is soon given back would keep the rest in place.
        for into, values in (
            (self._tokens, texts[0].astype(np.int32, copy=False)),
            (self._sizes, texts[1].astype(np.int64, copy=False)),
            (self._labels, labels[0].astype(np.int32, copy=False)),
            (self._label_sizes, labels[1].astype(np.int64, copy=False)),
        ):
            into.frombytes(np.ascontiguousarray(values).data.cast("B"))
        known = self._words.headings.numbers
        for unit in units:
            ordinal = len(self._keys)
            if self.begins_owner(unit):
                self._groups.append((unit.name, unit.owner, ordinal))
            self._keys.append(unit.key)
            self._indexes.append(unit.index)
            if unit.headings:
                for heading in headings_in(unit.headings):
                    self._headings.append(known.setdefault(heading, len(known)))
                    self._heading_units.append(ordinal)
            self._rows.add(ordinal, unit)
            if unit.sparse is not None:
                self._sparse_units.append(ordinal)
                self._sparse.append(unit.sparse)
                self._sparse_terms += len(unit.sparse)

    def finish(self) -> Segment:
        """The segment of all units added. The builder must not be used again."""
        count = len(self._keys)
        order, groups, starts = self._ordered()
        rank = np.empty(count, np.int32)
        rank[order] = np.arange(count)
        sizes = np.array(self._sizes, np.int64)
        label_sizes = np.array(self._label_sizes, np.int64)
        lengths = TEXT_WEIGHT * sizes + label_sizes
        name_blob, name_offsets = pack([name.encode() for name, _, _ in groups])
        owners = np.array([owner for _, owner, _ in groups], np.int64)
        row_units, row_keys, codes, scales = self._rows.finish(rank)
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
                count,
                int(lengths.max(initial=0)),
                (self._tokens, lambda: np.repeat(rank, sizes), TEXT_WEIGHT),
                (self._labels, lambda: np.repeat(rank, label_sizes), 1),
            ),
            headings=self._invert(
                self._words.headings,
                count,
                1,
                (self._headings, lambda: rank[np.array(self._heading_units, np.int64)], 1),
            ),
            row_units=row_units,
            row_keys=row_keys,
            codes=codes,
            scales=scales,
            signs=NO_SIGNS if self._shared else make_signs(codes, scales),
            sparse=invert_vectors(rank[np.array(self._sparse_units, np.int64)], self._sparse),
        )

    def _ordered(self) -> tuple[NDArray[np.int64], list[tuple[str, int, int]], NDArray[np.int32]]:
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

    def _invert(
        self, words: Dictionary, unit_count: int, most: int, *parts: _Occurrences
    ) -> PostingsLists:
        """Postings of occurrences; `most` is what one term can come to in one unit, at most."""
        ranks = None if self._shared else words.ranks()
        # Half as wide where that holds both: sorted in little more than half of the time.
        narrow = ranks is not None and _bits(len(ranks)) + _bits(unit_count) <= _NARROW_BITS
        wide = np.dtype(np.uint32 if narrow else np.int64)
        key, counts = np.empty(0, wide), np.empty(0, np.min_scalar_type(most))
        for numbers, units, weight in parts:
            terms = np.frombuffer(numbers, np.int32) if numbers else EMPTY_ORDINALS
            occurrences = terms.astype(wide) if ranks is None else ranks.astype(wide)[terms]
            join_keys(occurrences, units(), unit_count)
            key, counts = _added(key, counts, *_counted(occurrences, counts.dtype, weight))
        if ranks is None:
            return postings_lists(
                key, counts, unit_count, lambda kept: SharedVocabulary(words.numbers, kept)
            )
        return postings_lists(key, counts, unit_count, words.vocabulary)


def join_keys(terms: NDArray[Any], units: IntArray, unit_count: int) -> None:
    """Make terms one number each with their units, in place: by term, then unit."""
    terms <<= _bits(unit_count)
    terms |= units.astype(terms.dtype, copy=False)


def _counted(
    key: NDArray[Any], kind: np.dtype[Any], weight: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The distinct numbers, ascending, and `weight` times how often each comes, as `kind`.

    A plain sort, the fastest there is, does all the work; `key` is overwritten.
    """
    key.sort()
    new = _changes(key)
    total = int(np.count_nonzero(new))
    distinct, counts = np.empty(total, key.dtype), np.empty(total, kind)
    at = last = 0
    # In blocks, since each place takes eight bytes.
    for begin in range(0, len(key), BLOCK):
        first = np.flatnonzero(new[begin : begin + BLOCK])
        if not len(first):
            continue
        first += begin
        end = at + len(first)
        distinct[at:end] = key[first]
        if at:
            counts[at - 1] = first[0] - last
        np.subtract(first[1:], first[:-1], out=counts[at : end - 1], casting="unsafe")
        at, last = end, int(first[-1])
    if at:
        counts[at - 1] = len(key) - last
    if weight > 1:
        counts *= weight
    return distinct, counts


def _added(
    key: NDArray[Any], counts: NDArray[Any], other: NDArray[Any], more: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The numbers of both with their counts added; each is ascending and distinct."""
    if not len(key) or not len(other):
        return (key, counts) if len(key) else (other, more)
    places = key.searchsorted(other)
    common = key.take(places, mode="clip") == other
    counts[places[common]] += more[common]
    new = ~common
    places = places[new]
    return np.insert(key, places, other[new]), np.insert(counts, places, more[new])


def postings_lists(
    key: NDArray[Any],
    counts: NDArray[Any],
    unit_count: int,
    vocabulary: Callable[[NDArray[np.int32]], Vocabulary],
) -> PostingsLists:
    """Postings of numbers that `join_keys` made, ascending and distinct; `key` is overwritten.

    `vocabulary` is given the term numbers that occur, ascending.
    """
    bits = _bits(unit_count)
    ids = np.empty(len(key), np.int32)
    np.bitwise_and(key, (1 << bits) - 1, out=ids, casting="unsafe")
    key >>= bits
    starts = np.flatnonzero(_changes(key))
    kept = key[starts].astype(np.int32)
    offsets = np.append(starts, len(key)).astype(np.int64)
    return PostingsLists(vocabulary(kept), offsets, ids, _narrow(counts))


def invert(
    terms: IntArray,
    units: IntArray,
    counts: NDArray[np.unsignedinteger[Any]],
    unit_count: int,
    vocabulary: Callable[[NDArray[np.int32]], Vocabulary],
) -> PostingsLists:
    """Postings of (term, unit, count) triples in any order, each (term, unit) once.

    The count shares the number that is sorted. Where the triples are a few runs that are sorted
    already, as those of merged segments are, the sort only merges these.
    """
    key = terms.astype(np.int64)
    join_keys(key, units, unit_count)
    count_bits = int(counts.max(initial=0)).bit_length()
    key <<= count_bits
    key |= counts
    key.sort(kind="stable")
    found = _narrow(key & ((1 << count_bits) - 1))
    key >>= count_bits
    return postings_lists(key, found, unit_count, vocabulary)


def _narrow(counts: IntArray) -> NDArray[np.unsignedinteger[Any]]:
    return counts.astype(np.min_scalar_type(int(counts.max(initial=1))))


def _bits(unit_count: int) -> int:
    return max(unit_count - 1, 0).bit_length()


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """True where a sorted array has a value for the first time."""
    changes = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changes[1:])
    return changes
