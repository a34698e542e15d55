"""A reproducible stream of single writes, and what a store must hold after any of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Literal

import attrs

from triptych.records import Layer, NewDocument
from triptych.testing.builders import derive, ids, keyword_query, layer_of, put

if TYPE_CHECKING:
    from triptych.contracts import Store

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
