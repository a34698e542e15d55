"""What one search sees of one dataset: immutable, and replaced as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from triptych_backends.index.change_log import Field, LogPosition
from triptych_backends.index.segment import SegmentReader


@frozen(kw_only=True, eq=False)
class Snapshot:
    """A dataset's index after all changes up to `seq` of the change log `nonce`.

    It may have units of changes up to `horizon`, which were committed while it was made;
    `epoch` is the one that `horizon` is in. The snapshot is of use while the log has that
    number in that epoch (see `ChangeLog.epoch`).

    `analyzer` is the analyzer's signature, `language` what it was made from, `space` the
    embedding space, `sparse` the encoder of the sparse vectors. In each field an owner is live in
    one view at most.
    """

    nonce: str
    seq: int
    horizon: int
    epoch: str
    analyzer: str
    language: str
    space: str
    sparse: str = ""
    fields: Mapping[Field, tuple[SegmentReader, ...]] = field(factory=dict)

    @property
    def made_as(self) -> tuple[str, str, str]:
        """What it was made with: analyzer, embedding space, sparse encoder."""
        return self.analyzer, self.space, self.sparse

    def is_at(self, head: LogPosition) -> bool:
        """True when it is the very state that `head` names."""
        return (
            self.seq == head.seq
            and self.horizon == head.seq
            and self.epoch == head.epoch
            and self.nonce == head.nonce
        )

    def views(self, name: Field) -> tuple[SegmentReader, ...]:
        """The segments of a field, without what is dead."""
        return self.fields.get(name, ())

    def with_fields(self, fields: Mapping[Field, tuple[SegmentReader, ...]]) -> Snapshot:
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
