"""The memory store: three repositories over the same data and one local index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import Capabilities, rules
from triptych.contracts.change_pages import LogHead
from triptych.errors import StoreError
from triptych.records import (
    ChangeCursor,
    ChangePage,
    DatasetStats,
    DerivedSig,
    NameState,
    SourceDocument,
    check_whole,
)
from triptych.records.metadata import same_metadata
from triptych_backends.index import LocalIndex, LocalSearcher
from triptych_backends.memory.chunks import MemoryChunks
from triptych_backends.memory.dataset import FIELDS, Dataset, DatasetState
from triptych_backends.memory.document_changes import DocumentLogReader
from triptych_backends.memory.documents import MemoryDocuments
from triptych_backends.memory.index_source import MemoryChangeLog, MemoryFilters, fresh_sig
from triptych_backends.memory.layers import MemoryLayers
from triptych_backends.memory.truth import Save, Truth


class MemoryStore(CloseOnExit):
    """Keeps everything in the memory of this process until it is closed.

    Thread-safe. A `Store` with every capability. To persist the datasets elsewhere, pass the saved
    ``datasets`` and a ``save`` function.

    Args:
        history: the number of old versions kept for each document.
        datasets: the initial datasets by id.
        settings: the initial settings by key.
        save: called in each write with the new state of all datasets and all settings. If it
            raises, the write is undone, and its caller gets the error.
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
        for dataset_id, state in (datasets or {}).items():
            self._truth.load(dataset_id, state)
        self._truth.settings.update(settings or {})
        self._index = LocalIndex(MemoryChangeLog(self._truth))
        self._searcher = LocalSearcher(self._index, MemoryFilters(self._truth))
        self.documents = MemoryDocuments(self._truth)
        self.chunks = MemoryChunks(self._truth, self._searcher)
        self.layers = MemoryLayers(self._truth, self._searcher)

    def scrub(self) -> None:
        """Drop the index, which may still contain deleted data; it is rebuilt when needed.

        Also remove the names of deleted documents from the change log."""
        with self._truth.writing() as truth:
            truth.document_log.forget()
        self._searcher.renew()

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: all of them."""
        return Capabilities(
            document_search=self.chunks,
            versions=self.documents,
            changes=self,
            copying=self,
            settings=self,
            diagnostics=self.chunks,
        )

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        with self._truth as truth:
            return _stats_of(truth.read(dataset_id), dataset_id, chunker_sig, embed_sig)

    def change_head(self) -> str:
        with self._truth as truth:
            return str(truth.seq)

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        with self._truth as truth:
            end = LogHead(truth.seq, truth.nonce)
            return DocumentLogReader(truth.document_log, end, dataset_id).page(since, limit)

    @contextmanager
    def snapshot(self) -> Iterator[MemoryStore]:
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
        for state in states:
            with self._truth.writing() as truth:
                _load_state(truth, dataset_id, state, replace=replace)

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        with self._truth.writing() as truth:
            dataset = truth.write(dataset_id)
            dataset.floor = max(dataset.floor, version)

    def get_setting(self, key: str) -> str | None:
        with self._truth as truth:
            return truth.settings.get(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        with self._truth.writing() as truth:
            if truth.settings.get(key) != expected:
                return False
            truth.set_setting(key, value)
            return True

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        with self._truth as truth:
            found = {key: each for key, each in truth.settings.items() if key.startswith(prefix)}
        return dict(sorted(found.items()))

    def close(self) -> None:
        self._truth.close()
        self._index.close()


def _refuse(datasets: object, settings: object) -> None:
    """Keep no write."""
    raise StoreError("this is a snapshot of a store: write to the store itself")


def _load_state(truth: Truth, dataset_id: str, state: NameState, *, replace: bool) -> None:
    """Store ``state`` in place of what the dataset has under its name: see `CopyableStore`."""
    name = state.name
    stored = truth.read(dataset_id).documents.get(name)
    current = stored.document if stored else None

    def is_stored(document: SourceDocument) -> bool:
        return current == document and same_metadata(current.metadata, document.metadata)

    version = current.version if current else 0
    new, replaces = rules.versions_to_load(
        dataset_id, state.versions, version, is_stored, replace=replace
    )
    truth.check_widths(dataset_id, [(unit.sig.embed_sig, unit.vector) for unit in state.units])
    if replaces:
        truth.remove(dataset_id, name)
    for document in new:
        truth.store_document(document)
    if state.versions:
        truth.drop_versions(dataset_id, name, below=state.versions[0].version)
    if state.sig is None:
        truth.remove_set(dataset_id, name)
    else:
        truth.store_set(dataset_id, name, state.chunks, state.sig, stored=True)
    kinds = {layer.layer for layer in state.layers}
    for kind in FIELDS:
        if kind not in kinds:
            truth.remove_layer(dataset_id, name, kind)
    for layer in state.layers:
        truth.store_layer(layer)


def _stats_of(
    dataset: Dataset, dataset_id: str, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    if not dataset.exists:
        return None
    want = DerivedSig(chunker_sig=chunker_sig, embed_sig=embed_sig)
    fresh = [
        name
        for name, chunks in dataset.sets.items()
        if chunks.sig.stale_reason(fresh_sig(dataset, name, want)) in (None, "vector")
    ]
    waiting = [
        chunks
        for chunks in dataset.sets.values()
        if chunks.digests and rules.is_pending(chunks.sig, embed_sig)
    ]
    vectors = [
        (space, at.vector(place))
        for at in dataset.sets.values()
        for place, space in enumerate(at.spaces)
    ]
    return DatasetStats(
        dataset_id=dataset_id,
        documents=len(dataset.documents),
        chunks=len(vectors),
        vectors=sum(vector is not None for _, vector in vectors),
        layers=len(dataset.layers),
        stale=len(dataset.documents) - len(fresh),
        size=sum(stored.info.size for stored in dataset.documents.values()),
        config=dataset.config,
        spaces=rules.embedding_spaces(vectors),
        pending=len(waiting),
        pending_chunks=sum(
            data is None or space != embed_sig
            for chunks in waiting
            for space, data in zip(chunks.spaces, chunks.vectors, strict=True)
        ),
    )
