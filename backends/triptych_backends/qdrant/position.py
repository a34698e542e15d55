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

__all__ = ["Position"]

_FORMAT = 2
"""What the points hold. Those of another format are made again."""


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
    """

    at: LogPosition
    until: LogPosition
    analyzer: str
    has_empty: bool = False
    made: str

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
        )

    def at_start(self) -> Position:
        """The position at which no point is trusted."""
        return evolve(self, at=evolve(self.at, seq=0, epoch=""))

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
            STATE: 0,
        }
        return Point(id=point_id(dataset, POSITION), payload=payload)
