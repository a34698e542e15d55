"""The truth in dicts: what is stored, and the log of what changed.

Every read happens inside ``with truth:`` and every write inside ``with truth.writing():``, which
hold the one lock. The repositories decide whether something may be done; the methods here do it,
and cannot fail half-way. A call in `one_state` reads a version: a write copies the dataset that it
changes, if a version has it.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Self

import attrs

from triptych._internal.one_state import held, let_go
from triptych.contracts import rules
from triptych.errors import StoreError
from triptych.records import (
    NO_CHUNK,
    AnySpace,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Layer,
    SourceDocument,
    Vector,
)
from triptych.records.metadata import text_of
from triptych.signatures import document_info
from triptych_backends.index.change_log import Field
from triptych_backends.memory.dataset import (
    CHUNK_BITS,
    FIELDS,
    ChunkSet,
    Dataset,
    DatasetState,
    Place,
    StoredDocument,
    StoredLayer,
)
from triptych_backends.memory.document_changes import DocumentLog
from triptych_backends.memory.text_vectors import Entries, read_plain

Save = Callable[[Mapping[str, DatasetState], Mapping[str, str]], None]
"""Writes down what all datasets hold, by id, and the settings; when it raises, the write is
undone."""


class Truth:
    """The datasets, the lock around them, and the counters behind keys and owners."""

    def __init__(self, history: int, save: Save | None = None) -> None:
        self.history = history
        self._save = save
        self._written = False
        self.nonce = uuid.uuid4().hex
        self.seq = 0
        self.document_log = DocumentLog()
        self.places: dict[Hashable, Place] = {}
        self.datasets: dict[str, Dataset] = {}
        self.settings: dict[str, str] = {}
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._closed = False
        self._versions: list[Truth] = []
        self._gone: list[int] = []  # keys that only versions may have

    def __enter__(self) -> Truth:
        self._enter()
        return held(self, self._version, self._end_version) or self

    def _enter(self) -> None:
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise StoreError("this store is closed: open it again")

    def _version(self) -> Truth:
        """What there is now; nobody changes it."""
        version = copy(self)
        self._versions.append(version)
        return version

    def _end_version(self, version: Truth) -> None:
        with self._lock:
            self._versions.remove(version)

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Hold the lock for a write: it is saved at the end, or undone if it cannot be."""
        let_go()  # what this call reads next sees its own write
        self._enter()
        before = None if self._save is None else self._version()
        try:
            if before is not None:
                before.document_log = self.document_log.copy()
                before.places, before._gone = dict(self.places), list(self._gone)
            self._written = False
            yield self
            if self._save is not None and self._written:
                states = {name: dataset.state() for name, dataset in self.datasets.items()}
                self._save(states, self.settings)
        except BaseException:
            if before is not None:
                self.seq, self.document_log = before.seq, before.document_log
                self.places, self.datasets = before.places, before.datasets
                self.settings, self._gone = before.settings, before._gone
            raise
        finally:
            if before is not None:
                self._end_version(before)
            if not self._versions:
                for key in self._gone:
                    self.places.pop(key, None)
                self._gone = []
            self._lock.release()

    def load(self, dataset_id: str, state: DatasetState) -> None:
        """Take over what `Dataset.state` made of a dataset."""
        dataset = self.write(dataset_id)
        dataset.floor, dataset.config, dataset.widths = state.floor, state.config, {**state.widths}
        for document in state.documents.values():
            self.store_document(document)
        dataset.replaced = {
            name: tuple(StoredDocument(0, each, document_info(each)) for each in old)
            for name, old in state.replaced.items()
        }
        for name, chunks in state.sets.items():
            self.store_set(dataset_id, name, chunks.chunks, chunks.sig, stored=True)
        for kinds in state.layers.values():
            for layer in kinds.values():
                self.store_layer(layer)
        dataset.give(read_plain(state.entries))
        dataset.exists = state.exists

    def follow_log_of(self, other: Truth) -> None:
        """Show the log of documents that ``other`` has, of which this is a copy."""
        self.seq, self.nonce, self.document_log = other.seq, other.nonce, other.document_log.copy()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.datasets = {}
            self.places = {}

    def read(self, dataset_id: str) -> Dataset:
        """The dataset; an empty one, kept nowhere, when it is unknown."""
        return self.datasets.get(dataset_id) or Dataset()

    def write(self, dataset_id: str) -> Dataset:
        """The dataset, to be changed: a search may find something else."""
        self._written = True
        self.seq += 1
        return self._own(dataset_id)

    def _own(self, dataset_id: str) -> Dataset:
        """The dataset, which no version has."""
        dataset = self.datasets.get(dataset_id)
        if dataset is None or any(v.datasets.get(dataset_id) is dataset for v in self._versions):
            dataset = Dataset() if dataset is None else dataset.copy()
            self.datasets = {**self.datasets, dataset_id: dataset}
        return dataset

    def set_setting(self, key: str, value: str | None) -> None:
        """Set a setting; None removes it."""
        self._written = True
        others = {name: each for name, each in self.settings.items() if name != key}
        self.settings = others if value is None else {**others, key: value}

    # Documents

    def store_document(self, document: SourceDocument) -> None:
        dataset = self.write(document.dataset_id)
        document = rules.copy_document(document)
        old = dataset.documents.get(document.name)
        key = self._place(document.dataset_id, document.name, NO_CHUNK)
        dataset.documents[document.name] = StoredDocument(key, document, document_info(document))
        dataset.exists = True
        dataset.expiring.pop(document.name, None)
        if document.system.expires_at is not None:
            dataset.expiring[document.name] = document.system.expires_at
        if old is not None:
            self._gone.append(old.key)
            kept = (old, *dataset.replaced.get(document.name, ()))
            dataset.replaced[document.name] = kept[: self.history]
            titles = {text_of(each.metadata, "title") for each in (old.document, document)}
            if len(titles) > 1 and document.name in dataset.sets:
                self._changed(dataset, "chunk", document.name)
        self._changed(dataset, "document", document.name)
        self.document_log.put(document.dataset_id, document.name, document.version, self.seq)

    def drop_versions(self, dataset_id: str, name: str, *, below: int) -> None:
        """Forget the kept versions of a document that are below one."""
        replaced = self.write(dataset_id).replaced
        kept = replaced.get(name, ())
        replaced[name] = tuple(each for each in kept if each.document.version >= below)

    def remove(self, dataset_id: str, name: str) -> bool:
        """Remove everything under a name, its document first; whether there was anything."""
        dataset = self.read(dataset_id)
        if not (
            name in dataset.documents
            or name in dataset.sets
            or any((name, layer) in dataset.layers for layer in FIELDS)
        ):
            return False
        if name in dataset.documents:
            dataset = self._own(dataset_id)
            dataset.floor = max(dataset.floor, dataset.version(name))
            self._gone.append(dataset.documents.pop(name).key)
            dataset.replaced.pop(name, None)
            dataset.expiring.pop(name, None)
            self._changed(dataset, "document", name)
            self.document_log.delete(dataset_id, name, self.seq)
        self.remove_set(dataset_id, name)
        self.remove_layers(dataset_id, name)
        return True

    def remove_dataset(self, dataset_id: str) -> None:
        """Remove everything but the floor, which says what versions are used up."""
        old = self.read(dataset_id)
        self.places = {key: place for key, place in self.places.items() if place[0] != dataset_id}
        versions = (stored.document.version for stored in old.documents.values())
        new = Dataset(floor=max([old.floor, *versions]))
        self.datasets = {**self.datasets, dataset_id: new}
        for name in sorted(old.documents):
            self.seq += 1
            self.document_log.delete(dataset_id, name, self.seq)
        self.reset(dataset_id)

    def check_widths(self, dataset_id: str, vectors: Iterable[tuple[str, Vector | None]]) -> None:
        """Refuse vectors (with their spaces) that are not as wide as their space's others.

        Raises:
            ModelMismatchError: one is not; nothing has changed.
        """
        widths = rules.check_widths(self.read(dataset_id).widths, vectors)
        if widths != self.read(dataset_id).widths:
            self.write(dataset_id).widths = widths

    # Chunk sets

    def store_set(
        self,
        dataset_id: str,
        name: str,
        chunks: Sequence[DerivedChunk],
        sig: DerivedSig,
        *,
        stored: bool = False,
    ) -> None:
        """Swap in a set whose vectors are of the dataset's space; as it was ``stored``, just those
        that it has, of the spaces that its chunks' signatures name."""
        dataset = self.write(dataset_id)
        old = dataset.sets.get(name)
        space = sig.embed_sig or (dataset.config.embed_sig if dataset.config else "")
        waits = space != sig.embed_sig
        spaces = [
            (stored and chunk.vector is not None and chunk.sig.embed_sig) or space
            for chunk in chunks
        ]
        vectors = [
            (of, dataset.shared(of, c.sig.input_sig, c.vector, waits=waits and not stored))
            for of, c in zip(spaces, chunks, strict=True)
        ]
        place = dataset_id, name, self._place(dataset_id, name, 0)
        made = dataset.sets[name] = ChunkSet.of(place, sig, chunks).with_vectors(sig, vectors)
        if old is not None:
            self._forget(dataset, old)
        dataset.kept.bind(name, made.texts, dataset.further)
        self._changed(dataset, "chunk", name)

    def put_further(self, dataset_id: str, name: str, space: AnySpace, vectors: Entries) -> bool:
        """Give a set those vectors, of a space that is not dense, that are of its texts; whether it
        is there and waits for none of the space."""
        dataset = self.write(dataset_id)
        chunks = dataset.sets.get(name)
        if chunks is None:
            return False
        if dataset.kept.bind(name, chunks.texts, dataset.further, vectors, keeps_old=True):
            self._changed(dataset, "chunk", name)
        return space not in dataset.kept.waits.get(name, ())

    def rebind(self, dataset_id: str) -> None:
        """Find the sets that wait, once the dataset may have another space that is not dense."""
        dataset = self.write(dataset_id)
        for name, chunks in dataset.sets.items():
            dataset.kept.bind(name, chunks.texts, dataset.further, keeps_old=True)

    def put_dense(
        self, dataset_id: str, name: str, space: str, vectors: Mapping[str, Vector | None]
    ) -> bool:
        """Give a set those vectors of the serving space that are of its texts; whether it is there
        and waits no more."""
        dataset = self.write(dataset_id)
        old = dataset.sets.get(name)
        if old is None or old.sig.embed_sig == space:
            return old is not None
        made: list[tuple[str, bytes | None]] = []
        changed, whole = False, True
        for of, digest, data in zip(old.spaces, old.digests, old.vectors, strict=True):
            has = of == space and data is not None
            new = dataset.shared(space, digest, vectors.get(digest), waits=True)
            changed = changed or not (has or new is None)
            whole = whole and (new is not None or digest in vectors)
            if new is None:  # that of another space stays
                made.append((of, dataset.shared(of, digest, None, waits=data is not None)))
            else:
                made.append((space, new))
        if changed or whole:
            sig = attrs.evolve(old.sig, embed_sig=space if whole else "")
            dataset.sets[name] = old.with_vectors(sig, made)
            dataset.unshare(old)
        else:
            dataset.unshare(old.with_vectors(old.sig, made))
        if whole:
            self._changed(dataset, "chunk", name)
        return whole

    def update_source_version(self, dataset_id: str, name: str, sig: DerivedSig) -> None:
        sets = self.write(dataset_id).sets
        sets[name] = attrs.evolve(sets[name], sig=sig)

    def remove_set(self, dataset_id: str, name: str) -> None:
        dataset = self.write(dataset_id)
        old = dataset.sets.pop(name, None)
        if old is not None:
            self._forget(dataset, old)
            dataset.kept.remove(name)
            self._changed(dataset, "chunk", name)

    def _forget(self, dataset: Dataset, old: ChunkSet) -> None:
        self._gone.append(old.key)
        dataset.unshare(old)

    # Layers

    def store_layer(self, layer: DerivedLayer) -> None:
        dataset = self.write(layer.dataset_id)
        place = (layer.doc_name, layer.layer)
        old = dataset.layers.get(place)
        key = self._place(layer.dataset_id, *place)
        dataset.layers[place] = StoredLayer(key, rules.copy_vector(layer))
        if old is not None:
            self._gone.append(old.key)
        self._changed(dataset, FIELDS[layer.layer], layer.doc_name)

    def remove_layers(self, dataset_id: str, name: str) -> None:
        for layer in FIELDS:
            self.remove_layer(dataset_id, name, layer)

    def remove_layer(self, dataset_id: str, name: str, layer: Layer) -> None:
        if (name, layer) not in self.read(dataset_id).layers:
            return  # a write of nothing moves no log
        dataset = self.write(dataset_id)
        self._gone.append(dataset.layers.pop((name, layer)).key)
        self._changed(dataset, FIELDS[layer], name)

    # Keys, owners and the change log

    def _place(self, dataset_id: str, name: str, what: int | Layer) -> int:
        key = next(self._numbers) << CHUNK_BITS
        self.places[key] = (dataset_id, name, what)
        return key

    def place(self, key: Hashable) -> Place:
        """What a key stands for, or stood for; one that was never given out, for nothing."""
        number = key if isinstance(key, int) else 0
        at = number & ((1 << CHUNK_BITS) - 1)
        dataset_id, name, what = self.places.get(number - at, ("", "", NO_CHUNK))
        if what == 0:
            return dataset_id, name, at
        return (dataset_id, name, what) if not at else ("", "", NO_CHUNK)

    def _changed(self, dataset: Dataset, field: Field, name: str) -> None:
        owner = dataset.owners.get(name)
        if owner is None:
            owner = dataset.owners[name] = next(self._numbers)
            dataset.names[owner] = name
        self._log(dataset, field, owner)
        if not (
            name in dataset.documents
            or name in dataset.sets
            or any((name, layer) in dataset.layers for layer in FIELDS)
        ):
            del dataset.owners[name], dataset.names[owner]

    def _log(self, dataset: Dataset, field: Field | None, owner: int) -> None:
        self.seq += 1
        dataset.log.pop((field, owner), None)
        dataset.log[field, owner] = self.seq

    def reset(self, dataset_id: str) -> None:
        """Log that an index drops all of the dataset and reads again what is stored."""
        dataset = self.write(dataset_id)
        dataset.log.clear()
        self._log(dataset, None, 0)
        for field, name in dataset.indexed():
            self._log(dataset, field, dataset.owners[name])
