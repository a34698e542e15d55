"""The vector lanes: a scan of int8 rows finds the candidates, exact float32 vectors rank them.

Documents are found by their nearest chunk. Sparse vectors are multiplied exactly, over inverted
postings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError, ValidationError
from triptych.records import SparseVector
from triptych_backends.index.change_log import Rows
from triptych_backends.index.helper import available_cores
from triptych_backends.index.quantization import Probe, dot, shortlist, shortlist_among
from triptych_backends.index.ranking import RankedUnits, best_of_group, lowest_of_best, top_k
from triptych_backends.index.segment import EMPTY_ORDINALS, IntArray, SegmentReader
from triptych_backends.index.selection import Part

# Below this a second thread costs more than it saves.
SPLIT_BYTES = 8 << 20


class RowScanner:
    """Multiplies many rows with a query, a half of them in another thread.

    That core is free: searches of a process take turns (`triptych._internal.turns`).
    """

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or available_cores()
        self._pool: ThreadPoolExecutor | None = None

    def dot(
        self, codes: NDArray[np.int8], query: NDArray[np.int8], rows: IntArray | None = None
    ) -> NDArray[np.float32]:
        """As `quantization.dot`."""
        count = len(codes) if rows is None else len(rows)
        if self._cores < 2 or count * codes.shape[1] < SPLIT_BYTES:
            return dot(codes, query, rows)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._cores, "triptych-scan")

        def part(some: slice) -> NDArray[np.float32]:
            return dot(codes[some], query) if rows is None else dot(codes, query, rows[some])

        other = self._pool.submit(part, slice(count // 2, None))
        return np.concatenate((part(slice(count // 2)), other.result()))

    def close(self) -> None:
        """End the helper threads; they start again when needed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class Approximate(NamedTuple):
    """Approximate scores of the units of one view that have a vector: their ordinals and keys.

    All three have the shape (rows,). A dead unit's score is -inf.
    """

    scores: NDArray[np.float32]
    units: NDArray[np.int32]
    keys: NDArray[np.int64]


def approximate(
    view: SegmentReader,
    query: Probe,
    allowed: IntArray | None,
    scanner: RowScanner,
    limit: int | None = None,
) -> Approximate:
    """Scan a view. `allowed` are the only ordinals that count, ascending.

    With a `limit` it may be only those rows of a large segment whose signs let them be among the
    `limit` best.
    """
    segment = view.segment
    if not segment.dimension:
        return Approximate(np.empty(0, np.float32), EMPTY_ORDINALS, np.empty(0, np.int64))
    codes, scales, units, keys = segment.codes, segment.scales, segment.row_units, segment.row_keys
    listed, rows = None, None
    if allowed is not None:
        passing = view.counting(allowed)
        # Where every unit has a vector, its row has the unit's number.
        passing = passing if len(units) == len(segment) else passing[units]
        if limit is not None and segment.signs:
            listed = shortlist_among(segment.signs, codes, scales, query, limit, passing)
        rows = None if listed else np.flatnonzero(passing)
    elif limit is not None and segment.signs:
        listed = shortlist(segment.signs, codes, scales, query, limit, view.dead_rows())
    if listed is not None:
        return Approximate(listed[1], units[listed[0]], keys[listed[0]])
    scores = scanner.dot(codes, query.codes, rows)
    scores *= scales if rows is None else scales[rows]
    scores *= query.scale
    if rows is not None:
        return Approximate(scores, units[rows], keys[rows])
    scores[view.dead_rows()] = -np.inf
    return Approximate(scores, units, keys)


def exact(query: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Dot products in float64, the same for a row whichever rows stand beside it."""
    found: NDArray[np.float64] = np.einsum(
        "ij,j->i", vectors.astype(np.float64), query.astype(np.float64)
    )
    return found


# Exact scores are asked for all whose rounding to int8 may hide that they are among the best:
# so many standard deviations of it, for what is in and for what is out. At most so many rows.
SURE = 5.0
MOST = 4_096
# Chunks of one document whose exact scores are compared for its maximum.
ROWS_A_DOCUMENT = 8

EMPTY_PLACES: NDArray[np.int64] = np.empty(0, np.int64)
Vectors = Callable[[str, Sequence[int]], Rows]
Scan = tuple[Part, Approximate]


def checked(vector: NDArray[np.float32], parts: Sequence[Part]) -> NDArray[np.float32]:
    """The query vector as float32.

    Raises ValidationError when it is not one row of finite numbers, ModelMismatchError when it is
    not as wide as the vectors of `parts`.
    """
    query = np.asarray(vector, np.float32)
    if query.ndim != 1 or not np.isfinite(query).all():
        raise ValidationError("a query vector must be one row of finite numbers")
    for part in parts:
        width = part.view.segment.dimension
        if width and width != len(query):
            raise ModelMismatchError(
                f"the query vector is {len(query)} wide, the vectors of dataset "
                f"{part.dataset!r} are {width}: embed the query with the dataset's model"
            )
    return query


def nearest(
    parts: Sequence[Part],
    query: NDArray[np.float32],
    limit: int,
    vectors: Vectors,
    scanner: RowScanner,
) -> list[RankedUnits]:
    """The nearest units of all parts, with exact scores: a superset of the `limit` best."""
    probe = Probe.of(query)
    scans = [(part, approximate(part.view, probe, part.allowed, scanner, limit)) for part in parts]
    floor = _floor([scan.scores for _, scan in scans], limit, query, parts)
    chosen = [(part, scan, _above(scan.scores, floor)) for part, scan in scans]
    return _rescored(chosen, query, vectors)


def nearest_documents(
    parts: Sequence[Part],
    query: NDArray[np.float32],
    limit: int,
    vectors: Vectors,
    scanner: RowScanner,
) -> list[RankedUnits]:
    """The best chunk of each of the best documents, by exact scores; a superset of `limit`.

    A document's score is the maximum over all its chunks.
    """
    scans: list[Scan] = []
    probe = Probe.of(query)
    for part in parts:
        scan = approximate(part.view, probe, part.allowed, scanner)
        if len(scan.units):
            scans.append((part, scan))
    grouped = []
    for part, scan in scans:
        bounds = scan.units.searchsorted(part.view.segment.starts)
        starts = bounds[:-1][bounds[:-1] < bounds[1:]]
        grouped.append((starts, np.maximum.reduceat(scan.scores, starts)))
    floor = _floor([peaks for _, peaks in grouped], limit, query, parts)
    margin = _margin(query, parts)
    chosen = []
    for (part, scan), (starts, peaks) in zip(scans, grouped, strict=True):
        ends = np.append(starts[1:], len(scan.scores))
        rows: list[int] = []
        for group in _above(peaks, floor).tolist():
            run = scan.scores[starts[group] : ends[group]]
            near = np.flatnonzero(run >= peaks[group] - margin)
            if len(near) > ROWS_A_DOCUMENT:
                near = top_k(run, ROWS_A_DOCUMENT)
            rows.extend((starts[group] + near).tolist())
        chosen.append((part, scan, np.array(sorted(rows), np.int64)))
    return [best_of_group(one) for one in _rescored(chosen, query, vectors)]


def _floor(
    scores: Sequence[NDArray[np.float32]],
    limit: int,
    query: NDArray[np.float32],
    parts: Sequence[Part],
) -> float:
    """What an approximate score must reach for the exact one to be among the `limit` best."""
    # Of few scores `lowest_of_best` finds it as fast.
    tops = [one if len(one) <= max(limit, MOST) else one[top_k(one, limit)] for one in scores]
    return lowest_of_best(tops, limit) - _margin(query, parts)


def _above(scores: NDArray[np.float32], floor: float) -> NDArray[np.int64]:
    """Places of the scores that reach `floor`, the dead ones left out; the best if too many."""
    if not len(scores) or scores.max() < floor:
        return EMPTY_PLACES
    places = np.flatnonzero((scores >= floor) & (scores > -np.inf))
    return places if len(places) <= MOST else top_k(scores, MOST)


def _margin(query: NDArray[np.float32], parts: Sequence[Part]) -> float:
    """How far apart two approximate scores are at least whose exact ones are in the same order.

    Rounding to int8 is off by a twelfth of the squared step in each component, on both sides.
    """
    steps = [part.view.segment.coarsest for part in parts]
    own = float(np.abs(query).max(initial=0.0)) / 127
    norm = float(np.linalg.norm(query))
    return 2 * SURE * math.sqrt((own**2 + (norm * max(steps, default=0.0)) ** 2) / 12)


def _rescored(
    chosen: Sequence[tuple[Part, Approximate, IntArray]],
    query: NDArray[np.float32],
    vectors: Vectors,
) -> list[RankedUnits]:
    """The chosen rows with exact scores, but those whose vectors the truth has no longer."""
    wanted: dict[str, list[int]] = {}
    chosen = [one for one in chosen if len(one[2])]
    for part, scan, rows in chosen:
        wanted.setdefault(part.dataset, []).extend(scan.keys[rows].tolist())
    scores: dict[int, float] = {}
    for dataset, keys in wanted.items():
        if keys:
            known = vectors(dataset, keys)
            if not len(known.keys):
                continue
            scores.update(zip(known.keys, exact(query, known.vectors).tolist(), strict=True))
    found = []
    for part, scan, rows in chosen:
        mine = [scores.get(key) for key in scan.keys[rows].tolist()]
        present = [at for at, score in enumerate(mine) if score is not None]
        if present:
            known_scores = np.array([mine[at] for at in present], np.float64)
            found.append(RankedUnits(part, scan.units[rows[present]], known_scores))
    return found


def best_units(part: Part, query: SparseVector, limit: int) -> RankedUnits:
    """The ``limit`` units with the greatest dot products, among those that share a term."""
    scores = _scores(part, query)
    units = top_k(scores, limit, floor=0.0)
    return RankedUnits(part, units, scores[units])


def best_documents(part: Part, query: SparseVector) -> RankedUnits:
    """The best unit of each document that shares a term."""
    scores = _scores(part, query)
    units = np.flatnonzero(scores > 0.0)
    return best_of_group(RankedUnits(part, units, scores[units]))


def _scores(part: Part, query: SparseVector) -> NDArray[np.float64]:
    """Each unit's dot product, summed in the order of the terms; -inf for what does not count.

    A product of two float32 numbers is exact in float64, and every segment sums in one order: the
    same vectors give the same scores bit for bit, wherever they are.
    """
    view = part.view
    postings, count = view.segment.sparse, len(view.segment)
    if not postings or not len(query):
        return np.zeros(count)
    places = np.minimum(postings.terms.searchsorted(query.indices), len(postings.terms) - 1)
    known = np.flatnonzero(postings.terms[places] == query.indices)
    if not len(known):
        return np.zeros(count)
    starts = postings.offsets[places[known]].tolist()
    ends = postings.offsets[places[known] + 1].tolist()
    slices = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
    ids = np.concatenate([postings.ids[each] for each in slices])
    parts = np.concatenate([postings.weights[each] for each in slices]).astype(np.float64)
    parts *= np.repeat(query.values[known].astype(np.float64), np.subtract(ends, starts))
    scores: NDArray[np.float64] = np.asarray(np.bincount(ids, parts, count), np.float64)
    view.leave_out(scores, part.allowed)
    return scores
