"""A store that was closed and opened again has all it was given."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from triptych.contracts import Store
from triptych.records import Layer, SourceDocument
from triptych.testing.builders import (
    CONFIG,
    derive,
    ids,
    keyword_query,
    layer_of,
    layer_query,
    put,
    set_config,
    vector_of,
    vector_query,
)
from triptych.testing.corpus import DATASETS, QUERIES, fill_corpus
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import Harness, HarnessTests
from triptych.testing.oracle import entries


class ReopeningTests(HarnessTests):
    """For persistent stores."""

    @pytest.fixture
    def reopened(self, harness: Harness) -> Callable[[Store], Store]:
        if not harness.persistent:
            pytest.skip("the store is not kept")

        def reopened(store: Store) -> Store:
            store.close()
            return harness.open()

        return reopened

    @guarantee(9)
    def test_everything_comes_back(
        self, harness: Harness, reopened: Callable[[Store], Store]
    ) -> None:
        store = harness.open()
        fill_corpus(store)
        for name in ("same", "guide/", ""):
            assert store.layers.put(layer_of(store, "north", name, "fish"))
        before = everything(store)
        store = reopened(store)
        after = everything(store)
        store.close()
        assert after == before

    def test_old_versions_come_back(
        self, harness: Harness, reopened: Callable[[Store], Store]
    ) -> None:
        store = harness.open()
        if store.capabilities.versions is None:
            store.close()
            pytest.skip("the store keeps no old versions")
        made = [put(store, "d", "a", content) for content in ("one", "two", "three")]
        store = reopened(store)
        assert versions_of(store, "d", "a") == made[::-1]
        made.append(put(store, "d", "a", "four"))
        assert versions_of(store, "d", "a") == made[::-1]
        store.close()

    @guarantee(1)
    def test_versions_stay_used_up(
        self, harness: Harness, reopened: Callable[[Store], Store]
    ) -> None:
        store = harness.open()
        high = [put(store, "d", "a", content) for content in "abc"][-1]
        store.documents.delete("d", "a")
        store = reopened(store)
        again = put(store, "d", "b", "")
        assert again.version > high.version
        store.documents.delete_dataset("d")
        store = reopened(store)
        assert put(store, "d", "a", "").version > again.version
        store.close()

    def test_configuration_before_the_first_document_comes_back(
        self, harness: Harness, reopened: Callable[[Store], Store]
    ) -> None:
        store = harness.open()
        set_config(store, "d")
        store = reopened(store)
        assert store.chunks.config("d") == CONFIG
        assert list(store.documents.list_datasets()) == []
        store.close()

    @guarantee(8)
    def test_searches_see_writes_after_each_opening(
        self, harness: Harness, reopened: Callable[[Store], Store]
    ) -> None:
        store = harness.open()
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
                store = reopened(store)
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
        for query in (
            keyword_query(text, *DATASETS, top_k=100),
            vector_query(vector_of(text), *DATASETS, top_k=100),
        ):
            seen.append(entries(store.chunks.search(query)))
            seen.append(entries(store.layers.search(layer_query(query))))
    return seen
