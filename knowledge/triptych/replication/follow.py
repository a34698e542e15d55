"""A replica: a copy that is kept as its source is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import attrs

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych.changes.follow import check_poll
from triptych.contracts import AnswerCache, ChangeReader, Store
from triptych.errors import (
    ConflictError,
    CorruptStoreError,
    NotAvailableError,
    SchemaVersionError,
    StoreError,
)
from triptych.records import ChangeCursor, Layer
from triptych.replication.conflicts import check_two_stores
from triptych.replication.copy import copy_dataset, copy_store
from triptych.replication.marks import ReplicaMark
from triptych.replication.report import CopyReport, DatasetCopy
from triptych.replication.states import StoreStates
from triptych.replication.writer import StateWriter
from triptych.repositories import capabilities_of

__all__ = ["follow_store"]

T = TypeVar("T")

_CHANGES: Final = 1_000
_ATTEMPTS: Final = 3
_LONGEST_PAUSE: Final = 60.0


def follow_store(
    source: Store,
    destination: Store,
    *,
    datasets: Sequence[str] | None = None,
    replace: bool = False,
    poll: float = 1.0,
    progress: ProgressCallback | None = None,
    on_failure: Callable[[StoreError, float], object] | None = None,
) -> Iterator[CopyReport]:
    """Copy ``source`` into ``destination`` with `copy_store`, and keep it as the source is.

    A destination without datasets (without those of ``datasets``) becomes a replica, and its
    settings remember that: what the source does not have is removed from it from then on. Any other
    becomes one with ``replace``.

    Yields the report of the copy, then a report of each change that was taken over, of the datasets
    that it concerns. Documents are followed by the source's log of changes, every ``poll`` seconds;
    chunks, vectors, layers and settings that came without a change of their document follow when
    the log is quiet. What is noted of making layers comes with the next change of its dataset.
    Killed and run again, it goes on. A deadline around it ends it.

    ``on_failure`` is called with each failure of a store that may pass, such as a
    `StoreLockedError`, and with the seconds after which what failed is done again: ``poll`` at
    first, then twice as long each time, a minute at most. Without it such a failure is raised.

    Raises:
        ConflictError: the destination has datasets or settings of its own, and ``replace`` is not
            given; or it was a replica, and the source's log does not go back to what it has. It is
            as it was. Or the destination is written to by others, or keeps fewer old versions.
        NotAvailableError: the source has no log of its changes.
        TriptychError: as `copy_store`.
    """
    poll = check_poll(poll)
    has = capabilities_of(source)
    if has.changes is None:
        raise NotAvailableError(
            "the source has no log of its changes, and so cannot be followed: copy it now and then"
        )
    check_two_stores(source, destination)
    mark = ReplicaMark(has.changes, destination, datasets)
    is_replica = replace or mark.check(StoreStates(source))
    replica = _Replica(source, destination, datasets, has.changes, has.answers)
    cursor = replica.head()
    # Before the first write: what was begun and killed goes on as a replica.
    mark.write(cursor)
    done = _Persistent(poll, on_failure).done
    yield done(
        lambda: copy_store(
            source, destination, datasets=datasets, replace=is_replica, progress=progress
        )
    )

    def follow(cursor: str) -> tuple[str, CopyReport]:
        cursor, report = replica.apply_changes(cursor)
        mark.write(cursor)
        return cursor, report

    while True:
        seen = done(replica.moment)
        cursor, report = done(partial(follow, cursor))
        if report.datasets:
            yield report
            continue
        report = done(replica.compare)
        if report.datasets or report.settings or report.settings_removed:
            yield report
        while done(replica.moment) == seen:
            _wait(poll)
        deadlines.check("following a store")


def _wait(seconds: float) -> None:
    deadlines.check("following a store")
    left = deadlines.remaining()
    time.sleep(seconds if left is None else min(seconds, left))
    deadlines.check("following a store")


@attrs.frozen
class _Persistent:
    """Does things again until their stores let them; ``on_failure`` is as of `follow_store`."""

    pause: float
    on_failure: Callable[[StoreError, float], object] | None

    def done(self, step: Callable[[], T]) -> T:
        """What ``step``, which can be done twice, returns."""
        pause = self.pause
        while True:
            try:
                return step()
            except (CorruptStoreError, SchemaVersionError):
                raise
            except StoreError as error:
                if self.on_failure is None:
                    raise
                self.on_failure(error, pause)
            _wait(pause)
            pause = max(self.pause, min(2 * pause, _LONGEST_PAUSE))


@attrs.define
class _Replica:
    """``known`` are the revisions of the datasets when they were last compared."""

    source: Store
    destination: Store
    datasets: Sequence[str] | None
    changes: ChangeReader
    answers: AnswerCache | None
    known: Mapping[str, str] = attrs.field(factory=dict)

    def head(self) -> str:
        """The cursor of now."""
        cursor: str | None = None
        while True:
            since = None if cursor is None else ChangeCursor.parse(cursor)
            page = self.changes.read_changes(since, dataset_id=None, limit=_CHANGES)
            cursor = page.cursor
            if not page.more:
                return cursor

    def moment(self) -> object:
        """What differs after each write that is followed."""
        settings = StoreStates(self.source).settings() if self.datasets is None else None
        return self.changes.change_head(), self.revisions(), settings

    def revisions(self) -> Mapping[str, str]:
        """What differs after each write that concerns a search; empty if the store does not say."""
        if self.answers is None:
            return {}
        return self.answers.revisions(self._followed())

    def _followed(self) -> Sequence[str]:
        there = self.source.documents.list_datasets()
        return there if self.datasets is None else [each for each in there if each in self.datasets]

    def apply_changes(self, cursor: str) -> tuple[str, CopyReport]:
        """Take over a page of changes: what was put first, for a delete uses versions up."""
        page = self.changes.read_changes(
            ChangeCursor.parse(cursor), dataset_id=None, limit=_CHANGES
        )
        followed = self._followed()
        writer = StateWriter(self.destination, replaces=True)
        states = StoreStates(self.source)
        written: dict[str, int] = {}
        removed: dict[str, int] = {}
        for change in page.changes:
            if change.kind == "deleted" or change.dataset_id not in followed:
                continue
            if change.dataset_id not in written:
                writer.begin(states.head(change.dataset_id), check=_allow)
            state = states.state(change.dataset_id, change.name)
            if state.versions:
                writer.write(change.dataset_id, [state])
                written[change.dataset_id] = written.get(change.dataset_id, 0) + 1
        there = set(self.destination.documents.list_datasets())
        for change in page.changes:
            if change.kind != "deleted" or change.dataset_id not in there:
                continue
            if self.datasets is not None and change.dataset_id not in self.datasets:
                continue
            if self.source.documents.get_info(change.dataset_id, change.name) is None:
                writer.remove(change.dataset_id, change.name)
                removed[change.dataset_id] = removed.get(change.dataset_id, 0) + 1
        done = tuple(
            DatasetCopy(dataset_id=each, written=written.get(each, 0), removed=removed.get(each, 0))
            for each in sorted({*written, *removed})
        )
        return page.cursor, CopyReport(datasets=done)

    def compare(self) -> CopyReport:
        """Take over what has changed without a change in the log."""
        before = self.revisions()
        states = StoreStates(self.source)
        writer = StateWriter(self.destination, replaces=True)
        done = []
        followed = self._followed()
        for dataset_id in followed:
            if before and before.get(dataset_id) == self.known.get(dataset_id):
                continue
            if _marks(self.source, dataset_id) == _marks(self.destination, dataset_id):
                continue
            found = self._copy(states, writer, dataset_id)
            if found is not None and (found.written or found.removed):
                done.append(found)
        for dataset_id in self.destination.documents.list_datasets():
            chosen = self.datasets is None or dataset_id in self.datasets
            if chosen and dataset_id not in followed:
                removed = self.destination.documents.count(dataset_id)
                self.destination.documents.delete_dataset(dataset_id)
                done.append(DatasetCopy(dataset_id=dataset_id, removed=removed))
        settings = writer.write_settings(states.settings() if self.datasets is None else None)
        self.known = before
        return CopyReport(
            datasets=tuple(done), settings=settings.written, settings_removed=settings.removed
        )

    def _copy(
        self, states: StoreStates, writer: StateWriter, dataset_id: str
    ) -> DatasetCopy | None:
        """Copy a dataset; None if the source was written to meanwhile: the next look finds that.

        Raises:
            ConflictError: the source was not, and the replica is not as it is.
        """
        for left in reversed(range(_ATTEMPTS)):
            before = self.moment(), _marks(self.source, dataset_id)
            try:
                return copy_dataset(states, writer, dataset_id, replace=True)
            except ConflictError:
                if (self.moment(), _marks(self.source, dataset_id)) != before:
                    return None
                if not left:
                    raise
        raise AssertionError


def _allow() -> None:
    """A replica takes over any configuration."""


def _marks(store: Store, dataset_id: str) -> object:
    """What differs wherever a dataset does, but for vectors of sets that still wait for some."""
    infos = store.documents.list(dataset_id)
    names = [info.name for info in infos]
    has = capabilities_of(store)
    config = store.chunks.config(dataset_id)
    sparse: Sequence[str] = ()
    if has.sparse is not None and config is not None and config.sparse_sig:
        sparse = has.sparse.sparse_pending(dataset_id, config.sparse_sig)
    return (
        dataset_id in store.documents.list_datasets(),
        config,
        {info.name: (info.version, info.content_sha256) for info in infos},
        dict(store.chunks.get_doc_sigs(dataset_id, names)),
        [
            (each.doc_name, each.layer, each.content, each.sig)
            for kind in (Layer.ABSTRACT, Layer.OVERVIEW)
            for each in store.layers.list(dataset_id, layer=kind)
        ],
        list(sparse),
        has.versions.deleted_version(dataset_id) if has.versions else None,
    )
