"""Tests of vectors that are stored after their chunks."""

from __future__ import annotations

from contextlib import closing

import attrs
import numpy as np
import pytest

from triptych.contracts import Store
from triptych.errors import ModelMismatchError
from triptych.records import AnySpace, AnyVector, DatasetConfig, DerivedSig, Filter, dense, sparse
from triptych.signatures import embedding_input_sig
from triptych_testing.builders import (
    CONFIG,
    DIMENSION,
    SPARSE,
    chunks_of,
    fill,
    ids,
    keyword_query,
    put,
    set_config,
    sig_of,
    sparse_of,
    sparse_query,
    vector_of,
    vector_query,
)
from triptych_testing.harness import (
    Harness,
    HarnessTests,
    beside,
    check_contents,
    examined,
    guarantee,
    keeps_or_skip,
    there,
)


@attrs.frozen(kw_only=True)
class Lane:
    """One kind of vectors. Of a text that begins with "~" the embedder makes none.

    Attributes:
        space: the space that serves.
        config: the configuration of which it serves.
        other: one that another space of the kind serves.
        none: one that none serves.
    """

    space: AnySpace
    config: DatasetConfig
    other: DatasetConfig
    none: DatasetConfig

    def vector(self, text: str) -> AnyVector | None:
        """What the model makes of a text."""
        if self.space.kind == "sparse":
            return sparse_of(text, self.space.sig)
        return None if text.startswith("~") else vector_of(text, self.space.sig)

    def wait(self, store: Store, dataset_id: str, name: str, content: str, **metadata: str) -> None:
        """Put a document with a chunk set that waits for all its vectors."""
        document = put(store, dataset_id, name, content, **metadata)
        sig = attrs.evolve(sig_of(store, dataset_id, name, self.config), embed_sig="")
        bare = chunks_of(document, sig)
        assert store.chunks.replace(dataset_id, name, bare, sig=sig)

    def whole(self, store: Store, dataset_id: str, name: str) -> dict[str, AnyVector | None]:
        """All that a document's set waits for, by digest, in the order of its chunks."""
        chunks = store.chunks.iter_chunks(dataset_id, name)
        return {chunk.sig.input_sig: self.vector(chunk.content) for chunk in chunks}

    def give(
        self, store: Store, dataset_id: str, vectors: dict[str, AnyVector | None], *names: str
    ) -> list[str]:
        """What `VectorRepo.put_vectors` says in the space that serves."""
        return list(store.chunks.put_vectors(dataset_id, self.space, names, vectors))

    def held(self, store: Store, dataset_id: str, name: str) -> list[int]:
        """The indices of the chunks that have their vector, which is the model's."""
        found = []
        chunks = list(store.chunks.iter_chunks(dataset_id, name, vectors=True))
        digests = [chunk.sig.input_sig for chunk in chunks]
        known = store.chunks.known_vectors(dataset_id, self.space, digests)
        for chunk in chunks:
            vector: AnyVector | None = known.get(chunk.sig.input_sig)
            if self.space.kind == "dense":
                vector = chunk.vector if chunk.sig.embed_sig == self.space.sig else None
            if vector is None:
                continue
            made = self.vector(chunk.content)
            if isinstance(vector, np.ndarray) and isinstance(made, np.ndarray):
                same = np.array_equal(vector, made)
            else:
                same = vector == made
            assert same, f"chunk {chunk.index} of {name!r} has the vector of another text"
            found.append(chunk.index)
        return found

    def found(self, store: Store, dataset_id: str, text: str = "one fish") -> list[str]:
        """The documents that a search of the lane finds."""
        vector = self.vector(text)
        if isinstance(vector, np.ndarray):
            query = vector_query(vector, dataset_id, top_k=50)
        else:
            query = sparse_query(text, dataset_id, top_k=50, space=self.space.sig)
        return sorted({name for name, _ in ids(store.chunks.search(query))})


_BARE = attrs.evolve(CONFIG, embed_sig="")

DENSE = Lane(
    space=dense(CONFIG.embed_sig),
    config=CONFIG,
    other=attrs.evolve(CONFIG, embed_sig="space/2"),
    none=_BARE,
)
SPARSE_LANE = Lane(
    space=sparse(SPARSE),
    config=attrs.evolve(_BARE, sparse_sig=SPARSE),
    other=attrs.evolve(_BARE, sparse_sig="sparse/2"),
    none=_BARE,
)
LANES = {lane.space.kind: lane for lane in (DENSE, SPARSE_LANE)}


OURS = CONFIG.embed_sig
OTHER = attrs.evolve(CONFIG, embed_sig="space/2")
LATER = attrs.evolve(DENSE, space=dense(OTHER.embed_sig), config=OTHER)
SPACE = dense(OURS)
TEXT = "one fish\n\n~two fish\n\nred fish"


class VectorTests(HarnessTests):
    """`VectorRepo` in spaces that serve, dense and sparse, and sets that wait for them."""

    @pytest.fixture(params=list(LANES))
    def lane(self, request: pytest.FixtureRequest) -> Lane:
        lane = LANES[request.param]
        if "store" in request.fixturenames:  # open already, and some stores are not opened twice
            keeps_or_skip(request.getfixturevalue("store").chunks, lane.space.kind)
            return lane
        with closing(request.getfixturevalue("harness").open()) as store:
            keeps_or_skip(store.chunks, lane.space.kind)
        return lane

    @guarantee(7)
    def test_set_without_its_vectors_is_found_by_keyword_and_says_so(self, store: Store) -> None:
        set_config(store, "d")
        DENSE.wait(store, "d", "a", TEXT)
        sig = there(store.chunks.get_doc_sig("d", "a"))
        assert sig.stale_reason(sig_of(store, "d", "a")) == "vector"
        assert sig.has_text_of(sig_of(store, "d", "a"))
        assert [name for name, _ in ids(store.chunks.search(keyword_query("red", "d")))] == ["a"]
        assert DENSE.found(store, "d") == []
        assert list(store.chunks.waiting("d", SPACE)) == ["a"]
        assert store.chunks.count_waiting(["d", "d", "none"], SPACE) == 1

    def test_vectors_are_kept_one_by_one_and_searched_when_all_are_there(
        self, store: Store, lane: Lane
    ) -> None:
        set_config(store, "d", lane.config)
        lane.wait(store, "d", "a", TEXT)
        vectors = lane.whole(store, "d", "a")
        first, *_, last = vectors
        rest = {digest: vectors[digest] for digest in vectors if digest not in (first, last)}
        chunks, space = store.chunks, lane.space
        assert lane.give(store, "d", {first: vectors[first]}, "a") == []
        assert lane.held(store, "d", "a") == [0]
        assert set(chunks.known_vectors("d", space, [first, last])) == {first}
        assert lane.found(store, "d") in ([], ["a"])
        assert lane.give(store, "d", rest, "a") == []
        assert list(chunks.waiting("d", space)) == ["a"]
        assert chunks.count_waiting(["d", "d", "none"], space) == 1
        assert list(chunks.waiting("d", space, ["a", "none"])) == ["a"]
        assert list(chunks.waiting("d", space, [])) == []
        assert lane.give(store, "d", {last: vectors[last], **rest}, "a") == ["a"]
        held = [at for at, vector in enumerate(vectors.values()) if vector is not None]
        assert lane.held(store, "d", "a") == held
        assert chunks.get_doc_sig("d", "a") == sig_of(store, "d", "a", lane.config)
        assert lane.found(store, "d") == ["a"]
        assert list(chunks.waiting("d", space)) == []
        assert chunks.count_waiting(["d"], space) == 0
        assert lane.give(store, "d", {first: lane.vector("other")}, "a", "a") == ["a"]
        assert lane.give(store, "d", {}, "a") == ["a"]
        assert lane.held(store, "d", "a") == held
        assert examined(store, ["d"]) == []

    def test_what_is_embedded_later_is_as_what_is_embedded_at_once(self, store: Store) -> None:
        fill(store, "d", {"a": TEXT, "b": "one fish"})
        set_config(store, "e")
        for name, content in (("a", TEXT), ("b", "one fish")):
            DENSE.wait(store, "e", name, content)
            assert DENSE.give(store, "e", DENSE.whole(store, "e", name), name) == [name]
        for name in ("a", "b"):
            one = store.chunks.iter_chunks("d", name, vectors=True)
            other = store.chunks.iter_chunks("e", name, vectors=True)
            assert [attrs.evolve(chunk, dataset_id="e") for chunk in one] == list(other)
        query = vector_of("one fish")
        found = [ids(store.chunks.search(vector_query(query, each))) for each in "de"]
        assert found[0] == found[1]

    def test_set_ends_its_waiting_only_whole(self, store: Store, lane: Lane) -> None:
        set_config(store, "d", lane.config)
        for name in "ab":
            lane.wait(store, "d", name, TEXT)
        vectors = lane.whole(store, "d", "a")
        second = [*vectors][1]
        most = {digest: each for digest, each in vectors.items() if digest != second}
        assert lane.give(store, "d", most, "a") == []
        before = store.chunks.get_doc_sig("d", "a")
        other = {embedding_input_sig("other"): lane.vector("~other")}
        assert lane.give(store, "d", other, "a") == []
        assert lane.give(store, "d", vectors, "none") == []
        assert lane.give(store, "d", {**most, **other}, "a", "none") == []
        assert store.chunks.get_doc_sig("d", "a") == before
        assert list(store.chunks.waiting("d", lane.space)) == ["a", "b"]
        put(store, "d", "a", TEXT, tag="newer")
        moved = attrs.evolve(sig_of(store, "d", "a", lane.config), embed_sig="")
        assert store.chunks.update_source_version("d", "a", moved)
        last = {second: vectors[second]}
        assert lane.give(store, "d", last, "a") == ["a"]
        assert store.chunks.get_doc_sig("d", "a") == sig_of(store, "d", "a", lane.config)
        assert list(store.chunks.waiting("d", lane.space)) == ["b"]
        # What the dataset has of its texts is enough.
        assert lane.give(store, "d", last, "b") == ["b"]
        assert lane.held(store, "d", "b") == lane.held(store, "d", "a")

    def test_one_call_ends_the_waiting_of_several_documents(self, store: Store, lane: Lane) -> None:
        set_config(store, "d", lane.config)
        contents = {"b": TEXT, "a": "red fish", "empty": "", "other": "reef"}
        for name, content in contents.items():
            lane.wait(store, "d", name, content)
        vectors = lane.whole(store, "d", "b")
        done = lane.give(store, "d", vectors, "b", "other", "a", "b", "empty")
        assert done == ["a", "b", "empty"]
        assert list(store.chunks.waiting("d", lane.space)) == ["other"]

    @guarantee(5)
    def test_vectors_never_come_to_another_text(
        self, store: Store, harness: Harness, lane: Lane
    ) -> None:
        set_config(store, "d", lane.config)
        lane.wait(store, "d", "a", TEXT)
        lane.wait(store, "d", "gone", TEXT)
        late = lane.whole(store, "d", "a")
        lane.wait(store, "d", "a", "another\n\ntext\n\n!")
        lane.wait(store, "d", "b", "red fish\n\nanother")
        store.documents.delete("d", "gone")
        assert lane.give(store, "d", late, "a", "gone", "none") == []
        assert lane.held(store, "d", "a") == []
        assert lane.held(store, "d", "b") == []
        assert store.documents.get("d", "gone") is None
        assert list(store.chunks.iter_chunks("d", "gone")) == []
        assert dict(store.chunks.known_vectors("d", lane.space, list(late))) == {}
        check_contents(harness, store, vectors=0)
        assert lane.give(store, "none", late, "a") == []
        assert lane.give(store, "d", late, "b") == []
        assert lane.held(store, "d", "b") == [0]
        assert list(store.documents.list_datasets()) == ["d"]

    def test_vectors_of_another_space_than_the_datasets_are_refused(
        self, store: Store, lane: Lane
    ) -> None:
        set_config(store, "d", lane.config)
        lane.wait(store, "d", "a", TEXT)
        vectors = lane.whole(store, "d", "a")
        for config in (lane.other, lane.none):
            set_config(store, "d", config)
            for sig in (lane.space.sig, ""):
                space = attrs.evolve(lane.space, sig=sig)
                assert list(store.chunks.put_vectors("d", space, ["a"], vectors)) == []
            assert lane.held(store, "d", "a") == []
            assert dict(store.chunks.known_vectors("d", lane.space, list(vectors))) == {}
        assert list(store.chunks.further_spaces("d")) == []

    def test_vectors_of_another_width_are_refused_whole(self, store: Store) -> None:
        fill(store, "d", {"first": "text"})
        DENSE.wait(store, "d", "a", TEXT)
        DENSE.wait(store, "d", "b", "one fish")
        narrow = DENSE.whole(store, "d", "b")
        texts = [chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d", "a")]
        wide = dict.fromkeys(texts, vector_of("wide", dimension=2 * DIMENSION))
        with pytest.raises(ModelMismatchError):
            DENSE.give(store, "d", {**wide, **narrow}, "a", "b")
        if harness_is_atomic(store):
            assert DENSE.held(store, "d", "b") == []
            assert list(store.chunks.waiting("d", SPACE)) == ["a", "b"]

    def test_set_of_another_space_waits_from_its_first_new_vector_on(self, store: Store) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue fish"})
        old = there(store.chunks.get_doc_sig("d", "a"))
        digests = [embedding_input_sig(text) for text in ("one fish", "red fish")]
        set_config(store, "d", OTHER)
        want = sig_of(store, "d", "a", OTHER)
        assert old.stale_reason(want) == "embedder"
        assert old.has_text_of(want)
        assert list(store.chunks.waiting("d", dense("space/2"))) == ["a", "b"]
        space = OTHER.embed_sig
        vectors = LATER.whole(store, "d", "a")
        assert LATER.give(store, "d", dict([*vectors.items()][:1]), "a") == []
        assert there(store.chunks.get_doc_sig("d", "a")).stale_reason(want) == "vector"
        assert store.chunks.get_doc_sig("d", "b") == sig_of(store, "d", "b")
        assert LATER.give(store, "d", vectors, "a") == ["a"]
        assert store.chunks.get_doc_sig("d", "a") == want
        assert LATER.held(store, "d", "a") == [0, 2]
        assert dict(store.chunks.known_vectors("d", SPACE, digests)) == {}
        assert set(store.chunks.known_vectors("d", dense(space), digests)) == set(digests)
        query = vector_query(vector_of("one fish", space), "d", space=space)
        assert {name for name, _ in ids(store.chunks.search(query))} == {"a"}
        assert examined(store, ["d"]) == []

    def test_waiting_set_takes_the_vectors_that_the_dataset_has(self, store: Store) -> None:
        """So that two writers of one document do not ask the embedder twice."""
        fill(store, "d", {"b": "red fish"})
        DENSE.wait(store, "d", "a", TEXT)
        assert DENSE.held(store, "d", "a") == [2]
        vectors = DENSE.whole(store, "d", "a")
        first = next(iter(vectors))
        DENSE.give(store, "d", {first: vectors[first]}, "a")
        DENSE.wait(store, "d", "a", "red fish\n\nnew\n\none fish")
        assert DENSE.held(store, "d", "a") == [0, 2]
        assert dict(store.chunks.known_vectors("e", SPACE, [first])) == {}

    def test_documents_share_the_vector_of_a_text(
        self, store: Store, harness: Harness, lane: Lane
    ) -> None:
        set_config(store, "d", lane.config)
        for name in ("a", "b"):
            lane.wait(store, "d", name, "shared\n\nshared")
        vectors = lane.whole(store, "d", "a")
        assert lane.give(store, "d", vectors, "b", "a", "b") == ["a", "b"]
        assert lane.found(store, "d", "shared") == ["a", "b"]
        if lane is DENSE:
            check_contents(harness, store, vectors=1)
        store.documents.delete("d", "a")
        assert lane.held(store, "d", "b") == [0, 1]
        store.documents.delete("d", "b")
        assert dict(store.chunks.known_vectors("d", lane.space, list(vectors))) == {}
        check_contents(harness, store, vectors=0)

    def test_waiting_names_what_lacks_vectors(self, store: Store, lane: Lane) -> None:
        set_config(store, "d", lane.config)
        for name in ("b", "a/2", "a/10", "é", "Z", "🦉", "whole"):
            lane.wait(store, "d", name, TEXT if name != "whole" else "text")
        lane.wait(store, "d", "empty", "")
        put(store, "d", "without", "text")
        assert lane.give(store, "d", lane.whole(store, "d", "whole"), "whole") == ["whole"]
        set_config(store, "other", lane.config)
        lane.wait(store, "other", "a", TEXT)
        chunks, space = store.chunks, lane.space
        another, none = attrs.evolve(space, sig="another"), attrs.evolve(space, sig="")
        expected = sorted(["b", "a/2", "a/10", "é", "Z", "🦉"])
        some = ["whole", "Z", "empty", "without", "none"]
        assert list(chunks.waiting("d", space)) == expected
        assert list(chunks.waiting("d", space, some)) == ["Z"]
        assert list(chunks.waiting("d", another)) == sorted([*expected, "whole"])
        assert list(chunks.waiting("d", another, some)) == ["Z", "whole"]
        assert list(chunks.waiting("d", none)) == []
        assert list(chunks.waiting("none", space)) == []
        assert chunks.count_waiting(["d", "other", "none"], space) == 7
        assert chunks.count_waiting([], space) == 0
        assert chunks.count_sets(["d", "other", "d", "none"]) == 9
        assert chunks.count_sets([]) == 0
        assert chunks.count_waiting(["d"], none) == 0
        store.documents.delete("d", "é")
        chunks.delete_by_doc("d", "Z")
        store.documents.delete_dataset("other")
        assert chunks.count_waiting(["d", "other"], space) == 4
        assert chunks.count_sets(["d", "other"]) == 6

    def test_stats_tell_what_waits_from_what_is_stale(self, store: Store) -> None:
        set_config(store, "d")

        def counts(space: str = OURS) -> tuple[int, ...]:
            found = there(store.stats("d", chunker_sig=CONFIG.chunker_sig, embed_sig=space))
            assert sum(each.vectors for each in found.spaces) == found.vectors
            return (found.chunks, found.vectors, found.stale, found.pending, found.pending_chunks)

        DENSE.wait(store, "d", "a", TEXT)
        DENSE.wait(store, "d", "b", "blue fish")
        assert counts() == (4, 0, 0, 2, 4)
        vectors = DENSE.whole(store, "d", "a")
        DENSE.give(store, "d", dict([*vectors.items()][:1]), "a")
        assert counts() == (4, 1, 0, 2, 3)
        DENSE.give(store, "d", vectors, "a")
        assert counts() == (4, 2, 0, 1, 1)
        assert counts(space="") == (4, 2, 0, 0, 0)
        assert counts(space=OTHER.embed_sig) == (4, 2, 1, 2, 4)
        put(store, "d", "b", "newer")
        assert counts() == (4, 2, 1, 1, 1)

    def test_waiting_set_is_fresh_to_a_filter(self, store: Store) -> None:
        set_config(store, "d")
        DENSE.wait(store, "d", "a", TEXT)
        DENSE.wait(store, "d", "old", TEXT)
        put(store, "d", "old", "newer")
        fresh = DerivedSig(chunker_sig=CONFIG.chunker_sig, embed_sig=OURS)
        query = keyword_query("red", "d", where=Filter(fresh=fresh))
        assert [name for name, _ in ids(store.chunks.search(query))] == ["a"]

    def test_waiting_sets_come_back(self, lasting: Harness, lane: Lane) -> None:
        with closing(lasting.open()) as store:
            set_config(store, "d", lane.config)
            lane.wait(store, "d", "a", TEXT)
            vectors = [*lane.whole(store, "d", "a").items()]
            lane.give(store, "d", dict(vectors[:1]), "a")
        with closing(lasting.open()) as store:
            assert list(store.chunks.waiting("d", lane.space)) == ["a"]
            assert lane.held(store, "d", "a") == [0]
            assert lane.give(store, "d", dict(vectors[1:]), "a") == ["a"]
            assert lane.found(store, "d") == ["a"]
        with closing(lasting.open()) as store:
            assert store.chunks.config("d") == lane.config
            assert lane.found(store, "d") == ["a"]

    @guarantee(5)
    def test_second_writer_replaces_and_deletes_beside_the_vectors(
        self, store: Store, harness: Harness, lane: Lane
    ) -> None:
        """Whatever comes first: each vector is of its chunk's text, and what is deleted is gone."""
        set_config(store, "d", lane.config)
        lane.wait(store, "d", "a", TEXT)

        def embed() -> None:
            vectors = [*lane.whole(store, "d", "a").items()]
            lane.give(store, "d", dict(vectors[:1]), "a")
            lane.give(store, "d", dict(vectors[1:]), "a")

        with beside(embed):
            for turn in range(30):
                lane.wait(store, "d", "a", _turned(TEXT, turn))
                lane.held(store, "d", "a")
                assert lane.found(store, "d") in ([], ["a"])
                if turn % 3 == 2:
                    store.documents.delete("d", "a")
                    assert list(store.chunks.iter_chunks("d", "a")) == []
        lane.held(store, "d", "a")
        assert examined(store, ["d"]) == []
        store.documents.delete("d", "a")
        check_contents(harness, store, vectors=0)


def harness_is_atomic(store: Store) -> bool:
    """Whether `put_vectors` is one write for all of its sets: not the default's."""
    return "put_vectors" in vars(type(store.chunks)) or any(
        "put_vectors" in vars(kind) and "repositories" not in kind.__module__
        for kind in type(store.chunks).__mro__
    )


def _turned(text: str, turn: int) -> str:
    parts = text.split("\n\n")
    return "\n\n".join([*parts[turn % 3 :], *parts[: turn % 3], f"turn {turn}"])
