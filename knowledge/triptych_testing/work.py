"""A child process on the same store, for the conformance tests.

It reads and writes lines of JSON. It is run as ``python -m triptych_testing.work``.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, Self

import attrs

from triptych.errors import ConflictError, NotFoundError
from triptych.records import Layer, NewDocument
from triptych.service import Service, ServiceOptions
from triptych_testing.builders import derive, ids, keyword_query, layer_of, put
from triptych_testing.fakes import FakeEmbedder, kept_open

if TYPE_CHECKING:
    from triptych.chunking import ChunkerSet
    from triptych.contracts import Embedder, SparseEncoder, Store


@attrs.frozen(kw_only=True)
class Child:
    """How another process opens the same store: ``module:function`` called with ``argument``.

    ``function`` may be dotted (``Store.open``). The module must be importable with the parent's
    ``sys.path``.
    """

    opener: str
    argument: str


class Worker:
    """A process that runs `triptych_testing.work`. A context manager; leaving it ends it.

    It may open one store after the other, for starting a process takes longer than most tests.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "triptych_testing.work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.kill()
        self._process.communicate(timeout=60)

    def open(self, child: Child) -> None:
        """Let it open a store, which it closes when the next one is opened or it ends."""
        self.ask({"do": "open", "opener": child.opener, "argument": child.argument})

    def close(self) -> None:
        """Let it close its store."""
        self.ask({"do": "close"})

    def send(self, command: dict[str, Any]) -> None:
        """Give a command, without waiting for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """The next answer.

        Raises:
            EOFError: the process is gone; what it had to say is on the standard error.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise EOFError("the worker process has ended")
        return json.loads(line)

    def ask(self, command: dict[str, Any]) -> Any:
        """Give a command and wait for its answer."""
        self.send(command)
        return self.receive()

    def kill(self) -> None:
        """End the process between two instructions, as a crash does."""
        self._process.kill()


NAMES = ("a", "b", "folder/c", "é")
DATASET = "d"

Kind = Literal["put", "bulk", "derive", "layer", "delete"]


@attrs.frozen
class Operation:
    """One write, which happens wholly or not at all."""

    kind: Kind
    name: str
    text: str


@attrs.define
class State:
    """What is visible of one dataset: for each document its text, its chunks' and its layer's.

    ``old`` has the texts of the last ``history`` versions before, newest first.
    """

    history: int = 0
    documents: dict[str, str] = attrs.field(factory=dict)
    old: dict[str, tuple[str, ...]] = attrs.field(factory=dict)
    sets: dict[str, str] = attrs.field(factory=dict)
    layers: dict[str, str] = attrs.field(factory=dict)

    def apply(self, operation: Operation) -> None:
        """Do to this what `apply` does to a store."""
        name, text = operation.name, operation.text
        if operation.kind == "put":
            self._put(name, text)
        elif operation.kind == "bulk":
            for each in NAMES:
                self._put(each, f"{text} {each}")
        elif operation.kind == "derive" and name in self.documents:
            self.sets[name] = self.documents[name]
        elif operation.kind == "layer" and name in self.documents:
            self.layers[name] = text
        elif operation.kind == "delete":
            for part in (self.documents, self.old, self.sets, self.layers):
                part.pop(name, None)

    def _put(self, name: str, text: str) -> None:
        if name in self.documents and self.history:
            before = (self.documents[name], *self.old.get(name, ()))
            self.old[name] = before[: self.history]
        self.documents[name] = text


def operations(seed: int, *, bulk: bool) -> Iterator[Operation]:
    """Writes without end, the same for the same seed."""
    chance = random.Random(seed)
    for number in count():
        name = chance.choice(NAMES)
        text = "\n\n".join(f"fish {number} {part}\r" for part in range(chance.randint(1, 5)))
        kind = chance.choices(("put", "bulk", "derive", "layer", "delete"), (6, 2, 6, 3, 2))[0]
        if kind == "delete":
            yield Operation("delete", name, "")
        elif kind == "put" or (kind == "bulk" and not bulk):
            yield Operation("put", name, text)
        elif kind == "bulk":
            yield Operation("bulk", name, text)
        elif kind == "derive":
            yield Operation("derive", name, "")
        else:
            yield Operation("layer", name, text)


def apply(store: Store, operation: Operation) -> None:
    """One write to the store; deriving and layers of absent documents are skipped."""
    name, text = operation.name, operation.text
    if operation.kind == "put":
        put(store, DATASET, name, text)
    elif operation.kind == "bulk":
        store.documents.put_many(
            DATASET, [NewDocument(name=name, content=f"{text} {name}") for name in NAMES]
        )
    elif operation.kind == "delete":
        store.documents.delete(DATASET, name)
    elif store.documents.get_info(DATASET, name) is None:
        return
    elif operation.kind == "derive":
        assert derive(store, DATASET, name)
    else:
        assert store.layers.put(layer_of(store, DATASET, name, text))


def stored(store: Store, *, history: int = 0) -> State:
    """What the store shows; its search must show the same chunks."""
    state, reader = State(history), store.capabilities.versions
    chunks = []
    for info in store.documents.list(DATASET):
        document = store.documents.get(DATASET, info.name)
        assert document is not None
        state.documents[info.name] = document.content
        if history and reader is not None:
            old = [
                reader.get_version(DATASET, info.name, each.version)
                for each in reader.versions(DATASET, info.name)[1:]
            ]
            if old:
                state.old[info.name] = tuple(each.content if each else "" for each in old)
        if store.chunks.get_doc_sig(DATASET, info.name) is not None:
            texts = list(store.chunks.iter_chunks(DATASET, info.name))
            state.sets[info.name] = "\n\n".join(chunk.content for chunk in texts)
            chunks += [(info.name, chunk.index) for chunk in texts]
        layer = store.layers.get(DATASET, info.name, Layer.ABSTRACT)
        if layer is not None:
            state.layers[info.name] = layer.content
    found = ids(store.chunks.search(keyword_query("fish", DATASET, top_k=1000)))
    assert sorted(found) == sorted(chunks), "search and truth show different chunks"
    return state


def serve(
    store: Store,
    embedder: Embedder | None,
    *,
    encoder: SparseEncoder | None = None,
    chunkers: ChunkerSet | None = None,
) -> Service:
    """A Service over an open store, which stays open when the Service is closed."""
    options = ServiceOptions(embedder=embedder, sparse_encoder=encoder)
    if chunkers is not None:
        options = attrs.evolve(options, chunkers=chunkers)
    return Service(kept_open(store), options=options)


def write_layered(kb: Service, dataset_id: str, name: str, text: str) -> int:
    """Put a document and an abstract of it; the version.

    Raises:
        NotFoundError, ConflictError: it was deleted before its abstract was stored.
    """
    version = kb.put_document(dataset_id, name, text).version
    kb.put_document_layer(
        dataset_id, name, "L0", f"About {text}.", prompt_sig="p", source_version=version
    )
    return version


def _write_all(store: Store, datasets: list[str], text: str) -> dict[str, int]:
    """Write a document of each dataset some times over, while another may delete it.

    By dataset, the last version whose layer was stored, 0 for none. Another dataset marks the end.
    """
    kb, layered = serve(store, FakeEmbedder()), dict.fromkeys(datasets, 0)
    for dataset_id in datasets:
        for number in range(3):
            with suppress(NotFoundError, ConflictError):
                layered[dataset_id] = write_layered(kb, dataset_id, "a", f"{text} {number}")
    kb.put_document("end", "a", text)
    return layered


def count_up(store: Store, times: int) -> list[int]:
    """Add one to the number in a document, ``times`` times; the versions this made."""
    versions: list[int] = []
    while len(versions) < times:
        stored = store.documents.get("d", "counter")
        content, version = (stored.content, stored.version) if stored else ("0", 0)
        document = NewDocument(name="counter", content=str(int(content) + 1), if_version=version)
        try:
            versions.append(store.documents.put("d", document).version)
        except ConflictError:
            continue
    return versions


def count_settings(store: Store, key: str, times: int) -> int:
    """Add one to the number in a setting, ``times`` times; the number in the end."""
    settings = store.capabilities.settings
    assert settings is not None, "the store keeps no settings"
    count = 0
    for _ in range(times):
        done = False
        while not done:
            value = settings.get_setting(key)
            count = int(value or "0") + 1
            done = settings.set_setting(key, str(count), expected=value)
    return count


def answers(store: Store, command: dict[str, Any]) -> Iterator[object]:
    """Carry out one command; each answer is written before the next step is begun."""
    what = command["do"]
    if what == "put":
        texts = (f"{os.getpid()} {count}" for count in range(command["times"]))
        yield [put(store, "d", "a", text).version for text in texts]
    elif what == "count":
        yield count_up(store, command["times"])
    elif what == "count settings":
        yield count_settings(store, command["key"], command["times"])
    elif what == "write":
        put(store, "d", command["name"], command["text"])
        yield derive(store, "d", command["name"])
    elif what == "delete":
        yield store.documents.delete("d", command["name"])
    elif what == "find":
        yield ids(store.chunks.search(keyword_query(command["text"], "d")))
    elif what == "write layered":
        yield _write_all(store, command["datasets"], command["text"])
    elif what == "churn":
        for operation in operations(command["seed"], bulk=command["bulk"]):
            apply(store, operation)
            yield "done"


def main() -> None:
    """Answer until the input ends."""
    store: Store | None = None
    with ExitStack() as stores:
        for line in sys.stdin:
            command = json.loads(line)
            if command["do"] in ("open", "close"):
                stores.close()
                if command["do"] == "open":
                    module, _, function = command["opener"].partition(":")
                    opener = attrgetter(function)(importlib.import_module(module))
                    store = opener(command["argument"])
                    stores.enter_context(closing(store))
                print(json.dumps("done"), flush=True)
                continue
            assert store is not None, "no store is open"
            for answer in answers(store, command):
                print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
