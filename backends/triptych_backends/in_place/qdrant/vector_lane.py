"""Nearest points of a collection: by its own index, and one by one where that finds too few."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych.errors import ValidationError
from triptych_backends.in_place.qdrant.catalog import Pair, Passing
from triptych_backends.in_place.qdrant.connection import FoundPoint, PointReader, VectorSpace
from triptych_backends.in_place.rows import Row

_DEEPER: Final = 4


def find_nearest(
    reader: PointReader,
    passing: Passing,
    pair: Pair,
    vector: NDArray[np.float32],
    limit: int,
) -> list[tuple[FoundPoint, Row, float]]:
    """The ``limit`` nearest points that pass and have a text, their rows and cosines, best first.

    Raises:
        ValidationError: the query's vector has a number that is not finite.
    """
    if not np.isfinite(vector).all():
        raise ValidationError("the query's vector has a number that is not finite")
    if passing.conditions is None or pair.vector is None or limit <= 0:
        return []
    space, asked = pair.vector, limit
    while True:
        deadlines.check("the search")
        points = _ask(reader, passing, space, vector, asked)
        found = [
            (point, row, _cosine(point, space, vector))
            for point in points
            if (row := passing.row(point)) is not None and row.texts[pair.index] is not None
        ]
        if len(found) >= limit or len(points) < asked:
            found.sort(key=lambda each: (-each[2], each[1].name))
            return found[:limit]
        asked *= _DEEPER


def _ask(
    reader: PointReader,
    passing: Passing,
    space: VectorSpace,
    vector: NDArray[np.float32],
    limit: int,
) -> list[FoundPoint]:
    collection = passing.collection

    def ask(exact: bool) -> list[FoundPoint]:
        return list(
            reader.nearest(
                collection.name,
                space,
                vector,
                passing.filter(),
                limit=limit,
                exact=exact,
                fields=collection.row_fields,
                vectors=space.distance != "Cosine",
            )
        )

    found = ask(False)
    if len(found) < limit:
        # A graph may lead to fewer than there are: a filtered search is never short.
        found = ask(True)
    return found


def _cosine(point: FoundPoint, space: VectorSpace, vector: NDArray[np.float32]) -> float:
    if space.distance == "Cosine":
        return point.score
    own = np.asarray(point.vector, np.float64)
    length = float(np.linalg.norm(own)) * float(np.linalg.norm(vector))
    return float(own @ vector.astype(np.float64)) / length if length else 0.0
