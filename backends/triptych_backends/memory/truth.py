"""The truth in dicts: what is stored, and the log of what changed.

Every read happens inside ``with truth:`` and every write inside ``with truth.writing():``, which
hold the one lock. The repositories decide whether something may be done; the methods here do it,
and cannot fail half-way.
"""

from __future__ import annotations

import itertools
import threading
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import attrs

from triptych.contracts import rules
from triptych.errors import StoreError
from triptych.records import (
    NO_CHUNK,
    AnySpace,
    CachedAnswer,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    Layer,
    SourceDocument,
    Vector,
)
from triptych.records.metadata import text_of
from triptych.records.spaces import dense
from triptych.signatures import document_info
from triptych_backends.index.change_log import Field
from triptych_backends.memory.dataset import (
    FIELDS,
    ChunkSet,
    Dataset,
    DatasetState,
    Place,
    StoredDocument,
    StoredLayer,
    has_vector,
)
from triptych_backends.memory.document_changes import DocumentLog
from triptych_backends.memory.vectors import Entries, owner_of, read_plain, texts_of

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
        self.revisions: dict[str, int] = {}
        self.answers: dict[int, CachedAnswer] = {}
        self.hits = 0
        self.misses = 0
        self._lock = threading.RLock()
        self._numbers = itertools.count(1)
        self._closed = False

    def __enter__(self) -> Self:
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise StoreError("this store is closed: open it again")
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """``with truth``, for a write: it is saved at the end, or undone if it cannot be."""
        with self:
            if self._save is None:
                yield self
                return
            datasets = {name: dataset.copy() for name, dataset in self.datasets.items()}
            log = self.document_log.copy()
            before = self.seq, log, dict(self.places), datasets, dict(self.settings)
            self._written = False
            try:
                yield self
                if self._written:
                    states = {name: dataset.state() for name, dataset in self.datasets.items()}
                    self._save(states, self.settings)
            except BaseException:
                self.seq, self.document_log, self.places, self.datasets, self.settings = before
                raise

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
        dataset.quarantined = {(each.doc_name, each.layer): each for each in state.quarantined}
        dataset.usage = {each.model: each for each in state.usage}
        dataset.checkpoints = {name: {**each} for name, each in state.checkpoints.items()}
        dataset.exists = state.exists

    def follow_log_of(self, other: Truth) -> None:
        """Show the log of documents that ``other`` has, of which this is a copy."""
        self.seq, self.nonce, self.document_log = other.seq, other.nonce, other.document_log.copy()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.datasets = {}
            self.places = {}
            self.answers = {}

    def read(self, dataset_id: str) -> Dataset:
        """The dataset; an empty one, kept nowhere, when it is unknown."""
        return self.datasets.get(dataset_id) or Dataset()

    def write(self, dataset_id: str) -> Dataset:
        """The dataset, to be changed: what was answered from it holds no longer."""
        self._written = True
        self.revisions[dataset_id] = next(self._numbers)
        if self.answers:
            self.answers = {
                key: answer
                for key, answer in self.answers.items()
                if dataset_id not in answer.revisions
            }
        return self.datasets.setdefault(dataset_id, Dataset())

    def keep_answer(self, answer: CachedAnswer, most: int) -> None:
        """Keep an answer, and drop the oldest beyond ``most``."""
        self.answers[next(self._numbers)] = answer
        for key in list(self.answers)[: max(len(self.answers) - most, 0)]:
            del self.answers[key]

    def set_setting(self, key: str, value: str | None) -> None:
        """Set a setting; None removes it."""
        self._written = True
        if value is None:
            self.settings.pop(key, None)
        else:
            self.settings[key] = value

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
            del self.places[old.key]
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
            or name in dataset.checkpoints
            or any(
                (name, it) in dataset.layers or (name, it) in dataset.quarantined for it in FIELDS
            )
        ):
            return False
        if name in dataset.documents:
            dataset.floor = max(dataset.floor, dataset.version(name))
            del self.places[dataset.documents.pop(name).key]
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
        self.datasets[dataset_id] = Dataset(floor=max([old.floor, *versions]))
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
        own = [
            dataset.shared(
                (stored and chunk.vector is not None and chunk.sig.embed_sig) or space,
                rules.copy_vector(chunk),
                waits=waits and not stored,
            )
            for chunk in chunks
        ]
        keys = tuple(self._place(dataset_id, name, index) for index in range(len(own)))
        dataset.sets[name] = ChunkSet(sig, keys, tuple(own))
        if old is not None:
            self._forget(dataset, old)
        dataset.kept.bind((name, ""), texts_of(own), sparse=dataset.sparse_space)
        self._changed(dataset, "chunk", name)

    def put_sparse(self, dataset_id: str, name: str, vectors: Entries | None = None) -> bool:
        """Give a set those vectors that are of its texts; whether it is there and waits no more."""
        dataset = self.write(dataset_id)
        chunks = dataset.sets.get(name)
        if chunks is None:
            return False
        digests = texts_of(chunks.chunks)
        space = dataset.sparse_space
        if dataset.kept.bind((name, ""), digests, vectors, sparse=space, keeps_old=True):
            self._changed(dataset, "chunk", name)
        return name not in dataset.kept.waiting

    def rebind_sparse(self, dataset_id: str) -> None:
        """Find the sets that wait, once the dataset may have another sparse space."""
        dataset = self.write(dataset_id)
        for name, chunks in dataset.sets.items():
            space, digests = dataset.sparse_space, texts_of(chunks.chunks)
            dataset.kept.bind((name, ""), digests, sparse=space, keeps_old=True)

    def put_dense(
        self, dataset_id: str, name: str, space: str, vectors: Mapping[str, Vector | None]
    ) -> bool:
        """Give a set those vectors of the serving space that are of its texts; whether it is there
        and waits no more."""
        dataset = self.write(dataset_id)
        old = dataset.sets.get(name)
        if old is None or old.sig.embed_sig == space:
            return old is not None
        chunks = list(old.chunks)
        changed, whole = False, True
        for at, chunk in enumerate(chunks):
            digest = chunk.sig.input_sig
            if has_vector(chunk, space):
                continue
            vector = dataset.vectors.get((space, digest))
            vector = vectors.get(digest) if vector is None else vector
            whole = whole and (vector is not None or digest in vectors)
            if vector is not None:
                new = rules.copy_vector(attrs.evolve(chunk, vector=vector))
                chunks[at] = dataset.shared(space, new)
                dataset.unshare(chunk)
                changed = True
        if not (changed or whole):
            return False
        sig = attrs.evolve(old.sig, embed_sig=space if whole else "")
        dataset.sets[name] = ChunkSet(sig, old.keys, tuple(chunks))
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
            dataset.kept.remove((name, ""))
            self._changed(dataset, "chunk", name)

    def swap_in(self, dataset_id: str, new: str) -> None:
        """Let a kept space serve, if it is one, and keep what serves: before the configuration
        changes."""
        dataset = self.write(dataset_id)
        old = dataset.config.embed_sig if dataset.config else ""
        before, after = dense(old), dense(new)
        if after not in dataset.kept.spaces:
            return
        given = dict(dataset.kept.uses)
        entries: dict[str, Any] = {**dataset.kept.take(after)}
        for name, chunks in dataset.sets.items():
            own, serving = [], dict[tuple[AnySpace, str], Vector | None]()
            for chunk in chunks.chunks:
                digest, space = chunk.sig.input_sig, chunk.sig.embed_sig
                if chunk.vector is not None and space == old:
                    serving[before, digest] = chunk.vector
                elif chunk.vector is None and chunks.sig.embed_sig == old:
                    serving[before, digest] = None
                dataset.unshare(chunk)
                bare = attrs.evolve(chunk, vector=entries.get(digest))
                own.append(dataset.shared(new, bare))
            if old:
                dataset.kept.keep((name, ""), {k: v for k, v in serving.items() if k[1]})
            is_whole = all(chunk.sig.input_sig in entries for chunk in own)
            sig = attrs.evolve(chunks.sig, embed_sig=new if is_whole else "")
            # The index asks for vectors by these keys: none ever names one of another space.
            for key in chunks.keys:
                del self.places[key]
            keys = tuple(self._place(dataset_id, name, index) for index in range(len(own)))
            dataset.sets[name] = ChunkSet(sig, keys, tuple(own))
        for place, made in dataset.layers.items():
            layer, owner, texts = made.layer, owner_of(made.layer), texts_of(made.layer)
            (digest,) = texts
            if old and layer.sig.embed_sig == old:
                dataset.kept.keep(owner, {(before, digest): layer.vector})
            if (after, digest) in given.get(owner, ()):
                sig = attrs.evolve(layer.sig, embed_sig=new)
                given_layer = attrs.evolve(layer, sig=sig, vector=entries[digest])
                del self.places[made.key]
                dataset.layers[place] = StoredLayer(self._place(dataset_id, *place), given_layer)

    def _forget(self, dataset: Dataset, old: ChunkSet) -> None:
        for key in old.keys:
            del self.places[key]
        for chunk in old.chunks:
            dataset.unshare(chunk)

    # Layers

    def store_layer(self, layer: DerivedLayer) -> None:
        dataset = self.write(layer.dataset_id)
        place = (layer.doc_name, layer.layer)
        old = dataset.layers.get(place)
        key = self._place(layer.dataset_id, *place)
        dataset.layers[place] = StoredLayer(key, rules.copy_vector(layer))
        if old is not None:
            del self.places[old.key]
        dataset.kept.bind(owner_of(layer), texts_of(layer))
        self._changed(dataset, FIELDS[layer.layer], layer.doc_name)

    def remove_layers(self, dataset_id: str, name: str) -> None:
        held = self.read(dataset_id)
        keys = [(name, layer) for layer in FIELDS]
        if name not in held.checkpoints and not any(
            key in held.layers or key in held.quarantined for key in keys
        ):
            return  # a write of nothing would end answers
        dataset = self.write(dataset_id)
        dataset.checkpoints.pop(name, None)
        for layer in FIELDS:
            dataset.quarantined.pop((name, layer), None)
            self.remove_layer(dataset_id, name, layer)

    def remove_layer(self, dataset_id: str, name: str, layer: Layer) -> None:
        dataset = self.write(dataset_id)
        old = dataset.layers.pop((name, layer), None)
        if old is not None:
            del self.places[old.key]
            dataset.kept.remove(owner_of(old.layer))
            self._changed(dataset, FIELDS[layer], name)

    # Keys, owners and the change log

    def _place(self, dataset_id: str, name: str, what: int | Layer) -> int:
        key = next(self._numbers)
        self.places[key] = (dataset_id, name, what)
        return key

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
