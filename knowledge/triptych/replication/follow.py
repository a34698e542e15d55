"""A replica: a copy that is kept as its source is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych.changes.follow import check_poll
from triptych.contracts import AnswerCache, ChangeReader, Store
from triptych.errors import ConflictError, NotAvailableError
from triptych.records import ChangeCursor, Layer
from triptych.replication.copy import copy_dataset, copy_store
from triptych.replication.marks import ReplicaMark
from triptych.replication.report import CopyReport, DatasetCopy
from triptych.replication.states import StoreStates
from triptych.replication.writer import StateWriter
from triptych.repositories import capabilities_of

__all__ = ["follow_store"]

_CHANGES: Final = 1_000


def follow_store(
    source: Store,
    destination: Store,
    *,
    datasets: Sequence[str] | None = None,
    replace: bool = False,
    poll: float = 1.0,
    progress: ProgressCallback | None = None,
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

    Raises:
        ConflictError: the destination has datasets or settings of its own, and ``replace`` is not
            given; or it was a replica, and the source's log does not go back to what it has. It is
            as it was.
        NotAvailableError: the source has no log of its changes.
        TriptychError: as `copy_store`.
    """
    poll = check_poll(poll)
    has = capabilities_of(source)
    if has.changes is None:
        raise NotAvailableError(
            "the source has no log of its changes, and so cannot be followed: copy it now and then"
        )
    mark = ReplicaMark(has.changes, destination, datasets)
    is_replica = replace or mark.check(StoreStates(source))
    replica = _Replica(source, destination, datasets, has.changes, has.answers)
    cursor = replica.head()
    # Before the first write: what was begun and killed goes on as a replica.
    mark.write(cursor)
    yield copy_store(source, destination, datasets=datasets, replace=is_replica, progress=progress)
    while True:
        seen = replica.moment()
        cursor, report = replica.apply_changes(cursor)
        mark.write(cursor)
        if report.datasets:
            yield report
            continue
        report = replica.compare()
        if report.datasets or report.settings or report.settings_removed:
            yield report
        while replica.moment() == seen:
            deadlines.check("following a store")
            left = deadlines.remaining()
            time.sleep(poll if left is None else min(poll, left))
        deadlines.check("following a store")


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
            try:
                found = copy_dataset(states, writer, dataset_id, replace=True)
            except ConflictError:
                continue  # the source was written to meanwhile: the next look finds that
            if found.written or found.removed:
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
