"""A whole storage backend in one JSON file: an example to copy, for some thousand chunks.

All of it is held in memory, and written again at each change. Readers take no lock: what they
read is never altered, a change puts another in its place. The reads are `triptych.reading`'s,
the decisions `triptych.rules`'; here is what keeps and changes. POSIX only, for its file lock.
"""

import fcntl
import functools
import itertools
import json
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import attrs

from triptych import contracts, errors, records as r, rules
from triptych.kept import Kept, KeptLayer, KeptSet
from triptych.reading import ReadChunks, ReadDocuments, ReadLayers
from triptych.records.serialization import from_dict, to_dict

ChunkSet = tuple[str, Sequence[r.DerivedChunk], r.DerivedSig]  # the document's name first


@attrs.frozen(kw_only=True)
class Dataset(Kept):
    """All there is of a dataset; of a deleted one, ``used`` alone is left."""

    used: int = 0  # the greatest version ever deleted
    widths: Mapping[str, int] = attrs.field(factory=dict)  # of vectors, by embedding space


class JsonStore:
    """A store in the file ``path``: what its three repositories do is said in the contracts.

    For any number of threads, and one process at a time: a second opener gets a
    `StoreLockedError` until the first has closed the store, or has died.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._writing = Path(path), threading.Lock()
        with self._mapped_errors(), ExitStack() as undo:
            self._guard = undo.enter_context(open(f"{path}.lock", "wb"))
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            stored = json.loads(self._path.read_bytes()) if self._path.exists() else {}
            self._datasets = {name: from_dict(Dataset, data) for name, data in stored.items()}
            undo.pop_all()
        self.documents: contracts.DocumentRepo = _Documents(self)
        self.chunks: contracts.ChunkRepo = _Chunks(self)
        self.layers: contracts.LayerRepo = _Layers(self)

    def close(self) -> None:
        """Let another open the store. Any later call but this one raises `StoreError`."""
        with self._writing:
            self._guard.close()

    def datasets(self) -> Mapping[str, Dataset]:
        """All datasets by id, as they are now."""
        if self._guard.closed:
            raise errors.StoreError(f"{self._path} was closed: open it again")
        return self._datasets

    @contextmanager
    def writing(self, dataset_id: str) -> Iterator[tuple[Dataset, Callable[..., None]]]:
        """The dataset, which nobody else changes meanwhile, and what stores it with changes."""
        with self._writing:
            data = self.datasets().get(dataset_id, Dataset())
            yield data, functools.partial(self._store, dataset_id, data)

    def _store(self, dataset_id: str, data: Dataset, **changes: Any) -> None:
        datasets = {**self._datasets, dataset_id: attrs.evolve(data, **changes)}
        with self._mapped_errors(), open(f"{self._path}.new", "w") as file:
            file.write(json.dumps(to_dict(datasets)))
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, self._path)
            try:
                folder = os.open(self._path.parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            except OSError:
                self._guard.close()  # whether the change lasts, the next to open will see
                raise
        self._datasets = datasets

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise errors.StoreLockedError(f"{self._path} is open: close it there") from error
        except OSError as error:
            raise errors.StoreError(f"{self._path} cannot be used: {error}") from error
        except ValueError as error:
            raise errors.CorruptStoreError(f"{self._path} is damaged: {error}") from error


class _Documents(ReadDocuments[JsonStore]):
    def put(self, dataset_id: str, document: r.NewDocument) -> r.SourceDocument:
        return rules.document_of(self.put_many(dataset_id, [document])[0])

    def put_many(self, dataset_id: str, documents: Sequence[r.NewDocument]) -> list[r.PutOutcome]:
        with self.store.writing(dataset_id) as (data, store):
            outcomes, new = rules.after_puts(dataset_id, documents, data.documents, data.used)
            if new:
                store(exists=True, documents={**data.documents, **new})
            return outcomes

    def load(self, document: r.SourceDocument) -> None:
        with self.store.writing(document.dataset_id) as (data, store):
            stored, new = data.documents.get(document.name), rules.copy_document(document)
            if rules.check_loadable(new, stored, data.used):
                store(exists=True, documents={**data.documents, new.name: new})

    def create_dataset(self, dataset_id: str) -> bool:
        with self.store.writing(dataset_id) as (data, store):
            if not data.exists:
                store(exists=True)
            return not data.exists

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        with self.store.writing(dataset_id) as (data, store):
            rules.check_delete(dataset_id, name, if_version, data.version(name))
            if data.has(name):
                store(used=max(data.used, data.version(name)), **data.without(name))
            return name in data.documents

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> list[str]:
        with self.store.writing(dataset_id) as (data, store):
            orphans = data.orphans(names)
            if orphans:
                store(**data.without(*orphans))
            return orphans

    def delete_dataset(self, dataset_id: str) -> bool:
        with self.store.writing(dataset_id) as (data, store):
            versions = [document.version for document in data.documents.values()]
            nothing: dict[str, Any] = {"documents": {}, "sets": {}, "layers": {}, "widths": {}}
            store(exists=False, used=max([data.used, *versions]), config=None, **nothing)
            return data.exists


class _Chunks(ReadChunks[JsonStore]):
    def configure(
        self, dataset_id: str, config: r.DatasetConfig, *, expected: r.DatasetConfig | None
    ) -> bool:
        with self.store.writing(dataset_id) as (data, store):
            if data.config == expected:
                store(config=config)
            return data.config == expected

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[r.DerivedChunk], *, sig: r.DerivedSig
    ) -> bool:
        return self.replace_many(dataset_id, [(doc_name, chunks, sig)])[0]

    def replace_many(self, dataset_id: str, sets: Sequence[ChunkSet]) -> list[bool]:
        with self.store.writing(dataset_id) as (data, store):
            new, widths = dict(data.sets), data.widths
            done = [rules.can_replace(data.config, data.version(it[0]), it[2]) for it in sets]
            for name, chunks, sig in itertools.compress(sets, done):
                widths = rules.check_widths(widths, [(sig.embed_sig, it.vector) for it in chunks])
                new[name] = KeptSet(sig=sig, chunks=tuple(map(rules.copy_vector, chunks)))
            if any(done):
                store(sets=new, widths=widths)
            return done

    def update_source_version(self, dataset_id: str, doc_name: str, sig: r.DerivedSig) -> bool:
        with self.store.writing(dataset_id) as (data, store):
            old = self.get_doc_sig(dataset_id, doc_name)
            done = rules.can_update_source_version(old, data.version(doc_name), sig)
            if done:
                new = attrs.evolve(data.sets[doc_name], sig=sig)
                store(sets={**data.sets, doc_name: new})
            return done

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self.store.writing(dataset_id) as (data, store):
            if doc_name in data.sets:
                store(sets=data.without(doc_name)["sets"])

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self.store.writing(dataset_id) as (_, store):
            store(sets={}, config=None)


class _Layers(ReadLayers[JsonStore]):
    def put(self, layer: r.DerivedLayer) -> bool:
        with self.store.writing(layer.dataset_id) as (data, store):
            name = layer.doc_name
            if not rules.may_put_layer(layer, data.version(name)):
                return False
            vectors = [(layer.sig.embed_sig, layer.vector)]
            new = {layer.layer: KeptLayer(layer=rules.copy_vector(layer))}
            layers = {**data.layers, name: {**data.layers.get(name, {}), **new}}
            store(layers=layers, widths=rules.check_widths(data.widths, vectors))
            return True

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self.store.writing(dataset_id) as (data, store):
            if doc_name in data.layers:
                store(layers=data.without(doc_name)["layers"])

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self.store.writing(dataset_id) as (_, store):
            store(layers={})
