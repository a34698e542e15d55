"""What one search sees of one dataset: immutable, and replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from .feed import Field
from .segment import View


@frozen(kw_only=True, eq=False)
class Snapshot:
    """A dataset's index after all changes up to `seq` of the change log `nonce`.

    `analyzer` is the analyzer's signature, `language` what it was made from, `space` the
    embedding space. In each field an owner is live in one view at most.
    """

    nonce: str
    seq: int
    analyzer: str
    language: str
    space: str
    fields: Mapping[Field, tuple[View, ...]] = field(factory=dict)

    def views(self, name: Field) -> tuple[View, ...]:
        """The segments of a field, without what is dead."""
        return self.fields.get(name, ())

    def with_fields(self, fields: Mapping[Field, tuple[View, ...]]) -> Snapshot:
        """The same moment with other segments."""
        return evolve(self, fields={name: views for name, views in fields.items() if views})


@frozen(kw_only=True)
class Stats:
    """What a dataset's index is made of: live units of each field, dead ones, segments, bytes.

    `pending` is about how many units another process would have to replay.
    """

    units: Mapping[Field, int]
    dead: int
    segments: int
    pending: int
    nbytes: int


def stats(snapshot: Snapshot, pending: int) -> Stats:
    """Statistics of a snapshot."""
    views = [view for some in snapshot.fields.values() for view in some]
    return Stats(
        units={
            name: sum(view.live_count for view in some) for name, some in snapshot.fields.items()
        },
        dead=sum(len(view.dead) for view in views),
        segments=len(views),
        pending=pending,
        nbytes=sum(view.segment.nbytes for view in views),
    )
