"""`CollectionRows`: the points of a collection in the order of their changes, for `follow_rows`."""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import attrs
from qdrant_client import models

from triptych.sync.rows import RowPage, SourceRow
from triptych_backends.in_place.follow import OVERLAP, FollowedRows, source_row
from triptych_backends.in_place.qdrant.catalog import Collection, Passing
from triptych_backends.in_place.qdrant.connection import FoundPoint, PointId, PointReader
from triptych_backends.in_place.qdrant.source import CollectionSource, OpenCollection
from triptych_backends.in_place.spec import TableSpec
from triptych_backends.in_place.table import moment_of

_ORDERED: Final = ("datetime", "integer", "float")
"""Payload indexes that a field can be ordered by."""

_Stage: TypeAlias = Literal["from", "at", "after", "all"]


@attrs.frozen
class _Place:
    """How far a pass came. ``kind`` is the index that it is ordered by, "" for none.

    ``stage``: points "from" ``value`` on are next, or those "after" it; "at": those of this very
    value from the point ``id`` on; "all": all points from ``id`` on, in no order of changes.
    """

    kind: str
    stage: _Stage
    value: float = 0
    id: PointId | None = None

    @classmethod
    def of(cls, cursor: str) -> _Place:
        return cls(*json.loads(cursor))

    def __str__(self) -> str:
        return json.dumps([self.kind, self.stage, self.value, self.id])


class CollectionRows(FollowedRows[OpenCollection]):
    """A `RowSource` over one collection of Qdrant, which it only reads.

    Where ``updated_at`` has a payload index of times or numbers, each pass begins ``overlap``
    seconds before the newest change that was seen (so many units where it is a number). Without
    such an index every pass reads every point. Close it, or use it as a context manager.
    """

    _SOURCE = CollectionSource

    def __init__(self, reader: PointReader, table: TableSpec, *, overlap: float = OVERLAP) -> None:
        """Raises ValidationError: ``overlap`` is negative, or a key is not for collections."""
        super().__init__(reader, table, overlap=overlap)
        self._reader = reader
        self._listed: list[str] = []

    def resume(self, cursor: str) -> str:
        place = _Place.of(cursor)
        if not place.kind or place.kind != _kind(self._collection()):
            return ""
        value, back = place.value, self.overlap
        if place.kind == "datetime":
            # A point of tomorrow must not hide those of today.
            value, back = min(value, time.time() * 1e6), self.overlap * 1e6
        return str(_Place(place.kind, "from", value - back))

    def changed(self, cursor: str, limit: int) -> RowPage:
        """See `RowSource.changed`. Points without ``updated_at`` are found by their names."""
        collection = self._collection()
        kind = _kind(collection)
        passing = Passing.of(collection, None)
        if passing.conditions is None:
            return RowPage(rows=(), cursor=cursor, more=False)
        place = _Place.of(cursor) if cursor else None
        if place is None or place.kind != kind:
            place = _Place(kind, "from", float("-inf")) if kind else _Place("", "all")
        if place.stage in ("all", "at"):
            return self._by_id(passing, place, limit)
        return self._in_order(passing, place, limit)

    def _by_id(self, passing: Passing, place: _Place, limit: int) -> RowPage:
        """The next points of one value, or of all."""
        more = [] if place.stage == "all" else [self._bounds(passing, place)]
        points, following = self._reader.scroll(
            passing.collection.name,
            passing.filter(*more),
            limit=limit,
            fields=passing.collection.row_fields,
            after=place.id,
        )
        if following is not None:
            onward = attrs.evolve(place, id=following)
        elif place.stage == "at":
            onward = _Place(place.kind, "after", place.value)
        else:
            onward = _Place("", "all")
        ended = following is None and place.stage == "all"
        return RowPage(rows=_rows(passing, points), cursor=str(onward), more=not ended)

    def _in_order(self, passing: Passing, place: _Place, limit: int) -> RowPage:
        """The next points in the order of their changes, those of the last value as a whole."""
        path = passing.collection.updated_at
        assert path is not None
        more = [] if place.value == float("-inf") else [self._bounds(passing, place)]
        found, _ = self._reader.scroll(
            passing.collection.name,
            passing.filter(*more),
            limit=limit,
            fields=passing.collection.row_fields,
            order_by=path.key,
        )
        points = [point for point in found if point.order is not None]
        if not points:
            return RowPage(rows=(), cursor="" if not more else str(place), more=False)
        last = points[-1].order
        assert last is not None
        if len(found) < limit:
            onward = _Place(place.kind, "after", last)
            return RowPage(rows=_rows(passing, points), cursor=str(onward), more=False)
        # Not all points of the last value may be here, and they have no order among each other.
        earlier = [point for point in points if point.order != last]
        onward = _Place(place.kind, "at", last)
        return RowPage(rows=_rows(passing, earlier), cursor=str(onward), more=True)

    def _bounds(self, passing: Passing, place: _Place) -> models.Condition:
        path = passing.collection.updated_at
        assert path is not None
        names = {"from": ("gte",), "after": ("gt",), "at": ("gte", "lte"), "all": ()}[place.stage]
        if place.kind != "datetime":
            bounds: models.Range | models.DatetimeRange = models.Range(
                **dict.fromkeys(names, place.value)
            )
        else:
            bounds = models.DatetimeRange(**dict.fromkeys(names, moment_of(place.value)))
        return models.FieldCondition(key=path.key, range=bounds)

    def names(self, after: str, limit: int) -> Sequence[str]:
        """See `RowSource.names`. Qdrant sorts no names: all are read with the first of them."""
        if not after or not self._listed:
            self._listed = sorted(set(self._read(OpenCollection.row_names)))
        start = bisect_right(self._listed, after) if after else 0
        return self._listed[start : start + limit]

    def _collection(self) -> Collection:
        return self._read(lambda opened: opened.collection)


def _kind(collection: Collection) -> str:
    """The index that changes are ordered by, "" where there is none."""
    if collection.updated_at is None:
        return ""
    found = collection.layout.indexes.get(collection.updated_at.key, "")
    return found if found in _ORDERED else ""


def _rows(passing: Passing, points: Sequence[FoundPoint]) -> list[SourceRow]:
    rows = {row.name: row for point in points if (row := passing.row(point)) is not None}
    return [source_row(row) for row in rows.values()]
