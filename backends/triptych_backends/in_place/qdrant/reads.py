"""Points of a collection by the words that their texts hold, and by nearest vectors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from qdrant_client.models import Condition, FieldCondition, MatchText

from triptych import deadlines
from triptych.errors import ValidationError
from triptych_backends.in_place.keyword_lane import ENOUGH
from triptych_backends.in_place.qdrant.catalog import Pair, Passing
from triptych_backends.in_place.qdrant.connection import (
    FoundPoint,
    PointId,
    PointReader,
    VectorSpace,
)
from triptych_backends.in_place.table import QueryWord, Row, WantedWord

_PAGE: Final = 1_000


def find_by_words(
    reader: PointReader, passing: Passing, pair: Pair, words: Sequence[WantedWord], limit: int
) -> list[PointId]:
    """The ``limit`` points that pass and hold most of ``words`` by weight, best first."""
    held: defaultdict[PointId, set[int]] = defaultdict(set)
    heaviest = sorted(words, key=lambda each: -each.weight)
    if any(each.held > ENOUGH for each in heaviest):
        # Not all points of such a word are read: those that hold several words come first.
        for count in range(len(heaviest), 1, -1):
            several = [each.word for each in heaviest[:count]]
            for point in _holding(reader, passing, pair, several, limit):
                held[point].update(range(count))
    for at, each in enumerate(heaviest):
        for point in _holding(reader, passing, pair, [each.word], ENOUGH):
            held[point].add(at)
    sums = {point: sum(heaviest[at].weight for at in ats) for point, ats in held.items()}
    return sorted(sums, key=lambda point: (-sums[point], str(point)))[:limit]


def _holding(
    reader: PointReader, passing: Passing, pair: Pair, words: Sequence[QueryWord], limit: int
) -> Sequence[PointId]:
    """The first ``limit`` points that pass and hold all of ``words``."""
    if passing.conditions is None:
        return []
    found: list[PointId] = []
    after: PointId | None = None
    while True:
        deadlines.check("the search")
        points, after = reader.scroll(
            passing.collection.name,
            passing.filter(holds(pair, words)),
            limit=_PAGE,
            fields=passing.collection.judged_fields if passing.judges else (),
            after=after,
        )
        found += [each.id for each in points if not passing.judges or passing.admits(each)]
        if after is None or len(found) >= limit:
            return found[:limit]


def holds(pair: Pair, words: Sequence[QueryWord]) -> Condition:
    """The condition that a text holds all of ``words``."""
    text = " ".join(word.text for word in words)
    return FieldCondition(key=pair.text.key, match=MatchText(text=text))


_DEEPER: Final = 4


def find_nearest(
    reader: PointReader, passing: Passing, pair: Pair, vector: NDArray[np.float32], limit: int
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
