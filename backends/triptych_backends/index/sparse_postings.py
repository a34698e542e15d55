"""Sparse vectors of a segment's units, inverted: for each term the units that have it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from triptych.records import SparseVector

_POSTINGS_AT_ONCE = 1 << 22


@frozen(eq=False, kw_only=True)
class SparsePostings:
    """The terms that any unit has, ascending; term i's units and their weights are
    ``ids[offsets[i]:offsets[i + 1]]`` and ``weights[...]``, in order of the units."""

    terms: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int32]
    weights: NDArray[np.float32]

    def __bool__(self) -> bool:
        return len(self.ids) > 0

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, 0 where no unit has a sparse vector."""
        return self.offsets.nbytes + self.terms.nbytes + self.ids.nbytes + self.weights.nbytes


NO_SPARSE = SparsePostings(
    terms=np.empty(0, np.uint32),
    offsets=np.zeros(0, np.int64),
    ids=np.empty(0, np.int32),
    weights=np.empty(0, np.float32),
)


def invert_vectors(
    units: NDArray[np.signedinteger], vectors: Sequence[SparseVector]
) -> SparsePostings:
    """The postings of ``vectors``, which are those of ``units``, each once."""
    if not len(vectors):
        return NO_SPARSE
    return _inverted(
        np.concatenate([vector.indices for vector in vectors]),
        np.repeat(units, [len(vector) for vector in vectors]),
        np.concatenate([vector.values for vector in vectors]),
    )


def merge_postings(
    parts: Sequence[SparsePostings], remaps: Sequence[NDArray[np.int32]]
) -> SparsePostings:
    """The postings of several segments as one's; ``remaps`` give each unit's new number, -1 for
    one that is dead."""
    live = [(part, remap) for part, remap in zip(parts, remaps, strict=True) if part]
    blocks = [
        _merged(live, first, last) for first, last in _term_ranges([part for part, _ in live])
    ]
    blocks = [block for block in blocks if block]
    if not blocks:
        return NO_SPARSE
    ends = np.cumsum([len(block.ids) for block in blocks]).tolist()
    offsets = [block.offsets[:-1] + start for block, start in zip(blocks, [0, *ends], strict=False)]
    return SparsePostings(
        terms=np.concatenate([block.terms for block in blocks]),
        offsets=np.concatenate([*offsets, np.array(ends[-1:], np.int64)]),
        ids=np.concatenate([block.ids for block in blocks]),
        weights=np.concatenate([block.weights for block in blocks]),
    )


def _term_ranges(parts: Sequence[SparsePostings]) -> Iterator[tuple[int, int]]:
    """Ranges of terms (first, last) that together hold all, each of a bounded count of postings.

    Sorting takes several times the memory of what is sorted.
    """
    if not parts:
        return
    terms = np.concatenate([part.terms for part in parts])
    counts = np.concatenate([np.diff(part.offsets) for part in parts])
    order = np.argsort(terms, kind="stable")
    terms, sums = terms[order], np.cumsum(counts[order])
    at = 0
    while at < len(terms):
        before = int(sums[at - 1]) if at else 0
        end = max(int(sums.searchsorted(before + _POSTINGS_AT_ONCE, "right")), at + 1)
        end = int(terms.searchsorted(terms[end - 1], "right"))  # a term's postings stay together
        yield int(terms[at]), int(terms[end - 1])
        at = end


def _merged(
    parts: Sequence[tuple[SparsePostings, NDArray[np.int32]]], first: int, last: int
) -> SparsePostings:
    """The live postings of the terms from ``first`` to ``last``."""
    terms, units, weights = [], [], []
    for part, remap in parts:
        low = int(part.terms.searchsorted(first))
        high = int(part.terms.searchsorted(last, "right"))
        here = slice(int(part.offsets[low]), int(part.offsets[high]))
        moved = remap[part.ids[here]]
        live = moved >= 0
        terms.append(np.repeat(part.terms[low:high], np.diff(part.offsets[low : high + 1]))[live])
        units.append(moved[live])
        weights.append(part.weights[here][live])
    return _inverted(np.concatenate(terms), np.concatenate(units), np.concatenate(weights))


def _inverted(
    terms: NDArray[np.uint32], units: NDArray[np.signedinteger], weights: NDArray[np.float32]
) -> SparsePostings:
    if not len(terms):
        return NO_SPARSE
    # A unit's number has 31 bits at most, a term's 32.
    order = np.argsort((terms.astype(np.int64) << 31) | units, kind="stable")
    terms = terms[order]
    starts = np.flatnonzero(np.concatenate(([True], terms[1:] != terms[:-1])))
    return SparsePostings(
        terms=terms[starts],
        offsets=np.append(starts, len(terms)).astype(np.int64),
        ids=units[order].astype(np.int32),
        weights=weights[order],
    )


def unit_digests(
    terms: NDArray[np.uint32],
    units: NDArray[np.signedinteger],
    weights: NDArray[np.float32],
    count: int,
) -> NDArray[np.uint64]:
    """For each of ``count`` units a digest of its terms with their weights, in whatever order."""
    sums = np.zeros(count, np.uint64)
    bits = weights.astype("<f4", copy=False).view("<u4").astype(np.uint64)
    mixed = (terms.astype(np.uint64) << np.uint64(32)) | bits
    # SplitMix64's finaliser.
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    np.add.at(sums, units, mixed ^ (mixed >> np.uint64(31)))
    return sums
