"""Vectors in fewer bits: int8 with a scale a row, and one bit a dimension for a first look at many.

The int8 rows are a quarter of the memory to read; the bits leave a shortlist to be looked at well.

Of the bits: with rows x, their mean m and a query q, `q.x = (q-m).(x-m) - |x-m|^2 / 2 + c` for rows
of unit length, c the same for all of them. Of two vectors whose signs differ in h of d places the
angle is about `pi * h / d` (Charikar, Similarity Estimation Techniques from Rounding Algorithms,
STOC 2002). Counting places takes a fifth of the time of an int8 scan.

How long the shortlist must be is measured when the bits are made: queries put together from rows of
the segment itself, two by two, ask for their `NEAREST` nearest; the estimate's rank that 99 in 100
of these reach is the length. Where that spares nothing there are no bits, and every search scans.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError
from triptych_backends.index import kernels
from triptych_backends.index.change_log import Unit
from triptych_backends.index.ranking import lowest_of_best
from triptych_backends.index.segment import EMPTY_ORDINALS, NO_SIGNS, IntArray, Signs

# Sums of so many products are below 2**24, where float32 still has every whole number.
_EXACT_WIDTH = 1_024
_ROWS_OF_CACHE = 1_024
# So many sums of float64 run side by side: compiled, in one instruction.
LANES = 8
Places = NDArray[np.int32] | slice
ALL = slice(None)


def score(
    codes: NDArray[np.int8],
    scales: NDArray[np.float32],
    query: Probe,
    rows: IntArray | None = None,
) -> NDArray[np.float32]:
    """The score of each int8 row, or of these `rows`, in NumPy, shape (rows,).

    Its dot product with the query's whole numbers is rounded once.
    """
    if rows is not None:
        codes, scales = codes.take(rows, axis=0), scales[rows]
    sums = np.zeros(len(codes))
    for at in range(0, len(query.codes), _EXACT_WIDTH):
        some = slice(at, at + _EXACT_WIDTH)
        sums += _products(codes[:, some], query.codes[some])
    return sums.astype(np.float32) * scales * query.scale


def _products(codes: NDArray[np.int8], query: NDArray[np.int16]) -> NDArray[np.float32]:
    # Not a product of matrices: whose threads spin for work, and take the cores from others.
    products = np.empty(len(codes), np.float32)
    if not hasattr(np, "vecdot"):
        np.einsum("ij,j->i", codes, query, out=products, dtype=np.float32, casting="unsafe")
        return products
    # As many rows as stay in the second-level cache: two thirds of the time of all at once.
    wide = np.empty((_ROWS_OF_CACHE, len(query)), np.float32)
    for at in range(0, len(codes), _ROWS_OF_CACHE):
        rows = wide[: len(codes) - at]
        np.copyto(rows, codes[at : at + _ROWS_OF_CACHE])
        np.vecdot(rows, query.astype(np.float32), out=products[at : at + _ROWS_OF_CACHE])
    return products


def exact(query: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Dot products in float64, the same for a row whichever rows stand beside it.

    Products are exact. Every `LANES`-th is summed in order, then these sums are.
    """
    count, width = vectors.shape
    steps = width // LANES + 1
    products = np.zeros((count, steps * LANES))
    np.multiply(vectors, query, out=products[:, :width], dtype=np.float64)
    sums = np.add.accumulate(products.reshape(count, steps, LANES), axis=1)[:, -1]
    found: NDArray[np.float64] = np.add.accumulate(sums, axis=1)[:, -1] + 0.0  # no -0.0
    return found


def quantise(rows: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows as int8 and a scale each: `rows` is about `codes * scales[:, None]`."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    scales = np.where(peak > 0, peak / 127, 1).astype(np.float32)
    codes = np.rint(rows / scales[:, None]).astype(np.int8)
    return codes, scales


class Probe(NamedTuple):
    """A query vector, its length, and its rounding to whole numbers: about `codes * scale`.

    They are as fine as `_EXACT_WIDTH` allows: by Cauchy and Schwarz, no sum of their products with
    so many int8 codes reaches 2**24. For most vectors that is several times finer than int8.
    """

    vector: NDArray[np.float32]
    norm: float
    codes: NDArray[np.int16]
    scale: np.float32

    @classmethod
    def of(cls, vector: NDArray[np.float32]) -> Probe:
        """Round the vector once for all segments."""
        wide = vector.astype(np.float64)
        norm = math.sqrt(wide.dot(wide))
        width = math.sqrt(min(max(len(vector), 1), _EXACT_WIDTH))
        # The codes are this long at most: half of one is the rounding of each.
        longest = min(2**24 / (128 * width) - width, 32_767)
        scale = np.float32(max(norm / longest, TINY))
        return cls(vector, norm, np.rint(vector / scale).astype(np.int16), scale)


# A scan of fewer rows takes less than a millisecond: it stays exact.
WORTH_SIGNS = 32_768
# Searches for more than these are given a longer shortlist, in proportion.
NEAREST = 50
# Of all the nearest of all the queries, so many are to be on the shortlist.
KEPT = 0.99
QUERIES = 24
FEWEST = 4 * NEAREST
# A longer shortlist than this share of the rows costs more than it spares.
MOST = 1 / 8
BLOCK = 8_192
STRIDE = 16
_ROWS_AT_ONCE = 2_048
LOWEST = float(np.finfo(np.float32).min)
TINY = float(np.finfo(np.float32).tiny)


class VectorRows:
    """Vectors of units as int8 rows, rounded some at a time: few float32 rows are held at once."""

    def __init__(self) -> None:
        self._units = array("i")
        self._keys = array("q")
        self._waiting: list[NDArray[np.float32]] = []
        self._done: list[tuple[NDArray[np.int8], NDArray[np.float32]]] = []
        self._width = 0

    def add(self, ordinal: int, unit: Unit) -> None:
        """Take the vector of a unit, if it has one.

        Raises ModelMismatchError when it is not as wide as the others.
        """
        vector = unit.vector
        if vector is None:
            return
        self._width = self._width or vector.shape[-1]
        if vector.shape != (self._width,):
            raise ModelMismatchError(
                f"the vector of {unit.name!r}, unit {unit.index}, has shape {vector.shape}; the "
                f"others are {self._width} wide: embed the dataset again with one model"
            )
        self._units.append(ordinal)
        self._keys.append(unit.key if unit.vector_key is None else unit.vector_key)
        self._waiting.append(vector)
        if len(self._waiting) == _ROWS_AT_ONCE:
            self._quantise()

    def _quantise(self) -> None:
        codes, scales = quantise(np.stack(self._waiting))
        # On pages of its own, which go back to the system with it: freed amid other memory of the
        # process, most of it would stay there.
        pages = np.frombuffer(mmap(-1, codes.nbytes or 1), np.int8, codes.size)
        own = pages.reshape(codes.shape)
        own[:] = codes
        self._done.append((own, scales))
        self._waiting = []

    def finish(
        self, rank: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.int8], NDArray[np.float32]]:
        """Units (`rank` gives that of each ordinal), vectors' keys, codes, scales, by unit.

        Not to be used again: each batch is let go of as it is copied.
        """
        if self._waiting:
            self._quantise()
        units = rank[np.array(self._units, np.int64)]
        order = np.argsort(units)
        keys = np.array(self._keys, np.int64)[order]
        if not self._done:
            return units, keys, np.empty((0, 0), np.int8), np.empty(0, np.float32)
        places = np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        codes = np.empty((len(order), self._width), np.int8)
        scales = np.empty(len(order), np.float32)
        self._done.reverse()
        at = 0
        while self._done:
            some, their_scales = self._done.pop()
            rows = places[at : at + len(some)]
            codes[rows], scales[rows] = some, their_scales
            at += len(some)
        return units[order], keys, codes, scales


def make_signs(codes: NDArray[np.int8], scales: NDArray[np.float32]) -> Signs:
    """The bits of rows `codes * scales[:, None]`; none for few rows, or where they are no help.

    NumPy 1 cannot count bits: there, too, every search scans.
    """
    rows = len(codes)
    if rows < WORTH_SIGNS or not hasattr(np, "bitwise_count"):
        return NO_SIGNS
    width = codes.shape[1]
    total = np.zeros(width)
    for _, block in _blocks(codes, scales):
        total += block.sum(axis=0, dtype=np.float64)
    centre = (total / rows).astype(np.float32)
    words, spreads = sign(codes, scales, centre)
    signs = Signs(words=words, centre=centre, spreads=spreads, depth=np.zeros(1, np.int64))
    depth = _depth(signs, codes, scales)
    if depth > MOST * rows:
        return NO_SIGNS
    return Signs(words=words, centre=centre, spreads=spreads, depth=np.array([depth]))


def sign(
    codes: NDArray[np.int8], scales: NDArray[np.float32], centre: NDArray[np.float32]
) -> tuple[NDArray[np.uint64], NDArray[np.float32]]:
    """The words and the spreads of `Signs` with this centre."""
    words = np.empty((-(-codes.shape[1] // 64), len(codes)), np.uint64)
    spreads = np.empty(len(codes), np.float32)
    for at, block in _blocks(codes, scales):
        block -= centre
        words[:, at : at + len(block)] = _packed(block).T
        spreads[at : at + len(block)] = np.sqrt(np.einsum("ij,ij->i", block, block))
    return words, spreads


def shortlist(
    signs: Signs,
    codes: NDArray[np.int8],
    scales: NDArray[np.float32],
    query: Probe,
    limit: int,
    dead: IntArray,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Rows among which the `limit` nearest to `query` are likely to be, ascending, and their scores
    by int8, both of the shape (rows,).

    `dead` are the rows that do not count.
    """
    depth = int(signs.depth[0]) * max(limit, NEAREST) // NEAREST
    if kernels.compiled is not None:
        gone = dead.astype(np.int32, copy=False)
        rows_of = signs.words, signs.centre, signs.spreads, gone, codes
        arrays = (*rows_of, query.vector, query.codes, scales, _room(len(signs.spreads)))
        asked = arrays, query.scale, depth, STRIDE
        return _listed(kernels.run(kernels.compiled.shortlist, len(signs.spreads), *asked))
    estimates = estimate(signs, query.vector)
    if len(dead):
        estimates[dead] = -np.inf
    # The best of a sample give the bar: its place among all is off by a few in a hundred.
    sample = estimates[::STRIDE]
    place = max(len(sample) - depth // STRIDE - 1, 0)
    bar = max(float(np.partition(sample, place)[place]), LOWEST)
    rows = np.flatnonzero(estimates >= bar).astype(np.int32)
    return rows, score(codes, scales, query, rows)


def scan_rows(
    codes: NDArray[np.int8],
    scales: NDArray[np.float32],
    query: Probe,
    limit: int | None = None,
    margin: float = 0.0,
    *,
    rows: IntArray | None = None,
    dead: IntArray = EMPTY_ORDINALS,
) -> tuple[Places, NDArray[np.float32]]:
    """What scores by int8 within `margin` of the `limit`-th best: places, ascending, among all rows
    or in `rows`, and the scores, both of the shape (places,). Without a `limit`, all.

    `dead` are the places that do not count: they are left out, or their score is -inf.
    """
    count = len(codes) if rows is None else len(rows)
    if not count:
        return EMPTY_ORDINALS, np.empty(0, np.float32)
    if kernels.compiled is not None:
        of = EMPTY_ORDINALS if rows is None else rows.astype(np.int32, copy=False)
        room = _room(count)
        arrays = (codes, query.codes, scales, of, dead.astype(np.int32, copy=False), room)
        asked = (arrays, query.scale, limit or 1, margin)
        listed = kernels.run(kernels.compiled.scan, count, *asked)
        return (ALL, room[:count].copy()) if limit is None else _listed(listed)
    scores = score(codes, scales, query, rows)
    scores[dead] = -np.inf
    if limit is None:
        return ALL, scores
    bar = np.float32(lowest_of_best([scores], limit) - margin)
    places = np.flatnonzero(scores >= np.fmax(bar, np.float32(LOWEST))).astype(np.int32)
    return places, scores[places]


def _listed(found: tuple[bytes, bytes]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The rows that a kernel found, and their scores."""
    return np.frombuffer(found[0], np.int32), np.frombuffer(found[1], np.float32)


# Among fewer than this share of the rows a scan takes less time.
WORTH_A_LIST = 1 / 4


def shortlist_among(
    signs: Signs,
    codes: NDArray[np.int8],
    scales: NDArray[np.float32],
    query: Probe,
    limit: int,
    passing: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], NDArray[np.float32]] | None:
    """As `shortlist`, among the rows that pass; None where these are to be scanned.

    The length was measured for all rows, and these may be alike. So the list is twice as long, and
    of its `NEAREST` best hardly any may be missing from its better half: else the rows that no list
    has may hold others.
    """
    limit = max(limit, NEAREST)
    shortest = 2 / MOST * int(signs.depth[0]) * limit / NEAREST
    if np.count_nonzero(passing) < max(WORTH_A_LIST * len(codes), shortest):
        return None
    listed, scores = shortlist(signs, codes, scales, query, 2 * limit, np.flatnonzero(~passing))
    words, spreads = signs.words.take(listed, axis=1), signs.spreads[listed]
    estimates = estimate(evolve(signs, words=words, spreads=spreads), query.vector)
    worse = estimates < np.partition(estimates, len(listed) // 2)[len(listed) // 2]
    missing = np.count_nonzero(worse & (scores >= lowest_of_best([scores], limit)))
    return None if missing * NEAREST > limit else (listed, scores)


def estimate(signs: Signs, query: NDArray[np.float32]) -> NDArray[np.float32]:
    """What orders the rows about as their dot products with `query` do, shape (rows,)."""
    mine, slope, half = _aimed(signs, query)
    rows = len(signs.spreads)
    room = _room(rows).view(np.uint8)
    changed, counted, some, differ = np.split(room, [8 * rows, 9 * rows, 10 * rows])
    changed, differ = changed.view(np.uint64), differ.view(np.uint16)
    differ.fill(0)
    # Bytes are added in half the time, and hold the counts of three words.
    for at in range(0, len(mine), 3):
        some.fill(0)
        for word, other in zip(signs.words[at : at + 3], mine[at : at + 3], strict=True):
            np.bitwise_xor(word, other, out=changed)
            np.bitwise_count(changed, out=counted)
            np.add(some, counted, out=some)
        np.add(differ, some, out=differ)
    estimates = np.multiply(differ, slope, dtype=np.float32)
    estimates += half
    # |x| is 1 but for rounding, so this is (q-m).(x-m) - |x-m|^2 / 2.
    estimates -= signs.spreads * np.float32(0.5)
    estimates *= signs.spreads
    return estimates


def _aimed(
    signs: Signs, query: NDArray[np.float32]
) -> tuple[NDArray[np.uint64], np.float32, np.float32]:
    """The query's bits, and with h of them different the factors of `slope * h + half`.

    The cosine of the angle is about pi/2 - pi * h / d where it is near a right one, as most are.
    """
    offset = query - signs.centre
    norm = math.sqrt(exact(offset, offset[None]).item()) * math.pi
    return _packed(offset[None])[0], np.float32(-norm / len(query)), np.float32(norm / 2)


_OF_THREAD = threading.local()


def _room(rows: int) -> NDArray[np.float32]:
    """12 bytes a row to count in, the same for every search of a thread: new memory would have to
    be mapped page by page, which costs as much as a sixth of the counting."""
    kept: NDArray[np.float32] | None = getattr(_OF_THREAD, "room", None)
    if kept is None or len(kept) < 3 * rows:
        kept = _OF_THREAD.room = np.empty(3 * rows, np.float32)
    return kept[: 3 * rows]


def _depth(signs: Signs, codes: NDArray[np.int8], scales: NDArray[np.float32]) -> int:
    """How many of the best by estimate hold `KEPT` of the nearest."""
    rows = len(codes)
    rng = np.random.default_rng(rows)
    ranks = []
    for _ in range(QUERIES):
        pair = rng.choice(rows, 2, replace=False)
        query = (codes[pair] * scales[pair, None]).sum(axis=0)
        length = float(np.linalg.norm(query))
        if not length:
            continue
        query /= length
        _, scores = scan_rows(codes, scales, Probe.of(query))
        scores[pair] = -np.inf
        nearest = np.argpartition(scores, rows - NEAREST)[rows - NEAREST :]
        estimates = estimate(signs, query)
        estimates[pair] = -np.inf
        ranks.append(rows - np.sort(estimates).searchsorted(estimates[nearest]))
    if not ranks:
        return rows
    return max(int(np.quantile(np.concatenate(ranks), KEPT)), FEWEST)


def _packed(offsets: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Signs as bits, 64 to a word, shape (rows, words); the last word is filled up with zeros."""
    bits = np.packbits(offsets >= 0, axis=1)
    filled = np.zeros((len(bits), -(-bits.shape[1] // 8) * 8), np.uint8)
    filled[:, : bits.shape[1]] = bits
    return filled.view(np.uint64)


def _blocks(
    codes: NDArray[np.int8], scales: NDArray[np.float32]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for at in range(0, len(codes), BLOCK):
        yield at, codes[at : at + BLOCK] * scales[at : at + BLOCK, None]
