"""Postprocessors against redundant hits: maximal marginal relevance, near-duplicates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.contracts import HitReader
from triptych.errors import ValidationError
from triptych.records import Hit, Layer, ResolvedQuery
from triptych.records.values import check_number, number
from triptych.search.fusion import min_max
from triptych.search.query import MAX_TOP_K, over_fetch
from triptych.text.sentences import shingles

_OVERSAMPLED = 4  # times as many hits as are asked for
_DIGITS = 9  # as fused scores are rounded
_THRESHOLDS = {"text": 0.8, "vector": 0.97}


@attrs.frozen
class MMR:
    """Select hits that are relevant and diverse: maximal marginal relevance (MMR).

    Each next hit is the one with the largest ``lambda_ * relevance - (1 - lambda_) * max(similarity
    to the hits before it)``. Relevance is the hit's score, scaled to 0 to 1 over all candidates;
    similarity is the cosine of the chunks' vectors, at least 0. This value is the hit's new score
    and ``Hit.scores["mmr"]``; ``Hit.scores["fused"]`` is the earlier score. There are 4 times as
    many candidates as requested hits.

    A chunk without a vector has similarity 0 to all others; a warning gives their number. Hits of
    layers are unchanged. Source: Carbonell and Goldstein (1998), The use of MMR, SIGIR.

    Args:
        lambda_: from 0 (diversity only) to 1 (relevance only, the order is unchanged).

    Raises:
        ValidationError: ``lambda_`` is not a number from 0 to 1.
    """

    lambda_: float = attrs.field(default=0.5, validator=number(most=1))

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from."""
        return _depth(query)

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits in their new order.

        Raises:
            NotAvailableError: the dataset has no vectors.
            ModelMismatchError: the datasets have vectors of different models.
        """
        if not _are_chunks(hits):
            return hits
        unit = _matrix(hits, reader, "the MMR")
        relevance = np.array(min_max([hit.score for hit in hits]))
        nearest = np.zeros(len(hits))
        left = np.ones(len(hits), dtype=bool)
        ordered: list[Hit] = []
        for _ in hits:
            deadlines.check("the search")
            values = self.lambda_ * relevance - (1 - self.lambda_) * nearest
            values = np.where(left, np.round(values, _DIGITS), -np.inf)
            best = int(values.argmax())  # the first of equals
            left[best] = False
            # An opposite direction is no newer than an unrelated one.
            nearest = np.maximum(nearest, unit @ unit[best])
            value, hit = float(values[best]), hits[best]
            scores = {**hit.scores, "fused": hit.score, "mmr": value}
            ordered.append(attrs.evolve(hit, score=value, scores=scores))
        return ordered


@attrs.frozen
class NearDuplicates:
    """Drop hits that nearly repeat an earlier one. There are 4 times as many candidates as
    requested hits.

    Args:
        threshold: the similarity, above 0 up to 1, from which on two hits are duplicates; None is
            0.8 for texts and 0.97 for vectors.
        by: "text" uses the share of common shingles of five words (the resemblance of Broder,
            1997), and needs no vectors. "vector" uses the cosine of the chunks' vectors; a chunk
            without one is kept, and a warning gives their number. Hits of layers are compared by
            text only.

    Raises:
        ValidationError: an argument is invalid.
    """

    threshold: float | None = None
    by: Literal["text", "vector"] = "text"

    def __attrs_post_init__(self) -> None:
        if self.by not in _THRESHOLDS:
            raise ValidationError(f"by is 'text' or 'vector', not {self.by!r:.60}")
        if self.threshold is not None:
            check_number(self.threshold, "threshold", most=1)
            if self.threshold == 0:
                raise ValidationError("threshold must be above 0: with 0 every hit is a duplicate")

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from."""
        return _depth(query)

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits that are left, in their order.

        Raises:
            NotAvailableError: it compares vectors, and the dataset has none.
            ModelMismatchError: it compares vectors, and those of the datasets are of different
                models.
        """
        if self.by == "vector" and not _are_chunks(hits):
            return hits
        alike = _by_vector(hits, reader) if self.by == "vector" else _by_text(hits)
        threshold = _THRESHOLDS[self.by] if self.threshold is None else self.threshold
        kept: list[int] = []
        for at in range(len(hits)):
            deadlines.check("the search")
            if not kept or alike(at, kept) < threshold:
                kept.append(at)
        return [hits[at] for at in kept]


Alike = Callable[[int, Sequence[int]], float]
"""How alike a hit is to the most similar of others, all by their places."""


def _by_text(hits: Sequence[Hit]) -> Alike:
    sets: list[frozenset[Hashable]] = [shingles(hit.content) for hit in hits]

    def resemblance(at: int, other: int) -> float:
        both = len(sets[at] & sets[other])
        return both / (len(sets[at]) + len(sets[other]) - both)

    return lambda at, others: max(resemblance(at, other) for other in others)


def _by_vector(hits: Sequence[Hit], reader: HitReader) -> Alike:
    unit = _matrix(hits, reader, "the search for near-duplicates")
    return lambda at, others: float((unit[list(others)] @ unit[at]).max())


def _matrix(hits: Sequence[Hit], reader: HitReader, who: str) -> NDArray[np.float64]:
    """The vectors of the hits, one a row; zeros for a hit that has none."""
    vectors = reader.vectors(hits)
    width = next((vector.size for vector in vectors if vector is not None), 1)
    unit = np.zeros((len(hits), width))
    missing = 0
    for row, vector in zip(unit, vectors, strict=True):
        if vector is None:
            missing += 1
        else:
            row[:] = vector
    if missing:
        have = (
            "hit has no vector, and counts" if missing == 1 else "hits have no vectors, and count"
        )
        reader.warn(f"{who}: {missing} {have} as unlike all others")
    return unit


def _are_chunks(hits: Sequence[Hit]) -> bool:
    return bool(hits) and all(hit.layer is Layer.DETAIL for hit in hits)


def _depth(query: ResolvedQuery) -> int:
    return min(max(_OVERSAMPLED * query.top_k, over_fetch(query.top_k)), MAX_TOP_K)
