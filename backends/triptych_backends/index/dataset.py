"""One dataset's index: kept up with the truth, and published to its folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Lock, RLock

from attrs import define, evolve, field

from triptych._internal.one_state import let_go
from triptych._internal.turns import SEARCHES
from triptych.errors import ModelMismatchError
from triptych.text import Analyzer
from triptych_backends.index.build import TermDictionary
from triptych_backends.index.change_log import FIELDS, Change, ChangeLog, Field, LogPosition
from triptych_backends.index.compact import (
    SPARE,
    Effort,
    Replacement,
    carried_over,
    compact,
    has_work,
)
from triptych_backends.index.folder import Folder, Stamp
from triptych_backends.index.replay import replay
from triptych_backends.index.segment import DamagedError, SegmentReader, SortedVocabulary
from triptych_backends.index.selection import Snapshot

logger = logging.getLogger("triptych.index")

# The delta is published when it has so many units, or when so many owners have changed.
PUBLISH_AT = 2_000


@define(eq=False)
class DatasetIndex:
    """Snapshots of one dataset, each replaced by a newer one as the truth moves on.

    `snapshot` is read without a lock. Replays happen one at a time, publications too; a replay
    may run while a publication merges and writes.
    """

    dataset: str
    _feed: ChangeLog
    _analyzers: Callable[[str], Analyzer]
    folder: Folder | None
    _keeps_words: bool = False
    snapshot: Snapshot | None = field(default=None, init=False)
    _replaying: RLock = field(factory=RLock, init=False)
    _publishing: Lock = field(factory=Lock, init=False)
    _words: TermDictionary | None = field(default=None, init=False)
    _bulk_words: tuple[str, TermDictionary] | None = field(default=None, init=False)
    # Manifest that the snapshot's files come from, and the one that was looked at last.
    _base: Stamp | None = field(default=None, init=False)
    _seen: Stamp | None = field(default=None, init=False)
    _generation: int = field(default=0, init=False)
    _changed: int = field(default=0, init=False)
    _publish_at: int = field(factory=lambda: PUBLISH_AT, init=False)
    _damaged: bool = field(default=False, init=False)
    _warned: bool = field(default=False, init=False)
    _dropped: bool = field(default=False, init=False)

    def fresh(self, head: LogPosition) -> Snapshot:
        """A snapshot that has all changes up to `head`. Takes a lock only to replay."""
        snapshot = self.snapshot
        if snapshot is None or not snapshot.is_at(head):
            # Others may search meanwhile, other datasets above all.
            with SEARCHES.given_up(), self._turn_to_replay() as was_free:
                snapshot = self._caught_up(head if was_free else self._feed.head())
        return snapshot

    @contextmanager
    def _turn_to_replay(self) -> Iterator[bool]:
        """The turn, and whether it was free. Who waits for it reads by no connection: the one who
        has it may be waiting for a connection."""
        was_free = self._replaying.acquire(blocking=False)
        if not was_free:
            let_go()
            self._replaying.acquire()
        try:
            yield was_free
        finally:
            self._replaying.release()

    @property
    def pending(self) -> int:
        """About how much another process would have to replay, in units."""
        snapshot = self.snapshot
        if snapshot is None:
            return 0
        loose = [
            view for views in snapshot.fields.values() for view in views if not self._is_kept(view)
        ]
        return max(sum(view.live_count for view in loose), self._changed)

    @property
    def commit_due(self) -> bool:
        """True when the delta ought to be published."""
        return self._damaged or self.pending >= self._publish_at

    @property
    def is_crowded(self) -> bool:
        """True when a field has published several segments too many, as a bulk write leaves it."""
        snapshot = self.snapshot
        if snapshot is None or self.folder is None:
            return False
        fields = [list(filter(self._is_kept, views)) for views in snapshot.fields.values()]
        return any(len(kept) > SPARE and has_work(kept, "usual") for kept in fields)

    def _is_kept(self, view: SegmentReader) -> bool:
        if self.folder is not None:
            return view.segment.file is not None
        return isinstance(view.segment.text.vocabulary, SortedVocabulary)

    def _caught_up(self, head: LogPosition) -> Snapshot:
        snapshot = self.snapshot
        if snapshot is not None:
            if snapshot.horizon > head.seq:
                # Another thread's replay went further, unless the truth went back in time.
                let_go()
                head = self._feed.head()
            if snapshot.is_at(head):
                return snapshot
            if not is_of_log(self._feed, snapshot, head):
                snapshot = None
        snapshot = self._adopted(snapshot, head)
        self.snapshot = snapshot = self._advanced(snapshot or self._empty(head), head)
        return snapshot

    def _advanced(self, snapshot: Snapshot, head: LogPosition) -> Snapshot:
        """`snapshot`, which is of the log at `head`, with all changes up to `head`.

        Where the truth went back in time meanwhile, or all that it had became void, what was read
        is of both times, and all is read again.
        """
        while True:
            try:
                made = self._replayed(snapshot, head)
            except ModelMismatchError:
                # Vectors of two widths: some were read before a change of the model, some after it.
                now = self._feed.head()
                if not self._is_void(head, now):
                    raise
                head = now
                snapshot = self._empty(head)
                continue
            now = self._feed.head()
            made = evolve(made, horizon=head.seq, epoch=head.epoch)
            if is_of_log(self._feed, made, now) and not self._is_void(head, now):
                return evolve(made, horizon=now.seq, epoch=now.epoch)
            head = now
            snapshot = self._empty(head)

    def _is_void(self, since: LogPosition, now: LogPosition) -> bool:
        """Whether the dataset was given another configuration after ``since``."""
        return now.seq != since.seq and any(
            change.field is None for change in self._feed.changes(self.dataset, since.seq)
        )

    def _empty(self, head: LogPosition) -> Snapshot:
        self._generation += 1
        self._words = None
        self._changed = 0
        return Snapshot(
            nonce=head.nonce, seq=0, horizon=0, epoch="", analyzer="", language="", space=""
        )

    def _adopted(self, snapshot: Snapshot | None, head: LogPosition) -> Snapshot | None:
        """The published snapshot, should it be ahead of `snapshot`; else `snapshot`.

        Both are of the log at `head`.
        """
        stamp = None if self.folder is None else self.folder.stamp()
        if stamp is None or stamp == self._seen:
            return snapshot
        published = self._published(snapshot, head)
        self._seen = stamp
        if published is None:
            return snapshot
        if snapshot is not None and published.seq < snapshot.seq:
            return snapshot
        return self._on(published, stamp)

    def _on(self, published: Snapshot, stamp: Stamp) -> Snapshot:
        """Make `published` what this index stands on."""
        self._generation += 1
        self._words = None
        self._changed = 0
        self._base = self._seen = stamp
        return published

    def _published(self, snapshot: Snapshot | None, head: LogPosition) -> Snapshot | None:
        """The published snapshot; None when there is none that is of use."""
        assert self.folder is not None
        views = [] if snapshot is None else [v for some in snapshot.fields.values() for v in some]
        known = {view.segment.file: view.segment for view in views if view.segment.file is not None}
        try:
            published = self.folder.load(known)
        except DamagedError as error:
            self._report(error)
            return None
        except OSError as error:
            self._warn("read", error)
            return None
        if published is None or not is_of_log(self._feed, published, head):
            return None
        profile = self._feed.profile(self.dataset)
        analyzer = self._analyzers(profile.language).signature
        same = published.made_as == (analyzer, profile.space, profile.sparse)
        return published if same else None

    def _report(self, error: DamagedError) -> None:
        self._damaged = True
        logger.warning(
            "the search index of dataset %r is damaged and is built again from the stored data: %s",
            self.dataset,
            error,
        )

    def forget(self, view: SegmentReader, error: DamagedError) -> None:
        """Build again what has a view whose file a search found damaged, unless that is done."""
        with SEARCHES.given_up(), self._turn_to_replay():
            fields = {} if self.snapshot is None else self.snapshot.fields
            if any(view.segment is each.segment for views in fields.values() for each in views):
                self._report(error)
                self.snapshot = self._empty(self._feed.head())

    def _replayed(self, snapshot: Snapshot, head: LogPosition) -> Snapshot:
        changes = self._feed.changes(self.dataset, snapshot.seq)
        # Read after the changes: should it be newer than they are, all is read again.
        profile = self._feed.profile(self.dataset)
        analyzer = self._analyzers(profile.language)
        made_as = (analyzer.signature, profile.space, profile.sparse)
        if any(change.field is None for change in changes) or snapshot.made_as != made_as:
            if snapshot.seq:
                changes = self._feed.changes(self.dataset, 0)
            # A snapshot of nothing too: its dictionaries are of the analyzer of then.
            snapshot = self._empty(head)
        if self._words is None:
            self._words = TermDictionary(analyzer)
        fields = replay(
            self._feed,
            self.dataset,
            _by_field(changes),
            snapshot.fields,
            self._words,
            lambda: self._words_of(analyzer),
            always_bulk=self._keeps_words,
        )
        self._changed += len(changes)
        return evolve(
            snapshot,
            seq=head.seq,
            analyzer=analyzer.signature,
            language=profile.language,
            space=profile.space,
            sparse=profile.sparse,
        ).with_fields(fields)

    def _words_of(self, analyzer: Analyzer) -> TermDictionary:
        """The dictionaries for segments with vocabularies of their own."""
        if not self._keeps_words:
            return TermDictionary(analyzer)
        kept = self._bulk_words
        if kept is None or kept[0] != analyzer.signature or kept[1].is_full:
            kept = self._bulk_words = (analyzer.signature, TermDictionary(analyzer))
        return kept[1]

    def adopt(self, head: LogPosition) -> Snapshot:
        """A snapshot at `head`, made of what was published last where that is as new."""
        with SEARCHES.given_up(), self._turn_to_replay() as was_free:
            head = head if was_free else self._feed.head()
            snapshot = self._caught_up(head)
            adopted = self._adopted(snapshot, head)
            if adopted is not None and adopted is not snapshot:
                snapshot = self.snapshot = self._advanced(adopted, head)
            return snapshot

    def publish(self, effort: Effort = "usual") -> bool:
        """Merge the delta and, with a folder, make it the published state.

        `effort` says what is merged with it; see `plan`.
        False when there was nothing to do or another process was at it; the delta is then kept.
        A folder that cannot be written is warned of once; all stays in memory.
        """
        with self._publishing:
            if self._dropped or self.snapshot is None:
                return False
            if self.folder is None:
                return self._compact(None, effort)
            try:
                with self.folder.lock() as locked:
                    return locked and self._compact(self.folder, effort)
            except OSError as error:
                self._warn("write", error)
                return self._compact(None, effort)

    def sweep(self) -> None:
        """Remove files of the folder that are not of what is published."""
        if self.folder is not None:
            with self._publishing, suppress(OSError), self.folder.lock() as locked:
                if locked:
                    self.folder.sweep()

    def _compact(self, folder: Folder | None, effort: Effort) -> bool:
        with self._replaying:
            if folder is not None:
                self._rebase(folder)
            snapshot, generation = self.snapshot, self._generation
            assert snapshot is not None
            is_same = not self._changed and not self._damaged and self._is_published(folder)
            if is_same and not any(has_work(v, effort) for v in snapshot.fields.values()):
                return False
            changed = self._changed
            # What comes while this is being merged belongs to the next delta.
            self._words = None
        replacements = {name: compact(views, effort) for name, views in snapshot.fields.items()}
        stamp = None
        if folder is not None:
            try:
                replacements = {
                    name: _written(folder, name, snapshot.views(name), made)
                    for name, made in replacements.items()
                }
                stamp = self._put_out(folder, _installed(snapshot, replacements))
            except OSError as error:
                self._warn("write", error)
        with self._replaying:
            if generation == self._generation:
                assert self.snapshot is not None
                self.snapshot = _installed(self.snapshot, replacements)
                self._publish_at = PUBLISH_AT
                if stamp is not None or self.folder is None:
                    self._changed -= changed
                    self._damaged = False
                    self._base = self._seen = stamp
                else:
                    self._publish_at += self.pending
        return stamp is not None or self.folder is None

    def _put_out(self, folder: Folder, snapshot: Snapshot) -> Stamp | None:
        """Publish a snapshot, unless it is not of the truth's log (any more)."""
        if not is_of_log(self._feed, snapshot, self._feed.head()):
            return None
        # A power cut must not take from the truth what the manifest says that it has.
        self._feed.flush()
        return folder.publish(snapshot)

    def _is_published(self, folder: Folder | None) -> bool:
        return folder is None or (self._base is not None and folder.stamp() == self._base)

    def _rebase(self, folder: Folder) -> None:
        """Stand on the newest manifest: what another process published is not to be undone."""
        stamp = folder.stamp()
        if stamp is None or stamp == self._base or (self._damaged and stamp == self._seen):
            return
        head = self._feed.head()
        published = self._published(self.snapshot, head)
        if published is not None:
            self.snapshot = self._advanced(self._on(published, stamp), head)

    def _warn(self, what: str, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "cannot %s the search index of dataset %r, it is kept in memory: %s",
                what,
                self.dataset,
                error,
            )

    def drop(self) -> None:
        """Forget all, on disk too. The index must not be used again. Raises OSError."""
        with self._publishing, self._replaying:
            self._dropped = True
            self.snapshot = None
            if self.folder is not None:
                self.folder.remove()


def is_of_log(feed: ChangeLog, snapshot: Snapshot, head: LogPosition) -> bool:
    """Whether the log, whose newest entry is `head`, has all that the snapshot was made of.

    It has not when the truth went back in time, however far it has grown since.
    """
    if snapshot.nonce != head.nonce or snapshot.horizon > head.seq:
        return False
    if snapshot.horizon == head.seq:
        return snapshot.epoch == head.epoch
    return snapshot.horizon == 0 or feed.epoch(snapshot.horizon) == snapshot.epoch


def _by_field(changes: Sequence[Change]) -> dict[Field, list[int]]:
    grouped: dict[Field, list[int]] = {}
    for change in changes:
        if change.field is not None:
            grouped.setdefault(change.field, []).append(change.owner)
    return {name: grouped[name] for name in FIELDS if name in grouped}


def _written(
    folder: Folder, field: Field, views: Sequence[SegmentReader], made: Sequence[Replacement]
) -> list[Replacement]:
    """The replacements, and one for each view that has none, all as files of the folder."""
    merged = {id(view.segment) for replacement in made for view in replacement.before}
    every = [*made, *(Replacement((v,), v) for v in views if id(v.segment) not in merged)]
    written = []
    for replacement in every:
        after = replacement.after
        segment = folder.keep(after.segment, field, [each.segment for each in replacement.before])
        if segment is not after.segment:
            after = SegmentReader(segment, after.dead)
        written.append(Replacement(replacement.before, after))
    return written


def _installed(current: Snapshot, replacements: Mapping[Field, Sequence[Replacement]]) -> Snapshot:
    """`current` with the replacements that were made from it or from an earlier state."""
    fields = dict(current.fields)
    for name, made in replacements.items():
        fields[name] = carried_over(made, current.views(name))
    return current.with_fields(fields)
