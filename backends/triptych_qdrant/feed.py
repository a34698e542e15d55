"""The points of a dataset's units: how far they follow the change log, and how they are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen
from qdrant_client.models import FieldCondition, Filter, MatchAny, Range

from triptych.text import headings_in
from triptych_backends.index import Change, Field, LogPosition, Unit
from triptych_qdrant.points import (
    DATASET,
    HEADINGS,
    OWNER,
    POSITION,
    STATE,
    UNIT,
    Collections,
    Point,
    of_datasets,
    point_id,
)
from triptych_qdrant.truth import Layout, Place, Truth

_FORMAT = 4
"""What the points hold. Those of another format are made again."""

_MOST_CUT = 8
"""Of so many parts that were cut short the requests may be under way."""


@frozen(kw_only=True)
class Position:
    """How far the points of a dataset follow the change log.

    Attributes:
        at: what was committed up to here is in the points.
        until: the newest state that any of the points may be of. It is newer than ``at`` while
            points are written, and stays so if the writer is killed.
        made: another text whenever the points were made from the beginning.
        state: the number of the newest part of the points that was written whole. Each part has
            one, which all of its points have, and which is greater than those before.
        rests: whether no part was begun after it, though points may be newer than ``at``.
        cut: the numbers of parts that a writer was cut short at. What is there of them is of no
            use: whoever went on wrote it again. Their requests may still be under way.
    """

    at: LogPosition
    until: LogPosition
    made: str
    state: int = 0
    rests: bool = False
    cut: tuple[int, ...] = ()

    @classmethod
    def read(cls, payload: Mapping[str, Any] | None) -> Position | None:
        """The position that a point holds, None where there is no point; of another format, that
        at which no point is trusted."""
        if payload is None:
            return None
        at = LogPosition(nonce=payload["nonce"], seq=payload["seq"], epoch=payload["epoch"])
        until = LogPosition(
            nonce=at.nonce,
            seq=payload.get("until_seq", at.seq),
            epoch=payload.get("until_epoch", at.epoch),
        )
        read = cls(
            at=at,
            until=until,
            made=payload.get("made", ""),
            # Of a version that had no numbers, the points have those of the log.
            state=payload[STATE] or until.seq,
            rests=payload.get("rests", False),
            cut=tuple(payload.get("cut", ())),
        )
        return read if payload.get("format") == _FORMAT else read.at_start()

    def at_start(self) -> Position:
        """The position at which no point is trusted."""
        return evolve(self, at=evolve(self.at, seq=0, epoch=""))

    def resumed(self) -> Position:
        """This position, after which another part was begun by nobody."""
        if self.until == self.at or self.rests:
            return evolve(self, rests=False)
        begun = self.state + 1
        return evolve(self, state=begun, cut=(*self.cut, begun)[-_MOST_CUT:])

    def point(self, dataset: str) -> Point:
        """The point that holds this position of ``dataset``."""
        payload = {
            DATASET: dataset,
            UNIT: POSITION,
            "nonce": self.at.nonce,
            "seq": self.at.seq,
            "epoch": self.at.epoch,
            "until_seq": self.until.seq,
            "until_epoch": self.until.epoch,
            "format": _FORMAT,
            "made": self.made,
            "rests": self.rests,
            "cut": list(self.cut),
            STATE: self.state,
        }
        return Point(id=point_id(dataset, POSITION), payload=payload)


OWNERS_AT_ONCE = 64
"""Documents and layers whose points are written before the position moves on."""

POINTS_AT_ONCE = 256
"""The most points in one request."""

BYTES_AT_ONCE = 4_000_000
"""About how large a request may become; Qdrant refuses those above 32 MB."""

_BYTES_OF_A_NUMBER = 20
"""A vector's number in JSON."""

_BYTES_OF_A_POINT = 400
"""Its id, and the names of its fields."""


def batches(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """The changes in parts, after each of which the position moves on."""
    return (changes[at : at + OWNERS_AT_ONCE] for at in range(0, len(changes), OWNERS_AT_ONCE))


def up_to(state: int) -> Filter:
    """The points of a state or of older ones."""
    return Filter(must=[FieldCondition(key=STATE, range=Range(lte=state))])


def write_changed(
    collections: Collections,
    truth: Truth,
    place: Place,
    dataset: str,
    changes: Sequence[Change],
    state: int,
) -> None:
    """Write the current points of what changed, and remove those that they replace.

    ``state`` is the number of this part; a point of a newer one stays.
    """
    older = up_to(state)
    fields: dict[Field, list[int]] = {}
    for change in changes:
        assert change.field is not None
        if change.field != "document":  # which has no vector of its own
            fields.setdefault(change.field, []).append(change.owner)
    for field, owners in fields.items():
        units = truth.log.units(dataset, field, owners)
        for some in _requests(dataset, field, units, place.layout, state):
            collections.put(place.collection, some, over=older)
        replaced = [
            *of_datasets(field, [dataset]),
            FieldCondition(key=OWNER, match=MatchAny(any=owners)),
            FieldCondition(key=STATE, range=Range(lt=state)),
        ]
        collections.delete(place.collection, Filter(must=replaced))


def _requests(
    dataset: str, field: Field, units: Iterator[Unit], layout: Layout, state: int
) -> Iterator[Sequence[Point]]:
    waiting: list[Point] = []
    size = 0
    for unit in units:
        vector = unit.vector
        # Of a space that has just been left: the change that says so follows.
        if vector is None or len(vector) != layout.dimension:
            continue
        more = _BYTES_OF_A_POINT + _BYTES_OF_A_NUMBER * len(vector)
        if waiting and (len(waiting) >= POINTS_AT_ONCE or size + more > BYTES_AT_ONCE):
            yield waiting
            waiting, size = [], 0
        waiting.append(_point(dataset, field, unit, state))
        size += more
    if waiting:
        yield waiting


def _point(dataset: str, field: Field, unit: Unit, state: int) -> Point:
    payload: dict[str, Any] = {
        DATASET: dataset,
        UNIT: field,
        OWNER: unit.owner,
        STATE: state,
        "key": unit.key,
        "name": unit.name,
        "index": unit.index,
    }
    if unit.headings:
        payload[HEADINGS] = sorted(headings_in(unit.headings))
    identity = point_id(dataset, field, unit.owner, unit.index)
    return Point(id=identity, payload=payload, vector=unit.vector)
