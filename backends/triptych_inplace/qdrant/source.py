"""Collections of Qdrant, open for reading, and those of one pipeline, loaded when first used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeVar
from uuid import UUID

import attrs
import numpy as np
from numpy.typing import NDArray
from qdrant_client.models import Condition, FieldCondition, HasIdCondition, MatchText

from triptych import deadlines
from triptych.errors import ValidationError
from triptych.records import FilterTree, Finding, Vector
from triptych_inplace.keyword_lane import ENOUGH
from triptych_inplace.qdrant.catalog import (
    Collection,
    Pair,
    Passing,
    findings,
    load_collection,
)
from triptych_inplace.qdrant.connection import (
    FoundPoint,
    PointId,
    PointReader,
    VectorSpace,
)
from triptych_inplace.source import InPlaceSource, store_errors
from triptych_inplace.spec import TableSpec
from triptych_inplace.table import Near, QueryWord, Row, Text, WantedWord

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


T = TypeVar("T")

PAGE: Final = 500


COUNTED: Final = 5_000
"""Up to so many points are read to count those that are rows."""


@attrs.frozen(eq=False)
class OpenCollection:
    """An `OpenTable`: a collection. The key of a row is the id of its point."""

    reader: PointReader
    collection: Collection

    @property
    def spec(self) -> TableSpec:
        return self.collection.spec

    @property
    def size(self) -> float:
        """See `OpenTable.size`: Qdrant's estimate."""
        return self.collection.layout.points

    def has_vector(self, pair: int) -> bool:
        return self.collection.pairs[pair].vector is not None

    def has_text_index(self, pair: int) -> bool:
        return self.collection.pairs[pair].indexed

    def names(self) -> Sequence[str]:
        """See `OpenTable.names`. Every point is read."""
        return sorted(row.name for row in self._scan(self._passing(None)))

    def rows(self, keys: Sequence[Hashable], tree: FilterTree | None) -> Mapping[Hashable, Row]:
        passing = self._passing(tree)
        found: dict[Hashable, Row] = {}
        for start in range(0, len(keys), PAGE):
            if passing.conditions is None:
                break
            some = [key for key in keys[start : start + PAGE] if isinstance(key, int | str | UUID)]
            points, _ = self.reader.scroll(
                self.collection.name,
                passing.filter(HasIdCondition(has_id=some)),
                limit=len(some),
                fields=self.collection.row_fields,
            )
            for point in points:
                row = passing.row(point)
                if row is not None:
                    found[point.id] = row
        return found

    def rows_named(self, names: Sequence[str]) -> list[Row]:
        """See `OpenTable.rows_named`: each name once."""
        wanted = set(names)
        found: dict[str, Row] = {}
        passing = self._passing(None)
        for start in range(0, len(names), PAGE):
            named = self.collection.has_name(list(names[start : start + PAGE]))
            if named is False or passing.conditions is None:
                continue
            several = [*passing.conditions, *([] if named is True else [named])]
            for row in self._scan(attrs.evolve(passing, conditions=several)):
                if row.name in wanted:
                    found.setdefault(row.name, row)
        return list(found.values())

    def rows_in_order(self, tree: FilterTree | None, limit: int | None) -> list[Row]:
        """See `OpenTable.rows_in_order`. Qdrant sorts no texts: every point that may pass is
        read."""
        return sorted(self._scan(self._passing(tree)), key=lambda row: row.name)[:limit]

    def count(self, tree: FilterTree | None) -> int:
        """See `OpenTable.count`: without ``tree``, of large collections, how many points."""
        passing = self._passing(tree)
        if tree is None and passing.conditions is not None:
            points = self.reader.count(self.collection.name, passing.filter())
            if points > COUNTED:
                return points
        return sum(1 for _ in self._scan(passing))

    def count_texts(self, pair: int, tree: FilterTree | None, word: QueryWord | None = None) -> int:
        """See `OpenTable.count_texts`: points that fulfil what Qdrant can be asked of ``tree``."""
        passing = self._passing(tree)
        if passing.conditions is None:
            return 0
        more = [] if word is None else [holds(self.collection.pairs[pair], [word])]
        return self.reader.count(self.collection.name, passing.filter(*more))

    def best_texts(
        self, pair: int, words: Sequence[WantedWord], tree: FilterTree | None, limit: int
    ) -> list[Text]:
        there = self.collection.pairs[pair]
        best = find_by_words(self.reader, self._passing(tree), there, words, limit)
        return _texts(pair, self.rows(best, tree).items())

    def nearest(self, pair: int, vector: Vector, tree: FilterTree | None, limit: int) -> list[Near]:
        found = self._nearest(pair, vector, tree, limit)
        return [Near(point.id, row.name, score) for point, row, score in found]

    def nearest_texts(
        self, pair: int, vector: Vector, tree: FilterTree | None, limit: int
    ) -> list[Text]:
        found = self._nearest(pair, vector, tree, limit)
        return _texts(pair, ((point.id, row) for point, row, _ in found))

    def attempt(self, ask: Callable[[], T]) -> T:
        """See `OpenTable.attempt`: no call depends on another."""
        return ask()

    def _nearest(
        self, pair: int, vector: Vector, tree: FilterTree | None, limit: int
    ) -> list[tuple[FoundPoint, Row, float]]:
        there = self.collection.pairs[pair]
        return find_nearest(self.reader, self._passing(tree), there, vector, limit)

    def _passing(self, tree: FilterTree | None) -> Passing:
        return Passing.of(self.collection, tree)

    def _scan(self, passing: Passing) -> Iterator[Row]:
        """All rows that pass, in the order of the points' ids, each name once."""
        seen: set[str] = set()
        after: PointId | None = None
        while passing.conditions is not None:
            deadlines.check("reading a collection")
            points, after = self.reader.scroll(
                self.collection.name,
                passing.filter(),
                limit=PAGE,
                fields=self.collection.row_fields,
                after=after,
            )
            for point in points:
                row = passing.row(point)
                if row is not None and row.name not in seen:
                    seen.add(row.name)
                    yield row
            if after is None:
                return


def _texts(pair: int, found: Iterable[tuple[Hashable, Row]]) -> list[Text]:
    return [
        Text(row.dataset_id, row.name, pair, point, text)
        for point, row in found
        if (text := row.texts[pair]) is not None
    ]


class CollectionSource(InPlaceSource[OpenCollection]):
    """The collections of one Qdrant. Each is loaded when it is first read."""

    others = ("text_search", "text_config", "distance")
    other = "tables of PostgreSQL"

    database: PointReader

    @cached_property
    def _collections(self) -> dict[str, Collection]:
        return {}

    def embed_sig(self, spec: TableSpec) -> str:
        """The embedder's signature, "" without one."""
        return "" if self.embedder is None else self.embedder.signature

    def read(self, dataset_ids: Sequence[str], ask: Callable[[Sequence[OpenCollection]], T]) -> T:
        names = [each for each in dict.fromkeys(dataset_ids) if each in self.specs]
        return ask([OpenCollection(self.database, self._collection(name)) for name in names])

    def examine(self, dataset_id: str) -> Iterator[Finding]:
        return findings(self._load(dataset_id))

    def _collection(self, name: str) -> Collection:
        """The collection as it was when it was first used."""
        found = self._collections.get(name)
        if found is None:
            with store_errors():
                found = self._collections.setdefault(name, self._load(name))
        return found

    def _load(self, name: str) -> Collection:
        return load_collection(self.database, self.specs[name], self.width)
