"""The sparse lane: exact dot products over inverted postings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from triptych.records import SparseVector
from triptych_backends.index.ranking import Part, RankedUnits, best_of_group
from triptych_backends.index.top_k import top_k


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
