"""Replicas: copies that follow the changes of their source."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import attrs

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych._internal.retries import wait
from triptych.contracts import AnswerCache, ChangeReader, SettingsStore, Store
from triptych.contracts.change_pages import check_poll
from triptych.copies.copy import copy_dataset, copy_states
from triptych.copies.notes import Erasures
from triptych.copies.report import CopyReport, DatasetCopy
from triptych.copies.states import MARKS, StateSource, StoreStates, is_kept_setting
from triptych.copies.writer import StateWriter, another_writer, check_two_stores, listed
from triptych.errors import (
    ConflictError,
    CorruptStoreError,
    NotAvailableError,
    SchemaVersionError,
    StoreError,
    ValidationError,
)
from triptych.records import ChangeCursor, Layer
from triptych.records.spaces import sparse

_check = partial(deadlines.check, "following a store")

_MAKES_REPLICA: Final = (
    "the same command with --replace makes it a replica: what the source does not have is then "
    "removed from it"
)


@attrs.frozen(kw_only=True, slots=True)
class _Mark:
    """The datasets that follow a source (None: all, and the settings), and a cursor of its log."""

    cursor: ChangeCursor
    datasets: Sequence[str] | None


class ReplicaMark:
    """The mark of a replica in its settings: which datasets follow, and the last cursor of the
    source's log that was applied.

    A source knows it for its own by the cursor, also where its log does not go back so far any
    more. A store without settings has no mark.
    """

    def __init__(
        self, changes: ChangeReader, destination: Store, datasets: Sequence[str] | None
    ) -> None:
        self._changes = changes
        self._destination = destination
        self._settings: SettingsStore | None = destination.capabilities.settings
        self._datasets = None if datasets is None else sorted(set(datasets))
        scope = json.dumps(self._datasets).encode()
        self._key = MARKS + hashlib.sha256(scope).hexdigest()[:16]

    def check(self, source: StateSource) -> bool:
        """Whether the destination is a replica already; else it may become one without a loss.

        Raises:
            ConflictError: it has datasets, or settings, that do not follow this source.
        """
        marks = list(self._marks())
        whole = any(mark.datasets is None for mark in marks)
        followed = {each for mark in marks for each in mark.datasets or ()}
        there = [each for each in self._destination.documents.list_datasets() if self._has(each)]
        own = [] if whole else [each for each in there if each not in followed]
        if own:
            raise _refused(f"it has datasets that do not follow this source: {listed(own)}")
        if self._datasets is None and self._settings is not None and not whole:
            wanted = source.settings()
            found = self._settings.list_settings()
            other = [key for key in found if is_kept_setting(key) and wanted.get(key) != found[key]]
            if other:
                raise _refused(f"it has settings that the source does not have: {listed(other)}")
        return bool(there)

    def write(self, cursor: str) -> None:
        """Remember that the destination has all until ``cursor``."""
        settings = self._settings
        if settings is None:
            return
        value = json.dumps({"cursor": cursor, "datasets": self._datasets})
        before = settings.get_setting(self._key)
        while before != value and not settings.set_setting(self._key, value, expected=before):
            before = settings.get_setting(self._key)

    def _has(self, dataset_id: str) -> bool:
        return self._datasets is None or dataset_id in self._datasets

    def _marks(self) -> Iterator[_Mark]:
        """Those marks of the destination that are of the source's log."""
        found: Collection[str] = ()
        if self._settings is not None:
            found = self._settings.list_settings(MARKS).values()
        for text in found:
            mark = _parsed(text)
            if mark is None:
                continue
            # As who began with nothing, from whom no deletion that was forgotten is missing.
            end = mark.cursor.marked
            probe = attrs.evolve(mark.cursor, number=end, base=0, until=end)
            page = self._changes.read_changes(probe, dataset_id=None, limit=0)
            if not page.reset:
                yield mark


def _parsed(text: str) -> _Mark | None:
    try:
        value = json.loads(text)
        datasets = value["datasets"]
        names = None if datasets is None else [str(each) for each in datasets]
        return _Mark(cursor=ChangeCursor.parse(value["cursor"]), datasets=names)
    except (ValueError, KeyError, TypeError, ValidationError):
        return None


def _refused(why: str) -> ConflictError:
    return ConflictError(
        f"the destination is not a replica of the source: {why}. Follow into a new store, or "
        "replace the data there"
    ).hinted(_MAKES_REPLICA)


# Following

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
    again: str = "",
) -> Iterator[CopyReport]:
    """Copy ``source`` into ``destination`` with `copy_store`, then copy its changes continuously.

    A destination without datasets (without those of ``datasets``) becomes a replica, which is
    recorded in its settings: from then on data that the source does not have is deleted from it.
    ``replace`` makes any other destination a replica.

    Yields the report of the copy, then a report of each copied change, for the datasets concerned.
    Documents are followed by the source's change log, checked every ``poll`` seconds. Chunks,
    vectors, layers and settings that changed without their document are copied when the log is
    quiet; the journal of a layer is copied with the next change of its document or layer. A purge
    of the source also erases deleted data from the replica's files. An interrupted replica
    continues when it is run again, even if the source's log no longer reaches back. A deadline
    around it ends it.

    ``on_failure`` is called with each transient failure of a store, such as a `StoreLockedError`,
    and with the seconds until the next attempt: ``poll`` at first, then twice as long each time, up
    to a minute. Without it the failure is raised. ``again`` is as in `copy_store`.

    Raises:
        ConflictError: the destination has other datasets or settings, and ``replace`` is False; it
            is unchanged. Or others write to it, or it keeps fewer old versions.
        NotAvailableError: the source has no change log.
        TriptychError: as `copy_store`.
    """
    poll = check_poll(poll)
    has = source.capabilities
    if has.changes is None:
        raise NotAvailableError(
            "the source has no change log and cannot be followed: copy it regularly instead"
        )
    check_two_stores(source, destination)
    mark = ReplicaMark(has.changes, destination, datasets)
    is_replica = replace or mark.check(StoreStates(source))
    erasures = Erasures(source, destination, datasets)
    replica = _Replica(source, destination, datasets, has.changes, has.answers, erasures)
    cursor = replica.head()
    # Before the first write: what was begun and killed goes on as a replica.
    mark.write(cursor)
    done = _Persistent(poll, on_failure).done
    there = source.documents.list_datasets()
    # Of a replica those may be gone that are named: they are then removed from it.
    named = [each for each in datasets or () if not is_replica or each in there]
    if not is_replica:
        erasures.repeat(erasures.pending(), scrub=False)
    chosen = None if datasets is None else named
    yield done(lambda: copy_states(source, destination, chosen, is_replica, progress, again))

    def follow(cursor: str) -> tuple[str, CopyReport]:
        cursor, report = replica.apply_changes(cursor)
        mark.write(cursor)
        return cursor, report

    while True:
        seen = done(replica.moment)
        erased = done(erasures.pending)
        cursor, report = done(partial(follow, cursor))
        if report.datasets:
            yield report
            continue
        report = done(replica.compare)
        if report.datasets or report.settings or report.settings_removed:
            yield report
        if not replica.is_behind and done(partial(erasures.repeat, erased)):
            yield CopyReport(erased=True)
        while done(replica.moment) == seen:
            wait(poll, _check)
        _check()


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
            wait(pause, _check)
            pause = max(self.pause, min(2 * pause, _LONGEST_PAUSE))


@attrs.define
class _Replica:
    """``known`` are the revisions of the datasets when they were last compared. ``is_behind`` says
    that the source was written to meanwhile."""

    source: Store
    destination: Store
    datasets: Sequence[str] | None
    changes: ChangeReader
    answers: AnswerCache | None
    erasures: Erasures
    is_behind: bool = False
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
        return self.changes.change_head(), self.revisions(), settings, self.erasures.mark()

    def revisions(self) -> Mapping[str, str]:
        """What differs after each write that concerns a search; empty if the store does not say."""
        if self.answers is None:
            return {}
        return self.answers.revisions(self._followed())

    def _followed(self) -> Sequence[str]:
        there = self.source.documents.list_datasets()
        return there if self.datasets is None else [each for each in there if each in self.datasets]

    def apply_changes(self, cursor: str) -> tuple[str, CopyReport]:
        """Take over a page of changes: what was put first, for a delete uses versions up.

        Of a log that does not go back so far nothing: `compare` finds it all.
        """
        page = self.changes.read_changes(
            ChangeCursor.parse(cursor), dataset_id=None, limit=_CHANGES
        )
        if page.reset:
            return self.head(), CopyReport()
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
        self.is_behind = False
        before = self.revisions()
        states = StoreStates(self.source)
        writer = StateWriter(self.destination, replaces=True)
        done = []
        followed = self._followed()
        for dataset_id in followed:
            if before and before.get(dataset_id) == self.known.get(dataset_id):
                continue
            found = self._copy(writer, dataset_id)
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

    def _copy(self, writer: StateWriter, dataset_id: str) -> DatasetCopy:
        """Copy what differs of a dataset until nothing does, or the source was written to
        meanwhile: the next look finds that.

        Raises:
            ConflictError: the source was not, and the replica is not as it is.
        """
        done, moment = DatasetCopy(dataset_id=dataset_id), self.moment()
        for left in reversed(range(_ATTEMPTS)):
            differs, names = self._differing(dataset_id)
            if not differs:
                break
            try:
                states = StoreStates(self.source, only=names)
                found = copy_dataset(states, writer, dataset_id, replace=True, only=names)
                written, removed = done.written + found.written, done.removed + found.removed
                done = attrs.evolve(done, written=written, removed=removed)
            except ConflictError:
                if self.moment() == moment and not left:
                    raise
            if self.moment() != moment:
                self.is_behind = True
                break
        else:
            raise another_writer(dataset_id, "")
        return done

    def _differing(self, dataset_id: str) -> tuple[bool, Collection[str] | None]:
        """Whether the replica has a dataset otherwise, and under which names (None: under any)."""
        (config, used, here), (there_config, there_used, there) = (
            _marks(each, dataset_id) for each in (self.source, self.destination)
        )
        if config != there_config:
            return True, None
        names = [each for each in here.keys() | there.keys() if here.get(each) != there.get(each)]
        # What only the replica has used up is no difference, for that never changes back.
        return bool(names) or there_used < used, names


def _allow() -> None:
    """A replica takes over any configuration."""


def _marks(store: Store, dataset_id: str) -> tuple[object, int, Mapping[str, list[object]]]:
    """What differs wherever a dataset does, but for vectors of sets that still wait for some: of
    all of it, the version up to which names were used, and by name. No document is read."""
    has = store.capabilities
    config = store.chunks.config(dataset_id)
    names: defaultdict[str, list[object]] = defaultdict(list)
    for info in store.documents.list(dataset_id):
        names[info.name].append((info.version, info.content_sha256))
    for name, sig in store.chunks.get_doc_sigs(dataset_id, list(names)).items():
        names[name].append(sig)
    for kind in (Layer.ABSTRACT, Layer.OVERVIEW):
        for layer in store.layers.list(dataset_id, layer=kind):
            names[layer.doc_name].append((kind, layer.content, layer.sig))
    if has.sparse is not None and config is not None and config.sparse_sig:
        for name in store.chunks.waiting(dataset_id, sparse(config.sparse_sig)):
            names[name].append("sparse pending")
    used = has.versions.deleted_version(dataset_id) if has.versions else None
    return (dataset_id in store.documents.list_datasets(), config), used or 0, names
