"""Vector search: a scan of int8 rows finds the candidates, exact float32 vectors rank them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from triptych_backends.index.binary_quantization import shortlist
from triptych_backends.index.scalar_quantization import dot, quantise
from triptych_backends.index.segment import EMPTY_ORDINALS, IntArray, SegmentReader, common_places

# Below this a second thread costs more than it saves.
SPLIT_BYTES = 8 << 20
# Below this waiting for a core costs more than the scan.
UNGATED_BYTES = 1 << 16


class CpuGate:
    """A gate that lets as many scans run as there are cores, and splits a large one over idle ones.

    simsimd releases the interpreter's lock, so threads do run side by side. Its own threads are
    not used: they spin for work when a scan is over, and take the core from whoever is next.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or os.cpu_count() or 1
        self._free = BoundedSemaphore(self.count)
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def one(self) -> Iterator[None]:
        """Wait for a core."""
        with self._free:
            yield

    def dot(self, codes: NDArray[np.int8], query: NDArray[np.int8]) -> NDArray[np.float32]:
        """The dot product of each row of `codes` with `query`, shape (rows,)."""
        if codes.nbytes < UNGATED_BYTES:
            return dot(codes, query)
        with self._free:
            if codes.nbytes < SPLIT_BYTES or not self._free.acquire(blocking=False):
                return dot(codes, query)
            try:
                if self._pool is None:
                    self._pool = ThreadPoolExecutor(self.count, "triptych-scan")
                half = len(codes) // 2
                other = self._pool.submit(dot, codes[half:], query)
                return np.concatenate((dot(codes[:half], query), other.result()))
            finally:
                self._free.release()

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


class Probe(NamedTuple):
    """A query vector, and its rounding to int8."""

    vector: NDArray[np.float32]
    codes: NDArray[np.int8]
    scale: np.float32

    @classmethod
    def of(cls, vector: NDArray[np.float32]) -> Probe:
        """Round the vector once for all segments."""
        codes, scales = quantise(vector[None])
        return cls(vector, codes[0], scales[0])


def approximate(
    view: SegmentReader,
    query: Probe,
    allowed: IntArray | None,
    cores: CpuGate,
    limit: int | None = None,
) -> Approximate:
    """Scan a view. `allowed` are the only ordinals that count, ascending.

    With a `limit` it may be only those rows of a large segment whose signs let them be among the
    `limit` best.
    """
    segment = view.segment
    if not segment.dimension:
        return Approximate(np.empty(0, np.float32), EMPTY_ORDINALS, np.empty(0, np.int64))
    row_codes, scales = segment.codes, segment.scales
    units, keys = segment.row_units, segment.row_keys
    if allowed is not None:
        rows = common_places(units, _without(allowed, view.dead))
        row_codes, scales, units, keys = row_codes[rows], scales[rows], units[rows], keys[rows]
        if not len(rows):
            return Approximate(np.empty(0, np.float32), units, keys)
    elif limit is not None and segment.signs:
        with cores.one():
            rows = shortlist(segment.signs, query.vector, limit, view.dead_rows())
            row_codes, scales = row_codes.take(rows, axis=0), scales[rows]
        units, keys = units[rows], keys[rows]
    scores = cores.dot(row_codes, query.codes)
    scores *= scales
    scores *= query.scale
    if units is segment.row_units and len(view.dead):
        scores[view.dead_rows()] = -np.inf
    return Approximate(scores, units, keys)


def exact(query: NDArray[np.float32], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Dot products in float64, the same for a row whichever rows stand beside it."""
    found: NDArray[np.float64] = np.einsum(
        "ij,j->i", vectors.astype(np.float64), query.astype(np.float64)
    )
    return found


def _without(ordinals: IntArray, dead: IntArray) -> IntArray:
    if not len(dead) or not len(ordinals):
        return ordinals
    return np.delete(ordinals, common_places(ordinals, dead))
