"""The vector lanes: nearest units, and documents by their nearest chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError

from .ranking import Found, Part
from .select import SLACK, best, lowest_of_best
from .vectors import Cores, approximate, exact

# Exact scores are asked for at least so many candidates; for more, while the last of them is so
# near the best that rounding to int8 may have misplaced one that was left out.
POOL = 64
GROWTH = 4
MAX_POOL = 4_096
SURE = 5.0
# Chunks of one document whose exact scores are compared for its maximum.
ROWS_A_DOCUMENT = 8

Vectors = Callable[[str, Sequence[int]], Mapping[int, NDArray[np.float32]]]
Scan = tuple[Part, NDArray[np.float32], NDArray[np.int32]]


class VanishedError(Exception):
    """The truth no longer has a vector that the snapshot has: ask again with a newer one."""


def checked(vector: NDArray[np.float32], parts: Sequence[Part]) -> NDArray[np.float32]:
    """The query vector as float32.

    Raises ValidationError when it is not one finite row as wide as the vectors of `parts`.
    """
    query = np.asarray(vector, np.float32)
    if query.ndim != 1 or not np.isfinite(query).all():
        raise ValidationError("a query vector must be one row of finite numbers")
    for part in parts:
        width = part.view.segment.dimension
        if width and width != len(query):
            raise ValidationError(
                f"the query vector is {len(query)} wide, the vectors of dataset "
                f"{part.dataset!r} are {width}: embed the query with the dataset's model"
            )
    return query


def nearest(
    parts: Sequence[Part],
    query: NDArray[np.float32],
    limit: int,
    vectors: Vectors,
    cores: Cores,
    *,
    last_try: bool,
) -> list[Found]:
    """The nearest units of all parts, with exact scores: a superset of the `limit` best.

    Raises VanishedError, but on the `last_try`: then what has vanished is left out.
    """
    scans = [(part, *approximate(part.view, query, part.allowed, cores)) for part in parts]
    pool = max(2 * limit, POOL)
    while True:
        candidates, cut = _candidates(scans, pool)
        found = _rescored(candidates, query, vectors, last_try)
        bar = lowest_of_best([one.scores for one in found], limit)
        if cut + SURE * _deviation(query, candidates) < bar or cut == -math.inf:
            return found
        if pool >= max(MAX_POOL, 2 * limit):
            return found
        pool *= GROWTH


def nearest_documents(
    parts: Sequence[Part],
    query: NDArray[np.float32],
    limit: int,
    vectors: Vectors,
    cores: Cores,
    *,
    last_try: bool,
) -> list[Found]:
    """The best chunk of each of the best documents, by exact scores; a superset of `limit`.

    A document's score is the maximum over all its chunks. Raises VanishedError as `nearest` does.
    """
    scans: list[Scan] = []
    for part in parts:
        scores, units = approximate(part.view, query, part.allowed, cores)
        if len(units):
            scans.append((part, scores, units))
    pool = max(2 * limit, POOL)
    while True:
        candidates, cut = _document_candidates(scans, pool, query)
        found = [_best_of_group(one) for one in _rescored(candidates, query, vectors, last_try)]
        bar = lowest_of_best([one.scores for one in found], limit)
        if cut + SURE * _deviation(query, candidates) < bar or cut == -math.inf:
            return found
        if pool >= max(MAX_POOL, 2 * limit):
            return found
        pool *= GROWTH


def _candidates(scans: Sequence[Scan], pool: int) -> tuple[list[Found], float]:
    """The `pool` best by approximate score, and the score that nothing left out exceeds."""
    chosen = [best(scores, pool) for _, scores, _ in scans]
    cut = lowest_of_best([scan[1][rows] for scan, rows in zip(scans, chosen, strict=True)], pool)
    found = []
    for (part, scores, units), rows in zip(scans, chosen, strict=True):
        kept = rows[scores[rows] >= cut - SLACK]
        found.append(Found(part, units[kept], scores[kept].astype(np.float64)))
    return found, cut


def _document_candidates(
    scans: Sequence[Scan], pool: int, query: NDArray[np.float32]
) -> tuple[list[Found], float]:
    """The chunks that may be the best of the `pool` documents with the best approximate maximum."""
    grouped = []
    for part, scores, units in scans:
        bounds = units.searchsorted(part.view.segment.starts)
        starts = bounds[:-1][bounds[:-1] < bounds[1:]]
        grouped.append((starts, np.maximum.reduceat(scores, starts)))
    tops = [best(peaks, pool) for _, peaks in grouped]
    cut = lowest_of_best([peaks[top] for (_, peaks), top in zip(grouped, tops, strict=True)], pool)
    found = []
    for (part, scores, units), (starts, peaks), top in zip(scans, grouped, tops, strict=True):
        ends = np.append(starts[1:], len(scores))
        rows: list[int] = []
        slack = 2 * SURE * _deviation(query, [Found(part, units[:1], np.empty(0))])
        for group in top[peaks[top] >= cut - SLACK].tolist():
            run = scores[starts[group] : ends[group]]
            near = np.flatnonzero(run >= peaks[group] - slack)
            if len(near) > ROWS_A_DOCUMENT:
                near = best(run, ROWS_A_DOCUMENT)
            rows.extend((starts[group] + near).tolist())
        kept = np.array(sorted(rows), np.int64)
        found.append(Found(part, units[kept], scores[kept].astype(np.float64)))
    return found, cut


def _best_of_group(found: Found) -> Found:
    """Only the best unit of each group, the first of equal ones."""
    groups = found.part.view.segment.group_numbers(found.units)
    order = np.lexsort((found.units, -found.scores, groups))
    first = order[np.flatnonzero(np.diff(groups[order], prepend=-1))]
    return Found(found.part, found.units[first], found.scores[first])


def _deviation(query: NDArray[np.float32], candidates: Sequence[Found]) -> float:
    """Standard deviation of an approximate score from the exact one.

    Rounding to int8 is off by a twelfth of the squared step in each component, on both sides.
    """
    steps = [float(one.part.view.segment.scales.max(initial=0.0)) for one in candidates]
    own = float(np.abs(query).max(initial=0.0)) / 127
    norm = float(np.linalg.norm(query))
    return math.sqrt((own**2 + (norm * max(steps, default=0.0)) ** 2) / 12)


def _rescored(
    candidates: Sequence[Found],
    query: NDArray[np.float32],
    vectors: Vectors,
    last_try: bool,
) -> list[Found]:
    """The candidates with exact scores."""
    found = []
    keys: dict[str, list[int]] = {}
    for one in candidates:
        keys.setdefault(one.part.dataset, []).extend(one.part.view.segment.keys[one.units].tolist())
    rows = {dataset: vectors(dataset, wanted) for dataset, wanted in keys.items() if wanted}
    for one in candidates:
        known = rows.get(one.part.dataset, {})
        wanted = one.part.view.segment.keys[one.units].tolist()
        present = np.array([key in known for key in wanted], np.bool_)
        if not present.all() and not last_try:
            raise VanishedError
        units = one.units[present]
        if len(units):
            matrix = np.stack([known[key] for key in wanted if key in known])
            found.append(Found(one.part, units, exact(query, matrix)))
    return found
