"""One dataset's index: kept up with the truth, one replay at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock

from attrs import evolve

from .build import Words
from .feed import FIELDS, Change, ChangeFeed, Field, Head, TextAnalyzer
from .replay import replay
from .snapshot import Snapshot


class DatasetIndex:
    """Snapshots of one dataset, each replaced by a newer one as the truth moves on."""

    def __init__(
        self, dataset: str, feed: ChangeFeed, analyzers: Callable[[str], TextAnalyzer]
    ) -> None:
        self.dataset = dataset
        self.snapshot: Snapshot | None = None
        self._feed = feed
        self._analyzers = analyzers
        self._lock = RLock()
        self._words: dict[Field, Words] = {}

    def fresh(self, head: Head) -> Snapshot:
        """A snapshot that has all changes up to `head`. Takes a lock only to replay."""
        snapshot = self.snapshot
        if snapshot is None or snapshot.nonce != head.nonce or snapshot.seq != head.seq:
            with self._lock:
                snapshot = self._caught_up(head)
        return snapshot

    def _caught_up(self, head: Head) -> Snapshot:
        snapshot = self.snapshot
        if snapshot is not None and snapshot.nonce == head.nonce:
            if snapshot.seq > head.seq:
                # Another thread's replay went further, unless the truth went back in time.
                head = self._feed.head()
            if snapshot.nonce == head.nonce and snapshot.seq == head.seq:
                return snapshot
        if snapshot is None or snapshot.nonce != head.nonce or snapshot.seq > head.seq:
            snapshot = self._empty(head)
        self.snapshot = snapshot = self._replayed(snapshot, head)
        return snapshot

    def _empty(self, head: Head) -> Snapshot:
        self._words = {}
        return Snapshot(nonce=head.nonce, seq=0, analyzer="", language="", space="")

    def _replayed(self, snapshot: Snapshot, head: Head) -> Snapshot:
        changes = self._feed.changes(self.dataset, snapshot.seq)
        # Read after the changes: should it be newer than they are, all is read again.
        profile = self._feed.profile(self.dataset)
        analyzer = self._analyzers(profile.language)
        made_as = (analyzer.signature, profile.space)
        void = any(change.field is None for change in changes)
        if snapshot.seq and (void or (snapshot.analyzer, snapshot.space) != made_as):
            snapshot = self._empty(head)
            changes = self._feed.changes(self.dataset, 0)
        fields = dict(snapshot.fields)
        for name, owners in _by_field(changes).items():
            words = self._words.setdefault(name, Words())
            fields[name] = replay(
                self._feed,
                self.dataset,
                name,
                owners,
                fields.get(name, ()),
                analyzer.encode,
                words,
            )
        return evolve(
            snapshot,
            seq=max([head.seq, *(change.seq for change in changes)]),
            analyzer=analyzer.signature,
            language=profile.language,
            space=profile.space,
        ).with_fields(fields)


def _by_field(changes: Sequence[Change]) -> dict[Field, list[int]]:
    grouped: dict[Field, list[int]] = {}
    for change in changes:
        if change.field is not None:
            grouped.setdefault(change.field, []).append(change.owner)
    return {name: grouped[name] for name in FIELDS if name in grouped}
