"""An immutable set of indexed units, and what is found in it.

Units are ordered by (document name, owner, index). That order is also the order in which equal
scores rank, so that within a segment a tie is broken by the smaller ordinal, and the units of one
owner are one contiguous run.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from triptych.text.function_words import recognised_languages
from triptych.text.term_ids import FOREIGN, prefix_of
from triptych_backends.index import kernels
from triptych_backends.index.change_log import Rows
from triptych_backends.index.sparse_postings import NO_SPARSE, SparsePostings

IntArray = NDArray[np.signedinteger[Any]]
# Words that many units have are looked up in an array of all units; so many such arrays are kept.
KEPT_COUNTS = 32
# So many words are copied at once, which bounds the memory of doing so.
_WORDS_AT_ONCE = 1 << 16
PREFIX = len(prefix_of("language"))
EMPTY_ORDINALS: NDArray[np.int32] = np.empty(0, np.int32)
NO_VECTORS: NDArray[np.uint32] = np.empty((0, 0), np.uint32)


class Vocabulary(Protocol):
    """The distinct words of one segment, numbered from 0 in the order of its postings."""

    def find(self, words: list[str]) -> dict[str, int]:
        """The numbers of those of the words that the segment has."""
        ...

    def words(self) -> list[str]:
        """All words in the order of their numbers."""
        ...

    @property
    def prefixes_of_languages(self) -> Set[str]:
        """The prefixes (`prefix_of`) that words may begin with."""
        ...

    def __len__(self) -> int: ...


@frozen(eq=False)
class SortedVocabulary:
    """Words as one sorted blob of UTF-8 bytes.

    `prefixes` holds each word's first eight bytes as a big-endian number: one vectorised
    bisection finds all words of a query but for those that share their first eight bytes.
    """

    blob: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    prefixes: NDArray[np.uint64]

    @classmethod
    def of(cls, words: Sequence[str]) -> SortedVocabulary:
        """`words` sorted by code point, which is the order of their UTF-8 bytes."""
        encoded = [word.encode() for word in words]
        blob, offsets = pack(encoded)
        padded = np.frombuffer(b"".join([word[:8].ljust(8, b"\0") for word in encoded]), ">u8")
        return cls(blob, offsets, padded.astype(np.uint64))

    @classmethod
    def of_pieces(
        cls, blob: NDArray[np.uint8], starts: IntArray, ends: IntArray, prefixes: NDArray[np.uint64]
    ) -> SortedVocabulary:
        """The words that lie in these places of a blob, which are in order."""
        offsets = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(ends - starts, out=offsets[1:])
        words = np.empty(offsets[-1], np.uint8)
        for at in range(0, len(starts), _WORDS_AT_ONCE):
            some = slice(at, at + _WORDS_AT_ONCE)
            places = ranges(starts[some], ends[some])
            words[offsets[at] : offsets[at] + len(places)] = blob[places]
        return cls(words, offsets, prefixes)

    def __len__(self) -> int:
        return len(self.prefixes)

    def find(self, words: list[str]) -> dict[str, int]:
        if kernels.compiled is not None:
            arrays = self.blob, self.offsets, self.prefixes
            held: dict[str, int] = kernels.compiled.find(arrays, words)
            return held
        encoded = [word.encode("utf-8", "surrogatepass") for word in words]
        probes = np.array(
            [int.from_bytes(word[:8].ljust(8, b"\0"), "big") for word in encoded], np.uint64
        )
        first = self.prefixes.searchsorted(probes).tolist()
        last = self.prefixes.searchsorted(probes, "right").tolist()
        found, blob, offsets = {}, self.blob, self.offsets
        for asked, word, low, end in zip(words, encoded, first, last, strict=True):
            high = end
            while low < high:
                middle = (low + high) // 2
                if blob[offsets[middle] : offsets[middle + 1]].tobytes() < word:
                    low = middle + 1
                else:
                    high = middle
            if low < end and blob[offsets[low] : offsets[low + 1]].tobytes() == word:
                found[asked] = low
        return found

    def words(self) -> list[str]:
        return unpack(self.blob, self.offsets)

    @cached_property
    def prefixes_of_languages(self) -> Set[str]:
        found, probe = set(), ord(FOREIGN) << 56
        while (at := int(self.prefixes.searchsorted(np.uint64(probe)))) < len(self):
            prefix = self.blob[self.offsets[at] : self.offsets[at + 1]].tobytes()[:PREFIX]
            if not prefix.startswith(FOREIGN.encode()):
                break
            found.add(prefix.decode())
            probe = int.from_bytes(prefix.ljust(8, b"\xff"), "big")
        return found


@frozen(eq=False)
class SharedVocabulary:
    """Words of a delta segment: numbers of a dictionary that grows with the delta.

    `numbers` are the dictionary's numbers of this segment's words, ascending. Segments that share
    a dictionary merge without looking at a word.
    """

    shared: dict[str, int]
    numbers: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.numbers)

    def find(self, words: list[str]) -> dict[str, int]:
        words = [word for word in words if word in self.shared]
        if not words or not len(self.numbers):
            return {}
        wanted = [self.shared[word] for word in words]
        places = np.minimum(self.numbers.searchsorted(wanted), len(self.numbers) - 1)
        found = zip(words, places.tolist(), (self.numbers[places] == wanted).tolist(), strict=True)
        return {word: place for word, place, is_held in found if is_held}

    @property
    def prefixes_of_languages(self) -> Set[str]:
        return {
            prefix for prefix in map(prefix_of, recognised_languages()) if prefix in self.shared
        }

    def words(self) -> list[str]:
        every = list(self.shared)
        return [every[number] for number in self.numbers.tolist()]


def pack(encoded: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Byte strings as one blob and len + 1 offsets."""
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum([len(one) for one in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def unpack(blob: NDArray[np.uint8], offsets: NDArray[np.int64]) -> list[str]:
    """The strings that `pack` took."""
    data, ends = blob.tobytes(), offsets.tolist()
    return [data[start:end].decode() for start, end in itertools.pairwise(ends)]


@frozen(eq=False)
class PostingsLists:
    """Postings: for each word of the vocabulary the ordinals of the units that have it.

    Word i's postings are `ids[offsets[i]:offsets[i + 1]]`, ascending; `counts` beside them are
    term frequencies, in the narrowest unsigned type that holds them all.
    """

    vocabulary: Vocabulary
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    counts: NDArray[np.unsignedinteger[Any]]


@frozen(eq=False, kw_only=True)
class Signs:
    """The signs of the vector rows less their mean, as bits, and what `signs` makes of them.

    `words` has the shape (words, rows): all rows' first 64 dimensions, then the next. `centre` is
    the mean, `spreads` are the rows' distances from it, `depth` (one number) the length of a
    shortlist. Empty where the rows are scanned.
    """

    words: NDArray[np.uint64]
    centre: NDArray[np.float32]
    spreads: NDArray[np.float32]
    depth: NDArray[np.int64]

    def __bool__(self) -> bool:
        return len(self.spreads) > 0


NO_SIGNS = Signs(
    words=np.empty((0, 0), np.uint64),
    centre=np.empty(0, np.float32),
    spreads=np.empty(0, np.float32),
    depth=np.empty(0, np.int64),
)


class DamagedError(Exception):
    """A file of the index is not what was written; the message names it."""


def row_sums(rows: NDArray[np.uint32], keys: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The checksum of each row under its key, shape (rows,): another one if one word is."""
    # Odd weights: no change of one word leaves the sum as it was.
    weights = np.cumprod(np.full(rows.shape[1], 0x9E3779B1, np.uint32), dtype=np.uint32)
    sums: NDArray[np.uint32] = np.einsum("ij,j->i", rows, weights)
    return sums + keys.astype(np.uint32) * np.uint32(0x85EBCA6B)


def vectors_of(known: Rows, wanted: NDArray[np.int64], width: int) -> NDArray[np.float32]:
    """Those of the wanted keys, shape (len(wanted), width), NaN where there are none."""
    if not len(known.keys):
        return np.full((len(wanted), width), np.nan, np.float32)
    keys = np.array(known.keys)
    order = keys.argsort()
    places = order.take(keys.searchsorted(wanted, sorter=order), mode="clip")
    found = known.vectors[places]
    found[keys[places] != wanted] = np.nan
    return found


@define(eq=False, kw_only=True)
class Segment:
    """Units of one field of one dataset. Nothing in it changes but its caches.

    A group is the run of units of one owner: group g is `starts[g]:starts[g + 1]`.
    `owner_order` sorts the groups by owner. `row_units` are the units that have a vector,
    ascending; row r is approximately `codes[r] * scales[r]`, and exactly what the truth keeps
    under `row_keys[r]`. A file has that too: `vectors[r]` are the bits of its float32 numbers, NaN
    where the truth had it no longer, and their checksum. Only those rows of it are read that a
    search asks for.
    """

    starts: NDArray[np.int32]
    owners: NDArray[np.int64]
    owner_order: NDArray[np.int32]
    name_blob: NDArray[np.uint8]
    name_offsets: NDArray[np.int64]
    keys: NDArray[np.int64]
    indexes: NDArray[np.int32]
    lengths: NDArray[np.uint32]
    text: PostingsLists
    headings: PostingsLists
    row_units: NDArray[np.int32]
    row_keys: NDArray[np.int64]
    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    signs: Signs = NO_SIGNS
    sparse: SparsePostings = NO_SPARSE
    vectors: NDArray[np.uint32] = NO_VECTORS
    file: str | None = None
    total_length: int = field(init=False)
    shortest: int = field(init=False)
    _norms: tuple[float, NDArray[np.float64]] | None = field(init=False, default=None)
    _coarsest: float | None = field(init=False, default=None)
    _sorted_owners: NDArray[np.int64] | None = field(init=False, default=None)
    _units_of: tuple[NDArray[np.int64], NDArray[np.int32]] | None = field(init=False, default=None)
    _others: tuple[NDArray[np.int32], NDArray[np.int32]] | None = field(init=False, default=None)
    _counts: dict[int, NDArray[np.unsignedinteger[Any]]] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        self.total_length = int(self.lengths.sum(dtype=np.int64))
        self.shortest = int(self.lengths.min()) if len(self.lengths) else 0

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def dimension(self) -> int:
        """Width of the vectors, 0 when no unit has one."""
        return self.codes.shape[1] if len(self.row_units) else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the large arrays."""
        return self.sparse.nbytes + sum(
            array.nbytes
            for array in (self.keys, self.lengths, self.text.ids, self.text.counts, self.codes)
        )

    @property
    def coarsest(self) -> float:
        """The greatest of the scales, 0 without vectors."""
        if self._coarsest is None:
            self._coarsest = float(self.scales.max(initial=0.0))
        return self._coarsest

    def exact_rows(self, rows: IntArray) -> NDArray[np.float32]:
        """The vectors of a file's rows, shape (rows, dimension). Raises DamagedError."""
        found = self.vectors.take(rows, axis=0)
        words = found[:, :-1]
        if (row_sums(words, self.row_keys[rows]) != found[:, -1]).any():
            raise DamagedError(f"{self.file}: a vector fails its checksum")
        return words.view(np.float32)

    def groups_of(self, owners: NDArray[np.int64]) -> NDArray[np.int32]:
        """Groups of those `owners` that are here, ascending. `owners` are sorted and unique."""
        known = self._sorted_owners
        if known is None:
            known = self._sorted_owners = self.owners[self.owner_order]
        if not len(known):
            return EMPTY_ORDINALS
        if len(owners) > 8 * len(known):
            owners, known = known, owners
            places = np.minimum(known.searchsorted(owners), len(known) - 1)
            hits = np.flatnonzero(known[places] == owners)
        else:
            places = np.minimum(known.searchsorted(owners), len(known) - 1)
            hits = places[known[places] == owners]
        groups: NDArray[np.int32] = np.sort(self.owner_order[hits])
        return groups

    def units_of(self, owners: NDArray[np.int64]) -> NDArray[np.int32]:
        """Ordinals of the units of `owners` (sorted, unique), ascending; the last are kept."""
        kept = self._units_of
        if kept is None or kept[0] is not owners:
            groups = self.groups_of(owners)
            units = ranges(self.starts[groups], self.starts[groups + 1])
            kept = self._units_of = owners, units
        return kept[1]

    def units_without(self, units: NDArray[np.int32]) -> NDArray[np.int32]:
        """Ordinals of all other units, ascending; the last are kept."""
        kept = self._others
        if kept is None or kept[0] is not units:
            others = np.ones(len(self), np.bool_)
            others[units] = False
            kept = self._others = units, np.flatnonzero(others).astype(np.int32)
        return kept[1]

    def units_under(
        self, headings: Sequence[str], among: NDArray[np.int32] | None = None
    ) -> NDArray[np.int32]:
        """Ordinals of the units, all or those ``among``, that have any of these case-folded
        headings, ascending."""
        found = self.headings.vocabulary.find(list(headings)).values()
        if not found:
            return EMPTY_ORDINALS
        bounds = self.headings.offsets
        lists = [self.headings.ids[bounds[number] : bounds[number + 1]] for number in found]
        if among is not None:
            lists = [each[common_places(each, among)] for each in lists]
        return union(*lists)

    def group_numbers(self, units: IntArray) -> NDArray[np.int64]:
        """The group of each unit."""
        units = units.astype(self.starts.dtype, copy=False)  # else all starts would be converted
        return self.starts.searchsorted(units, "right") - 1

    @cached_property
    def names(self) -> list[str]:
        """All groups' document names."""
        return unpack(self.name_blob, self.name_offsets)

    def counts_of(self, word: int) -> NDArray[np.unsignedinteger[Any]]:
        """How often each unit has a word, shape (units,); those asked for last are kept."""
        counts = self._counts.get(word)
        if counts is None:
            start, end = self.text.offsets[word], self.text.offsets[word + 1]
            counts = np.zeros(len(self), self.text.counts.dtype)
            counts[self.text.ids[start:end]] = self.text.counts[start:end]
            if len(self._counts) >= KEPT_COUNTS:
                # Another thread may be at it as well.
                self._counts.pop(next(iter(self._counts.copy()), word), None)
            self._counts[word] = counts
        return counts

    def norms(self, slope: float, base: float) -> NDArray[np.float64]:
        """`base + slope * length` of each unit: the length part of BM25's denominator.

        The last one is kept: it changes only when the corpus does.
        """
        kept = self._norms
        if kept is None or kept[0] != slope:
            values = self.lengths.astype(np.float64)
            values *= slope
            values += base
            kept = self._norms = (slope, values)
        return kept[1]


def ranges(starts: IntArray, ends: IntArray) -> NDArray[np.int32]:
    """All integers of the half-open ranges, one range after the other."""
    if len(starts) == 1:
        return np.arange(starts[0], ends[0], dtype=np.int32)
    sizes = ends - starts
    total = int(sizes.sum())
    if not total:
        return EMPTY_ORDINALS
    shift = np.repeat(starts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
    return (shift + np.arange(total)).astype(np.int32)


@define(eq=False)
class SegmentReader:
    """A segment as one snapshot sees it: without the units that have died since.

    `dead` are the ordinals of the dead units, ascending.
    """

    segment: Segment
    dead: NDArray[np.int32] = field(factory=lambda: EMPTY_ORDINALS)
    live_count: int = field(init=False)
    live_length: int = field(init=False)
    _frequencies: dict[int, int] = field(init=False, factory=dict)
    _dead_rows: NDArray[np.int32] | None = field(init=False, default=None)
    _living: NDArray[np.bool_] | None = field(init=False, default=None)
    _counting: tuple[NDArray[np.int32], NDArray[np.bool_]] | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        segment = self.segment
        self.live_count = len(segment) - len(self.dead)
        self.live_length = segment.total_length
        if len(self.dead):
            self.live_length -= int(segment.lengths[self.dead].sum(dtype=np.int64))

    def without(self, owners: NDArray[np.int64]) -> SegmentReader:
        """This view with the units of `owners` (sorted, unique) dead as well; self if none are."""
        gone = self.segment.units_of(owners)
        if not len(gone):
            return self
        dead = gone if not len(self.dead) else union(self.dead, gone)
        return self if len(dead) == len(self.dead) else SegmentReader(self.segment, dead)

    def document_frequencies(
        self, words: Iterable[int], among: NDArray[np.int32] | None = None
    ) -> list[int]:
        """How many live units have each word of these numbers; or how many of those `among`."""
        text, known = self.segment.text, self._frequencies
        bound = text.offsets.item
        if among is None and not len(self.dead):
            return [bound(word + 1) - bound(word) for word in words]
        found = []
        for word in words:
            start, end = bound(word), bound(word + 1)
            if among is not None:
                number = count_common(text.ids[start:end], among)
            elif word in known:
                number = known[word]
            else:
                number = end - start - count_common(text.ids[start:end], self.dead)
                known[word] = number
            found.append(number)
        return found

    def leave_out(self, scores: NDArray[np.float64], allowed: NDArray[np.int32] | None) -> None:
        """Make the scores of units that do not count -inf; `allowed` are the only ones that may,
        ascending."""
        if allowed is not None:
            kept = scores[allowed]
            scores.fill(-np.inf)
            scores[allowed] = kept
        if len(self.dead):
            scores[self.dead] = -np.inf

    def counting(self, allowed: NDArray[np.int32] | None) -> NDArray[np.bool_]:
        """Of each unit whether it counts; `allowed` are the only ones that may, ascending. Empty
        where all do."""
        living = self._living
        if living is None:
            living = np.ones(len(self.segment) if len(self.dead) else 0, np.bool_)
            living[self.dead] = False
            self._living = living
        if allowed is None:
            return living
        kept = self._counting
        if kept is None or kept[0] is not allowed:
            counting = np.zeros(len(self.segment), np.bool_)
            counting[allowed] = living[allowed] if len(living) else True
            kept = self._counting = allowed, counting
        return kept[1]

    def dead_rows(self) -> NDArray[np.int32]:
        """Vector rows of the dead units."""
        if self._dead_rows is None:
            self._dead_rows = common_places(self.segment.row_units, self.dead).astype(np.int32)
        return self._dead_rows


def union(*lists: IntArray) -> NDArray[np.int32]:
    """The values of all lists, ascending, each once. `np.unique` would import `numpy.ma`."""
    values = np.sort(np.concatenate(lists)).astype(np.int32, copy=False)
    return values[np.diff(values, prepend=-1) > 0] if len(values) else values


def common_places(where: IntArray, which: IntArray) -> NDArray[np.int64]:
    """Places in `where` of those values of `which` that it has. Both are ascending and unique."""
    if not len(where) or not len(which):
        return np.empty(0, np.int64)
    places = np.minimum(where.searchsorted(which), len(where) - 1)
    found: NDArray[np.int64] = places[where[places] == which]
    return found


def count_common(one: IntArray, other: IntArray) -> int:
    """How many values two ascending unique arrays share."""
    short, long = (one, other) if len(one) < len(other) else (other, one)
    return len(common_places(long, short))
