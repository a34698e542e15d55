"""A write that fails changes nothing, in the store or in what this process reads of it."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from triptych.contracts import Store
from triptych.errors import StoreError
from triptych.records import Layer, NewDocument
from triptych.testing.builders import CONFIG, derive, fill, layer_of, put, sig_of
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import Harness, HarnessTests
from triptych.testing.reopen import everything

OTHER = attrs.evolve(CONFIG, language="german")


def _load(store: Store) -> None:
    document = store.documents.get("north", "derived")
    assert document is not None
    store.documents.load(attrs.evolve(document, version=99))


def _put_layer(store: Store) -> None:
    store.layers.put(layer_of(store, "north", "derived", "tide", Layer.ABSTRACT))


WRITES: dict[str, Callable[[Store], object]] = {
    "put": lambda store: put(store, "north", "derived", "storm and tide"),
    "put of a new document": lambda store: put(store, "north", "new", "storm"),
    "put of a new dataset": lambda store: put(store, "south", "new", "storm"),
    "put of metadata": lambda store: put(store, "north", "derived", "storm", lang="en"),
    "load": _load,
    "create_dataset": lambda store: store.documents.create_dataset("south"),
    "delete": lambda store: store.documents.delete("north", "derived"),
    "delete_orphans": lambda store: store.documents.delete_orphans("north", ["empty/"]),
    "delete_dataset": lambda store: store.documents.delete_dataset("north"),
    "configure": lambda store: store.chunks.configure("north", OTHER, expected=CONFIG),
    "replace": lambda store: derive(store, "north", "behind"),
    "update_source_version": lambda store: store.chunks.update_source_version(
        "north", "tagged", sig_of(store, "north", "tagged")
    ),
    "chunks.delete_by_doc": lambda store: store.chunks.delete_by_doc("north", "derived"),
    "chunks.delete_by_dataset": lambda store: store.chunks.delete_by_dataset("north"),
    "layers.put": _put_layer,
    "layers.delete_by_doc": lambda store: store.layers.delete_by_doc("north", "derived"),
    "layers.delete_by_dataset": lambda store: store.layers.delete_by_dataset("north"),
}


class FailingTests(HarnessTests):
    """For stores whose writes the harness can make fail."""

    @guarantee(9)
    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_a_write_that_fails_changes_nothing(
        self, harness: Harness, write: Callable[[Store], object]
    ) -> None:
        if harness.failing is None:
            pytest.skip("the harness cannot make a write fail")
        store = harness.open()
        fill(store, "north", {"derived": "storm", "behind": "tide", "tagged": "the storm"})
        for name in ("derived", "empty/"):
            assert store.layers.put(layer_of(store, "north", name, "storm"))
        put(store, "north", "behind", "tide and storm")
        put(store, "north", "tagged", "the storm", tag="new")
        before = everything(store)
        with harness.failing(store), pytest.raises(StoreError):
            write(store)
        assert everything(store) == before
        if harness.persistent:
            store.close()
            store = harness.open()
            assert everything(store) == before
        write(store)
        assert everything(store) != before
        again = store.documents.put("north", NewDocument(name="last", content="storm"))
        assert store.documents.get("north", "last") == again
        store.close()
