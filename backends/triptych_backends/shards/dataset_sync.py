"""A dataset of one server made equal to that of another, what differs alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych.errors import StoreError
from triptych.records import NameState
from triptych.replication.states import DatasetHead, StoreStates, state_digest
from triptych.replication.writer import StateWriter
from triptych_backends.postgres import PostgresStore
from triptych_backends.shards.dataset_marks import read_dataset_marks
from triptych_backends.sql.transaction import find_dataset

__all__ = ["DatasetSync"]

_AT_ONCE: Final = 32


class DatasetSync:
    """Takes over, in rounds, what of a dataset differs; each name is compared once it is written.

    Attributes:
        names: under how many names the source held anything in the last round.
        written: how many states of names were written.
    """

    def __init__(
        self,
        dataset_id: str,
        source: PostgresStore,
        destination: PostgresStore,
        progress: ProgressCallback | None = None,
    ) -> None:
        self._dataset_id = dataset_id
        self._source = source
        self._destination = destination
        self._progress = progress
        self._from = StoreStates(source)
        self._to = StoreStates(destination)
        self._writer = StateWriter(destination, replaces=True)
        self._alike: set[tuple[str, str | None, str | None]] = set()
        self.names = self.written = 0

    def round(self) -> int:
        """Take over what differs; how much did: 0 says that both are the same.

        Raises:
            StoreError: a server failed, or what was written is not what is read there.
        """
        changed = self._take_over_head()
        mine, theirs = self._marks(self._source), self._marks(self._destination)
        self.names = len(mine)
        differing = [
            name
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
            and (name, mine.get(name), theirs.get(name)) not in self._alike
        ]
        done = 0
        for batch in _batches(differing):
            deadlines.check("moving a dataset")
            same = [name for name in batch if not self._take_over(name)]
            self._alike.update((name, mine.get(name), theirs.get(name)) for name in same)
            changed += len(batch) - len(same)
            done += len(batch)
            if self._progress is not None:
                self._progress(Progress(phase="documents", done=done, total=len(differing)))
        return changed

    def _marks(self, store: PostgresStore) -> Mapping[str, str]:
        with store.database.snapshot() as session:
            found = find_dataset(session, self._dataset_id)
            return {} if found is None else read_dataset_marks(session, found.id)

    def _take_over(self, name: str) -> bool:
        """Write what the source has under ``name``; False if the destination has it already."""
        dataset_id = self._dataset_id
        state = self._from.state(dataset_id, name)
        there = self._to.state(dataset_id, name)
        wanted = state_digest(state)
        if state_digest(there) == wanted:
            return False
        if not state.versions:
            self._writer.remove(dataset_id, name)
        if state != NameState(name=name):
            self._writer.write(dataset_id, [state])
        self.written += 1
        if state_digest(self._to.state(dataset_id, name)) != wanted:
            raise StoreError(
                f"{name!r} of dataset {dataset_id!r} is not on the other server as it was written "
                "there: run `triptych doctor` on the store"
            )
        return True

    def _take_over_head(self) -> int:
        """Let the destination have the dataset's configuration, versions and usage; 0 if it had."""
        dataset_id = self._dataset_id
        if self._head(self._source) == self._head(self._destination):
            return 0
        (live, head), (shown, before) = self._head(self._source), self._head(self._destination)
        if shown and not live:
            self._destination.documents.delete_dataset(dataset_id)
            before = self._from_destination()
        if head.config is not None:
            self._destination.chunks.configure(dataset_id, head.config, expected=before.config)
        elif before.config is not None:
            self._destination.chunks.delete_by_dataset(dataset_id)
        if live and not shown:
            self._destination.documents.create_dataset(dataset_id)
        self._writer.end(head)
        # A destination that deleted greater versions is as good, and stays so.
        now = self._head(self._destination)
        higher = max(head.deleted_version, now[1].deleted_version)
        wanted = (live, attrs.evolve(head, deleted_version=higher))
        return int(now != wanted or (shown, before) != wanted)

    def _from_destination(self) -> DatasetHead:
        return self._to.head(self._dataset_id)

    def _head(self, store: PostgresStore) -> tuple[bool, DatasetHead]:
        with store.database.reading() as session:
            found = find_dataset(session, self._dataset_id)
        head = StoreStates(store).head(self._dataset_id)
        usage = tuple(sorted(head.usage, key=lambda each: each.model))
        return found is not None and found.live, attrs.evolve(head, usage=usage)


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(names), _AT_ONCE):
        yield names[at : at + _AT_ONCE]
