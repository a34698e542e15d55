"""Copying a store into another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import attrs

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych.contracts import Store
from triptych.copies.notes import Erasures, unfinished_until_done
from triptych.copies.report import CopyReport, Counts, DatasetCopy, count
from triptych.copies.states import DatasetHead, StoreStates, state_digest
from triptych.copies.writer import (
    StateWriter,
    another_configuration,
    another_writer,
    check_conflicts,
    check_two_stores,
    listed,
)
from triptych.errors import NotFoundError
from triptych.records import NameState

_NAMES_AT_ONCE: Final = 64
_SIZE_AT_ONCE: Final = 4_000_000


def copy_store(
    source: Store,
    destination: Store,
    *,
    datasets: Sequence[str] | None = None,
    replace: bool = False,
    sources: bool = False,
    progress: ProgressCallback | None = None,
    again: str = "",
) -> CopyReport:
    """Copy datasets (None: all, and the settings) from a store into another.

    Versions with their numbers and times, metadata, configurations, chunks, vectors and layers are
    copied unchanged; no model is called. Names with equal digests are skipped, so that a killed
    copy continues when it is run again. If the source supports snapshots, the state
    of one moment is copied, while others may write. At the end each dataset is read from the
    destination and compared. If the source store was purged since the last copy, deleted data is
    then erased from the destination's files too. Datasets that the source no longer has are kept.

    ``replace`` makes these datasets and the settings of the destination equal to the source's.
    Without it, data that only the destination has is an error, and different settings are kept. A
    backup of some datasets does not change them. ``progress`` is called between batches.

    ``sources`` leaves out configurations, chunks and vectors: a Service over the destination
    derives its own with `Service.rebuild`, such as with another embedder. A repeated copy leaves
    those of unchanged documents there.

    Until the copy is complete, the destination is marked as unfinished in its settings, which
    commands, `triptych.open` (by an `UnfinishedStoreWarning`) and `Service.doctor` report.
    ``again`` is the command that completes it.

    Raises:
        NotFoundError: the source does not have the dataset.
        ConflictError: without ``replace``, a dataset of the destination has data that the source
            does not have, another configuration, or documents with another history: nothing was
            written. Or the destination keeps fewer old versions, which is detected at the first
            document with more. Or somebody else wrote to the destination, so that it differs at the
            end: copied data remains, copy again.
        ValidationError: source and destination are the same store.
        NotAvailableError: the destination does not support copies.
        StoreError: a store failed; copy again to continue. Or the source is unfinished itself.
    """
    erasures = Erasures(source, destination, datasets)
    erased = erasures.pending()
    was_empty = not destination.documents.list_datasets()
    writer = StateWriter(destination, replaces=replace)
    check_two_stores(source, destination)
    with ExitStack() as held:
        states, chosen = held.enter_context(_opened_source(source, datasets, sources))
        there = StoreStates(destination, sources=sources)
        for dataset_id in () if replace else chosen:
            check_conflicts(states, there, dataset_id)
        kept = destination.capabilities.settings
        held.enter_context(unfinished_until_done(kept, chosen, again))
        done = [
            _copy_dataset(states, there, writer, dataset_id, replace=replace, progress=progress)
            for dataset_id in chosen
        ]
        wanted = states.settings() if datasets is None else None
        settings = writer.write_settings(None if states.is_partial and not wanted else wanted)
    erases = erasures.repeat(erased, scrub=not was_empty)
    return CopyReport(
        datasets=tuple(done),
        settings=settings.written,
        settings_removed=settings.removed,
        settings_different=settings.different,
        erased=erases,
    )


@contextmanager
def _opened_source(
    source: Store, datasets: Sequence[str] | None, sources: bool = False
) -> Iterator[tuple[StoreStates, Sequence[str]]]:
    """What a source holds, and which datasets are to be copied; as it is at one moment, where it
    shows that.

    Raises:
        NotFoundError: it has no such dataset.
        StoreError: it has not got all of them itself.
    """
    with ExitStack() as held:
        copying = source.capabilities.copying
        shown = source if copying is None else held.enter_context(copying.snapshot())
        states = StoreStates(shown, is_snapshot=shown is not source, sources=sources)
        there = states.datasets()
        for each in datasets or ():
            if each not in there:
                known = ", ".join(map(repr, there[:10])) or "none"
                raise NotFoundError(
                    f"the source has no dataset {each!r}; its datasets are: {known}"
                )
        chosen = there if datasets is None else list(dict.fromkeys(datasets))
        states.check_finished(chosen)
        yield states, chosen


def check_datasets(source: Store, datasets: Sequence[str] | None) -> None:
    """Run the checks of `copy_store` on ``source`` and ``datasets``, without a destination.

    Raises:
        NotFoundError, StoreError: as `copy_store`.
    """
    with _opened_source(source, datasets):
        pass


def _copy_dataset(
    source: StoreStates,
    there: StoreStates,
    writer: StateWriter,
    dataset_id: str,
    *,
    replace: bool,
    progress: ProgressCallback | None = None,
) -> DatasetCopy:
    """Copy one dataset, and compare the two. Raises as `copy_store`.

    Without ``replace``, `check_conflicts` has found nothing: what comes in between is found while
    it is written, or at the end.
    """
    head = source.head(dataset_id)
    names = source.names(dataset_id)
    before = set(there.names(dataset_id)) if dataset_id in there.datasets() else set()
    extra = sorted(before.difference(names)) if replace else []

    def check() -> None:
        if before and not replace:
            raise another_configuration(dataset_id)

    writer.begin(head, check=check)
    for name in extra:
        writer.remove(dataset_id, name)
    copied = _Copied(before)
    for batch in _batches(copied.lacking(source.states(dataset_id), there, dataset_id)):
        deadlines.check("copying")
        writer.write(dataset_id, batch)
        copied.written += len(batch)
        if progress is not None:
            progress(Progress(phase="documents", done=copied.seen, total=len(names)))
    _drop_surplus(source, writer, dataset_id)
    writer.end(head)
    if progress is not None:
        progress(Progress(phase="documents", done=len(names), total=len(names)))
    copied.compare(there, head, progress)
    return DatasetCopy(
        dataset_id=dataset_id,
        counts=copied.counts,
        digest=copied.digest.hexdigest(),
        written=copied.written,
        unchanged=len(names) - copied.written,
        removed=len(extra),
    )


def _drop_surplus(source: StoreStates, writer: StateWriter, dataset_id: str) -> None:
    """Write again, first without chunks, what took vectors that it does not have in the
    source: those of a set that was replaced only after it."""
    surplus = frozenset(writer.surplus)
    for keeps in (False, True) if surplus else ():
        states = (each for each in source.states(dataset_id) if each.name in surplus)
        for batch in _batches(states if keeps else map(_without_chunks, states)):
            writer.write(dataset_id, batch)


def _without_chunks(state: NameState) -> NameState:
    return attrs.evolve(state, sig=None, chunks=(), further={})


@attrs.define
class _Copied:
    """What a dataset's copy has come to. ``before`` are the names that the destination had."""

    before: set[str]
    seen: int = 0
    written: int = 0
    counts: Counts = attrs.field(factory=Counts)
    digests: dict[str, bytes] = attrs.field(factory=dict)
    digest: hashlib._Hash = attrs.field(factory=hashlib.sha256)

    def lacking(
        self, states: Iterable[NameState], there: StoreStates, dataset_id: str
    ) -> Iterator[NameState]:
        """Those of ``states`` that the destination does not have as they are."""
        for state in states:
            self.seen += 1
            digest = state_digest(state)
            self.counts += count(state)
            self.digests[state.name] = digest
            self.digest.update(digest)
            known = state.name in self.before
            if not known or state_digest(there.state(dataset_id, state.name)) != digest:
                yield state

    def compare(
        self, there: StoreStates, head: DatasetHead, progress: ProgressCallback | None
    ) -> None:
        """Read the destination's dataset, and refuse a difference.

        Raises:
            ConflictError: it is not as in the source.
        """
        dataset_id = head.dataset_id
        differing, missing = [], set(self.digests)
        for at, state in enumerate(there.states(dataset_id), start=1):
            missing.discard(state.name)
            if state_digest(state) != self.digests.get(state.name):
                differing.append(state.name)
            if progress is not None and at % _NAMES_AT_ONCE == 0:
                deadlines.check("comparing")
                progress(Progress(phase="compared", done=at, total=len(self.digests)))
        if progress is not None and self.digests:
            total = len(self.digests)
            progress(Progress(phase="compared", done=total, total=total))
        differing += sorted(missing)
        now = there.head(dataset_id)
        if differing or now.config != head.config or now.deleted_version < head.deleted_version:
            what = f": {listed(differing)}" if differing else " in its configuration"
            raise another_writer(dataset_id, what)


def _batches(states: Iterable[NameState]) -> Iterator[list[NameState]]:
    batch: list[NameState] = []
    size = 0
    for state in states:
        batch.append(state)
        size += sum(2 * len(document.content) for document in state.versions)
        size += sum(4 * chunk.vector.size for chunk in state.chunks if chunk.vector is not None)
        if len(batch) >= _NAMES_AT_ONCE or size >= _SIZE_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
