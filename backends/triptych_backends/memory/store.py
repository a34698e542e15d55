"""The memory store: three repositories over one truth and one local index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from triptych._internal.close_on_exit import CloseOnExit
from triptych.changes.pages import LogHead
from triptych.contracts import Capabilities
from triptych.errors import StoreError
from triptych.leases import SettingsLeases
from triptych.records import ChangeCursor, ChangePage, DatasetStats, NameState, check_whole
from triptych_backends.index import LocalIndex, LocalSearcher
from triptych_backends.memory.answers import MemoryAnswers
from triptych_backends.memory.change_log import MemoryChangeLog
from triptych_backends.memory.chunks import MemoryChunks
from triptych_backends.memory.document_changes import DocumentLogReader
from triptych_backends.memory.documents import MemoryDocuments
from triptych_backends.memory.filters import MemoryFilters
from triptych_backends.memory.layers import MemoryLayers
from triptych_backends.memory.state import DatasetState
from triptych_backends.memory.state_loader import load_state
from triptych_backends.memory.stats import stats_of
from triptych_backends.memory.truth import Save, Truth

__all__ = ["MemoryStore"]


class MemoryStore(CloseOnExit, MemoryAnswers):
    """Keeps everything in this process's memory, until it is closed.

    Thread-safe. A `Store` with every capability. To keep the datasets elsewhere too, give
    ``datasets``, what was kept, and ``save``, which keeps it.

    Args:
        history: how many old versions of each document are kept.
        datasets: what the store begins with, by dataset id.
        settings: the settings that the store begins with, by key.
        save: is called in each write with what all datasets hold after it, and all settings.
            When it raises, the write is undone, and its caller gets the error.
    """

    def __init__(
        self,
        *,
        history: int = 10,
        datasets: Mapping[str, DatasetState] | None = None,
        settings: Mapping[str, str] | None = None,
        save: Save | None = None,
    ) -> None:
        self._truth = Truth(check_whole(history, "history"), save)
        with self._truth as truth:
            for dataset_id, state in (datasets or {}).items():
                truth.load(dataset_id, state)
            truth.settings.update(settings or {})
        self._index = LocalIndex(MemoryChangeLog(self._truth))
        self._searcher = LocalSearcher(self._index, MemoryFilters(self._truth))
        self.documents = MemoryDocuments(self._truth)
        self.chunks = MemoryChunks(self._truth, self._searcher)
        self.layers = MemoryLayers(self._truth, self._searcher)

    def scrub(self) -> None:
        """Drop the index, which may still hold what was deleted; it is replayed when asked.

        The log of documents forgets the names of what was deleted."""
        with self._truth as truth:
            truth.document_log.forget()
        self._searcher.renew()

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: every one."""
        return Capabilities(
            document_search=self.chunks,
            sparse=self.chunks,
            spaces=self.chunks,
            versions=self.documents,
            journal=self.layers,
            changes=self,
            copying=self,
            settings=self,
            leases=SettingsLeases(self),
            answers=self,
            diagnostics=self.chunks,
        )

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`."""
        with self._truth as truth:
            return stats_of(truth.read(dataset_id), dataset_id, chunker_sig, embed_sig)

    def change_head(self) -> str:
        """See `ChangeReader.change_head`."""
        with self._truth as truth:
            return str(truth.seq)

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """See `ChangeReader.read_changes`."""
        with self._truth as truth:
            end = LogHead(truth.seq, truth.nonce)
            return DocumentLogReader(truth.document_log, end, dataset_id).page(since, limit)

    @contextmanager
    def snapshot(self) -> Iterator[MemoryStore]:
        """See `CopyableStore.snapshot`."""
        with self._truth as truth:
            states = {name: dataset.state() for name, dataset in truth.datasets.items()}
            copy = MemoryStore(
                history=truth.history, datasets=states, settings=truth.settings, save=_refuse
            )
            copy._truth.follow_log_of(truth)
        with copy:
            yield copy

    def load_states(
        self, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """See `CopyableStore.load_states`."""
        for state in states:
            with self._truth.writing() as truth:
                load_state(truth, dataset_id, state, replace=replace)

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        """See `CopyableStore.use_up_versions`."""
        with self._truth.writing() as truth:
            dataset = truth.write(dataset_id)
            dataset.floor = max(dataset.floor, version)

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`."""
        with self._truth as truth:
            return truth.settings.get(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """See `SettingsStore.set_setting`."""
        with self._truth.writing() as truth:
            if truth.settings.get(key) != expected:
                return False
            truth.set_setting(key, value)
            return True

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`."""
        with self._truth as truth:
            found = {key: each for key, each in truth.settings.items() if key.startswith(prefix)}
        return dict(sorted(found.items()))

    def close(self) -> None:
        self._truth.close()
        self._index.close()


def _refuse(datasets: object, settings: object) -> None:
    """Keep no write."""
    raise StoreError("this is a snapshot of a store: write to the store itself")
