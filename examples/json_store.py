"""A whole storage backend in one JSON file: an example to copy, for some thousand chunks.

All of it is held in memory, and written anew at each change. Readers take no lock: what they
read is never altered, a change puts another in its place. POSIX only, for its file lock.
"""

import base64
import fcntl
import json
import os
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

import attrs
import numpy as np

from triptych import contracts, errors, records as r
from triptych.search.exhaustive import Unit, passes, rank
from triptych.signatures import document_info

Plain = dict[str, Any]  # a record, or all of a dataset, as JSON has it
Record = TypeVar("Record", bound=attrs.AttrsInstance)
EMPTY: Plain = {"exists": False, "deleted": 0, "config": None, "documents": {}}
# By document's name, the chunk set (L2) or the layer: {"id", "sig", "units"}.
EMPTY |= {"L0": {}, "L1": {}, "L2": {}}
READ: dict[str, Callable[[Any], Any]] = {
    "heading_path": tuple,
    "metadata": dict,  # a copy: the caller may write into it
    "sig": lambda sig: r.DerivedSig(**sig),
    "updated_at": datetime.fromisoformat,
    "vector": lambda text: text and np.frombuffer(base64.b64decode(text), "<f4").copy(),
}


def _record(kind: type[Record], plain: Plain) -> Record:
    names = [field.name for field in attrs.fields(kind) if field.name in plain]
    return kind(**{name: READ.get(name, lambda it: it)(plain[name]) for name in names})


def _plain(record: attrs.AttrsInstance) -> Plain:
    def write(_: Any, __: Any, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return base64.b64encode(value.astype("<f4").tobytes()).decode()
        if isinstance(value, datetime):
            return value.isoformat()
        return dict(value) if isinstance(value, Mapping) else value

    return attrs.asdict(record, value_serializer=write)


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
            stored = self._path.read_bytes() if self._path.exists() else b"{}"
            self._datasets: dict[str, Plain] = json.loads(stored)
            undo.pop_all()
        self.documents: contracts.DocumentRepo = _Documents(self)
        self.chunks: contracts.ChunkRepo = _Chunks(self, kinds=("L2",))
        self.layers: contracts.LayerRepo = _Layers(self, kinds=("L0", "L1"))

    def close(self) -> None:
        """Let another open the store. Any later call but this one raises `StoreError`."""
        with self._writing:
            self._guard.close()

    def datasets(self) -> dict[str, Plain]:
        """All datasets by id as they are now, not to be altered."""
        if self._guard.closed:
            raise errors.StoreError(f"{self._path} was closed: open it again")
        return self._datasets

    def dataset(self, dataset_id: str) -> Plain:
        """The dataset as it is now, not to be altered."""
        return self.datasets().get(dataset_id, EMPTY)

    @contextmanager
    def change(self, dataset_id: str) -> Iterator[Plain]:
        """The dataset, to be altered two levels deep; stored unless the block raises."""
        with self._writing:
            old = self.dataset(dataset_id)
            new = {key: dict(it) if isinstance(it, dict) else it for key, it in old.items()}
            yield new
            if new != old:
                self._write(self._datasets | {dataset_id: new})

    def _write(self, datasets: dict[str, Plain]) -> None:
        with self._mapped_errors():
            with open(f"{self._path}.new", "w") as file:
                file.write(json.dumps(datasets))
                file.flush()
                os.fsync(file.fileno())
            os.replace(file.name, self._path)
            self._datasets = datasets
            folder = os.open(self._path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise errors.StoreLockedError(f"{self._path} is open: close it there") from error
        except OSError as error:
            raise errors.StoreError(f"{self._path} cannot be used: {error}") from error
        except ValueError as error:
            raise errors.CorruptStoreError(f"{self._path} is damaged: restore it") from error


@attrs.frozen
class _Documents:
    store: JsonStore

    def put(self, dataset_id: str, document: r.NewDocument) -> r.SourceDocument:
        with self.store.change(dataset_id) as data:
            old = data["documents"].get(document.name, {"version": 0})
            version, new = old["version"], _plain(document)
            if new.pop("if_version") not in (None, version):
                message = f"{document.name!r} is at version {version}: read it again"
                raise errors.ConflictError(message, expected=document.if_version, actual=version)
            if any(old.get(key) != new[key] for key in ("content", "metadata")):
                new["dataset_id"], new["updated_at"] = dataset_id, datetime.now(UTC).isoformat()
                old = new | {"version": max(version, data["deleted"]) + 1}
                data["documents"][document.name], data["exists"] = old, True
            return _record(r.SourceDocument, old)

    def load(self, document: r.SourceDocument) -> None:
        with self.store.change(document.dataset_id) as data:
            old = _document(data, document.name)
            if old == document:
                return
            if document.version <= max(data["deleted"], old.version if old else 0):
                raise errors.ConflictError(f"{document.name!r} had version {document.version}")
            data["documents"][document.name], data["exists"] = _plain(document), True

    def get(self, dataset_id: str, name: str) -> r.SourceDocument | None:
        return _document(self.store.dataset(dataset_id), name)

    def get_info(self, dataset_id: str, name: str) -> r.DocumentInfo | None:
        return _info(self.store.dataset(dataset_id), name)

    def list(
        self, dataset_id: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> Sequence[r.DocumentInfo]:
        found = self.store.dataset(dataset_id)["documents"]
        names = sorted(name for name in found if name.startswith(prefix) and name > after)
        return [document_info(_record(r.SourceDocument, found[name])) for name in names[:limit]]

    def list_datasets(self) -> Sequence[str]:
        return sorted(name for name, data in self.store.datasets().items() if data["exists"])

    def delete(self, dataset_id: str, name: str) -> bool:
        with self.store.change(dataset_id) as data:
            old = data["documents"].pop(name, None)
            for kind in r.Layer:
                data[kind].pop(name, None)
            data["deleted"] = max(data["deleted"], old["version"] if old else 0)
            return old is not None

    def delete_dataset(self, dataset_id: str) -> bool:
        with self.store.change(dataset_id) as data:
            existed: bool = data["exists"]
            used = [document["version"] for document in data["documents"].values()]
            data.update(EMPTY, deleted=max([data["deleted"], *used]))
            return existed


@attrs.frozen
class _Derived:
    store: JsonStore
    kinds: tuple[str, ...]

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self.store.change(dataset_id) as data:
            for kind in self.kinds:
                data[kind].pop(doc_name, None)

    def search(self, query: r.ChunkQuery) -> Sequence[r.Candidate]:
        datasets, units = self.store.datasets(), []
        kind = query.layer if isinstance(query, r.LayerQuery) else "L2"
        for dataset_id in set(query.dataset_ids):
            data = datasets.get(dataset_id, EMPTY)
            config = data["config"] or {"embed_sig": "", "language": "english"}
            fixed = {"dataset_id": dataset_id, "language": config["language"]}
            for name, kept in data[kind].items():
                info, sig = _info(data, name), r.DerivedSig(**kept["sig"])
                chunks = data["L2"].get(name, {"units": []})["units"]
                headings = [heading for chunk in chunks for heading in chunk["heading_path"]]
                fixed |= {"doc_name": name, "embed_sig": sig.embed_sig}
                in_space = sig.embed_sig == config["embed_sig"]
                for n, plain in enumerate(kept["units"]):
                    own = plain.get("heading_path", headings)  # a layer has its document's
                    own_fields = {
                        "key": (dataset_id, kind, name, kept["id"], n),
                        "index": plain.get("index", r.NO_CHUNK),
                        "text": plain["content"],
                        "vector": READ["vector"](plain["vector"]) if in_space else None,
                        "passing": passes(
                            query.filter, name, sig, info, headings=own, layer=kind != "L2"
                        ),
                    }
                    units.append(Unit(**fixed, **own_fields))
        return rank(query, units)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, r.Found]:
        datasets, found = self.store.datasets(), {}
        for key in keys:
            dataset_id, kind, name, kept_id, n = cast(tuple[str, str, str, str, int], key)
            data = datasets.get(dataset_id, EMPTY)
            kept, info = data[kind].get(name), _info(data, name)
            if kept and kept["id"] == kept_id:
                what = {"chunk" if kind == "L2" else "layer": _unit(kept, n)}
                sig = r.DerivedSig(**kept["sig"])
                found[key] = r.Found(key=key, sig=sig, document=info, **what)
        return found


class _Chunks(_Derived):
    def config(self, dataset_id: str) -> r.DatasetConfig | None:
        plain = self.store.dataset(dataset_id)["config"]
        return r.DatasetConfig(**plain) if plain else None

    def configure(
        self, dataset_id: str, config: r.DatasetConfig, *, expected: r.DatasetConfig | None
    ) -> bool:
        with self.store.change(dataset_id) as data:
            done: bool = data["config"] == (expected and _plain(expected))
            data["config"] = _plain(config) if done else data["config"]
            return done

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[r.DerivedChunk], *, sig: r.DerivedSig
    ) -> bool:
        with self.store.change(dataset_id) as data:
            made_with = {"chunker_sig": sig.chunker_sig, "embed_sig": sig.embed_sig}
            as_configured = made_with.items() <= (data["config"] or {}).items()
            done = as_configured and _is_at(data, doc_name, sig)
            if done:
                _keep(data, r.Layer.DETAIL, doc_name, chunks, sig)
            return done

    def restamp(self, dataset_id: str, doc_name: str, sig: r.DerivedSig) -> bool:
        with self.store.change(dataset_id) as data:
            kept, new = data["L2"].get(doc_name), _plain(sig)
            if not kept or not _is_at(data, doc_name, sig):
                return False
            done = all(kept["sig"][k] == new[k] for k in ("input_sig", "chunker_sig", "embed_sig"))
            data["L2"][doc_name] = kept | ({"sig": new} if done else {})
            return done

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> r.DerivedSig | None:
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, r.DerivedSig]:
        sets = self.store.dataset(dataset_id)["L2"]
        return {name: r.DerivedSig(**sets[name]["sig"]) for name in doc_names if name in sets}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        return sorted(self.store.dataset(dataset_id)["L2"])

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[r.DerivedChunk]:
        sets = sorted(self.store.dataset(dataset_id)["L2"].items())
        kept = [one for name, one in sets if doc_name in (None, name)]
        return (_unit(one, n, vectors) for one in kept for n in range(len(one["units"])))

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, r.Vector]:
        wanted, kept = set(input_sigs), self.store.dataset(dataset_id)["L2"].values()
        chunks = [c for one in kept if one["sig"]["embed_sig"] == embed_sig for c in one["units"]]
        known = {c["sig"]["input_sig"]: c["vector"] for c in chunks if c["vector"]}
        return {sig: READ["vector"](known[sig]) for sig in wanted & known.keys()}

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self.store.change(dataset_id) as data:
            data.update(L2={}, config=None)


class _Layers(_Derived):
    def put(self, layer: r.DerivedLayer) -> bool:
        with self.store.change(layer.dataset_id) as data:
            of_document = layer.doc_name and not layer.doc_name.endswith("/")
            if of_document and not _is_at(data, layer.doc_name, layer.sig):
                return False
            _keep(data, layer.layer, layer.doc_name, [attrs.evolve(layer, stale=None)], layer.sig)
            return True

    def get(self, dataset_id: str, doc_name: str, layer: r.Layer) -> r.DerivedLayer | None:
        found = self.list(dataset_id, layer=layer)
        return next((it for it in found if it.doc_name == doc_name), None)

    def list(self, dataset_id: str, *, layer: r.Layer | None = None) -> Sequence[r.DerivedLayer]:
        data = self.store.dataset(dataset_id)
        found = [_unit(it) for kind in self.kinds for it in data[kind].values()]
        found = [it for it in found if layer in (None, it.layer)]
        return sorted(found, key=lambda it: (it.doc_name, it.layer))

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self.store.change(dataset_id) as data:
            data.update(L0={}, L1={})


def _is_at(data: Plain, name: str, sig: r.DerivedSig) -> bool:
    return name in data["documents"] and data["documents"][name]["version"] == sig.source_version


def _document(data: Plain, name: str) -> r.SourceDocument | None:
    plain = data["documents"].get(name)
    return _record(r.SourceDocument, plain) if plain else None


def _info(data: Plain, name: str) -> r.DocumentInfo | None:
    document = _document(data, name)
    return document_info(document) if document else None


def _keep(data: Plain, kind: str, name: str, units: Sequence[Any], sig: r.DerivedSig) -> None:
    data[kind][name] = {"id": uuid4().hex, "sig": _plain(sig), "units": [_plain(u) for u in units]}
    kept = [one for kind in r.Layer for one in data[kind].values()]
    units = [u for one in kept if one["sig"]["embed_sig"] == sig.embed_sig for u in one["units"]]
    if len({len(unit["vector"]) for unit in units if unit["vector"]}) > 1:
        raise errors.ModelMismatchError(f"{name!r}: vectors of two widths in {sig.embed_sig!r}")


def _unit(kept: Plain, n: int = 0, vectors: bool = False) -> Any:
    plain = kept["units"][n]
    sig = kept["sig"] | {"input_sig": plain["sig"]["input_sig"]}
    vector = plain["vector"] if vectors else None
    kind = r.DerivedChunk if "index" in plain else r.DerivedLayer
    return _record(kind, plain | {"sig": sig, "vector": vector})
