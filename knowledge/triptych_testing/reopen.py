"""Tests of durability: reopening a store, failing writes, killed processes."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from itertools import islice

import attrs
import pytest

from triptych.contracts import Store
from triptych.errors import StoreError
from triptych.records import Layer, NewDocument, SourceDocument
from triptych_testing.builders import (
    CONFIG,
    both_lanes,
    derive,
    fill,
    ids,
    keyword_query,
    layer_of,
    layer_query,
    put,
    set_config,
    sig_of,
)
from triptych_testing.changes import Follower, snapshot
from triptych_testing.harness import Harness, HarnessTests, examined, failures, guarantee, there
from triptych_testing.oracle import DATASETS, QUERIES, entries, fill_corpus
from triptych_testing.work import DATASET, State, Worker, apply, operations, stored


def opened_again(harness: Harness, store: Store) -> Store:
    """The store, closed and opened."""
    store.close()
    return harness.open()


class ReopeningTests(HarnessTests):
    """For persistent stores."""

    @guarantee(9)
    def test_everything_comes_back(self, lasting: Harness) -> None:
        store = lasting.open()
        fill_corpus(store)
        for name in ("same", "guide/", ""):
            assert store.layers.put(layer_of(store, "north", name, "fish"))
        before = everything(store)
        store = opened_again(lasting, store)
        after = everything(store)
        store.close()
        assert after == before

    def test_old_versions_come_back(self, lasting: Harness) -> None:
        store = lasting.open()
        if store.capabilities.versions is None:
            store.close()
            pytest.skip("the store keeps no old versions")
        made = [put(store, "d", "a", content) for content in ("one", "two", "three")]
        store = opened_again(lasting, store)
        assert versions_of(store, "d", "a") == made[::-1]
        made.append(put(store, "d", "a", "four"))
        assert versions_of(store, "d", "a") == made[::-1]
        store.close()

    @guarantee(1)
    def test_versions_stay_used_up(self, lasting: Harness) -> None:
        store = lasting.open()
        high = [put(store, "d", "a", content) for content in "abc"][-1]
        store.documents.delete("d", "a")
        store = opened_again(lasting, store)
        again = put(store, "d", "b", "")
        assert again.version > high.version
        store.documents.delete_dataset("d")
        store = opened_again(lasting, store)
        assert put(store, "d", "a", "").version > again.version
        store.close()

    def test_configuration_before_the_first_document_comes_back(self, lasting: Harness) -> None:
        store = lasting.open()
        set_config(store, "d")
        store = opened_again(lasting, store)
        assert store.chunks.config("d") == CONFIG
        assert list(store.documents.list_datasets()) == []
        store.close()

    @guarantee(8)
    def test_searches_see_writes_after_each_opening(self, lasting: Harness) -> None:
        store = lasting.open()
        set_config(store, "d")
        for number, letter in enumerate("bcde"):
            put(store, "d", "a", f"{letter}quux")
            put(store, "d", letter, "fish")
            assert derive(store, "d", "a")
            assert derive(store, "d", letter)
            for _ in range(2):
                assert ids(store.chunks.search(keyword_query(f"{letter}quux", "d"))) == [("a", 0)]
                found = ids(store.chunks.search(keyword_query("fish", "d")))
                assert found == [(name, 0) for name in "bcde"[: number + 1]]
                store = opened_again(lasting, store)
        store.close()


def versions_of(store: Store, dataset_id: str, name: str) -> list[SourceDocument | None]:
    """The document's versions, newest first; none where the store keeps none."""
    reader = store.capabilities.versions
    if reader is None:
        return []
    found = reader.versions(dataset_id, name)
    return [reader.get_version(dataset_id, name, info.version) for info in found]


def everything(store: Store) -> list[object]:
    """All that can be read of the corpus's datasets, and what its queries find."""
    seen: list[object] = [list(store.documents.list_datasets())]
    for dataset_id in DATASETS:
        names = [info.name for info in store.documents.list(dataset_id)]
        seen += [
            list(store.documents.list(dataset_id)),
            [store.documents.get(dataset_id, name) for name in names],
            [versions_of(store, dataset_id, name) for name in names],
            store.chunks.config(dataset_id),
            dict(store.chunks.get_doc_sigs(dataset_id, names)),
            list(store.chunks.iter_chunks(dataset_id, vectors=True)),
            list(store.layers.list(dataset_id)),
            [store.layers.get(dataset_id, name, Layer.ABSTRACT) for name in names],
        ]
    for text in QUERIES:
        for query in both_lanes(text, *DATASETS, top_k=100):
            seen.append(entries(store.chunks.search(query)))
            seen.append(entries(store.layers.search(layer_query(query))))
    return seen


OTHER = attrs.evolve(CONFIG, language="german")


def _load(store: Store) -> None:
    document = there(store.documents.get("north", "derived"))
    store.documents.load(attrs.evolve(document, version=document.version + 99))


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
    def test_a_write_that_fails_changes_nothing(self, harness: Harness) -> None:
        if harness.failing is None:
            pytest.skip("the harness cannot make a write fail")
        assert failures(WRITES, partial(_fails_and_changes_nothing, harness)) == []


def _fails_and_changes_nothing(harness: Harness, name: str) -> None:
    write = WRITES[name]
    assert harness.failing is not None
    with ExitStack() as opened:
        store = opened.enter_context(closing(harness.open()))
        for dataset_id in list(store.documents.list_datasets()):
            store.documents.delete_dataset(dataset_id)
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
            store = opened.enter_context(closing(harness.open()))
            assert everything(store) == before
        write(store)
        assert everything(store) != before
        again = store.documents.put("north", NewDocument(name="last", content="storm"))
        assert store.documents.get("north", "last") == again


KILLS = int(os.environ.get("TRIPTYCH_KILLS", "3"))
"""How often a process is killed; raise it for a longer run."""


class CrashTests(HarnessTests):
    """Guarantee 9, for stores that keep anything."""

    @guarantee(9)
    @pytest.mark.parametrize("seed", range(KILLS))
    def test_killed_process_loses_nothing_it_acknowledged(
        self, harness: Harness, seed: int
    ) -> None:
        if not harness.persistent or harness.child is None:
            pytest.skip("the store is not kept, or no other process can open it")
        chance = random.Random(seed)
        store = harness.open()
        set_config(store, DATASET)
        bulk = harness.atomic_batches
        history = harness.history if store.capabilities.versions else 0
        store.close()
        with Worker() as worker:
            worker.open(harness.child)
            worker.send({"do": "churn", "seed": seed, "bulk": bulk})
            done = 0
            for _ in range(chance.randint(1, 60)):
                worker.receive()
                done += 1
            time.sleep(chance.random() / 50)
            worker.kill()
            try:
                while worker.receive():
                    done += 1
            except EOFError:
                pass
        before, after = State(history), State(history)
        for number, operation in zip(range(done + 1), operations(seed, bulk=bulk), strict=False):
            if number < done:
                before.apply(operation)
            after.apply(operation)
        with closing(harness.open()) as store:
            assert stored(store, history=history) in (before, after)
            # The store is whole: it finds nothing wrong, takes and shows the next writes.
            assert [str(each) for each in examined(store, [DATASET])] == []
            if store.capabilities.changes is not None:
                follower = Follower()
                follower.catch_up(store, 5)
                assert follower.copy == snapshot(store)
            for operation in islice(operations(seed + 1000, bulk=bulk), 20):
                apply(store, operation)
            stored(store)
