"""The projection: points in Qdrant that follow the truth's change log."""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen
from qdrant_client.models import FieldCondition, Filter, MatchAny, MatchValue, Range

from triptych.text import get_analyzer
from triptych_backends.index import Change, Field, LogPosition, Unit
from triptych_backends.qdrant.points import (
    DATASET,
    HEADINGS,
    OWNER,
    POSITION,
    STATE,
    TOKENS,
    UNIT,
    Collections,
    Point,
    of_datasets,
    point_id,
)
from triptych_backends.qdrant.truth import Layout, Truth

__all__ = ["Place", "Projection"]

logger = logging.getLogger("triptych.qdrant")

OWNERS_AT_ONCE = 64
"""Documents and layers whose points are written before the position moves on."""

POINTS_AT_ONCE = 256
"""Points in one request; a document's text is one, so that a request stays of some megabytes."""


@frozen(kw_only=True)
class Place:
    """Where a dataset's points are, and how they were made."""

    collection: str
    layout: Layout


@frozen(kw_only=True)
class _Position:
    """How far the points of a dataset follow the change log."""

    at: LogPosition
    analyzer: str

    @classmethod
    def read(cls, payload: Mapping[str, Any] | None) -> _Position | None:
        if payload is None:
            return None
        at = LogPosition(nonce=payload["nonce"], seq=payload["seq"], epoch=payload["epoch"])
        return cls(at=at, analyzer=payload["analyzer"])


class Projection:
    """Brings the points of a dataset up to the truth before they are searched.

    Each dataset's points are in one collection, that of its embedding space, and one point more
    holds the position in the change log that they are at. What changed since is written first,
    then what it replaced is removed, then the position moves on: whoever is killed in between
    has the next one write the same again. A point is never replaced by one of an older state of
    the log, so that a request of a killed process that arrives late does no harm.

    One process at a time writes, by the database's turns.
    """

    def __init__(self, truth: Truth, collections: Collections, prefix: str) -> None:
        self.truth = truth
        self.collections = collections
        self.prefix = prefix
        self._after_fork_in_child()
        self._known: dict[str, tuple[LogPosition, Place]] = {}
        self._made: set[str] = set()
        self._swept = False
        _PROJECTIONS.add(self)

    def up_to_date(self, dataset: str) -> Place | None:
        """Where the dataset's points are, after all that was committed until now.

        None for a dataset that has nothing in Qdrant, and needs nothing there.

        Raises:
            AwayError: Qdrant does not answer.
            StoreLockedError: another process has been writing to it for too long.
        """
        head = self.truth.log.head()
        place = self._place(dataset, head)
        position = self._position(place, dataset)
        if self._is_current(place, position, dataset, head):
            return None if position is None else place
        with self._lock, self.truth.database.turn("qdrant"):
            if not self._swept:
                self._sweep()
                self._swept = True
            return self._caught_up(dataset)

    def forget(self) -> None:
        """Remove all of the projection's collections; the next search makes them again."""
        with self._lock, self.truth.database.turn("qdrant"):
            for name in self._collections():
                self.collections.drop(name)
            self._known.clear()
            self._made.clear()

    def _after_fork_in_child(self) -> None:
        self._lock = threading.Lock()

    def _place(self, dataset: str, head: LogPosition) -> Place:
        known = self._known.get(dataset)
        if known is not None and known[0] == head:
            return known[1]
        layout = self.truth.layout(dataset)
        space = hashlib.sha256(layout.space.encode()).hexdigest()[:12] if layout.space else "text"
        name = f"{self.prefix}-{space}"
        if layout.dimension:
            name += f"-{layout.dimension}"
        return Place(collection=name, layout=layout)

    def _position(self, place: Place, dataset: str) -> _Position | None:
        return _Position.read(self.collections.read(place.collection, point_id(dataset, POSITION)))

    def _is_current(
        self, place: Place, position: _Position | None, dataset: str, head: LogPosition
    ) -> bool:
        """Whether the points at ``position`` are those of the log at ``head``."""
        if position is None:
            # Nothing in any collection either: what is left of a dataset is swept.
            changes = self.truth.log.changes(dataset, 0)
            is_empty = all(change.concerns_all for change in changes)
            return self._swept and is_empty and dataset not in self._known
        if position.analyzer != place.layout.analyzer or not self.truth.has(position.at, head):
            # Another process may be ahead of this head.
            return False
        known = self._known.get(dataset)
        if known is None or known[0] != head:
            if position.at.seq < head.seq and self.truth.log.changes(dataset, position.at.seq):
                return False
            self._known[dataset] = (head, place)
        return True

    def _caught_up(self, dataset: str) -> Place | None:
        while True:
            log = self.truth.log
            head = log.head()
            place = self._place(dataset, head)
            position = self._position(place, dataset)
            start = 0
            if position is not None and position.analyzer == place.layout.analyzer:
                if self.truth.has(position.at, head):
                    start = position.at.seq
                else:
                    logger.warning(
                        "the points of dataset %r in %s are of another state of the store, or of "
                        "another store: they are made again. Two stores need names of their own "
                        "in the URL's path",
                        dataset,
                        self.collections.where,
                    )
            changes = log.changes(dataset, start)
            if start == 0 or any(change.concerns_all for change in changes):
                changes = log.changes(dataset, 0) if start else changes
                self._clear(dataset)
                start = 0
            changes = [change for change in changes if not change.concerns_all]
            if start or changes:
                self._make(place)
                for some in _batches(changes):
                    self._write(place, dataset, some, head)
                    self._move(
                        place,
                        dataset,
                        LogPosition(
                            nonce=head.nonce,
                            seq=some[-1].seq,
                            epoch=log.epoch(some[-1].seq) or head.epoch,
                        ),
                    )
                self._move(place, dataset, head)
            now = log.head()
            # A layout of another moment, or a truth that went back in time: all of it again. So it
            # is where the vectors were swapped meanwhile, even if they were swapped back.
            swapped = now.seq != head.seq and any(
                change.concerns_all for change in log.changes(dataset, head.seq)
            )
            if (
                not swapped
                and self.truth.has(head, now)
                and self.truth.layout(dataset) == place.layout
            ):
                self._known.pop(dataset, None)
                return place if start or changes else None

    def _write(
        self, place: Place, dataset: str, changes: Sequence[Change], head: LogPosition
    ) -> None:
        """Write the current points of what changed, and remove those that they replace."""
        analyzer = get_analyzer(place.layout.language)
        older = Filter(must=[FieldCondition(key=STATE, range=Range(lte=head.seq))])
        fields: dict[Field, list[int]] = {}
        for change in changes:
            assert change.field is not None
            assert change.field != "vectors"
            fields.setdefault(change.field, []).append(change.owner)
        for field, owners in fields.items():
            waiting: list[Point] = []
            for unit in self.truth.log.units(dataset, field, owners):
                waiting.append(_point(dataset, field, unit, place.layout, head.seq, analyzer))
                if len(waiting) >= POINTS_AT_ONCE:
                    self.collections.put(place.collection, waiting, over=older)
                    waiting = []
            if waiting:
                self.collections.put(place.collection, waiting, over=older)
            replaced = [
                *of_datasets(field, [dataset]),
                FieldCondition(key=OWNER, match=MatchAny(any=owners)),
                FieldCondition(key=STATE, range=Range(lt=head.seq)),
            ]
            self.collections.delete(place.collection, Filter(must=replaced))

    def _move(self, place: Place, dataset: str, at: LogPosition) -> None:
        """Say that the points are at ``at``."""
        payload = {
            DATASET: dataset,
            UNIT: POSITION,
            "nonce": at.nonce,
            "seq": at.seq,
            "epoch": at.epoch,
            "analyzer": place.layout.analyzer,
            STATE: 0,
        }
        point = Point(id=point_id(dataset, POSITION), payload=payload)
        self.collections.put(place.collection, [point], over=Filter())

    def _clear(self, dataset: str) -> None:
        """Remove all points of the dataset, the position first: what is left is not trusted."""
        mine = of_datasets(None, [dataset])
        position = FieldCondition(key=UNIT, match=MatchValue(value=POSITION))
        for name in self._collections():
            self.collections.delete(name, Filter(must=[*mine, position]))
            self.collections.delete(name, Filter(must=mine))

    def _sweep(self) -> None:
        """Remove what is left of datasets that were deleted while nobody followed the log."""
        is_position = Filter(must=[FieldCondition(key=UNIT, match=MatchValue(value=POSITION))])
        for name in self._collections():
            found = [point[DATASET] for point in self.collections.list_points(name, is_position)]
            live = self.truth.live_datasets(found)
            for dataset in found:
                if dataset not in live:
                    self._clear(dataset)

    def _make(self, place: Place) -> None:
        if place.collection not in self._made:
            self.collections.make(place.collection, place.layout.dimension)
            self._made.add(place.collection)

    def _collections(self) -> list[str]:
        return [name for name in self.collections.names() if name.startswith(f"{self.prefix}-")]


_PROJECTIONS: weakref.WeakSet[Projection] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for projection in _PROJECTIONS:
        projection._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def _batches(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    return (changes[at : at + OWNERS_AT_ONCE] for at in range(0, len(changes), OWNERS_AT_ONCE))


def _point(
    dataset: str, field: Field, unit: Unit, layout: Layout, state: int, analyzer: Any
) -> Point:
    payload: dict[str, Any] = {
        DATASET: dataset,
        UNIT: field,
        OWNER: unit.owner,
        STATE: state,
        "key": unit.key,
        "name": unit.name,
        "index": unit.index,
        TOKENS: " ".join(analyzer.analyze(unit.text)),
    }
    if unit.headings:
        payload[HEADINGS] = sorted({heading.casefold() for heading in unit.headings})
    vector = unit.vector
    if vector is not None and len(vector) != layout.dimension:
        vector = None  # of a space that has just been left: the change that says so follows
    return Point(
        id=point_id(dataset, field, unit.owner, unit.index), payload=payload, vector=vector
    )
