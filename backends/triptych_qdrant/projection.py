"""The projection: points in Qdrant that follow the truth's change log."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from attrs import evolve, frozen
from qdrant_client.models import FieldCondition, Filter, MatchAny, MatchValue

from triptych import deadlines
from triptych.runtime import renewed_in_child
from triptych_backends.index import Change, LogPosition
from triptych_qdrant.feed import Position, batches, up_to, write_changed
from triptych_qdrant.points import (
    DATASET,
    POSITION,
    STATE,
    UNIT,
    Collections,
    of_datasets,
    of_states,
    point_id,
)
from triptych_qdrant.truth import Place, Truth, Turns, is_of_store, is_over, place_of

logger = logging.getLogger("triptych.qdrant")

_OTHER_STORE = (
    "the points of dataset %r in %s are of another state of the store, or of another store: "
    "they are %s. Two stores need names of their own in the URL's path"
)
_SLICE = 1.0
"""Seconds for which a thread writes before it lets others write."""

_PAUSE = 0.05
"""Seconds in which the others can begin."""

_IS_POSITION = FieldCondition(key=UNIT, match=MatchValue(value=POSITION))


@frozen
class Trusted:
    """The points of a dataset that follow its log as far as their position says."""

    place: Place
    position: Position


class Projection:
    """Brings the points of a dataset up to the truth before they are searched.

    Each dataset's points are in one collection, that of its embedding space, and one point more
    holds the position in the change log that they are at. What changed since is written first,
    then what it replaced is removed, then the position moves on: whoever is killed in between
    has the next one write the same again. A point is never replaced by one of an older state of
    the log. What a late request of a killed process inserts, which was replaced or deleted
    meanwhile, no search counts, and the next write removes it.

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

    def up_to_date(self, dataset: str, *, wait: float | None = None) -> Place | None:
        """Where the dataset's points are, after all that was committed until now.

        None for a dataset that has nothing in Qdrant, and needs nothing there. While another
        thread or process writes it waits ``wait`` seconds, by default as long as the database
        does for a writer, and never for longer than the deadline.

        Raises:
            AwayError: Qdrant does not answer.
            BusyError: another thread or process has been writing to it for longer.
            CancelledError: the deadline has passed. What was written stays.
        """
        head = self.truth.log.head()
        place = self._place(dataset, head)
        position = self._position(place, dataset)
        if self._is_current(place, position, dataset, head):
            return None if position is None else _found(place, position)
        while True:
            with self._turns.held(wait):
                if not self._swept:
                    self._sweep()
                    self._swept = True
                is_done, found = self._caught_up(dataset)
            deadlines.check("the search, which writes to Qdrant first,")
            if is_done:
                return found
            time.sleep(_PAUSE)  # others have less to write

    def now_at(self, dataset: str, place: Place) -> Place | None:
        """What `up_to_date` found at ``place``, as it is now; None where it was removed.

        Then a search in between may have met some of the points: another process is making them
        from the beginning, or did.
        """
        position = self._position(place, dataset)
        if position is None or position.at.seq == 0 or position.made != place.made:
            return None
        return _found(place, position)

    def trusted(self, dataset: str) -> Trusted | None:
        """Where the dataset's points are, and what they follow the log to; None if to nothing."""
        head = self.truth.log.head()
        place = self._place(dataset, head)
        position = self._position(place, dataset)
        if position is None:
            return None
        return Trusted(place, position) if self._is_of_log(position, head) else None

    def make_again(self, dataset: str) -> None:
        """Make the dataset's points from the beginning.

        Raises:
            AwayError: Qdrant does not answer. The next search goes on.
        """
        with self._turns.held():
            self._empty(dataset)
        self.up_to_date(dataset)

    def forget(self) -> None:
        """Remove all of the projection's collections; the next search makes them again.

        Only the positions of datasets whose requests may be under way come back.
        """
        with self._turns.held():
            cut: dict[str, Position] = {}
            for name in self._collections():
                for point in self._positions(name):
                    read = Position.read(point)
                    if read is not None and read.resumed().cut:
                        cut[point[DATASET]] = read.resumed().at_start()
                self.collections.drop(name)
            self._known.clear()
            self._made.clear()
            for dataset in self.truth.live_datasets(list(cut)):
                place = place_of(self.prefix, self.truth.layout(dataset))
                self._make(place)
                self.collections.put(place.collection, [cut[dataset].point(dataset)], over=Filter())

    def _after_fork_in_child(self) -> None:
        self._turns = Turns(self.truth.database, self.collections.where)

    def _place(self, dataset: str, head: LogPosition) -> Place:
        known = self._known.get(dataset)
        if known is not None and known[0] == head:
            return known[1]
        return place_of(self.prefix, self.truth.layout(dataset))

    def _position(self, place: Place, dataset: str) -> Position | None:
        return Position.read(self.collections.read(place.collection, point_id(dataset, POSITION)))

    def _is_current(
        self, place: Place, position: Position | None, dataset: str, head: LogPosition
    ) -> bool:
        """Whether the points at ``position`` are those of the log at ``head``."""
        if position is None:
            return self._has_nothing(dataset)
        if not self._is_of_log(position, head):
            # Another process may be ahead of this head.
            return False
        known = self._known.get(dataset)
        if known is None or known[0] != head:
            if position.at.seq < head.seq and self.truth.log.changes(dataset, position.at.seq):
                return False
            self._known[dataset] = (head, place)
        return True

    def _has_nothing(self, dataset: str) -> bool:
        """Whether a dataset without a position has no unit, and no point in any collection.

        What is left of a dataset is swept before its absence is believed.
        """
        if not self._swept or dataset in self._known:
            return False
        return all(change.field is None for change in self.truth.log.changes(dataset, 0))

    def _is_of_log(self, position: Position, head: LogPosition) -> bool:
        """Whether the log that ends at ``head`` has all that the points may be of.

        Points that were written in part count as of the state that they were written for: a
        truth that was restored from a backup may have the one and not the other.
        """
        has = self.truth.has
        return position.at.seq > 0 and has(position.at, head) and has(position.until, head)

    def _caught_up(self, dataset: str) -> tuple[bool, Place | None]:
        """Whether all is written, and where the points are, as `up_to_date` returns it."""
        end = time.monotonic() + _SLICE
        while True:
            head = self.truth.log.head()
            place = self._place(dataset, head)
            start, changes = self._start(place, dataset, head)
            reached: Position | None = None
            if start.at.seq or changes:
                reached = self._go_on(place, dataset, start, changes, head, end)
                if reached.rests:
                    return False, None
            now = self.truth.log.head()
            # A layout of another moment, or a truth that went back in time: all of it again. So it
            # is where the model was changed meanwhile, even if it was changed back.
            changed = now.seq != head.seq and any(
                change.field is None for change in self.truth.log.changes(dataset, head.seq)
            )
            if (
                not changed
                and self.truth.has(head, now)
                and self.truth.layout(dataset) == place.layout
            ):
                self._known.pop(dataset, None)
                return True, None if reached is None else _found(place, reached)

    def _start(
        self, place: Place, dataset: str, head: LogPosition
    ) -> tuple[Position, Sequence[Change]]:
        """The position to go on from, and what changed since then.

        At the beginning, which is 0, all points of the dataset were removed, and all of its units
        count as changed.
        """
        position = self._position(place, dataset)
        if position is None:
            # The collection may have been removed since it was made here.
            self._made.discard(place.collection)
        elif not self._is_of_log(position, head):
            if position.at.seq > 0:
                logger.warning(_OTHER_STORE, dataset, self.collections.where, "made again")
        else:
            changes = self.truth.log.changes(dataset, position.at.seq)
            if not any(change.field is None for change in changes):
                return position.resumed(), changes
        start = Position(at=head, until=head, made=uuid4().hex)
        former = self._empty(dataset)
        if former is not None:
            start = evolve(start, state=former.state, cut=former.cut)
        changes = self.truth.log.changes(dataset, 0)
        changes = [change for change in changes if change.field is not None]
        if former is not None and not changes and not former.cut:
            self._remove_positions(dataset, former)
        return start.at_start(), changes

    def _go_on(
        self,
        place: Place,
        dataset: str,
        start: Position,
        changes: Sequence[Change],
        head: LogPosition,
        end: float,
    ) -> Position:
        """Write what changed since ``start``, and move the position to ``head``.

        It rests between two parts when the time is ``end``, or the deadline has passed.
        """
        self._make(place)
        position = evolve(start, until=head, state=max(start.state + 1, head.seq))

        def move(at: LogPosition, *, rests: bool = False) -> Position:
            moved = evolve(position, at=at, rests=rests)
            point = moved.point(dataset)
            # As for any other point, a request of a writer that was cut short comes too late.
            self.collections.put(place.collection, [point], over=up_to(moved.state))
            return moved

        if changes:
            # First the state that the points will be of: whoever finds some of them finds that.
            position = move(position.at)
        if start.state and not start.at.seq:
            self._remove_positions(dataset, start, keep=place.collection)
        if position.cut:
            lost = Filter(must=of_states(dataset, position.cut), must_not=[_IS_POSITION])
            self.collections.delete(place.collection, lost)
        for some in batches(changes):
            if position.at != start.at and is_over(end):
                return move(position.at, rests=True)
            position = evolve(position, state=position.state + 1)
            write_changed(self.collections, self.truth, place, dataset, some, position.state)
            if some[-1] is not changes[-1]:
                seq = some[-1].seq
                epoch = self.truth.log.epoch(seq) or head.epoch
                position = move(LogPosition(nonce=head.nonce, seq=seq, epoch=epoch))
        return move(head)

    def _empty(self, dataset: str) -> Position | None:
        """Remove all points of the dataset but its positions.

        A position of 0 says until the end that points are there, which nobody is to trust.
        Returns the newest position; its state is that of the newest point. No request here
        concerns a newer one, however late it arrives.
        """
        newest: Position | None = None
        mine = of_datasets(None, [dataset])
        for name in self._collections():
            states = self.collections.counts(name, STATE, Filter(must=mine))
            if not states:
                continue
            older = up_to(max(states))
            read = Position.read(self.collections.read(name, point_id(dataset, POSITION)))
            if read is not None:
                read = evolve(read.resumed().at_start(), state=max(states))
                if newest is None or newest.state < read.state:
                    newest = read
                self.collections.put(name, [read.point(dataset)], over=older)
            self.collections.delete(name, Filter(must=[*mine, older], must_not=[_IS_POSITION]))
        return newest

    def _remove_positions(self, dataset: str, former: Position, *, keep: str = "") -> None:
        """Remove the dataset's positions up to ``former``, but that in the collection ``keep``.

        A collection that has none any more goes.
        """
        mine = [*of_datasets(None, [dataset]), up_to(former.state)]
        for name in self._collections():
            if name != keep:
                self.collections.delete(name, Filter(must=mine))
                if not self._positions(name):
                    self._drop(name)

    def _sweep(self) -> None:
        """Remove what is left of datasets that were deleted while nobody followed the log."""
        nonce = self.truth.log.head().nonce
        for name in self._collections():
            found = {point[DATASET]: point["nonce"] for point in self._positions(name)}
            if not found:
                self._drop(name)
                continue
            live = self.truth.live_datasets(list(found))
            for dataset in found.keys() - live:
                if found[dataset] != nonce:
                    logger.warning(_OTHER_STORE, dataset, self.collections.where, "removed")
                former = self._empty(dataset)
                if former is not None:
                    self._remove_positions(dataset, former)
            # What arrived after its dataset was removed.
            names = MatchAny(any=sorted(found.keys() & live))
            known = FieldCondition(key=DATASET, match=names)
            if name in self.collections.names():
                self.collections.delete(name, Filter(must_not=[known]))

    def _positions(self, name: str) -> Sequence[Mapping[str, Any]]:
        return self.collections.list_points(name, Filter(must=[_IS_POSITION]))

    def _drop(self, name: str) -> None:
        """Remove a collection; nobody trusts a point of a dataset that has no position."""
        self.collections.drop(name)
        self._made.discard(name)

    def _make(self, place: Place) -> None:
        if place.collection not in self._made:
            self.collections.make(place.collection, place.layout.dimension)
            self._made.add(place.collection)

    def _collections(self) -> list[str]:
        return [name for name in self.collections.names() if is_of_store(self.prefix, name)]


def _found(place: Place, position: Position) -> Place:
    return evolve(place, made=position.made, cut=position.cut, state=position.state)


_PROJECTIONS = renewed_in_child("_after_fork_in_child")
