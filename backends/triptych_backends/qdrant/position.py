"""How far the points of a dataset follow the change log: one point of each dataset says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from triptych_backends.index import LogPosition
from triptych_backends.qdrant.points import (
    DATASET,
    POSITION,
    STATE,
    UNIT,
    Point,
    point_id,
)

_FORMAT = 2
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
        analyzer: what made the points' tokens.
        has_empty: whether a unit without tokens was among them.
        made: another text whenever the points were made from the beginning.
        state: the number of the newest part of the points that was written whole. Each part has
            one, which all of its points have, and which is greater than those before.
        rests: whether no part was begun after it, though points may be newer than ``at``.
        cut: the numbers of parts that a writer was cut short at. What is there of them is of no
            use: whoever went on wrote it again. Their requests may still be under way.
    """

    at: LogPosition
    until: LogPosition
    analyzer: str
    has_empty: bool = False
    made: str
    state: int = 0
    rests: bool = False
    cut: tuple[int, ...] = ()

    @classmethod
    def read(cls, payload: Mapping[str, Any] | None) -> Position | None:
        """The position that a point holds, None where there is no point."""
        if payload is None:
            return None
        at = LogPosition(nonce=payload["nonce"], seq=payload["seq"], epoch=payload["epoch"])
        until = LogPosition(
            nonce=at.nonce,
            seq=payload.get("until_seq", at.seq),
            epoch=payload.get("until_epoch", at.epoch),
        )
        return cls(
            at=at,
            until=until,
            analyzer=payload["analyzer"] if payload.get("format") == _FORMAT else "",
            has_empty=payload.get("has_empty", False),
            made=payload.get("made", ""),
            # Of a version that had no numbers, the points have those of the log.
            state=payload[STATE] or until.seq,
            rests=payload.get("rests", False),
            cut=tuple(payload.get("cut", ())),
        )

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
            "analyzer": self.analyzer,
            "format": _FORMAT,
            "has_empty": self.has_empty,
            "made": self.made,
            "rests": self.rests,
            "cut": list(self.cut),
            STATE: self.state,
        }
        return Point(id=point_id(dataset, POSITION), payload=payload)
