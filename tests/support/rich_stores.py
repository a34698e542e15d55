"""Stores with something of everything in them, drawn by chance."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs

from triptych.contracts import Store
from triptych.copies import StoreStates, state_digest
from triptych.layers import LayerJournal
from triptych.records import Layer, ModelUsage, NewDocument, QuarantinedLayer, dense, sparse
from triptych_backends.filesystem import FilesStore
from triptych_backends.memory import MemoryStore
from triptych_backends.sqlite import SqliteStore
from triptych_testing.builders import (
    CONFIG,
    SPARSE,
    chunks_of,
    derive,
    layer_of,
    set_config,
    sig_of,
    sparse_of,
    vector_of,
)

POSTGRES = "TEST_POSTGRES_URL"
KINDS = ("memory", "sqlite", "files")
NAMES = ("a", "b.md", "folder/c", "folder/inner/d", "é", "z z")
OTHER = attrs.evolve(CONFIG, embed_sig="space/2", sparse_sig=SPARSE)
CONFIGS = (CONFIG, OTHER, attrs.evolve(CONFIG, embed_sig="", language="german"))
_MOMENT = datetime(2090, 1, 1, tzinfo=UTC)


def open_kind(kind: str, folder: Path, name: str) -> Store:
    """A store of this kind, in ``folder`` if it is of files.

    One on a server is a schema at the URL that the variable `POSTGRES` names.
    """
    if kind == "memory":
        return MemoryStore()
    if kind == "postgres":
        from triptych_postgres import PostgresStore

        return PostgresStore.open(f"{os.environ[POSTGRES]}&schema={name}")
    if kind == "sqlite":
        return SqliteStore.open(folder / f"{name}.db", background_index=False)
    return FilesStore.open(folder / name, background_index=False)


def fill(store: Store, chance: random.Random, steps: int) -> None:
    """Do ``steps`` things to the store."""
    for dataset_id in ("d", "e/f"):
        set_config(store, dataset_id, chance.choice(CONFIGS))
    settings = store.capabilities.settings
    assert settings is not None
    settings.set_setting("key", f"value {chance.random()}", expected=settings.get_setting("key"))
    for _ in range(steps):
        change(store, chance)


def change(store: Store, chance: random.Random) -> None:
    """Do something to the store that changes it, mostly."""
    dataset_id = chance.choice(("d", "d", "e/f"))
    name = chance.choice(NAMES)
    chance.choices(_ACTS, _WEIGHTS)[0](store, chance, dataset_id, name)


def _put(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    parts = (chance.choice(("tea", "~no vector", "hot\0 water\r", "猫 🦉")) for _ in range(3))
    metadata = chance.choice(
        ({}, {"n": chance.randrange(3), "ok": True}, {"at": _MOMENT, "tags": ["x", "y"], "f": 0.1})
    )
    store.documents.put(
        dataset_id,
        NewDocument(
            name=name,
            content="# H\n\n" + "\n\n".join(f"{each} {chance.randrange(9)}" for each in parts),
            metadata=metadata,
            original_sha256=chance.choice(("", "0" * 64)),
            outline=chance.choice((None, "{}")),
            expires_at=chance.choice((None, _MOMENT + timedelta(chance.randrange(9)))),
        ),
    )


def _derive(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    config = store.chunks.config(dataset_id)
    if config is not None and store.documents.get_info(dataset_id, name) is not None:
        assert derive(store, dataset_id, name, config)


def _wait(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    """A set that has some of its vectors, at most."""
    config, document = store.chunks.config(dataset_id), store.documents.get(dataset_id, name)
    if config is None or document is None or not config.embed_sig:
        return
    sig = attrs.evolve(sig_of(store, dataset_id, name, config), embed_sig="")
    chunks = chunks_of(document, sig)
    assert store.chunks.replace(dataset_id, name, chunks, sig=sig)
    one = chance.choice(chunks)
    vector = vector_of(one.content, config.embed_sig)
    given = {one.sig.input_sig: vector}
    store.chunks.put_vectors(dataset_id, dense(config.embed_sig), [name], given)


def _sparse(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    config = store.chunks.config(dataset_id)
    if config is None or not config.sparse_sig:
        return
    chunks = list(store.chunks.iter_chunks(dataset_id, name))
    vectors = {chunk.sig.input_sig: sparse_of(chunk.content) for chunk in chunks}
    kept = dict(chance.sample(sorted(vectors.items()), chance.randint(0, len(vectors))))
    store.chunks.put_vectors(dataset_id, sparse(config.sparse_sig), [name], kept)


def _layer(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    name = chance.choice((name, "", "folder/", "folder/inner/"))
    if name and name[-1] != "/" and store.documents.get_info(dataset_id, name) is None:
        return
    kind = chance.choice((Layer.ABSTRACT, Layer.OVERVIEW))
    layer = layer_of(store, dataset_id, name, f"what {name} says {chance.randrange(9)}", kind)
    if chance.random() < 0.3:
        layer = attrs.evolve(layer, vector=None, sig=attrs.evolve(layer.sig, embed_sig=""))
    assert store.layers.put(layer)


def _note(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    assert store.capabilities.settings is not None
    journal = LayerJournal(store.capabilities.settings)
    if store.documents.get_info(dataset_id, name) is None:
        return
    journal.put_note(dataset_id, chance.choice((name, "")), str(chance.randrange(2)), "said")
    journal.record_usage(dataset_id, ModelUsage(model="m", calls=1, cost=0.1))
    journal.quarantine(
        QuarantinedLayer(
            dataset_id=dataset_id,
            doc_name=name,
            layer=Layer.ABSTRACT,
            input_sig="i",
            prompt_sig="p",
            reason="refusal",
            message="no\0",
            quarantined_at=_MOMENT,
        )
    )


def _delete(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    store.documents.delete(dataset_id, name)


def _configure(store: Store, chance: random.Random, dataset_id: str, name: str) -> None:
    set_config(store, dataset_id, chance.choice(CONFIGS))


_Act = Callable[[Store, random.Random, str, str], None]
_ACTS: tuple[_Act, ...] = (_put, _derive, _wait, _sparse, _layer, _note, _delete, _configure)
_WEIGHTS = (12, 8, 3, 4, 5, 2, 2, 1)


def names_of(store: Store) -> dict[str, dict[str, bytes]]:
    """What a store holds under each name, by dataset."""
    states = StoreStates(store)
    return {
        each: {state.name: state_digest(state) for state in states.states(each)}
        for each in states.datasets()
    }


def contents(store: Store, *, settings: bool = True) -> dict[str, object]:
    """All that a copy must have; without the ``settings``, if that is said."""
    states = StoreStates(store)
    datasets: dict[str, object] = {
        each: (
            states.head(each).config,
            states.head(each).deleted_version,
            {state.name: state_digest(state) for state in states.states(each)},
        )
        for each in states.datasets()
    }
    return {"datasets": datasets, "settings": dict(states.settings()) if settings else {}}
