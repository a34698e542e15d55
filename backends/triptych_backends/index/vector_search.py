"""The vector lanes: a scan of int8 rows finds the candidates, exact float32 vectors rank them.

Documents are found by their nearest chunk. Sparse vectors are multiplied exactly, over inverted
postings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError, ValidationError
from triptych.records import SparseVector
from triptych_backends.index import kernels
from triptych_backends.index.change_log import Rows
from triptych_backends.index.helper import available_cores
from triptych_backends.index.quantization import (
    ALL,
    LOWEST,
    Places,
    Probe,
    exact,
    scan_rows,
    shortlist,
    shortlist_among,
)
from triptych_backends.index.ranking import (
    RankedUnits,
    Scores,
    best_of_group,
    lowest_of_best,
    top_k,
)
from triptych_backends.index.segment import (
    EMPTY_ORDINALS,
    IntArray,
    Segment,
    SegmentReader,
    vectors_of,
)
from triptych_backends.index.selection import Part

# Below this a second thread costs more than it saves.
SPLIT_BYTES = 8 << 20

T = TypeVar("T")
Scales = TypeVar("Scales", float, NDArray[np.float64])


class RowScanner:
    """Scans many rows in two halves, one of them in another thread.

    That core is free: searches of a process take turns (`triptych._internal.turns`).
    """

    def __init__(self, cores: int | None = None) -> None:
        self._cores = cores or available_cores()
        self._pool: ThreadPoolExecutor | None = None

    def halves(self, count: int, width: int, scan: Callable[[slice], T]) -> list[T]:
        """What ``scan`` gives for each half of so many rows of so many bytes; none where scanning
        all at once takes no longer."""
        if self._cores < 2 or count * width < SPLIT_BYTES:
            return []
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._cores, "triptych-scan")
        other = self._pool.submit(scan, slice(count // 2, count))
        return [scan(slice(0, count // 2)), other.result()]

    def close(self) -> None:
        """End the helper threads; they start again when needed."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class Approximate(NamedTuple):
    """Rows of one view: approximate scores, and places among all rows, both of the shape (rows,).

    A dead unit is left out, or its score is -inf.
    """

    scores: NDArray[np.float32]
    places: Places

    def rows(self, which: NDArray[np.int64]) -> NDArray[np.int32]:
        """The places of some of these rows."""
        places = which if isinstance(self.places, slice) else self.places[which]
        return places.astype(np.int32, copy=False)


def approximate(
    view: SegmentReader,
    query: Probe,
    allowed: IntArray | None,
    scanner: RowScanner,
    limit: int | None = None,
) -> Approximate:
    """Scan a view. `allowed` are the only ordinals that count, ascending.

    With a `limit` it is only those rows that may be among the `limit` best; of a large segment,
    those whose signs let them be.
    """
    segment = view.segment
    codes, scales, signs = segment.codes, segment.scales, segment.signs
    listed, rows, dead = None, None, EMPTY_ORDINALS
    if allowed is not None:
        passing = view.counting(allowed)
        # Where every unit has a vector, its row has the unit's number.
        every = len(segment.row_units) == len(segment)
        passing = passing if every else passing[segment.row_units]
        if limit is not None and signs:
            listed = shortlist_among(signs, codes, scales, query, limit, passing)
        rows = None if listed else np.flatnonzero(passing).astype(np.int32)
    else:
        dead = view.dead_rows()
        if limit is not None and signs:
            listed = shortlist(signs, codes, scales, query, limit, dead)
    found, scores = listed or _scanned(segment, query, scanner, limit, rows, dead)
    return Approximate(scores, found)


def _scanned(
    segment: Segment,
    query: Probe,
    scanner: RowScanner,
    limit: int | None,
    rows: NDArray[np.int32] | None,
    dead: NDArray[np.int32],
) -> tuple[Places, NDArray[np.float32]]:
    """The rows, all or of `rows`, near the `limit` best (None: all), and scores."""
    codes, scales = segment.codes, segment.scales
    count = len(codes) if rows is None else len(rows)
    margin = 0.0 if limit is None else _margins(query, segment.coarsest, segment.coarsest)

    def half(some: slice) -> tuple[Places, NDArray[np.float32]]:
        if rows is not None:
            places, scores = scan_rows(codes, scales, query, limit, margin, rows=rows[some])
        else:
            gone = dead[(dead >= some.start) & (dead < some.stop)] - some.start
            places, scores = scan_rows(codes[some], scales[some], query, limit, margin, dead=gone)
        return places if isinstance(places, slice) else places + some.start, scores

    if found := scanner.halves(count, segment.dimension, half):
        scores = np.concatenate([each for _, each in found])
        several = [each for each, _ in found if not isinstance(each, slice)]
        places: Places = np.concatenate(several) if several else ALL
    else:
        places, scores = scan_rows(codes, scales, query, limit, margin, rows=rows, dead=dead)
    return places if rows is None else rows[places], scores


# Scores that lie so many standard deviations of their rounding apart are in the right order, but
# for one of 10**12 pairs of equal rows, and far fewer of others. So a search errs in one case of
# 10**9 at most, unless more than 100 rows a standard deviation are about the last of the best.
# At most so many rows get exact scores, or as many as are asked for.
SURE = 7.0
MOST = 4_096
# Chunks of one document whose exact scores are compared for its maximum.
ROWS_A_DOCUMENT = 8

NO_SCORES: NDArray[np.float32] = np.empty(0, np.float32)
Vectors = Callable[[str, Sequence[int]], Rows]
Scan = tuple[Part, Approximate]
Chosen = tuple[Part, NDArray[np.int32]]


def checked(vector: NDArray[np.float32], parts: Sequence[Part]) -> NDArray[np.float32]:
    """The query vector as float32.

    Raises ValidationError when it is not one row of finite numbers, ModelMismatchError when it is
    not as wide as the vectors of `parts`.
    """
    query = np.array(vector, np.float32, order="C")  # a kernel takes no other layout
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
    return _rescored(_near(scans, probe, limit), query, vectors)


def _near(scans: Sequence[Scan], query: Probe, limit: int) -> list[Chosen]:
    """The rows that may be among the `limit` best of all scans, ascending; most often few more."""
    if kernels.compiled is not None:
        asked = [(scan.scores, scan.places, part.view.segment.scales) for part, scan in scans]
        near = kernels.compiled.near(asked, query.norm, query.scale, SURE, limit)
        rows = [np.frombuffer(each, np.int32) for each in near]
        # Of too many, NumPy finds the best.
        if sum(map(len, rows)) <= max(limit, MOST):
            return [(part, each) for (part, _), each in zip(scans, rows, strict=True)]
    scores = np.concatenate([NO_SCORES, *(scan.scores for _, scan in scans)])
    of = [part.view.segment.scales[scan.places] for part, scan in scans]
    scales = np.concatenate([NO_SCORES, *of]).astype(np.float64)
    floor = lowest_of_best([scores], limit)
    # The greatest scale of what is among the best may be less than that of any row.
    step = float(scales[scores >= floor].max(initial=0.0))
    places = _above(scores + _margins(query, step, scales), floor, limit)
    chosen, start = [], 0
    for part, scan in scans:
        low, high = places.searchsorted((start, start + len(scan.scores)))
        chosen.append((part, scan.rows(places[low:high] - start)))
        start += len(scan.scores)
    return chosen


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
        if len(scan.scores):
            scans.append((part, scan))
    grouped = []
    for part, scan in scans:
        segment = part.view.segment
        bounds = segment.row_units[scan.places].searchsorted(segment.starts)
        starts = bounds[:-1][bounds[:-1] < bounds[1:]]
        grouped.append((starts, np.maximum.reduceat(scan.scores, starts)))
    step = max([part.view.segment.coarsest for part, _ in scans], default=0.0)
    margin = _margins(probe, step, step)
    floor = max(lowest_of_best([peaks for _, peaks in grouped], limit) - margin, LOWEST)
    chosen = []
    for (part, scan), (starts, peaks) in zip(scans, grouped, strict=True):
        ends = np.append(starts[1:], len(scan.scores))
        rows: list[int] = []
        for group in _above(peaks, floor, limit).tolist():
            run = scan.scores[starts[group] : ends[group]]
            near = np.flatnonzero(run >= peaks[group] - margin)
            if len(near) > ROWS_A_DOCUMENT:
                near = top_k(run, ROWS_A_DOCUMENT)
            rows.extend((starts[group] + near).tolist())
        chosen.append((part, scan.rows(np.array(sorted(rows), np.int64))))
    return [best_of_group(one) for one in _rescored(chosen, query, vectors)]


def _above(scores: Scores, floor: float, limit: int) -> NDArray[np.int64]:
    """Places of the scores that reach `floor`, ascending; of the best if too many."""
    places, most = np.flatnonzero(scores >= floor), max(limit, MOST)
    return places if len(places) <= most else np.sort(top_k(scores, most))


def _margins(query: Probe, step: float, others: Scales) -> Scales:
    """How far below that of a row with the scale ``step`` a score of each of these scales may be
    if its exact one may be the greater.

    Rounding moves a component by up to half a step, either way: the variance is a twelfth of the
    squared step, and larger errors are rarer than a normal distribution's of that variance (a
    uniform one is strictly sub-Gaussian). The errors of two rows are independent, so their
    variances add up. The query's error is the same for both rows, which are at most 2 apart.
    """
    own = 4 * float(query.scale) * float(query.scale)
    squares = query.norm * query.norm * (step * step + others * others)
    margins: Scales = SURE * np.sqrt((squares + own) / 12)
    return margins


def _rescored(
    chosen: Sequence[Chosen], query: NDArray[np.float32], vectors: Vectors
) -> list[RankedUnits]:
    """The chosen rows with exact scores, by the index's file where there is one, but those whose
    vectors the truth has no longer. Raises DamagedError."""
    found: list[RankedUnits] = []
    elsewhere: dict[str, list[tuple[NDArray[np.float64], NDArray[np.int64]]]] = {}
    for part, rows in chosen:
        if not len(rows):
            continue
        segment = part.view.segment
        scores, missing = _scores_in_file(segment, rows, query)
        if missing:
            elsewhere.setdefault(part.dataset, []).append((scores, segment.row_keys[rows]))
        found.append(RankedUnits(part.dataset, part.view, segment.row_units.take(rows), scores))
    for dataset, several in elsewhere.items():
        keys = np.concatenate([keys for _, keys in several])
        every = exact(query, vectors_of(vectors(dataset, keys.tolist()), keys, len(query)))
        for scores, _ in several:
            scores[:], every = every[: len(scores)], every[len(scores) :]
    for at, one in enumerate(found if elsewhere else ()):
        kept = ~np.isnan(one.scores)
        found[at] = evolve(one, units=one.units[kept], scores=one.scores[kept])
    return found


def _scores_in_file(
    segment: Segment, rows: NDArray[np.int32], query: NDArray[np.float32]
) -> tuple[NDArray[np.float64], int]:
    """Exact scores of the rows, NaN for those whose vectors the segment's file does not have, and
    how many these are. Raises DamagedError."""
    if not len(segment.vectors):
        return np.full(len(rows), np.nan), len(rows)
    if kernels.compiled is not None:
        scores = np.empty(len(rows))
        asked = segment.vectors, segment.row_keys, rows, query, scores
        if (missing := kernels.compiled.exact(asked)) >= 0:
            return scores, missing
    scores = exact(query, segment.exact_rows(rows))
    return scores, int(np.count_nonzero(np.isnan(scores)))


def best_units(part: Part, query: SparseVector, limit: int) -> RankedUnits:
    """The ``limit`` units with the greatest dot products, among those that share a term."""
    scores = _scores(part, query)
    units = top_k(scores, limit, floor=0.0)
    return RankedUnits(part.dataset, part.view, units, scores[units])


def best_documents(part: Part, query: SparseVector) -> RankedUnits:
    """The best unit of each document that shares a term."""
    scores = _scores(part, query)
    units = np.flatnonzero(scores > 0.0)
    return best_of_group(RankedUnits(part.dataset, part.view, units, scores[units]))


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
