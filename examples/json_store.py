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
from typing import Any, TypeVar
from uuid import uuid4

import attrs
import numpy as np

from triptych import contracts, errors, records as r
from triptych.search.exhaustive import Unit, passes, rank
from triptych.signatures import document_info

Plain = dict[str, Any]  # a record, or all of a dataset, as JSON has it
EMPTY: Plain = {"exists": False, "deleted": 0, "config": None, "documents": {}}
EMPTY |= {"L0": {}, "L1": {}, "L2": {}}  # by document's name: {"id", "sig", "units"}; L2: chunks
Record = TypeVar("Record", bound=attrs.AttrsInstance)
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
        return value.isoformat() if isinstance(value, datetime) else value

    return attrs.asdict(record, value_serializer=write)


class JsonStore:
    """Documents and chunks in the file ``path``, with their ``layers``: see the contracts.

    For any number of threads, and one process at a time: another opener is refused with
    `StoreLockedError` until this one closes or its process dies.
    """

    def __init__(self, path: str | Path) -> None:
        self._path, self._writing = Path(path), threading.Lock()
        self._state: dict[str, Plain] = {}  # by dataset
        with self._mapped_errors(), ExitStack() as stack:
            self._guard = stack.enter_context(open(f"{path}.lock", "wb"))
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._path.exists():
                self._state = json.loads(self._path.read_bytes())
            stack.pop_all()  # all went well: the lock is kept until `close`
        self.documents: contracts.DocumentRepo = self
        self.chunks: contracts.ChunkRepo = self
        self.layers: contracts.LayerRepo = _Layers(self)

    def close(self) -> None:
        with self._writing:
            self._guard.close()

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise errors.StoreLockedError(f"{self._path} is open: close it first") from error
        except OSError as error:
            raise errors.StoreError(f"{self._path} cannot be used: {error}") from error
        except ValueError as error:
            raise errors.CorruptStoreError(f"{self._path} is damaged: restore it") from error

    def state(self) -> dict[str, Plain]:
        """All datasets as they are now, not to be altered."""
        if self._guard.closed:
            raise errors.StoreError(f"{self._path} was closed: open it again")
        return self._state

    def dataset(self, dataset_id: str) -> Plain:
        return self.state().get(dataset_id, EMPTY)

    @contextmanager
    def change(self, dataset_id: str) -> Iterator[Plain]:
        """The dataset, to be altered two levels deep; stored unless the block raises."""
        with self._writing:
            old = self.dataset(dataset_id)
            new = {key: dict(it) if isinstance(it, dict) else it for key, it in old.items()}
            yield new
            if new != old:
                self._write(self._state | {dataset_id: new})

    def _write(self, state: dict[str, Plain]) -> None:
        with self._mapped_errors():
            with open(f"{self._path}.new", "w") as file:
                file.write(json.dumps(state))
                file.flush()
                os.fsync(file.fileno())
            os.replace(file.name, self._path)
            self._state = state
            folder = os.open(self._path.parent, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)

    def put(self, dataset_id: str, document: r.NewDocument) -> r.SourceDocument:
        with self.change(dataset_id) as data:
            old = data["documents"].get(document.name, {"version": 0})
            new = {"dataset_id": dataset_id, "version": max(old["version"], data["deleted"]) + 1}
            new |= _plain(document) | {"updated_at": datetime.now(UTC).isoformat()}
            if new.pop("if_version") not in (None, old["version"]):
                raise errors.ConflictError(f"{document.name!r} is at version {old['version']}")
            if old["version"] and all(old[key] == new[key] for key in ("content", "metadata")):
                return _record(r.SourceDocument, old)
            return self._keep(data, _record(r.SourceDocument, new))

    def load(self, document: r.SourceDocument) -> None:
        with self.change(document.dataset_id) as data:
            old = data["documents"].get(document.name, {"version": 0})
            if old["version"] and _record(r.SourceDocument, old) == document:
                return
            if document.version <= max(old["version"], data["deleted"]):
                raise errors.ConflictError(f"{document.version} of {document.name!r} is used up")
            self._keep(data, document)

    def _keep(self, data: Plain, document: r.SourceDocument) -> r.SourceDocument:
        plain = _plain(document) | _plain(document_info(document))
        data["exists"], data["documents"][document.name] = True, plain
        return document

    def get(self, dataset_id: str, name: str) -> r.SourceDocument | None:
        plain = self.dataset(dataset_id)["documents"].get(name)
        return _record(r.SourceDocument, plain) if plain else None

    def get_info(self, dataset_id: str, name: str) -> r.DocumentInfo | None:
        return _info(self.dataset(dataset_id), name)

    def list(
        self, dataset_id: str, *, prefix: str = "", after: str = "", limit: int | None = None
    ) -> Sequence[r.DocumentInfo]:
        documents = self.dataset(dataset_id)["documents"]
        names = sorted(name for name in documents if name.startswith(prefix) and name > after)
        return [_record(r.DocumentInfo, documents[name]) for name in names[:limit]]

    def list_datasets(self) -> Sequence[str]:
        return sorted(name for name, data in self.state().items() if data["exists"])

    def delete(self, dataset_id: str, name: str) -> bool:
        with self.change(dataset_id) as data:
            old = [data[kind].pop(name, None) for kind in ("documents", "L0", "L1", "L2")][0]
            data["deleted"] = max(data["deleted"], old["version"] if old else 0)
            return old is not None

    def delete_dataset(self, dataset_id: str) -> bool:
        with self.change(dataset_id) as data:
            existed: bool = data["exists"]
            versions = [document["version"] for document in data["documents"].values()]
            data.update(EMPTY, deleted=max(versions + [data["deleted"]]))
            return existed

    def config(self, dataset_id: str) -> r.DatasetConfig | None:
        plain = self.dataset(dataset_id)["config"]
        return r.DatasetConfig(**plain) if plain else None

    def configure(
        self, dataset_id: str, config: r.DatasetConfig, *, expected: r.DatasetConfig | None
    ) -> bool:
        with self.change(dataset_id) as data:
            as_expected: bool = data["config"] == (expected and _plain(expected))
            data["config"] = _plain(config) if as_expected else data["config"]
            return as_expected

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[r.DerivedChunk], *, sig: r.DerivedSig
    ) -> bool:
        with self.change(dataset_id) as data:
            want = {"chunker_sig": sig.chunker_sig, "embed_sig": sig.embed_sig}
            made_so = want.items() <= (data["config"] or {}).items()
            return (
                made_so and _is_at(data, doc_name, sig) and _keep(data, "L2", doc_name, chunks, sig)
            )

    def restamp(self, dataset_id: str, doc_name: str, sig: r.DerivedSig) -> bool:
        with self.change(dataset_id) as data:
            old, new = data["L2"].get(doc_name), _plain(sig)
            keys = ("input_sig", "chunker_sig", "embed_sig")
            fits = (
                old and all(old["sig"][k] == new[k] for k in keys) and _is_at(data, doc_name, sig)
            )
            if fits:
                data["L2"][doc_name] = old | {"sig": new}
            return bool(fits)

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> r.DerivedSig | None:
        return self.get_doc_sigs(dataset_id, [doc_name]).get(doc_name)

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, r.DerivedSig]:
        sets = self.dataset(dataset_id)["L2"]
        return {name: r.DerivedSig(**sets[name]["sig"]) for name in doc_names if name in sets}

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        return sorted(self.dataset(dataset_id)["L2"])

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[r.DerivedChunk]:
        sets = self.dataset(dataset_id)["L2"]
        names = sorted(sets) if doc_name is None else [doc_name] if doc_name in sets else []
        kept = [(sets[name], n) for name in names for n in range(len(sets[name]["units"]))]
        return (_unit(r.DerivedChunk, sets, n, vectors) for sets, n in kept)

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self.change(dataset_id) as data:
            data["L2"].pop(doc_name, None)

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self.change(dataset_id) as data:
            data.update(L2={}, config=None)

    def search(self, query: r.ChunkQuery) -> Sequence[r.Candidate]:
        return _search(self.state(), query, "L2")

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, r.Found]:
        return _fetch(self.state(), keys)


class _Layers:
    def __init__(self, store: JsonStore) -> None:
        self._store = store
        self.fetch = store.fetch

    def put(self, layer: r.DerivedLayer) -> bool:
        with self._store.change(layer.dataset_id) as data:
            name, sig = layer.doc_name, layer.sig
            free = name.endswith("/") or not name
            return (free or _is_at(data, name, sig)) and _keep(
                data, layer.layer, name, [layer], sig
            )

    def get(self, dataset_id: str, doc_name: str, layer: r.Layer) -> r.DerivedLayer | None:
        kept = self._store.dataset(dataset_id)[layer].get(doc_name)
        return _unit(r.DerivedLayer, kept) if kept else None

    def list(self, dataset_id: str, *, layer: r.Layer | None = None) -> Sequence[r.DerivedLayer]:
        data = self._store.dataset(dataset_id)
        kinds = [layer] if layer else ["L0", "L1"]
        found = [_unit(r.DerivedLayer, kept) for kind in kinds for kept in data[kind].values()]
        return sorted(found, key=lambda layer: (layer.doc_name, layer.layer))

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        with self._store.change(dataset_id) as data:
            _ = data["L0"].pop(doc_name, None), data["L1"].pop(doc_name, None)

    def delete_by_dataset(self, dataset_id: str) -> None:
        with self._store.change(dataset_id) as data:
            data.update(L0={}, L1={})

    def search(self, query: r.LayerQuery) -> Sequence[r.Candidate]:
        return _search(self._store.state(), query, query.layer)


def _is_at(data: Plain, name: str, sig: r.DerivedSig) -> bool:
    return name in data["documents"] and data["documents"][name]["version"] == sig.source_version


def _info(data: Plain, name: str) -> r.DocumentInfo | None:
    plain = data["documents"].get(name)
    return _record(r.DocumentInfo, plain) if plain else None


def _keep(data: Plain, kind: str, name: str, units: Sequence[Any], sig: r.DerivedSig) -> bool:
    plain = [_plain(unit) | {"stale": None} for unit in units]
    data[kind][name] = {"id": uuid4().hex, "sig": _plain(sig), "units": plain}
    kept = [
        k for kind in r.Layer for k in data[kind].values() if k["sig"]["embed_sig"] == sig.embed_sig
    ]
    if len({len(unit["vector"]) for k in kept for unit in k["units"] if unit["vector"]}) > 1:
        raise errors.ModelMismatchError(f"vectors of two widths in {sig.embed_sig!r}")
    return True


def _unit(kind: type[Record], kept: Plain, n: int = 0, vectors: bool = False) -> Record:
    plain = kept["units"][n]
    sig = kept["sig"] | {"input_sig": plain["sig"]["input_sig"]}
    return _record(kind, plain | {"sig": sig, "vector": plain["vector"] if vectors else None})


def _search(state: dict[str, Plain], query: r.ChunkQuery, kind: str) -> Sequence[r.Candidate]:
    units = []
    for dataset_id in set(query.dataset_ids):
        data = state.get(dataset_id, EMPTY)
        config = data["config"] or {"embed_sig": "", "language": "english"}
        for name, kept in data[kind].items():
            info, sig = _info(data, name), r.DerivedSig(**kept["sig"])
            chunks = data["L2"].get(name, {"units": []})["units"]
            headings = [heading for chunk in chunks for heading in chunk["heading_path"]]
            for n, unit in enumerate(kept["units"]):
                in_space = sig.embed_sig == config["embed_sig"]
                units.append(
                    Unit(
                        dataset_id=dataset_id,
                        doc_name=name,
                        index=n if kind == "L2" else r.NO_CHUNK,
                        key=(dataset_id, kind, name, kept["id"], n),
                        text=unit["content"],
                        vector=READ["vector"](unit["vector"]) if in_space else None,
                        embed_sig=sig.embed_sig,
                        language=config["language"],
                        passing=passes(
                            query.filter,
                            name,
                            sig,
                            info,
                            headings=unit.get("heading_path", headings),
                            layer=kind != "L2",
                        ),
                    )
                )
    return rank(query, units)


def _fetch(state: dict[str, Plain], keys: Sequence[Hashable]) -> Mapping[Hashable, r.Found]:
    found = {}
    for key in keys:
        dataset_id, kind, name, kept_id, n = key
        data = state.get(dataset_id, EMPTY)
        kept = data[kind].get(name)
        if kept and kept["id"] == kept_id:
            unit = (
                {"chunk": _unit(r.DerivedChunk, kept, n)}
                if kind == "L2"
                else {"layer": _unit(r.DerivedLayer, kept)}
            )
            found[key] = r.Found(
                key=key, sig=r.DerivedSig(**kept["sig"]), document=_info(data, name), **unit
            )
    return found
