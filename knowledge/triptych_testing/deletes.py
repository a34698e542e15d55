"""Tests that deletes are idempotent and leave nothing in the store."""

from __future__ import annotations

import pytest

from triptych.contracts import Store
from triptych.errors import ConflictError, StoreError
from triptych.records import Layer, NewDocument, dense
from triptych.signatures import embedding_input_sig
from triptych_testing.builders import (
    CONFIG,
    fill,
    keyword_query,
    layer_of,
    layer_query,
    put,
    set_config,
    vector_of,
    vector_query,
)
from triptych_testing.harness import Harness, HarnessTests, check_contents, guarantee

TEXT = "doomed fish\n\ndoomed bird"


class DeleteTests(HarnessTests):
    """Documents and datasets: one write takes all that was made of them."""

    @guarantee(6)
    def test_deleted_document_leaves_nothing(self, store: Store, harness: Harness) -> None:
        _fill_two(store)
        for _ in range(2):
            store.documents.delete("d", "doomed")
            assert _found_names(store, "d") == {"kept"}
            assert store.chunks.get_doc_sig("d", "doomed") is None
            assert list(store.chunks.iter_chunks("d", "doomed")) == []
            assert store.layers.get("d", "doomed", Layer.ABSTRACT) is None
            check_contents(
                harness, store, content={"kept": b"kept fish"}, chunks=1, vectors=1, layers=1
            )

    def test_many_are_deleted_as_far_as_they_are_of_the_named_version(
        self, store: Store, harness: Harness
    ) -> None:
        assert list(store.documents.delete_many("none", {"doomed": 1})) == []
        _fill_two(store)
        versions = {info.name: info.version for info in store.documents.list("d")}
        changed = put(store, "d", "kept", "kept bird")
        assert list(store.documents.delete_many("d", {})) == []
        for removed in (["doomed"], []):
            assert list(store.documents.delete_many("d", {**versions, "none": 1})) == removed
            assert [info.version for info in store.documents.list("d")] == [changed.version]
            assert store.chunks.get_doc_sig("d", "kept") is not None
            assert store.layers.get("d", "kept", Layer.ABSTRACT) is not None
        assert _found_names(store, "d") == {"kept"}
        check_contents(
            harness, store, content={"kept": b"kept bird"}, chunks=1, vectors=1, layers=1
        )
        assert put(store, "d", "doomed", TEXT).version > max(versions.values())

    def test_a_document_is_deleted_at_the_version_that_is_named(self, store: Store) -> None:
        _fill_two(store)
        version = put(store, "d", "kept", "kept bird").version
        for name, wrong, actual in (("kept", version - 1, version), ("none", 1, 0)):
            with pytest.raises(ConflictError) as caught:
                store.documents.delete("d", name, if_version=wrong)
            assert (caught.value.expected, caught.value.actual) == (wrong, actual)
        assert store.chunks.get_doc_sig("d", "kept") is not None
        assert store.layers.get("d", "kept", Layer.ABSTRACT) is not None
        assert store.documents.delete("d", "kept", if_version=version) is True
        assert store.documents.delete("d", "kept", if_version=0) is False
        assert _found_names(store, "d") == {"doomed"}

    def test_deleting_a_name_without_a_document_clears_what_is_left_there(
        self, store: Store
    ) -> None:
        _fill_two(store)
        assert store.layers.put(layer_of(store, "d", "folder/", "fish of a folder"))
        assert store.documents.delete("d", "folder/") is False
        assert store.documents.delete("none", "folder/") is False
        assert _found_names(store, "d") == {"doomed", "kept"}
        assert len(store.layers.list("d")) == 2
        assert "none" not in store.documents.list_datasets()

    def test_orphans_are_removed_while_they_have_no_source(
        self, store: Store, harness: Harness
    ) -> None:
        _fill_two(store)
        put(store, "d", "full/a", "fish")
        for name in ("", "full/", "empty/", "full/empty/"):
            assert store.layers.put(layer_of(store, "d", name, "fish of a folder"))
        names = ["", "full/", "empty/", "full/empty/", "none", "doomed", "kept", "full/a"]
        assert list(store.documents.delete_orphans("d", [])) == []
        assert list(store.documents.delete_orphans("none", names)) == []
        for removed in (["empty/", "full/empty/"], []):
            assert list(store.documents.delete_orphans("d", names)) == removed
            assert {layer.doc_name for layer in store.layers.list("d")} == {
                "",
                "doomed",
                "full/",
                "kept",
            }
            assert len(store.documents.list("d")) == 3
            assert list(store.chunks.doc_names("d")) == ["doomed", "kept"]
        for info in store.documents.list("d"):
            store.documents.delete("d", info.name)
        assert list(store.documents.delete_orphans("d", ["", "full/"])) == ["", "full/"]
        assert list(store.layers.list("d")) == []
        assert list(store.documents.list_datasets()) == ["d"]
        check_contents(harness, store, content={}, chunks=0, vectors=0, layers=0)

    def test_deleted_document_leaves_no_vectors_to_reuse(self, store: Store) -> None:
        _fill_two(store)
        store.documents.delete("d", "doomed")
        digests = [embedding_input_sig(text) for text in ("doomed fish", "kept fish")]
        assert set(store.chunks.known_vectors("d", dense(CONFIG.embed_sig), digests)) == {
            digests[1]
        }

    @guarantee(6)
    def test_deleted_dataset_leaves_nothing(self, store: Store, harness: Harness) -> None:
        _fill_two(store)
        _fill_two(store, "other")
        assert store.layers.put(layer_of(store, "d", "", "of the dataset"))
        for _ in range(2):
            store.documents.delete_dataset("d")
            assert _found_names(store, "d") == set()
            assert store.chunks.config("d") is None
            assert list(store.layers.list("d")) == []
            assert list(store.chunks.iter_chunks("d")) == []
            check_contents(harness, store, content={}, chunks=0, vectors=0, layers=0)
        assert _found_names(store, "other") == {"doomed", "kept"}

    def test_deleting_a_dataset_that_never_came_into_being_clears_it(self, store: Store) -> None:
        set_config(store, "d")
        assert store.layers.put(layer_of(store, "d", "folder/", "fish"))
        assert store.documents.delete_dataset("d") is False
        assert store.chunks.config("d") is None
        assert list(store.layers.list("d")) == []
        assert store.documents.delete_dataset("d") is False
        assert list(store.documents.list_datasets()) == []

    def test_dataset_made_again_begins_empty(self, store: Store) -> None:
        _fill_two(store)
        store.documents.delete_dataset("d")
        put(store, "d", "doomed", TEXT)
        assert store.chunks.get_doc_sig("d", "doomed") is None
        assert store.chunks.config("d") is None
        assert list(store.chunks.search(keyword_query("doomed", "d"))) == []
        fill(store, "d", {"new": "new fish"})
        assert _found_names(store, "d") == {"new"}

    def test_chunks_are_deleted_by_document(self, store: Store) -> None:
        _fill_two(store)
        for _ in range(2):
            store.chunks.delete_by_doc("d", "doomed")
            assert store.chunks.get_doc_sig("d", "doomed") is None
            names = [chunk.doc_name for chunk in store.chunks.iter_chunks("d")]
            assert names == ["kept"]
        assert store.documents.get("d", "doomed") is not None
        store.chunks.delete_by_doc("none", "doomed")

    def test_chunks_are_deleted_by_dataset_with_the_configuration(
        self, store: Store, harness: Harness
    ) -> None:
        _fill_two(store)
        for _ in range(2):
            store.chunks.delete_by_dataset("d")
            assert store.chunks.config("d") is None
            assert list(store.chunks.iter_chunks("d")) == []
            assert list(store.chunks.search(keyword_query("fish", "d"))) == []
        check_contents(harness, store, chunks=0, vectors=0)
        assert len(store.documents.list("d")) == 2
        store.chunks.delete_by_dataset("none")

    def test_erasing_changes_nothing_that_is_stored(self, store: Store) -> None:
        _fill_two(store)
        store.documents.delete("d", "doomed")
        for _ in range(2):
            store.scrub()
            assert _found_names(store, "d") == {"kept"}
            assert [info.name for info in store.documents.list("d")] == ["kept"]

    def test_closed_store_refuses_every_call(self, harness: Harness) -> None:
        store = harness.open()
        _fill_two(store)
        layer = layer_of(store, "d", "doomed", "text")
        store.close()
        store.close()
        for call in (
            lambda: store.documents.get("d", "doomed"),
            lambda: store.documents.put("d", NewDocument(name="a", content="")),
            lambda: store.documents.list("d"),
            lambda: store.documents.list_datasets(),
            lambda: store.documents.create_dataset("d"),
            lambda: store.documents.delete("d", "doomed"),
            lambda: store.documents.delete_orphans("d", ["doomed"]),
            lambda: store.chunks.config("d"),
            lambda: store.chunks.get_doc_sig("d", "doomed"),
            lambda: store.chunks.search(keyword_query("fish", "d")),
            lambda: store.chunks.iter_chunks("d"),
            lambda: store.chunks.delete_by_doc("d", "doomed"),
            lambda: store.layers.put(layer),
            lambda: store.layers.get("d", "doomed", Layer.ABSTRACT),
        ):
            with pytest.raises(StoreError):
                call()


def _fill_two(store: Store, dataset_id: str = "d") -> None:
    fill(store, dataset_id, {"doomed": TEXT, "kept": "kept fish"})
    for name in ("doomed", "kept"):
        assert store.layers.put(layer_of(store, dataset_id, name, f"fish of {name}"))


def _found_names(store: Store, dataset_id: str) -> set[str]:
    """The documents that any lane finds; all lanes must agree."""
    lanes = [
        store.chunks.search(keyword_query("fish", dataset_id)),
        store.chunks.search(vector_query(vector_of("q"), dataset_id)),
        store.layers.search(layer_query(keyword_query("fish", dataset_id))),
    ]
    names = [{candidate.doc_name for candidate in lane} for lane in lanes]
    assert names[0] == names[1]
    return names[0] | names[2]
