"""Reading the contents of a store name by name, and comparing them by digests."""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, Final, TypeVar

import attrs

from triptych.contracts import Store
from triptych.contracts.pages import documents_of, pages_of
from triptych.contracts.rules import is_of_document
from triptych.copies.notes import BACKUPS, ERASED, PARTIAL, UNFINISHED, unfinished_copy
from triptych.errors import StoreError
from triptych.records import (
    DatasetConfig,
    DerivedChunk,
    DerivedSig,
    DocumentInfo,
    Layer,
    NameState,
    SourceDocument,
)
from triptych.records.serialization import to_dict
from triptych.records.spaces import further, vector_text
from triptych.records.values import SpaceKind

T = TypeVar("T")

_KINDS: Final = (Layer.ABSTRACT, Layer.OVERVIEW)
_ATTEMPTS: Final = 20
PROBES: Final = "copy."
"""What the keys begin with by which a copy finds out whether two stores are one."""
_PASSING: Final = ("http.idempotency.", PROBES, ERASED, UNFINISHED, BACKUPS)
"""Settings of work under way, and of this place alone, which a copy has no part in: what their
keys begin with."""


@attrs.frozen(kw_only=True, slots=True)
class DatasetHead:
    """What a dataset has beside its names. ``deleted_version`` is the greatest one ever deleted."""

    dataset_id: str
    config: DatasetConfig | None = None
    deleted_version: int = 0


def is_kept_setting(key: str) -> bool:
    """Whether a setting is the store's, and not of work under way in some process."""
    return not key.startswith(_PASSING)


def json_line(value: Any) -> bytes:
    """``value``, a record or plain data, as one line of JSON: the same for equal values."""
    plain = to_dict(value, _in_utc)
    return json.dumps(plain, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def state_digest(state: NameState) -> bytes:
    """The SHA-256 of all that a name holds."""
    return hashlib.sha256(json_line(state)).digest()


def is_same_version(one: DocumentInfo, other: DocumentInfo) -> bool:
    """Whether both are one version of a document, with all that is stored of it."""
    fast = (one.version, one.content_sha256) == (other.version, other.content_sha256)
    return fast and json_line(one) == json_line(other)


def with_same_name(
    ours: Iterable[T], theirs: Iterable[DocumentInfo], name_of: Callable[[T], str]
) -> Iterator[tuple[T, DocumentInfo]]:
    """Those of two that have a name in common; both are in order of names."""
    mine = iter(ours)
    current = next(mine, None)
    for info in theirs:
        while current is not None and name_of(current) < info.name:
            current = next(mine, None)
        if current is None:
            return
        if name_of(current) == info.name:
            yield current, info


def _in_utc(record: Any) -> Any:
    if isinstance(record, SourceDocument | DocumentInfo) and record.updated_at.utcoffset():
        return attrs.evolve(record, updated_at=record.updated_at.astimezone(UTC))
    return record


class StoreStates:
    """What a store holds, to be copied.

    Of a store that others write to meanwhile, each name is read as of one version of its document.
    ``is_snapshot`` says that nobody writes to it. ``sources`` leaves out what a Service of other
    settings derives otherwise: configurations, chunk sets and all vectors.
    """

    def __init__(self, store: Store, *, is_snapshot: bool = False, sources: bool = False) -> None:
        self.store: Store = store
        self._has = store.capabilities
        self._is_snapshot = is_snapshot
        self._sources = sources

    def check_finished(self, datasets: Sequence[str]) -> None:
        """Raise `StoreError` where the store has not got all of ``datasets`` itself."""
        if error := unfinished_copy(self._has.settings, datasets):
            raise error

    def datasets(self) -> Sequence[str]:
        """Every dataset, ordered by id."""
        return self.store.documents.list_datasets()

    def head(self, dataset_id: str) -> DatasetHead:
        """What the dataset has beside its names."""
        versions = self._has.versions
        deleted = versions.deleted_version(dataset_id) if versions else None
        return DatasetHead(
            dataset_id=dataset_id,
            config=None if self._sources else self.store.chunks.config(dataset_id),
            deleted_version=deleted or 0,
        )

    def names(self, dataset_id: str) -> Sequence[str]:
        """The names under which the dataset holds anything, ordered."""
        documents = [info.name for info in self.infos(dataset_id)]
        others = self._layer_names(dataset_id)
        return list(heapq.merge(documents, sorted(others.difference(documents))))

    def infos(self, dataset_id: str) -> Iterator[DocumentInfo]:
        """The documents without their contents, in order of names."""
        return documents_of(self.store.documents.list, dataset_id)

    def other_histories(self, dataset_id: str, infos: Iterable[DocumentInfo]) -> Iterator[str]:
        """The names of those of ``infos``, documents of another store in order of their names, that
        this one has a document of, but no such version of it."""
        versions = self._has.versions
        pairs = with_same_name(self.infos(dataset_id), infos, lambda each: each.name)
        for mine, theirs in pairs:
            if is_same_version(mine, theirs):
                continue
            kept = versions.versions(dataset_id, mine.name) if versions else ()
            if not any(is_same_version(each, theirs) for each in kept):
                yield mine.name

    def _layer_names(self, dataset_id: str) -> set[str]:
        layers = self.store.layers
        return {each.doc_name for kind in _KINDS for each in pages_of(layers, dataset_id, kind)}

    def states(self, dataset_id: str) -> Iterator[NameState]:
        """What the dataset holds under each of `names`, in their order."""
        # Of a store that is written to, a layer may come after this look.
        layers = self._layer_names(dataset_id) if self._is_snapshot else None
        for name in self.names(dataset_id):
            kinds = _KINDS if layers is None or name in layers else ()
            yield self._state(dataset_id, name, kinds)

    def state(self, dataset_id: str, name: str) -> NameState:
        """What the dataset holds under one name; nothing, where there is nothing."""
        return self._state(dataset_id, name, _KINDS)

    def _state(self, dataset_id: str, name: str, kinds: Sequence[Layer]) -> NameState:
        if self._is_snapshot:
            return self._read(dataset_id, name, kinds)
        for _ in range(_ATTEMPTS):
            info = self.store.documents.get_info(dataset_id, name) if is_of_document(name) else None
            found = self._read(dataset_id, name, kinds)
            last = found.versions[-1].version if found.versions else 0
            sig = None if self._sources else self.store.chunks.get_doc_sig(dataset_id, name)
            if last == (info.version if info else 0) and sig == found.sig:
                return found
        raise StoreError(
            f"document {name!r} of dataset {dataset_id!r} changes faster than it can be read: try "
            "again when there are fewer writes"
        )

    def _read(self, dataset_id: str, name: str, kinds: Sequence[Layer]) -> NameState:
        store = self.store
        found = (store.layers.get(dataset_id, name, kind, vectors=True) for kind in kinds)
        layers = [layer for layer in found if layer is not None]
        sig: DerivedSig | None = None
        chunks: tuple[DerivedChunk, ...] = ()
        if self._sources:
            layers = [
                attrs.evolve(each, vector=None, sig=attrs.evolve(each.sig, embed_sig=""))
                for each in layers
            ]
        elif is_of_document(name):
            sig = store.chunks.get_doc_sig(dataset_id, name)
            chunks = _counted(store.chunks.iter_chunks(dataset_id, name, vectors=True))
        return NameState(
            name=name,
            versions=self._versions(dataset_id, name) if is_of_document(name) else (),
            sig=sig,
            chunks=chunks if sig else (),
            layers=tuple(layers),
            further=self._further(dataset_id, chunks),
        )

    def _versions(self, dataset_id: str, name: str) -> tuple[SourceDocument, ...]:
        current = self.store.documents.get(dataset_id, name)
        if current is None:
            return ()
        versions = self._has.versions
        if versions is None:
            return (current,)
        numbers = [info.version for info in versions.versions(dataset_id, name)]
        old = (
            versions.get_version(dataset_id, name, number)
            for number in sorted(numbers)
            if number < current.version
        )
        return (*(each for each in old if each is not None), current)

    def _further(
        self, dataset_id: str, chunks: Sequence[DerivedChunk]
    ) -> Mapping[SpaceKind, Mapping[str, str]]:
        digests = sorted({chunk.sig.input_sig for chunk in chunks} - {""})
        found: dict[SpaceKind, Mapping[str, str]] = {}
        repo = self.store.chunks
        for space in further(repo.config(dataset_id)) if chunks else ():
            vectors = repo.known_vectors(dataset_id, space, digests)
            if vectors:
                found[space.kind] = {each: vector_text(vectors[each]) for each in sorted(vectors)}
        return found

    @property
    def is_partial(self) -> bool:
        """Whether the store was made as a backup of some datasets, without settings."""
        settings = self._has.settings
        return settings is not None and settings.get_setting(PARTIAL) is not None

    def settings(self) -> Mapping[str, str]:
        """The store's settings, ordered, but for those of work under way."""
        settings = self._has.settings
        found = settings.list_settings() if settings is not None else {}
        return {key: text for key, text in found.items() if is_kept_setting(key)}


def _counted(chunks: Iterator[DerivedChunk]) -> tuple[DerivedChunk, ...]:
    """The chunks with their ``occurrence``, which a store need not keep."""
    seen: Counter[str] = Counter()
    made = []
    for chunk in chunks:
        digest = chunk.sig.input_sig
        same = chunk.occurrence == seen[digest]
        made.append(chunk if same else attrs.evolve(chunk, occurrence=seen[digest]))
        seen[digest] += 1
    return tuple(made)
