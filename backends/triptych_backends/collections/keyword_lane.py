"""Keywords in a collection: Qdrant's text match finds the points that hold most of the words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import attrs
from qdrant_client.models import Condition, FieldCondition, MatchText

from triptych import deadlines
from triptych.records import FilterTree
from triptych_backends.collections.catalog import Collection, Pair, Passing
from triptych_backends.collections.connection import FoundPoint, PointId
from triptych_backends.collections.source import CollectionSource
from triptych_backends.in_place import QueryWord, Row, Text
from triptych_backends.in_place.keyword_lane import ENOUGH

__all__ = ["CollectionPart", "text_of"]

_PAGE: Final = 1_000


def text_of(pair: Pair, point: FoundPoint, row: Row) -> Text | None:
    """The text of a pair, None where the row has none."""
    text = row.texts[pair.index]
    if text is None:
        return None
    return Text(row.dataset_id, row.name, pair.index, point.id, text)


@attrs.frozen
class CollectionPart:
    """A `Part`: one field of texts of one collection, of the points that pass ``tree``."""

    source: CollectionSource
    collection: Collection
    pair: Pair
    tree: FilterTree | None
    texts: int
    frequencies: Sequence[int]

    @classmethod
    def of(
        cls,
        source: CollectionSource,
        collection: Collection,
        pair: Pair,
        words: Sequence[QueryWord],
        tree: FilterTree | None,
        within: FilterTree | None,
    ) -> CollectionPart:
        """The part, with the counts of the points within ``within``, as far as Qdrant states it."""
        bounds = Passing.of(collection, within)
        place = collection.spec.name, pair.index, within

        def count(*conditions: Condition) -> int:
            if bounds.conditions is None:
                return 0
            return source.reader.count(collection.name, bounds.filter(*conditions))

        return cls(
            source,
            collection,
            pair,
            tree,
            source.counts.get(("texts", *place), count),
            [
                source.counts.get(("word", *place, word), lambda: count(_holds(pair, [word])))  # noqa: B023 - called at once
                for word in words
            ],
        )

    def best(
        self,
        words: Sequence[QueryWord],
        weights: Sequence[float],
        asked: Sequence[int],
        limit: int,
    ) -> list[Text]:
        """See `Part.best`."""
        passing = Passing.of(self.collection, self.tree)
        held: defaultdict[PointId, set[int]] = defaultdict(set)
        heaviest = sorted(asked, key=lambda at: -weights[at])
        if any(self.frequencies[at] > ENOUGH for at in asked):
            # Not all points of such a word are read: those that hold several words come first.
            for count in range(len(heaviest), 1, -1):
                several = heaviest[:count]
                for point in self._holding(passing, [words[at] for at in several], limit):
                    held[point].update(several)
        for at in heaviest:
            for point in self._holding(passing, [words[at]], ENOUGH):
                held[point].add(at)
        sums = {point: sum(weights[at] for at in ats) for point, ats in held.items()}
        best = sorted(sums, key=lambda point: (-sums[point], str(point)))[:limit]
        texts = (text_of(self.pair, *each) for each in self.source.by_ids(passing, best))
        return [text for text in texts if text is not None]

    def _holding(
        self, passing: Passing, words: Sequence[QueryWord], limit: int
    ) -> Sequence[PointId]:
        """The first ``limit`` points that pass and hold all of ``words``."""
        if passing.conditions is None:
            return []
        found: list[PointId] = []
        after: PointId | None = None
        while True:
            deadlines.check("the search")
            points, after = self.source.reader.scroll(
                self.collection.name,
                passing.filter(_holds(self.pair, words)),
                limit=_PAGE,
                fields=self.collection.judged_fields if passing.judges else (),
                after=after,
            )
            found += [each.id for each in points if not passing.judges or passing.admits(each)]
            if after is None or len(found) >= limit:
                return found[:limit]


def _holds(pair: Pair, words: Sequence[QueryWord]) -> Condition:
    text = " ".join(word.text for word in words)
    return FieldCondition(key=pair.text.key, match=MatchText(text=text))
