"""Tests of `ChunkRepo` except search: configurations, compare-and-set, atomicity, vectors."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pytest

from triptych.contracts import Store
from triptych.errors import ModelMismatchError
from triptych.records import DatasetConfig, DerivedChunk, DerivedSig, dense
from triptych.signatures import embedding_input_sig
from triptych_testing.builders import (
    CONFIG,
    DIMENSION,
    chunks_of,
    derive,
    fill,
    keyword_query,
    put,
    set_config,
    sig_of,
    vector_of,
)
from triptych_testing.harness import Harness, HarnessTests, beside, check_contents, guarantee, there

OTHERS = {
    "chunker": attrs.evolve(CONFIG, chunker_sig="other"),
    "embedder": attrs.evolve(CONFIG, embed_sig="other"),
    "chunker alone": attrs.evolve(CONFIG, chunker_sig="other", embed_sig=""),
}
WITHOUT = attrs.evolve(CONFIG, embed_sig="")
TEXT = "# Top\n\none fish 🐟\n\n~two fish\n\nred fish"


class ChunkTests(HarnessTests):
    """Every sentence of `ChunkRepo`, and `Store.stats`."""

    def test_configure_sets_what_is_expected_only(self, store: Store) -> None:
        other = DatasetConfig(chunker_sig="c", embed_sig="", language="german")
        assert store.chunks.config("d") is None
        assert store.chunks.configure("d", CONFIG, expected=other) is False
        assert store.chunks.config("d") is None
        assert store.chunks.configure("d", CONFIG, expected=None) is True
        assert store.chunks.configure("d", other, expected=None) is False
        assert store.chunks.config("d") == CONFIG
        assert store.chunks.configure("d", other, expected=CONFIG) is True
        assert store.chunks.config("d") == other
        assert store.chunks.config("e") is None

    def test_configuration_makes_no_dataset(self, store: Store) -> None:
        set_config(store, "d")
        assert list(store.documents.list_datasets()) == []
        put(store, "d", "a", "")
        assert store.chunks.config("d") == CONFIG

    @guarantee(3)
    def test_chunks_come_back_as_they_were_stored(self, store: Store) -> None:
        set_config(store, "d")
        document = put(store, "d", "a.md", TEXT)
        sig = sig_of(store, "d", "a.md")
        chunks = [
            attrs.evolve(chunk, window_start=0, window_end=len(TEXT), locator=f"page {chunk.index}")
            for chunk in chunks_of(document, sig)
        ]
        assert store.chunks.replace("d", "a.md", chunks, sig=sig) is True
        assert store.chunks.get_doc_sig("d", "a.md") == sig
        assert list(store.chunks.iter_chunks("d", "a.md", vectors=True)) == chunks
        bare = [attrs.evolve(chunk, vector=None) for chunk in chunks]
        assert list(store.chunks.iter_chunks("d", "a.md")) == bare

    def test_vectors_come_back_bit_for_bit(self, store: Store) -> None:
        fill(store, "d", {"a": TEXT})
        for chunk in store.chunks.iter_chunks("d", vectors=True):
            if chunk.content.startswith("~"):
                assert chunk.vector is None
            else:
                assert chunk.vector is not None
                assert chunk.vector.dtype == np.float32
                assert chunk.vector.tobytes() == vector_of(chunk.content).tobytes()

    def test_iteration_is_by_name_and_index(self, store: Store) -> None:
        names = ["b", "a/2", "a/10", "é", "Z", "🦉"]
        fill(store, "d", {name: "\n\n".join(f"p{i}" for i in range(12)) for name in names})
        fill(store, "other", {"a": "p"})
        found = [(chunk.doc_name, chunk.index) for chunk in store.chunks.iter_chunks("d")]
        assert found == [(name, index) for name in sorted(names) for index in range(12)]
        assert list(store.chunks.iter_chunks("d", "none")) == []
        assert list(store.chunks.iter_chunks("none")) == []

    def test_set_of_no_chunks_is_a_set(self, store: Store) -> None:
        fill(store, "d", {"empty": ""})
        put(store, "d", "without", "text")
        assert store.chunks.get_doc_sig("d", "empty") == sig_of(store, "d", "empty")
        assert store.chunks.get_doc_sig("d", "without") is None
        assert dict(store.chunks.get_doc_sigs("d", ["empty", "without", "none"])) == {
            "empty": sig_of(store, "d", "empty")
        }
        assert list(store.chunks.iter_chunks("d", "empty")) == []

    def test_many_signatures_are_read_at_once(self, store: Store) -> None:
        names = [f"n{number:04}" for number in range(1200)]
        fill(store, "d", dict.fromkeys(names[:2] + names[-2:], "text"))
        assert set(store.chunks.get_doc_sigs("d", names)) == {*names[:2], *names[-2:]}
        assert dict(store.chunks.get_doc_sigs("d", [])) == {}

    def test_names_with_a_set_are_told_in_order(self, store: Store) -> None:
        names = ["b", "a/2", "a/10", "é", "Z", "🦉", "empty"]
        fill(store, "d", {name: "text" if name != "empty" else "" for name in names})
        put(store, "d", "without", "text")
        assert list(store.chunks.doc_names("d")) == sorted(names)
        store.chunks.delete_by_doc("d", "b")
        assert list(store.chunks.doc_names("d")) == sorted(set(names) - {"b"})
        assert list(store.chunks.doc_names("none")) == []

    def test_replace_swaps_the_whole_set(self, store: Store) -> None:
        fill(store, "d", {"a": "one\n\ntwo\n\nthree", "b": "four"})
        put(store, "d", "a", "five")
        assert derive(store, "d", "a")
        assert [chunk.content for chunk in store.chunks.iter_chunks("d")] == ["five", "four"]

    @guarantee(5)
    def test_replace_of_an_older_version_is_refused(self, store: Store) -> None:
        set_config(store, "d")
        old = put(store, "d", "a", "old")
        old_sig = sig_of(store, "d", "a")
        put(store, "d", "a", "new")
        assert _unchanged_by_replace(store, chunks_of(old, old_sig), old_sig)
        assert derive(store, "d", "a")
        assert _unchanged_by_replace(store, chunks_of(old, old_sig), old_sig)
        ahead = attrs.evolve(old_sig, source_version=99)
        assert _unchanged_by_replace(store, chunks_of(old, ahead), ahead)

    @guarantee(5)
    @pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
    def test_replace_of_another_configuration_is_refused(
        self, store: Store, other: DatasetConfig
    ) -> None:
        fill(store, "d", {"a": "text"})
        document = put(store, "d", "a", "new")
        sig = sig_of(store, "d", "a", other)
        assert _unchanged_by_replace(store, chunks_of(document, sig), sig)
        set_config(store, "d", other)
        assert store.chunks.replace("d", "a", chunks_of(document, sig), sig=sig) is True

    def test_replace_before_configure_is_refused(self, store: Store) -> None:
        document = put(store, "d", "a", "text")
        sig = sig_of(store, "d", "a")
        assert _unchanged_by_replace(store, chunks_of(document, sig), sig)

    @guarantee(5)
    def test_replace_never_brings_back_a_deleted_document(self, store: Store) -> None:
        fill(store, "d", {"a": "text"})
        document = there(store.documents.get("d", "a"))
        sig = sig_of(store, "d", "a")
        store.documents.delete("d", "a")
        store.chunks.delete_by_doc("d", "a")
        assert store.chunks.replace("d", "a", chunks_of(document, sig), sig=sig) is False
        assert store.documents.get("d", "a") is None
        put(store, "d", "a", "text")
        assert store.chunks.replace("d", "a", chunks_of(document, sig), sig=sig) is False
        assert store.chunks.get_doc_sig("d", "a") is None
        assert list(store.chunks.iter_chunks("d")) == []

    def test_replace_in_an_unknown_dataset_is_refused(self, store: Store) -> None:
        sig = DerivedSig(source_version=0, chunker_sig=CONFIG.chunker_sig, embed_sig="space/1")
        assert store.chunks.replace("none", "a", (), sig=sig) is False
        set_config(store, "none")
        assert store.chunks.replace("none", "a", (), sig=sig) is False
        assert list(store.documents.list_datasets()) == []

    def test_new_configuration_leaves_sets_in_place(self, store: Store) -> None:
        fill(store, "d", {"a": "text"})
        sig = store.chunks.get_doc_sig("d", "a")
        set_config(store, "d", OTHERS["chunker"])
        assert store.chunks.get_doc_sig("d", "a") == sig
        assert [chunk.content for chunk in store.chunks.iter_chunks("d")] == ["text"]
        found = store.chunks.search(keyword_query("text", "d"))
        assert [candidate.doc_name for candidate in found] == ["a"]

    def test_update_source_version_moves_a_fresh_set_to_the_new_version(self, store: Store) -> None:
        fill(store, "d", {"a": "one\n\ntwo"})
        before = list(store.chunks.iter_chunks("d", vectors=True))
        put(store, "d", "a", "one\n\ntwo", tag="new")
        sig = sig_of(store, "d", "a")
        assert store.chunks.update_source_version("d", "a", sig) is True
        assert store.chunks.get_doc_sig("d", "a") == sig
        after = list(store.chunks.iter_chunks("d", vectors=True))
        assert [chunk.sig.source_version for chunk in after] == [sig.source_version] * 2
        assert after == [
            attrs.evolve(chunk, sig=attrs.evolve(chunk.sig, source_version=sig.source_version))
            for chunk in before
        ]

    def test_update_source_version_of_anything_else_is_refused(self, store: Store) -> None:
        fill(store, "d", {"a": "text"})
        put(store, "d", "a", "text", tag="new")
        old, sig = store.chunks.get_doc_sig("d", "a"), sig_of(store, "d", "a")
        for wrong in (
            attrs.evolve(sig, input_sig="other"),
            attrs.evolve(sig, chunker_sig="other"),
            attrs.evolve(sig, embed_sig="other"),
            attrs.evolve(sig, source_version=sig.source_version - 1),
            attrs.evolve(sig, source_version=sig.source_version + 1),
        ):
            assert store.chunks.update_source_version("d", "a", wrong) is False
            assert store.chunks.get_doc_sig("d", "a") == old
        put(store, "d", "b", "text")
        assert store.chunks.update_source_version("d", "b", sig_of(store, "d", "b")) is False
        assert store.chunks.get_doc_sig("d", "b") is None
        assert store.chunks.update_source_version("none", "a", sig) is False

    def test_replace_many_answers_for_each_set(self, store: Store) -> None:
        set_config(store, "d")
        sets = []
        for name in ("a", "b", "c"):
            document = put(store, "d", name, f"text of {name}")
            sig = sig_of(store, "d", name)
            sets.append((name, chunks_of(document, sig), sig))
        put(store, "d", "b", "newer")
        assert list(store.chunks.replace_many("d", sets)) == [True, False, True]
        contents = [chunk.content for chunk in store.chunks.iter_chunks("d")]
        assert contents == ["text of a", "text of c"]
        assert list(store.chunks.replace_many("d", [])) == []

    @guarantee(5)
    def test_readers_see_the_old_set_or_the_new(self, store: Store) -> None:
        sizes = {"old": 3, "new": 7}
        contents = {
            word: "\n\n".join(f"{word} {number}" for number in range(size))
            for word, size in sizes.items()
        }
        fill(store, "d", {"a": contents["old"]})
        reads = 0

        def read() -> None:
            nonlocal reads
            read_set = [chunk.content for chunk in store.chunks.iter_chunks("d", "a")]
            assert read_set in [content.split("\n\n") for content in contents.values()]
            candidates = store.chunks.search(keyword_query("old new", "d", top_k=20))
            found = store.chunks.fetch([candidate.key for candidate in candidates])
            words = {item.chunk.content.split()[0] for item in found.values() if item.chunk}
            assert len(words) <= 1
            reads += 1

        with beside(read) as reading:
            rounds = 0
            while not reading.done() and (rounds < 20 or reads < 5):
                put(store, "d", "a", contents["new" if rounds % 2 == 0 else "old"])
                assert derive(store, "d", "a")
                rounds += 1
        assert reads >= 5

    def test_configurations_are_read_many_at_once(self, store: Store) -> None:
        fill(store, "d", {"a": "one"})
        fill(store, "e'\"\n", {"a": "one"})
        put(store, "bare", "a", "text")
        found = store.chunks.configs(["d", "bare", "none", "e'\"\n"])
        assert dict(found) == {"d": CONFIG, "e'\"\n": CONFIG}
        assert dict(store.chunks.configs([])) == {}

    def test_known_vectors_are_by_dataset_space_and_digest(self, store: Store) -> None:
        fill(store, "d", {"a": "one\n\ntwo\n\n~none"})
        digests = [embedding_input_sig(text) for text in ("one", "two", "~none", "three")]
        known = store.chunks.known_vectors("d", dense(CONFIG.embed_sig), digests)
        assert set(known) == set(digests[:2])
        assert np.array_equal(known[digests[0]], vector_of("one"))
        assert dict(store.chunks.known_vectors("d", dense("space/2"), digests)) == {}
        assert dict(store.chunks.known_vectors("other", dense(CONFIG.embed_sig), digests)) == {}
        assert dict(store.chunks.known_vectors("d", dense(CONFIG.embed_sig), [])) == {}

    def test_vectors_live_as_long_as_a_chunk_uses_them(
        self, store: Store, harness: Harness
    ) -> None:
        fill(store, "d", {"a": "shared\n\nown\n\nshared", "b": "shared"})
        digests = [embedding_input_sig(text) for text in ("shared", "own")]

        def known() -> set[str]:
            found = set(store.chunks.known_vectors("d", dense(CONFIG.embed_sig), digests))
            check_contents(harness, store, vectors=len(found))
            return found

        assert known() == set(digests)
        put(store, "d", "a", "shared")
        assert derive(store, "d", "a")
        assert known() == {digests[0]}
        store.chunks.delete_by_doc("d", "a")
        assert known() == {digests[0]}
        store.chunks.delete_by_doc("d", "b")
        assert known() == set()

    def test_stored_vectors_are_safe_from_the_callers_hands(self, store: Store) -> None:
        set_config(store, "d")
        document = put(store, "d", "a", "text")
        sig = sig_of(store, "d", "a")
        (chunk,) = chunks_of(document, sig)
        assert chunk.vector is not None
        assert store.chunks.replace("d", "a", [chunk], sig=sig)
        chunk.vector[:] = 0
        (read,) = store.chunks.iter_chunks("d", vectors=True)
        assert read.vector is not None
        assert np.array_equal(read.vector, vector_of("text"))
        if read.vector.flags.writeable:
            read.vector[:] = 0
            (again,) = store.chunks.iter_chunks("d", vectors=True)
            assert again.vector is not None
            assert np.array_equal(again.vector, vector_of("text"))

    def test_vectors_of_another_width_are_refused(self, store: Store) -> None:
        set_config(store, "d")
        for name in ("a", "b"):
            put(store, "d", name, f"one {name}\n\ntwo {name}")
        assert _replaces_wide(store, "b", [DIMENSION, 2 * DIMENSION]) is ModelMismatchError
        assert store.chunks.get_doc_sig("d", "b") is None
        assert derive(store, "d", "a")
        before = list(store.chunks.iter_chunks("d", vectors=True))
        for widths in ([2 * DIMENSION] * 2, [DIMENSION, DIMENSION - 1]):
            assert _replaces_wide(store, "b", widths) is ModelMismatchError
            assert store.chunks.get_doc_sig("d", "b") is None
            assert list(store.chunks.iter_chunks("d", vectors=True)) == before
        assert _replaces_wide(store, "b", [DIMENSION] * 2) is True

    def test_width_of_what_is_refused_does_not_count(self, store: Store) -> None:
        fill(store, "d", {"a": "text"})
        put(store, "d", "b", "one\n\ntwo")
        stale = attrs.evolve(sig_of(store, "d", "b"), source_version=99)
        assert _replaces_wide(store, "b", [2 * DIMENSION] * 2, stale) is False
        wide = attrs.evolve(CONFIG, embed_sig="wide/1")
        set_config(store, "d", wide)
        sig = sig_of(store, "d", "b", wide)
        assert _replaces_wide(store, "b", [2 * DIMENSION] * 2, sig) is True

    def test_replace_many_with_another_width_stores_nothing(
        self, store: Store, harness: Harness
    ) -> None:
        fill(store, "d", {"first": "text"})
        sets = []
        for name, width in (("a", DIMENSION), ("b", 2 * DIMENSION)):
            document, sig = put(store, "d", name, f"text of {name}"), sig_of(store, "d", name)
            sets.append((name, _wide(chunks_of(document, sig), [width]), sig))
        with pytest.raises(ModelMismatchError):
            store.chunks.replace_many("d", sets)
        before = [] if harness.atomic_batches else ["a"]
        assert list(store.chunks.doc_names("d")) == [*before, "first"]
        assert list(store.chunks.replace_many("d", sets[:1])) == [True]

    def test_keys_stay_over_a_new_source_version(self, store: Store) -> None:
        fill(store, "d", {"a": "one fish\n\ntwo fish"})
        found = store.chunks.search(keyword_query("fish", "d"))
        put(store, "d", "a", "one fish\n\ntwo fish", tag="new")
        sig = sig_of(store, "d", "a")
        assert store.chunks.update_source_version("d", "a", sig)
        got = store.chunks.fetch([candidate.key for candidate in found])
        assert [item.sig for item in got.values()] == [sig] * 2

    def test_stats_count_what_is_there(self, store: Store) -> None:

        def stats(
            chunker: str = CONFIG.chunker_sig, space: str = CONFIG.embed_sig
        ) -> tuple[int, ...]:
            counts = there(store.stats("d", chunker_sig=chunker, embed_sig=space))
            return (counts.documents, counts.chunks, counts.vectors, counts.stale, counts.size)

        assert store.stats("d", chunker_sig="", embed_sig="") is None
        set_config(store, "d")
        assert store.stats("d", chunker_sig="", embed_sig="") is None
        fill(store, "d", {"a": "one\n\n~two", "b": "é", "c": ""})
        assert stats() == (3, 3, 2, 0, 11)
        put(store, "d", "new", "text")
        assert stats() == (4, 3, 2, 1, 15)
        put(store, "d", "b", "e")
        assert stats() == (4, 3, 2, 2, 14)
        put(store, "d", "c", "", tag="same input")
        assert stats() == (4, 3, 2, 2, 14)
        assert stats(space="") == stats()
        assert stats(chunker="other")[3] == 4
        assert stats(space="other")[3] == 4
        counts = there(store.stats("d", chunker_sig="", embed_sig=""))
        assert (counts.dataset_id, counts.config, counts.layers) == ("d", CONFIG, 0)

    def test_stats_count_each_embedding_space(self, store: Store) -> None:

        def spaces() -> list[tuple[str, int, int]]:
            counts = there(store.stats("d", chunker_sig="", embed_sig=""))
            assert sum(space.vectors for space in counts.spaces) == counts.vectors
            return [(each.embed_sig, each.dimension, each.vectors) for each in counts.spaces]

        fill(store, "d", {"a": "one\n\ntwo\n\n~three", "b": "one", "c": "~none"})
        ours = CONFIG.embed_sig
        assert spaces() == [(ours, DIMENSION, 3)]
        set_config(store, "d", OTHERS["embedder"])
        document = put(store, "d", "b", "four\n\nfive")
        sig = sig_of(store, "d", "b", OTHERS["embedder"])
        wide = _wide(chunks_of(document, sig), [2 * DIMENSION] * 2)
        assert store.chunks.replace("d", "b", wide, sig=sig)
        assert spaces() == [("other", 2 * DIMENSION, 2), (ours, DIMENSION, 2)]
        store.chunks.delete_by_doc("d", "b")
        assert spaces() == [(ours, DIMENSION, 2)]
        set_config(store, "d", WITHOUT)
        assert derive(store, "d", "a", WITHOUT)
        assert spaces() == []


def _wide(chunks: Sequence[DerivedChunk], widths: Sequence[int]) -> list[DerivedChunk]:
    """The chunks with vectors of these widths."""
    return [
        attrs.evolve(chunk, vector=vector_of(chunk.content, chunk.sig.embed_sig, width))
        for chunk, width in zip(chunks, widths, strict=True)
    ]


def _replaces_wide(
    store: Store, name: str, widths: Sequence[int], sig: DerivedSig | None = None
) -> bool | type[ModelMismatchError]:
    """What becomes of a set with vectors of these widths."""
    document, sig = store.documents.get("d", name), sig or sig_of(store, "d", name)
    assert document is not None
    chunks = _wide(chunks_of(document, sig), widths)
    try:
        return store.chunks.replace("d", name, chunks, sig=sig)
    except ModelMismatchError:
        return ModelMismatchError


def _unchanged_by_replace(store: Store, chunks: Sequence[DerivedChunk], sig: DerivedSig) -> bool:
    """Whether replacing was refused and left everything as it was."""
    before = list(store.chunks.iter_chunks("d", vectors=True))
    stored = store.chunks.get_doc_sig("d", "a")
    refused = not store.chunks.replace("d", "a", chunks, sig=sig)
    assert list(store.chunks.iter_chunks("d", vectors=True)) == before
    assert store.chunks.get_doc_sig("d", "a") == stored
    return refused
