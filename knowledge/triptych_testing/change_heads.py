"""Tests of the end of the change log: each write after which a search may find something else
moves it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import attrs

from triptych.contracts import Store
from triptych.records import DerivedSig, Layer, NewDocument, dense
from triptych_testing.builders import (
    CONFIG,
    SPARSE,
    chunks_of,
    derive,
    fill,
    layer_of,
    put,
    set_config,
    sig_of,
    vector_of,
)
from triptych_testing.harness import HarnessTests, failures, or_skip, there
from triptych_testing.sparse import encode

_TEXT = "# Kettle\n\nThe lid whistles.\n\nWater boils."


def _without_vectors(store: Store) -> None:
    """Swap in a set that waits for its vectors."""
    document = there(store.documents.get("d", "a"))
    sig = attrs.evolve(sig_of(store, "d", "a"), embed_sig="")
    store.chunks.delete_by_doc("d", "a")  # with its vectors, which the set would take
    assert store.chunks.replace("d", "a", chunks_of(document, sig, vectors=False), sig=sig)


def _give(store: Store, which: slice) -> list[str]:
    vectors = [
        (chunk.sig.input_sig, vector_of(chunk.content))
        for chunk in store.chunks.iter_chunks("d", "a")
    ]
    space = dense(CONFIG.embed_sig)
    return list(store.chunks.put_vectors("d", space, ["a"], dict(vectors[which])))


def _with_some_vectors(store: Store) -> None:
    _without_vectors(store)
    assert _give(store, slice(1)) == []


def _complete(store: Store) -> None:
    assert _give(store, slice(1, None)) == ["a"]


def _with_sparse(store: Store) -> None:
    set_config(store, "d", attrs.evolve(CONFIG, sparse_sig=SPARSE))


def _expire(store: Store) -> None:
    later = datetime(2999, 1, 1, tzinfo=UTC)
    store.documents.put("d", NewDocument(name="a", content=_TEXT, expires_at=later))


def _restamp(store: Store) -> None:
    assert store.chunks.update_source_version("d", "a", sig_of(store, "d", "a"))


def _load(store: Store) -> None:
    document = there(store.documents.get("d", "a"))
    newer = attrs.evolve(document, version=document.version + 5, content="Loaded.")
    store.documents.load(newer)


def _delete_many(store: Store) -> None:
    document = there(store.documents.get("d", "a"))
    store.documents.delete_many("d", {"a": document.version})


def _nothing(store: Store) -> None:
    """No preparation."""


def _layered(store: Store) -> None:
    assert store.layers.put(layer_of(store, "d", "a", "About a kettle."))


def _changed_metadata(store: Store) -> None:
    put(store, "d", "a", _TEXT, lang="de")


_Step = Callable[[Store], object]
_WRITES: dict[str, tuple[_Step, _Step]] = {
    "a new document": (_nothing, lambda store: put(store, "d", "b", "Tea.")),
    "new content": (_nothing, lambda store: put(store, "d", "a", "Other.")),
    "new metadata": (_nothing, _changed_metadata),
    "a moment of expiry": (_nothing, _expire),
    "a loaded version": (_nothing, _load),
    "a chunk set": (lambda store: put(store, "d", "a", "Other."), lambda s: derive(s, "d", "a")),
    "a set of another version": (_changed_metadata, _restamp),
    "a set without vectors": (_nothing, _without_vectors),
    "the first vectors of a set": (_without_vectors, lambda store: _give(store, slice(1))),
    "the last vectors of a set": (_with_some_vectors, _complete),
    "sparse vectors": (_with_sparse, lambda store: encode(store, "d", "a")),
    "a layer": (_nothing, _layered),
    "a layer of a folder": (
        _nothing,
        lambda store: store.layers.put(layer_of(store, "d", "", "All of it.", Layer.OVERVIEW)),
    ),
    "layers that are deleted": (_layered, lambda store: store.layers.delete_by_doc("d", "a")),
    "all layers deleted": (_layered, lambda store: store.layers.delete_by_dataset("d")),
    "a set that is deleted": (_nothing, lambda store: store.chunks.delete_by_doc("d", "a")),
    "all sets deleted": (_nothing, lambda store: store.chunks.delete_by_dataset("d")),
    "a configuration": (
        _nothing,
        lambda store: set_config(store, "d", attrs.evolve(CONFIG, language="german")),
    ),
    "a chunker": (
        _nothing,
        lambda store: set_config(store, "d", attrs.evolve(CONFIG, chunker_sig="other/1")),
    ),
    "a deleted document": (_nothing, lambda store: store.documents.delete("d", "a")),
    "deleted documents": (_nothing, _delete_many),
    "orphans": (
        lambda store: store.layers.put(layer_of(store, "d", "gone/", "Gone.")),
        lambda store: store.documents.delete_orphans("d", ["gone/"]),
    ),
    "a deleted dataset": (_nothing, lambda store: store.documents.delete_dataset("d")),
}


class ChangeHeadTests(HarnessTests):
    """What every store with the capability `ChangeReader` does with the end of its log."""

    def test_a_write_moves_the_end_of_the_log(self, store: Store) -> None:
        changes = or_skip(store.capabilities.changes)

        def moves_the_end(write: str) -> None:
            prepare, change = _WRITES[write]
            store.documents.delete_dataset("d")
            fill(store, "d", {"a": _TEXT})
            prepare(store)
            heads = {changes.change_head()}
            assert changes.change_head() in heads
            change(store)
            assert changes.change_head() not in heads

        sparse = "sparse" in store.chunks.kinds
        writes = [write for write in _WRITES if sparse or write != "sparse vectors"]
        assert failures(writes, moves_the_end) == []

    def test_what_changes_nothing_leaves_it(self, store: Store) -> None:
        changes = or_skip(store.capabilities.changes)
        fill(store, "d", {"a": _TEXT})
        assert store.documents.get("d", "a") is not None
        before = changes.change_head()
        put(store, "d", "a", _TEXT)
        stale = DerivedSig(source_version=99, chunker_sig=CONFIG.chunker_sig)
        assert not store.chunks.replace("d", "a", [], sig=stale)
        assert not store.documents.delete("d", "unknown")
        assert changes.change_head() == before
