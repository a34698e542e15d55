"""`LayerRepo`: compare-and-set for documents, folders and datasets; search."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from triptych.contracts import Store
from triptych.errors import ModelMismatchError
from triptych.records import (
    NO_CHUNK,
    DerivedLayer,
    DerivedSig,
    Filter,
    Layer,
)
from triptych_testing.builders import (
    CONFIG,
    DIMENSION,
    both_lanes,
    fill,
    filter_of,
    ids,
    keyword_query,
    layer_of,
    layer_query,
    put,
    set_config,
    vector_of,
    vector_query,
)
from triptych_testing.harness import HarnessTests, guarantee, there
from triptych_testing.oracle import (
    DATASETS,
    QUERIES,
    assert_same_ranking,
    bm25,
    contents,
    dot_products,
    entries,
    layer_entries,
)

L0, L1 = Layer.ABSTRACT, Layer.OVERVIEW


class LayerTests(HarnessTests):
    """Every sentence of `LayerRepo`."""

    @guarantee(3)
    def test_layers_come_back_as_they_were_stored(self, store: Store) -> None:
        put(store, "d", "a", "text")
        for name in ("a", "folder/", ""):
            for kind in (L0, L1):
                layer = layer_of(store, "d", name, f"{kind} of\r\n{name}\0🦉", kind)
                assert store.layers.put(layer) is True
                assert store.layers.get("d", name, kind) == attrs.evolve(layer, vector=None)

    def test_put_replaces_the_layer_of_its_kind(self, store: Store) -> None:
        put(store, "d", "a", "text")
        for content in ("first", "second"):
            assert store.layers.put(layer_of(store, "d", "a", content))
        other = layer_of(store, "d", "a", "other", L1)
        assert store.layers.put(other)
        assert [layer.content for layer in store.layers.list("d")] == ["second", "other"]

    def test_layer_of_another_version_is_refused(self, store: Store) -> None:
        put(store, "d", "a", "old")
        kept = layer_of(store, "d", "a", "kept")
        assert store.layers.put(kept)
        put(store, "d", "a", "new")
        for version in (kept.sig.source_version, kept.sig.source_version + 5):
            sig = attrs.evolve(kept.sig, source_version=version)
            assert store.layers.put(attrs.evolve(kept, content="late", sig=sig)) is False
        assert store.layers.get("d", "a", L0) == attrs.evolve(kept, vector=None)
        assert store.layers.put(layer_of(store, "d", "a", "timely")) is True

    def test_layer_of_no_document_is_refused(self, store: Store) -> None:
        put(store, "d", "a", "text")
        layer = layer_of(store, "d", "a", "abstract")
        store.documents.delete("d", "a")
        store.layers.delete_by_doc("d", "a")
        for sig in (layer.sig, attrs.evolve(layer.sig, source_version=0)):
            assert store.layers.put(attrs.evolve(layer, sig=sig)) is False
            assert store.layers.put(attrs.evolve(layer, sig=sig, dataset_id="none")) is False
        assert store.layers.get("d", "a", L0) is None
        assert list(store.documents.list_datasets()) == ["d"]

    def test_layers_of_folders_and_datasets_are_always_stored(self, store: Store) -> None:
        for dataset_id in ("d", "not yet"):
            for name in ("", "folder/", "folder/inner/"):
                for version in (0, 7):
                    layer = layer_of(store, dataset_id, name, f"text {version}")
                    sig = attrs.evolve(layer.sig, source_version=version)
                    assert store.layers.put(attrs.evolve(layer, sig=sig)) is True
                    got = there(store.layers.get(dataset_id, name, L0))
                    assert got.content == f"text {version}"

    def test_absence_of_layers_is_no_error(self, store: Store) -> None:
        put(store, "d", "a", "text")
        assert store.layers.put(layer_of(store, "d", "a", "abstract"))
        assert store.layers.get("d", "a", L1) is None
        assert store.layers.get("d", "b", L0) is None
        assert store.layers.get("none", "a", L0) is None
        assert list(store.layers.list("none")) == []
        store.layers.delete_by_doc("d", "b")
        store.layers.delete_by_doc("none", "a")
        store.layers.delete_by_dataset("none")
        assert len(store.layers.list("d")) == 1

    def test_list_is_by_name_and_layer(self, store: Store) -> None:
        names = ["", "b", "a/", "a/2", "a/10", "é", "Z", "🦉"]
        for name in names:
            if name and not name.endswith("/"):
                put(store, "d", name, "text")
            for kind in (L1, L0):
                assert store.layers.put(layer_of(store, "d", name, "text", kind))
        every = [(layer.doc_name, layer.layer) for layer in store.layers.list("d")]
        assert every == [(name, kind) for name in sorted(names) for kind in (L0, L1)]
        overviews = store.layers.list("d", layer=L1)
        assert [(layer.doc_name, layer.layer) for layer in overviews] == [
            (name, L1) for name in sorted(names)
        ]
        assert all(layer.vector is None for layer in overviews)

    def test_delete_takes_all_layers_of_the_name_alone(self, store: Store) -> None:
        set_config(store, "d")
        for name in ("a", "a/b"):
            put(store, "d", name, "text")
        for name in ("a", "a/b", "a/", ""):
            for kind in (L0, L1):
                assert store.layers.put(layer_of(store, "d", name, f"fish {name}", kind))
        for gone in ("a", "a/", ""):
            store.layers.delete_by_doc("d", gone)
            store.layers.delete_by_doc("d", gone)
            assert store.layers.get("d", gone, L0) is None
            query = layer_query(keyword_query("fish", "d"), L1)
            assert gone not in {candidate.doc_name for candidate in store.layers.search(query)}
        assert [layer.doc_name for layer in store.layers.list("d")] == ["a/b", "a/b"]
        store.layers.delete_by_dataset("d")
        store.layers.delete_by_dataset("d")
        assert list(store.layers.list("d")) == []
        assert list(store.layers.search(layer_query(keyword_query("fish", "d")))) == []

    def test_layers_of_one_kind_are_searched_by_the_rules_of_chunks(self, store: Store) -> None:
        texts: dict[Layer, dict[tuple[str, str], str]] = {L0: {}, L1: {}}
        for dataset_id in DATASETS:
            fill(store, dataset_id, contents(dataset_id))
            for name, content in {
                **contents(dataset_id),
                "guide/": "the storm",
                "": "tide",
            }.items():
                for kind, text in ((L0, content[:60]), (L1, content[20:200])):
                    assert store.layers.put(layer_of(store, dataset_id, name, text, kind))
                    texts[kind][dataset_id, name] = text
        for kind in (L0, L1):
            corpus = layer_entries(texts[kind])
            for text in QUERIES:
                for top_k in (1, 5, 100):
                    words = keyword_query(text, *DATASETS, "none", top_k=top_k)
                    found = store.layers.search(layer_query(words, kind))
                    assert entries(found) == bm25(corpus, text, top_k=top_k)
                    assert all(candidate.index == NO_CHUNK for candidate in found)
                    near = vector_query(vector_of(text), *DATASETS, "none", top_k=top_k)
                    assert_same_ranking(
                        store.layers.search(layer_query(near, kind)),
                        dot_products(corpus, vector_of(text), top_k=top_k),
                    )

    def test_layers_are_filtered_by_their_documents(self, store: Store) -> None:
        set_config(store, "d")
        for name, lang in (("a/1", "en"), ("a/2", "de"), ("b", "en")):
            put(store, "d", name, "text", lang=lang)
            assert store.layers.put(layer_of(store, "d", name, "fish"))
        for where, names in (
            (filter_of(doc_name=["b", "a/2"]), ["a/2", "b"]),
            (filter_of(doc_prefix="a/"), ["a/1", "a/2"]),
            (filter_of(lang="en"), ["a/1", "b"]),
        ):
            for query in both_lanes("fish", "d", where=where):
                found = store.layers.search(layer_query(query))
                assert ids(found) == [(name, NO_CHUNK) for name in names]

    def test_layers_are_filtered_by_all_headings_of_their_documents(self, store: Store) -> None:
        fill(store, "d", {"a": "fish\n\n# Part\nfish\n\n# Other\nfish", "b": "# Other\nfish"})
        put(store, "d", "not derived", "# Part\nfish")
        for name in ("a", "b", "not derived", "folder/", ""):
            assert store.layers.put(layer_of(store, "d", name, "fish"))
        for heading, names in (("part", ["a"]), ("Other", ["a", "b"])):
            where = filter_of(heading=heading)
            for query in both_lanes("fish", "d", where=where):
                found = store.layers.search(layer_query(query))
                assert ids(found) == [(name, NO_CHUNK) for name in names]

    def test_vectors_of_layers_of_another_space_are_never_compared(self, store: Store) -> None:
        def near(space: str) -> list[str]:
            query = vector_query(vector_of("q"), "d", space=space)
            return [found.doc_name for found in store.layers.search(layer_query(query))]

        put(store, "d", "a", "text")
        here = layer_of(store, "d", "a", "fish")
        there = layer_of(store, "d", "folder/", "fish")
        there = attrs.evolve(there, sig=attrs.evolve(there.sig, embed_sig="space/2"))
        assert store.layers.put(here)
        assert store.layers.put(there)
        assert (near("space/1"), near("space/2")) == ([], []), "there is no configuration yet"
        set_config(store, "d")
        assert (near("space/1"), near("space/2")) == (["a"], [])
        set_config(store, "d", attrs.evolve(CONFIG, embed_sig="space/2"))
        assert (near("space/1"), near("space/2")) == ([], ["folder/"])
        words = layer_query(keyword_query("fish", "d"))
        assert ids(store.layers.search(words)) == [("a", NO_CHUNK), ("folder/", NO_CHUNK)]

    def test_vectors_of_layers_of_another_width_are_refused(self, store: Store) -> None:
        fill(store, "d", {"a": "text"})
        kept = layer_of(store, "d", "a", "kept")
        assert store.layers.put(kept)
        for name in ("a", "folder/"):
            wide = vector_of("wide", dimension=2 * DIMENSION)
            layer = attrs.evolve(layer_of(store, "d", name, "wide"), vector=wide)
            with pytest.raises(ModelMismatchError):
                store.layers.put(layer)
        assert [layer.content for layer in store.layers.list("d")] == ["kept"]
        stale = attrs.evolve(layer, doc_name="a", sig=attrs.evolve(kept.sig, source_version=99))
        assert store.layers.put(stale) is False

    def test_stale_layers_can_be_left_out(self, store: Store) -> None:
        set_config(store, "d")
        for name in ("fresh", "behind", "old prompt"):
            put(store, "d", name, "text")
            prompt = "prompt/0" if name == "old prompt" else "prompt/1"
            assert store.layers.put(layer_of(store, "d", name, "fish", prompt_sig=prompt))
        put(store, "d", "behind", "changed")
        where = Filter(fresh=DerivedSig(prompt_sig="prompt/1"))
        found = store.layers.search(layer_query(keyword_query("fish", "d", where=where)))
        assert ids(found) == [("fresh", NO_CHUNK)]
        whoever = Filter(fresh=DerivedSig())
        found = store.layers.search(layer_query(keyword_query("fish", "d", where=whoever)))
        assert ids(found) == [("fresh", NO_CHUNK), ("old prompt", NO_CHUNK)]

    def test_fetch_tells_what_a_key_of_a_layer_stands_for(self, store: Store) -> None:
        set_config(store, "d")
        put(store, "d", "a", "text", k="v")
        for name in ("a", "folder/", ""):
            assert store.layers.put(layer_of(store, "d", name, "fish"))
        for query in both_lanes("fish", "d"):
            found = store.layers.search(layer_query(query))
            assert len(found) == 3
            got = store.layers.fetch([candidate.key for candidate in found])
            for candidate in found:
                item = got[candidate.key]
                layer = there(store.layers.get("d", candidate.doc_name, L0))
                assert (item.key, item.layer, item.sig) == (candidate.key, layer, layer.sig)
                assert item.document == store.documents.get_info("d", candidate.doc_name)
                assert item.chunk is None
        keys = {candidate.doc_name: candidate.key for candidate in found}
        assert store.layers.put(layer_of(store, "d", "a", "new fish"))
        store.layers.delete_by_doc("d", "folder/")
        assert set(store.layers.fetch(list(keys.values()))) == {keys[""]}

    def test_searches_see_every_layer_that_was_stored(self, store: Store) -> None:
        set_config(store, "d")
        put(store, "d", "a", "text")
        for letter in "abcdefgh":
            assert store.layers.put(layer_of(store, "d", "a", f"{letter}quux"))
            words = layer_query(keyword_query(f"{letter}quux", "d"))
            assert ids(store.layers.search(words)) == [("a", NO_CHUNK)]
            near = layer_query(vector_query(vector_of(f"{letter}quux"), "d"))
            assert [candidate.score for candidate in store.layers.search(near)] == [1.0]

    def test_stored_vectors_of_layers_are_safe_from_the_callers_hands(self, store: Store) -> None:
        set_config(store, "d")
        put(store, "d", "a", "text")
        layer = layer_of(store, "d", "a", "fish")
        assert layer.vector is not None
        assert store.layers.put(layer)
        layer.vector[:] = np.zeros_like(layer.vector)
        (found,) = store.layers.search(layer_query(vector_query(vector_of("fish"), "d")))
        assert found.score == 1.0


L0, L1 = Layer.ABSTRACT, Layer.OVERVIEW
NAMES = ("", "a", "a/", "a/b", "a/c", "b", "b/", "z\U0010ffff", "z\U0010ffff\U0010ffff")


class LayerPageTests(HarnessTests):
    """Every sentence of `LayerRepo.page`."""

    def test_pages_of_layers_are_the_list_cut_in_pieces(self, store: Store) -> None:
        for name in NAMES:
            if name and not name.endswith("/"):
                put(store, "d", name, "text")
            for kind in (L0, L1) if name != "a/c" else (L1,):
                assert store.layers.put(layer_of(store, "d", name, f"{kind} of {name}", kind))
        for kind in (L0, L1):
            whole = store.layers.list("d", layer=kind)
            for prefix in ("", "a", "a/", "b/", "z", "z\U0010ffff", "\U0010ffff", "none"):
                wanted = [each for each in whole if each.doc_name.startswith(prefix)]
                for limit in (1, 2, 100):
                    found: list[DerivedLayer] = []
                    after: str | None = None
                    while page := store.layers.page(
                        "d", kind, prefix=prefix, after=after, limit=limit
                    ):
                        assert len(page) <= limit
                        found += page
                        after = page[-1].doc_name
                    assert found == wanted
        assert list(store.layers.page("d", L0, limit=0)) == []
        assert list(store.layers.page("nowhere", L0, limit=9)) == []
