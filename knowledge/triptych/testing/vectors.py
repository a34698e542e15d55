"""Vectors that come after their chunks: kept one by one, never of another text, searched whole."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pytest

from triptych.contracts import Store
from triptych.errors import ModelMismatchError
from triptych.records import DerivedSig, Filter, Vector
from triptych.records.spaces import dense
from triptych.signatures import embedding_input_sig
from triptych.testing.builders import (
    CONFIG,
    DIMENSION,
    chunks_of,
    derive,
    fill,
    ids,
    keyword_query,
    put,
    set_config,
    sig_of,
    vector_of,
    vector_query,
)
from triptych.testing.guarantees import guarantee
from triptych.testing.harness import Harness, HarnessTests, examined

__all__ = ["VectorTests", "vectors_for", "wait"]

OURS = CONFIG.embed_sig
OTHER = attrs.evolve(CONFIG, embed_sig="space/2")
NONE = attrs.evolve(CONFIG, embed_sig="")
SPACE = dense(OURS)
TEXT = "one fish\n\n~two fish\n\nred fish"


def wait(store: Store, dataset_id: str, name: str, content: str, **metadata: str) -> None:
    """Put a document with a chunk set that waits for all its vectors."""
    document = put(store, dataset_id, name, content, **metadata)
    sig = attrs.evolve(sig_of(store, dataset_id, name), embed_sig="")
    bare = chunks_of(document, sig)
    assert store.chunks.replace(dataset_id, name, bare, sig=sig)


def vectors_for(
    store: Store, dataset_id: str, name: str, space: str = OURS, *, width: int = DIMENSION
) -> dict[str, Vector]:
    """The vectors that the chunks of a document are to have, by digest, in their order."""
    return {
        chunk.sig.input_sig: vector_of(chunk.content, space, width)
        for chunk in store.chunks.iter_chunks(dataset_id, name)
        if not chunk.content.startswith("~")
    }


def bare_of(store: Store, dataset_id: str, name: str) -> dict[str, None]:
    """The texts of a document of which no vector is made, by digest."""
    return {
        chunk.sig.input_sig: None
        for chunk in store.chunks.iter_chunks(dataset_id, name)
        if chunk.content.startswith("~")
    }


def give(
    store: Store,
    dataset_id: str,
    vectors: Mapping[str, Vector | None],
    *names: str,
    space: str = OURS,
) -> list[str]:
    """What `VectorRepo.put_vectors` says in the space that serves."""
    return list(store.chunks.put_vectors(dataset_id, dense(space), names, vectors))


def whole(store: Store, dataset_id: str, name: str, space: str = OURS) -> dict[str, Vector | None]:
    """All that a document's set waits for."""
    return {**vectors_for(store, dataset_id, name, space), **bare_of(store, dataset_id, name)}


def embedded(store: Store, dataset_id: str, name: str, space: str = OURS) -> list[int]:
    """The indices of the chunks that have a vector of ``space``."""
    found = []
    for chunk in store.chunks.iter_chunks(dataset_id, name, vectors=True):
        if chunk.vector is not None and chunk.sig.embed_sig == space:
            assert np.array_equal(chunk.vector, vector_of(chunk.content, space))
            found.append(chunk.index)
    return found


def found_by_meaning(store: Store, dataset_id: str, text: str = "one fish") -> list[str]:
    """The documents that a vector search finds."""
    found = store.chunks.search(vector_query(vector_of(text), dataset_id, top_k=50))
    return sorted({name for name, _ in ids(found)})


class VectorTests(HarnessTests):
    """`VectorRepo` in the dense space that serves, and sets that wait for it."""

    @guarantee(7)
    def test_set_without_its_vectors_is_found_by_keyword_and_says_so(self, store: Store) -> None:
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        sig = store.chunks.get_doc_sig("d", "a")
        assert sig is not None
        assert sig.stale_reason(sig_of(store, "d", "a")) == "vector"
        assert sig.has_text_of(sig_of(store, "d", "a"))
        assert [name for name, _ in ids(store.chunks.search(keyword_query("red", "d")))] == ["a"]
        assert found_by_meaning(store, "d") == []
        assert list(store.chunks.waiting("d", SPACE)) == ["a"]
        assert store.chunks.count_waiting(["d", "d", "none"], SPACE) == 1

    def test_vectors_are_kept_one_by_one_and_searched_when_all_are_there(
        self, store: Store
    ) -> None:
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        vectors, bare = vectors_for(store, "d", "a"), bare_of(store, "d", "a")
        first, last = vectors
        assert give(store, "d", {first: vectors[first]}, "a") == []
        assert embedded(store, "d", "a") == [0]
        assert set(store.chunks.known_vectors("d", SPACE, [first, last])) == {first}
        assert found_by_meaning(store, "d") in ([], ["a"])
        assert give(store, "d", bare, "a") == []
        assert list(store.chunks.waiting("d", SPACE)) == ["a"]
        assert list(store.chunks.waiting("d", SPACE, ["a", "none"])) == ["a"]
        assert list(store.chunks.waiting("d", SPACE, [])) == []
        assert give(store, "d", {last: vectors[last], **bare}, "a") == ["a"]
        assert embedded(store, "d", "a") == [0, 2]
        assert store.chunks.get_doc_sig("d", "a") == sig_of(store, "d", "a")
        assert found_by_meaning(store, "d") == ["a"]
        assert list(store.chunks.waiting("d", SPACE)) == []
        assert store.chunks.count_waiting(["d"], SPACE) == 0
        assert give(store, "d", {first: vector_of("other")}, "a", "a") == ["a"]
        assert embedded(store, "d", "a") == [0, 2]
        assert examined(store, ["d"]) == []

    def test_what_is_embedded_later_is_as_what_is_embedded_at_once(self, store: Store) -> None:
        fill(store, "d", {"a": TEXT, "b": "one fish"})
        set_config(store, "e")
        for name, content in (("a", TEXT), ("b", "one fish")):
            wait(store, "e", name, content)
            assert give(store, "e", whole(store, "e", name), name) == [name]
        for name in ("a", "b"):
            one = store.chunks.iter_chunks("d", name, vectors=True)
            other = store.chunks.iter_chunks("e", name, vectors=True)
            assert [attrs.evolve(chunk, dataset_id="e") for chunk in one] == list(other)
        query = vector_of("one fish")
        found = [ids(store.chunks.search(vector_query(query, each))) for each in "de"]
        assert found[0] == found[1]

    def test_set_ends_its_waiting_only_whole(self, store: Store) -> None:
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        wait(store, "d", "b", TEXT)
        bare = bare_of(store, "d", "a")
        vectors = vectors_for(store, "d", "a")
        first = next(iter(vectors))
        assert give(store, "d", vectors, "a") == []
        before = store.chunks.get_doc_sig("d", "a")
        other = {embedding_input_sig("other"): None}
        assert give(store, "d", other, "a") == []
        assert give(store, "d", {**vectors, **bare}, "none") == []
        assert give(store, "d", {first: vectors[first], **other}, "a", "none") == []
        assert store.chunks.get_doc_sig("d", "a") == before
        assert list(store.chunks.waiting("d", SPACE)) == ["a", "b"]
        put(store, "d", "a", TEXT, tag="newer")
        moved = attrs.evolve(sig_of(store, "d", "a"), embed_sig="")
        assert store.chunks.update_source_version("d", "a", moved)
        assert give(store, "d", bare, "a") == ["a"]
        assert store.chunks.get_doc_sig("d", "a") == sig_of(store, "d", "a")
        assert list(store.chunks.waiting("d", SPACE)) == ["b"]
        # What the dataset has of its texts is enough.
        assert give(store, "d", bare, "b") == ["b"]
        assert embedded(store, "d", "b") == [0, 2]

    @guarantee(5)
    def test_vectors_never_come_to_another_text(self, store: Store, harness: Harness) -> None:
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        wait(store, "d", "gone", TEXT)
        late = whole(store, "d", "a")
        wait(store, "d", "a", "another\n\ntext\n\n!")
        wait(store, "d", "b", "red fish\n\nanother")
        store.documents.delete("d", "gone")
        assert give(store, "d", late, "a", "gone", "none") == []
        assert embedded(store, "d", "a") == []
        assert embedded(store, "d", "b") == []
        assert store.documents.get("d", "gone") is None
        assert list(store.chunks.iter_chunks("d", "gone")) == []
        assert dict(store.chunks.known_vectors("d", SPACE, list(late))) == {}
        if harness.raw is not None:
            assert harness.raw(store, "d").vectors == 0
        assert give(store, "none", late, "a") == []
        assert give(store, "d", late, "b") == []
        assert embedded(store, "d", "b") == [0]
        assert list(store.documents.list_datasets()) == ["d"]

    def test_vectors_of_another_space_than_the_datasets_are_refused(self, store: Store) -> None:
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        vectors = whole(store, "d", "a")
        set_config(store, "d", OTHER)
        assert give(store, "d", vectors, "a") == []
        assert embedded(store, "d", "a") == embedded(store, "d", "a", OTHER.embed_sig) == []
        set_config(store, "d", NONE)
        assert give(store, "d", vectors, "a", space="") == []
        assert give(store, "d", vectors, "a") == []
        assert embedded(store, "d", "a") == []
        assert list(store.chunks.vector_spaces("d")) == []

    def test_vectors_of_another_width_are_refused_whole(self, store: Store) -> None:
        fill(store, "d", {"first": "text"})
        wait(store, "d", "a", TEXT)
        wait(store, "d", "b", "one fish")
        wide = vectors_for(store, "d", "a", width=2 * DIMENSION)
        with pytest.raises(ModelMismatchError):
            give(store, "d", {**wide, **vectors_for(store, "d", "b")}, "a", "b")
        if harness_is_atomic(store):
            assert embedded(store, "d", "b") == []
            assert list(store.chunks.waiting("d", SPACE)) == ["a", "b"]

    def test_set_of_another_space_waits_from_its_first_new_vector_on(self, store: Store) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue fish"})
        old = store.chunks.get_doc_sig("d", "a")
        assert old is not None
        digests = [embedding_input_sig(text) for text in ("one fish", "red fish")]
        set_config(store, "d", OTHER)
        want = sig_of(store, "d", "a", OTHER)
        assert old.stale_reason(want) == "embedder"
        assert old.has_text_of(want)
        assert list(store.chunks.waiting("d", dense("space/2"))) == ["a", "b"]
        space = OTHER.embed_sig
        vectors = whole(store, "d", "a", space)
        assert give(store, "d", dict([*vectors.items()][:1]), "a", space=space) == []
        now = store.chunks.get_doc_sig("d", "a")
        assert now is not None
        assert now.stale_reason(want) == "vector"
        assert store.chunks.get_doc_sig("d", "b") == sig_of(store, "d", "b")
        assert give(store, "d", vectors, "a", space=space) == ["a"]
        assert store.chunks.get_doc_sig("d", "a") == want
        assert embedded(store, "d", "a", space) == [0, 2]
        assert dict(store.chunks.known_vectors("d", SPACE, digests)) == {}
        assert set(store.chunks.known_vectors("d", dense(space), digests)) == set(digests)
        query = vector_query(vector_of("one fish", space), "d", space=space)
        assert {name for name, _ in ids(store.chunks.search(query))} == {"a"}
        assert examined(store, ["d"]) == []

    def test_waiting_set_takes_the_vectors_that_the_dataset_has(self, store: Store) -> None:
        """So that two writers of one document do not ask the embedder twice."""
        fill(store, "d", {"b": "red fish"})
        wait(store, "d", "a", TEXT)
        assert embedded(store, "d", "a") == [2]
        vectors = vectors_for(store, "d", "a")
        first = next(iter(vectors))
        give(store, "d", {first: vectors[first]}, "a")
        wait(store, "d", "a", "red fish\n\nnew\n\none fish")
        assert embedded(store, "d", "a") == [0, 2]
        assert dict(store.chunks.known_vectors("e", SPACE, [first])) == {}

    def test_documents_share_the_vector_of_a_text(self, store: Store, harness: Harness) -> None:
        set_config(store, "d")
        for name in ("a", "b"):
            wait(store, "d", name, "shared\n\nshared")
        assert give(store, "d", vectors_for(store, "d", "a"), "b", "a", "b") == ["a", "b"]
        assert found_by_meaning(store, "d", "shared") == ["a", "b"]
        if harness.raw is not None:
            assert harness.raw(store, "d").vectors == 1
        store.documents.delete("d", "a")
        assert embedded(store, "d", "b") == [0, 1]
        store.documents.delete("d", "b")
        if harness.raw is not None:
            assert harness.raw(store, "d").vectors == 0

    def test_pending_names_what_lacks_vectors(self, store: Store) -> None:
        set_config(store, "d")
        for name in ("b", "a/2", "a/10", "é", "Z", "🦉"):
            wait(store, "d", name, TEXT)
        wait(store, "d", "empty", "")
        put(store, "d", "without", "text")
        put(store, "d", "whole", "text")
        assert derive(store, "d", "whole")
        set_config(store, "other")
        wait(store, "other", "a", TEXT)
        expected = sorted(["b", "a/2", "a/10", "é", "Z", "🦉"])
        assert list(store.chunks.waiting("d", SPACE)) == expected
        assert list(store.chunks.waiting("d", dense("space/2"))) == sorted([*expected, "whole"])
        assert list(store.chunks.waiting("d", dense(""))) == []
        assert list(store.chunks.waiting("none", SPACE)) == []
        assert store.chunks.count_waiting(["d", "other", "none"], SPACE) == 7
        assert store.chunks.count_waiting([], SPACE) == 0
        assert store.chunks.count_sets(["d", "other", "d", "none"]) == 9
        assert store.chunks.count_sets([]) == 0
        assert store.chunks.count_waiting(["d"], dense("")) == 0
        store.documents.delete("d", "é")
        store.chunks.delete_by_doc("d", "Z")
        store.documents.delete_dataset("other")
        assert store.chunks.count_waiting(["d", "other"], SPACE) == 4
        assert store.chunks.count_sets(["d", "other"]) == 6

    def test_stats_tell_what_waits_from_what_is_stale(self, store: Store) -> None:
        set_config(store, "d")

        def counts(space: str = OURS) -> tuple[int, ...]:
            found = store.stats("d", chunker_sig=CONFIG.chunker_sig, embed_sig=space)
            assert found is not None
            assert sum(each.vectors for each in found.spaces) == found.vectors
            return (found.chunks, found.vectors, found.stale, found.pending, found.pending_chunks)

        wait(store, "d", "a", TEXT)
        wait(store, "d", "b", "blue fish")
        assert counts() == (4, 0, 0, 2, 4)
        vectors = whole(store, "d", "a")
        give(store, "d", dict([*vectors.items()][:1]), "a")
        assert counts() == (4, 1, 0, 2, 3)
        give(store, "d", vectors, "a")
        assert counts() == (4, 2, 0, 1, 1)
        assert counts(space="") == (4, 2, 0, 0, 0)
        assert counts(space=OTHER.embed_sig) == (4, 2, 1, 2, 4)
        put(store, "d", "b", "newer")
        assert counts() == (4, 2, 1, 1, 1)

    def test_waiting_set_is_fresh_to_a_filter(self, store: Store) -> None:
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        wait(store, "d", "old", TEXT)
        put(store, "d", "old", "newer")
        fresh = DerivedSig(chunker_sig=CONFIG.chunker_sig, embed_sig=OURS)
        query = keyword_query("red", "d", where=Filter(fresh=fresh))
        assert [name for name, _ in ids(store.chunks.search(query))] == ["a"]

    def test_waiting_sets_come_back(self, harness: Harness) -> None:
        if not harness.persistent:
            pytest.skip("the store is not kept")
        store = harness.open()
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        vectors = whole(store, "d", "a")
        give(store, "d", dict([*vectors.items()][:1]), "a")
        store.close()
        store = harness.open()
        try:
            assert list(store.chunks.waiting("d", SPACE)) == ["a"]
            assert embedded(store, "d", "a") == [0]
            assert give(store, "d", dict([*vectors.items()][1:]), "a") == ["a"]
            assert found_by_meaning(store, "d") == ["a"]
        finally:
            store.close()

    @guarantee(5)
    def test_second_writer_replaces_and_deletes_beside_the_vectors(
        self, store: Store, harness: Harness
    ) -> None:
        """Whatever comes first: each vector is of its chunk's text, and what is deleted is gone."""
        set_config(store, "d")
        wait(store, "d", "a", TEXT)
        done = threading.Event()
        errors: list[BaseException] = []

        def embed() -> None:
            try:
                while not done.is_set():
                    vectors = [*whole(store, "d", "a").items()]
                    give(store, "d", dict(vectors[:1]), "a")
                    give(store, "d", dict(vectors[1:]), "a")
            except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
                errors.append(error)

        thread = threading.Thread(target=embed)
        thread.start()
        try:
            for turn in range(30):
                content = _turned(TEXT, turn)
                wait(store, "d", "a", content)
                _assert_vectors_fit(store)
                if turn % 3 == 2:
                    store.documents.delete("d", "a")
                    assert list(store.chunks.iter_chunks("d", "a")) == []
        finally:
            done.set()
            thread.join()
        assert errors == []
        _assert_vectors_fit(store)
        assert examined(store, ["d"]) == []
        store.documents.delete("d", "a")
        if harness.raw is not None:
            assert harness.raw(store, "d").vectors == 0


def harness_is_atomic(store: Store) -> bool:
    """Whether `put_vectors` is one write for all of its sets: not the default's."""
    return "put_vectors" in vars(type(store.chunks)) or any(
        "put_vectors" in vars(kind) and "repositories" not in kind.__module__
        for kind in type(store.chunks).__mro__
    )


def _turned(text: str, turn: int) -> str:
    parts = text.split("\n\n")
    return "\n\n".join([*parts[turn % 3 :], *parts[: turn % 3], f"turn {turn}"])


def _assert_vectors_fit(store: Store) -> None:
    chunks: Sequence[object] = embedded(store, "d", "a")
    sig = store.chunks.get_doc_sig("d", "a")
    if sig is not None and sig.embed_sig == OURS and chunks:
        assert store.documents.get_info("d", "a") is not None
