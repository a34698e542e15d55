"""Keywords in a collection: Qdrant's text match finds the points that hold most of the words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from qdrant_client.models import Condition, FieldCondition, MatchText

from triptych import deadlines
from triptych_backends.in_place.keyword_lane import ENOUGH
from triptych_backends.in_place.qdrant.catalog import Pair, Passing
from triptych_backends.in_place.qdrant.connection import PointId, PointReader
from triptych_backends.in_place.query_words import QueryWord
from triptych_backends.in_place.table import WantedWord

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
