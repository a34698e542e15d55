"""The vector lanes: nearest units, and documents by their nearest chunk."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from triptych.errors import ModelMismatchError, ValidationError
from triptych_backends.index.change_log import Rows
from triptych_backends.index.ranking import Part, RankedUnits, best_of_group
from triptych_backends.index.segment import IntArray
from triptych_backends.index.top_k import lowest_of_best, top_k
from triptych_backends.index.vector_scan import Approximate, CpuGate, Probe, approximate, exact

# Exact scores are asked for all whose rounding to int8 may hide that they are among the best:
# so many standard deviations of it, for what is in and for what is out. At most so many rows.
SURE = 5.0
MOST = 4_096
# Chunks of one document whose exact scores are compared for its maximum.
ROWS_A_DOCUMENT = 8

EMPTY_PLACES: NDArray[np.int64] = np.empty(0, np.int64)
Vectors = Callable[[str, Sequence[int]], Rows]
Scan = tuple[Part, Approximate]


class VanishedError(Exception):
    """The truth no longer has a vector that the snapshot has: ask again with a newer one."""


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
    cores: CpuGate,
    *,
    last_try: bool,
) -> list[RankedUnits]:
    """The nearest units of all parts, with exact scores: a superset of the `limit` best.

    Raises VanishedError, but on the `last_try`: then what has vanished is left out.
    """
    probe = Probe.of(query)
    scans = [(part, approximate(part.view, probe, part.allowed, cores, limit)) for part in parts]
    floor = _floor([scan.scores for _, scan in scans], limit, query, parts)
    chosen = [(part, scan, _above(scan.scores, floor)) for part, scan in scans]
    return _rescored(chosen, query, vectors, last_try)


def nearest_documents(
    parts: Sequence[Part],
    query: NDArray[np.float32],
    limit: int,
    vectors: Vectors,
    cores: CpuGate,
    *,
    last_try: bool,
) -> list[RankedUnits]:
    """The best chunk of each of the best documents, by exact scores; a superset of `limit`.

    A document's score is the maximum over all its chunks. Raises VanishedError as `nearest` does.
    """
    scans: list[Scan] = []
    probe = Probe.of(query)
    for part in parts:
        scan = approximate(part.view, probe, part.allowed, cores)
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
    return [best_of_group(one) for one in _rescored(chosen, query, vectors, last_try)]


def _floor(
    scores: Sequence[NDArray[np.float32]],
    limit: int,
    query: NDArray[np.float32],
    parts: Sequence[Part],
) -> float:
    """What an approximate score must reach for the exact one to be among the `limit` best."""
    tops = [one if len(one) <= limit else one[top_k(one, limit)] for one in scores]
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
    last_try: bool,
) -> list[RankedUnits]:
    """The chosen rows with exact scores."""
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
        if None in mine and not last_try:
            raise VanishedError
        present = [at for at, score in enumerate(mine) if score is not None]
        if present:
            known_scores = np.array([mine[at] for at in present], np.float64)
            found.append(RankedUnits(part, scan.units[rows[present]], known_scores))
    return found
