"""Tests of sparse vectors: stored by the digest of their text, searched as a set, deleted too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from triptych.contracts import ChunkRepo, Store
from triptych.records import ChunkQuery, DerivedChunk, Filter, SparseVector, dense, sparse
from triptych_testing.builders import (
    CONFIG,
    SPARSE,
    derive,
    fill,
    filter_of,
    ids,
    put,
    remove,
    set_config,
    sparse_of,
    sparse_query,
)
from triptych_testing.harness import HarnessTests, examined, keeps_or_skip, or_skip

OURS = attrs.evolve(CONFIG, sparse_sig=SPARSE)
OTHER = attrs.evolve(CONFIG, sparse_sig="sparse/2")
SPACE = sparse(SPARSE)
TEXT = "one fish\n\ntwo fish\n\nred fish"

_WORDS = ("one", "two", "red", "blue", "fish", "owl", "reef")
_TEXTS = st.lists(
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=5).map(" ".join), max_size=4
).map("\n\n".join)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abcdef"), _TEXTS),
        st.tuples(st.just("encode"), st.sampled_from("abcdef"), st.just("")),
        st.tuples(st.just("delete"), st.sampled_from("abcdef"), st.just("")),
        st.tuples(st.just("search"), st.just(""), _TEXTS),
    ),
    max_size=14,
)


def vectors_of(chunks: Iterable[DerivedChunk], space: str = SPARSE) -> dict[str, SparseVector]:
    """What the encoder ``space`` makes of the chunks, by digest."""
    return {chunk.sig.input_sig: sparse_of(chunk.content, space) for chunk in chunks}


def encode(store: Store, dataset_id: str, name: str, space: str = SPARSE) -> list[str]:
    """Give a document's chunks their sparse vectors; what `VectorRepo.put_vectors` said."""
    vectors = vectors_of(store.chunks.iter_chunks(dataset_id, name), space)
    return list(store.chunks.put_vectors(dataset_id, sparse(space), [name], vectors))


def expected(
    store: Store, query: ChunkQuery, waiting: Sequence[str] = ()
) -> list[tuple[float, str, int, str]]:
    """The best chunks by brute force: score, name, index, dataset."""
    space = query.embed_sig
    assert isinstance(query.vector, SparseVector)
    found = []
    for dataset_id in dict.fromkeys(query.dataset_ids):
        config = store.chunks.config(dataset_id)
        if config is None or config.sparse_sig != space:
            continue
        for chunk in store.chunks.iter_chunks(dataset_id):
            score = sparse_of(chunk.content, space).dot(query.vector)
            if score > 0 and chunk.doc_name not in waiting:
                rounded = float(np.round(score, 6))
                found.append((-rounded, chunk.doc_name, chunk.index, dataset_id))
    found.sort()
    return [(-score, *rest) for score, *rest in found[: query.top_k]]  # type: ignore[misc]  # of four


def rows(repo: ChunkRepo, query: ChunkQuery) -> list[tuple[float, str, int, str]]:
    """What the store finds, likewise."""
    found = repo.search(query)
    return [(each.score, each.doc_name, each.index, each.dataset_id) for each in found]


class SparseTests(HarnessTests):
    """`VectorRepo` in sparse spaces, and `ChunkRepo`."""

    @pytest.fixture
    def repo(self, store: Store) -> ChunkRepo:
        keeps_or_skip(store.chunks, "sparse")
        return store.chunks

    def test_set_that_waits_is_found_by_the_other_lanes_and_fresh(
        self, store: Store, repo: ChunkRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        before = store.chunks.get_doc_sig("d", "a")
        assert encode(store, "d", "a") == ["a"]
        assert store.chunks.get_doc_sig("d", "a") == before
        assert list(store.chunks.waiting("d", dense(CONFIG.embed_sig))) == []
        keys = [each.key for each in repo.search(sparse_query("red", "d"))]
        (unit,) = store.chunks.fetch(keys).values()
        assert unit.chunk is not None
        assert unit.chunk.content == "red fish"

    def test_unchanged_text_keeps_its_vector_over_an_edit(
        self, store: Store, repo: ChunkRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        encode(store, "d", "a")
        before = vectors_of(store.chunks.iter_chunks("d", "a"))
        put(store, "d", "a", "red fish\n\nnew fish\n\none fish")
        assert derive(store, "d", "a", OURS)
        after = vectors_of(store.chunks.iter_chunks("d", "a"))
        known = store.chunks.known_vectors("d", SPACE, [*before, *after])
        assert dict(known) == {d: v for d, v in before.items() if d in after}
        assert list(store.chunks.waiting("d", SPACE)) == ["a"]
        assert rows(repo, sparse_query("red fish", "d")) == []
        missing = {digest: after[digest] for digest in after if digest not in known}
        assert list(store.chunks.put_vectors("d", SPACE, ["a"], missing)) == ["a"]
        put(store, "d", "a", "red fish\n\nnew fish")
        assert derive(store, "d", "a", OURS)
        query = sparse_query("new fish", "d")
        assert rows(repo, query) == expected(store, query)
        assert list(store.chunks.waiting("d", SPACE)) == []
        assert examined(store, ["d"]) == []

    def test_documents_share_the_sparse_vector_of_a_text(
        self, store: Store, repo: ChunkRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        encode(store, "d", "a")
        put(store, "d", "copy", TEXT)
        assert derive(store, "d", "copy", OURS)
        assert list(store.chunks.waiting("d", SPACE)) == []
        assert [each.vectors for each in store.chunks.further_spaces("d")] == [3]
        query = sparse_query("fish", "d")
        assert rows(repo, query) == expected(store, query)
        store.documents.delete("d", "a")
        assert [each.vectors for each in store.chunks.further_spaces("d")] == [3]
        assert {name for name, _ in ids(repo.search(query))} == {"copy"}
        store.documents.delete("d", "copy")
        assert list(store.chunks.further_spaces("d")) == []

    @pytest.mark.parametrize("how", ["document", "set", "sets", "dataset", "many"])
    def test_deletes_take_vectors_along(self, store: Store, repo: ChunkRepo, how: str) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        fill(store, "e", {"a": TEXT, "waits": "reef"}, OURS)
        for dataset_id in "de":
            encode(store, dataset_id, "a")
        digests = [chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d", "a")]
        remove(store, "d", "a", how)
        assert dict(store.chunks.known_vectors("d", SPACE, digests)) == {}
        assert list(store.chunks.further_spaces("d")) == []
        assert list(store.chunks.waiting("d", SPACE)) == []
        assert store.chunks.count_waiting(["d"], SPACE) == 0
        query = sparse_query("fish", "d", "e")
        assert {row[3] for row in rows(repo, query)} == {"e"}
        assert len(store.chunks.known_vectors("e", SPACE, digests)) == 3
        assert examined(store, ["d", "e"]) == []
        store.documents.delete("e", "waits")
        assert store.chunks.count_waiting(["e"], SPACE) == 0

    def test_another_encoder_makes_all_sets_wait_and_takes_over_one_by_one(
        self, store: Store, repo: ChunkRepo
    ) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue fish"}, OURS)
        for name in "ab":
            encode(store, "d", name)
        set_config(store, "d", OTHER)
        second = OTHER.sparse_sig
        assert list(store.chunks.waiting("d", sparse(second))) == ["a", "b"]
        assert list(store.chunks.waiting("d", SPACE)) == ["a", "b"]
        assert store.chunks.count_waiting(["d"], sparse(second)) == 2
        for space in (SPARSE, second):
            assert rows(repo, sparse_query("fish", "d", space=space)) == []
        assert encode(store, "d", "a", second) == ["a"]
        query = sparse_query("fish", "d", space=second)
        assert {name for name, _ in ids(repo.search(query))} == {"a"}
        assert rows(repo, attrs.evolve(query, embed_sig=SPARSE)) == []
        assert [(each.sig, each.vectors) for each in store.chunks.further_spaces("d")] == [
            (SPARSE, 1),
            (second, 3),
        ]
        # Back to the first: what was not encoded again is as it was, at once.
        set_config(store, "d", OURS)
        assert list(store.chunks.waiting("d", SPACE)) == ["a"]
        assert {name for name, _ in ids(repo.search(sparse_query("fish", "d")))} == {"b"}
        assert encode(store, "d", "a") == ["a"]
        assert [(each.sig, each.vectors) for each in store.chunks.further_spaces("d")] == [
            (SPARSE, 4)
        ]
        assert examined(store, ["d"]) == []

    def test_dataset_without_an_encoder_waits_for_none(self, store: Store, repo: ChunkRepo) -> None:
        fill(store, "d", {"a": TEXT})
        assert list(store.chunks.waiting("d", sparse(""))) == []
        assert store.chunks.count_waiting(["d"], sparse("")) == 0
        assert list(store.chunks.waiting("d", SPACE)) == ["a"]
        assert rows(repo, sparse_query("fish", "d")) == []
        set_config(store, "d", OURS)
        encode(store, "d", "a")
        set_config(store, "d", CONFIG)
        assert rows(repo, sparse_query("fish", "d")) == []
        assert list(store.chunks.waiting("d", sparse(""))) == []
        set_config(store, "d", OURS)
        assert list(store.chunks.waiting("d", SPACE)) == []
        assert len(rows(repo, sparse_query("fish", "d"))) == 3
        set_config(store, "d", CONFIG)
        assert derive(store, "d", "a")
        assert list(store.chunks.further_spaces("d")) == []
        assert examined(store, ["d"]) == []

    def test_filter_acts_before_the_cut(self, store: Store, repo: ChunkRepo) -> None:
        contents = {f"{number:02}": "red fish" for number in range(30)}
        fill(store, "d", contents, OURS, {name: {"n": int(name)} for name in contents})
        vectors = vectors_of(store.chunks.iter_chunks("d", "00"))
        assert len(store.chunks.put_vectors("d", SPACE, list(contents), vectors)) == 30
        where = filter_of(n={"$gte": 25})
        query = sparse_query("fish", "d", top_k=3, where=where)
        assert [name for name, _ in ids(repo.search(query))] == ["25", "26", "27"]
        none = attrs.evolve(query, filter=filter_of(n=99))
        assert rows(repo, none) == []
        assert len(rows(repo, attrs.evolve(query, top_k=10))) == 5
        assert len(rows(repo, attrs.evolve(query, top_k=100, filter=Filter()))) == 30

    def test_documents_are_found_by_the_best_of_their_chunks(
        self, store: Store, repo: ChunkRepo
    ) -> None:
        contents = {"a": TEXT, "b": "blue owl\n\nred red red fish", "c": "owl"}
        fill(store, "d", contents, OURS)
        for name in contents:
            encode(store, "d", name)
        query = sparse_query("red fish", "d")
        best: dict[str, float] = {}
        for score, name, _, _ in expected(store, query):
            best[name] = max(score, best.get(name, 0.0))
        documents = or_skip(store.capabilities.document_search)
        found = documents.search_docs_by_vector(query)
        assert {each.doc_name: each.score for each in found} == best
        assert [each.doc_name for each in found] == ["b", "a"]
        assert {each.index for each in found} == {-1}
        searcher = or_skip(store.capabilities.document_search)
        units = searcher.fetch_docs([each.key for each in found])
        assert {unit.document.name for unit in units.values() if unit.document} == {"a", "b"}
        only = documents.search_docs_by_vector(attrs.evolve(query, top_k=1))
        assert [each.doc_name for each in only] == ["b"]

    def test_text_without_a_term_waits_for_nothing_and_is_not_found(
        self, store: Store, repo: ChunkRepo
    ) -> None:
        fill(store, "d", {"a": "one fish\n\n!!!"}, OURS)
        assert encode(store, "d", "a") == ["a"]
        assert len(rows(repo, sparse_query("one fish", "d"))) == 1
        assert rows(repo, sparse_query("!!!", "d")) == []

    def test_weights_come_back_as_they_were_kept(self, store: Store, repo: ChunkRepo) -> None:
        fill(store, "d", {"a": "text"}, OURS)
        (digest,) = [chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d", "a")]
        vector = SparseVector([0, 65_535, 65_536, 2**32 - 1], [1e-38, 0.1, 3.0e38, 7.0])
        assert list(store.chunks.put_vectors("d", SPACE, ["a"], {digest: vector})) == ["a"]
        assert store.chunks.known_vectors("d", SPACE, [digest])[digest] == vector
        other = {digest: SparseVector([1], [1.0])}
        assert list(store.chunks.put_vectors("d", SPACE, ["a"], other)) == ["a"]
        assert store.chunks.known_vectors("d", SPACE, [digest])[digest] == vector
        query = ChunkQuery(
            dataset_ids=("d",),
            mode="sparse",
            vector=SparseVector([2**32 - 1], [0.5]),
            embed_sig=SPARSE,
        )
        assert [row[0] for row in rows(repo, query)] == [3.5]

    def test_lane_is_brute_force_over_any_edits(self, store: Store, repo: ChunkRepo) -> None:
        """Scores and order, bit for bit, after every change, in one dataset and over two."""

        @settings(max_examples=20, deadline=None)
        @given(_STEPS)
        def run(steps: list[tuple[str, str, str]]) -> None:
            for dataset_id in "de":
                store.documents.delete_dataset(dataset_id)
                set_config(store, dataset_id, OURS)
            fill(store, "e", {"z": "red fish\n\nblue reef"}, OURS)
            encode(store, "e", "z")
            for step, name, text in steps:
                if step == "put":
                    put(store, "d", name, text)
                    derive(store, "d", name, OURS)
                elif step == "encode":
                    encode(store, "d", name)
                elif step == "delete":
                    store.documents.delete("d", name)
                else:
                    _compare(store, repo, text)
            _compare(store, repo, "one red fish")
            _check_spaces(store, repo)

        run()


def _compare(store: Store, repo: ChunkRepo, text: str) -> None:
    waiting = store.chunks.waiting("d", SPACE)
    for datasets in (("d",), ("d", "e")):
        for top_k in (1, 3, 50):
            query = sparse_query(text, *datasets, top_k=top_k)
            assert rows(repo, query) == expected(store, query, waiting)


def _check_spaces(store: Store, repo: ChunkRepo) -> None:
    """There is a vector for each text that was encoded and is there, and no other."""
    digests = {chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d")}
    known: Mapping[str, SparseVector] = store.chunks.known_vectors("d", SPACE, sorted(digests))
    assert sum(each.vectors for each in store.chunks.further_spaces("d")) == len(known)
    waiting = set(store.chunks.waiting("d", SPACE))
    for chunk in store.chunks.iter_chunks("d"):
        assert chunk.sig.input_sig in known or chunk.doc_name in waiting
