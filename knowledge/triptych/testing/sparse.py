"""Sparse vectors: kept by the digest of their text, searched whole, gone with what needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from triptych.contracts import SparseRepo, Store
from triptych.records import DerivedChunk, Filter, SparseQuery, SparseVector
from triptych.testing.builders import (
    CONFIG,
    SPARSE,
    derive,
    fill,
    filter_of,
    ids,
    put,
    set_config,
    sparse_of,
)
from triptych.testing.harness import Harness, HarnessTests, examined, or_skip

__all__ = ["SparseTests", "encode", "sparse_query"]

OURS = attrs.evolve(CONFIG, sparse_sig=SPARSE)
OTHER = attrs.evolve(CONFIG, sparse_sig="sparse/2")
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


def sparse_query(
    text: str,
    *dataset_ids: str,
    top_k: int = 10,
    where: Filter | None = None,
    space: str = SPARSE,
) -> SparseQuery:
    """A query of the sparse lane over these datasets."""
    return SparseQuery(
        dataset_ids=dataset_ids,
        vector=sparse_of(text, space),
        sparse_sig=space,
        top_k=top_k,
        filter=where or Filter(),
    )


def vectors_of(chunks: Iterable[DerivedChunk], space: str = SPARSE) -> dict[str, SparseVector]:
    """What the encoder ``space`` makes of the chunks, by digest."""
    return {chunk.sig.input_sig: sparse_of(chunk.content, space) for chunk in chunks}


def encode(store: Store, dataset_id: str, name: str, space: str = SPARSE) -> list[str]:
    """Give a document's chunks their sparse vectors; what `SparseRepo.add_sparse_vectors` said."""
    repo = store.capabilities.sparse
    assert repo is not None
    vectors = vectors_of(store.chunks.iter_chunks(dataset_id, name), space)
    return list(repo.add_sparse_vectors(dataset_id, space, [name], vectors))


def expected(
    store: Store, query: SparseQuery, waiting: Sequence[str] = ()
) -> list[tuple[float, str, int, str]]:
    """The best chunks by brute force: score, name, index, dataset."""
    space = query.sparse_sig
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


def rows(repo: SparseRepo, query: SparseQuery) -> list[tuple[float, str, int, str]]:
    """What the store finds, likewise."""
    found = repo.search_sparse(query)
    return [(each.score, each.doc_name, each.index, each.dataset_id) for each in found]


class SparseTests(HarnessTests):
    """`SparseRepo`."""

    @pytest.fixture
    def repo(self, store: Store) -> SparseRepo:
        return or_skip(store.capabilities.sparse)

    def test_set_is_found_when_all_its_texts_have_their_vectors(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        chunks = list(store.chunks.iter_chunks("d", "a"))
        vectors = vectors_of(chunks)
        first, *others = vectors
        assert list(repo.sparse_pending("d", SPARSE)) == ["a"]
        assert repo.count_sparse_pending(["d", "d", "none"], SPARSE) == 1
        assert list(repo.add_sparse_vectors("d", SPARSE, ["a"], {first: vectors[first]})) == []
        assert dict(repo.known_sparse_vectors("d", SPARSE, list(vectors))) == {
            first: vectors[first]
        }
        assert rows(repo, sparse_query("one fish", "d")) == []
        rest = {digest: vectors[digest] for digest in others}
        assert list(repo.add_sparse_vectors("d", SPARSE, ["a"], rest)) == ["a"]
        assert list(repo.sparse_pending("d", SPARSE)) == []
        assert repo.count_sparse_pending(["d"], SPARSE) == 0
        assert dict(repo.known_sparse_vectors("d", SPARSE, list(vectors))) == vectors
        query = sparse_query("one fish", "d")
        assert rows(repo, query) == expected(store, query)
        assert ids(repo.search_sparse(query))[0] == ("a", 0)
        assert list(repo.add_sparse_vectors("d", SPARSE, ["a"], {})) == ["a"]
        assert examined(store, ["d"]) == []

    def test_set_that_waits_is_found_by_the_other_lanes_and_fresh(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        before = store.chunks.get_doc_sig("d", "a")
        assert encode(store, "d", "a") == ["a"]
        assert store.chunks.get_doc_sig("d", "a") == before
        assert list(store.chunks.pending("d", CONFIG.embed_sig)) == []
        keys = [each.key for each in repo.search_sparse(sparse_query("red", "d"))]
        (unit,) = store.chunks.fetch(keys).values()
        assert unit.chunk is not None
        assert unit.chunk.content == "red fish"

    def test_vectors_of_other_texts_encoders_or_documents_are_not_kept(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        vectors = vectors_of(store.chunks.iter_chunks("d", "a"))
        strange = {"0" * 64: sparse_of("strange")}
        assert list(repo.add_sparse_vectors("d", SPARSE, ["a"], strange)) == []
        for space in ("", "sparse/2"):
            assert list(repo.add_sparse_vectors("d", space, ["a"], vectors)) == []
        assert list(repo.add_sparse_vectors("d", SPARSE, ["none"], vectors)) == []
        assert list(repo.add_sparse_vectors("none", SPARSE, ["a"], vectors)) == []
        assert list(repo.sparse_spaces("d")) == []
        assert list(store.documents.list_datasets()) == ["d"]
        assert dict(repo.known_sparse_vectors("d", SPARSE, [*strange, *vectors])) == {}

    def test_unchanged_text_keeps_its_vector_over_an_edit(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        encode(store, "d", "a")
        before = vectors_of(store.chunks.iter_chunks("d", "a"))
        put(store, "d", "a", "red fish\n\nnew fish\n\none fish")
        assert derive(store, "d", "a", OURS)
        after = vectors_of(store.chunks.iter_chunks("d", "a"))
        known = repo.known_sparse_vectors("d", SPARSE, [*before, *after])
        assert dict(known) == {d: v for d, v in before.items() if d in after}
        assert list(repo.sparse_pending("d", SPARSE)) == ["a"]
        assert rows(repo, sparse_query("red fish", "d")) == []
        missing = {digest: after[digest] for digest in after if digest not in known}
        assert list(repo.add_sparse_vectors("d", SPARSE, ["a"], missing)) == ["a"]
        put(store, "d", "a", "red fish\n\nnew fish")
        assert derive(store, "d", "a", OURS)
        query = sparse_query("new fish", "d")
        assert rows(repo, query) == expected(store, query)
        assert list(repo.sparse_pending("d", SPARSE)) == []
        assert examined(store, ["d"]) == []

    def test_documents_share_the_sparse_vector_of_a_text(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        encode(store, "d", "a")
        put(store, "d", "copy", TEXT)
        assert derive(store, "d", "copy", OURS)
        assert list(repo.sparse_pending("d", SPARSE)) == []
        assert [each.vectors for each in repo.sparse_spaces("d")] == [3]
        query = sparse_query("fish", "d")
        assert rows(repo, query) == expected(store, query)
        store.documents.delete("d", "a")
        assert [each.vectors for each in repo.sparse_spaces("d")] == [3]
        assert {name for name, _ in ids(repo.search_sparse(query))} == {"copy"}
        store.documents.delete("d", "copy")
        assert list(repo.sparse_spaces("d")) == []

    def test_one_call_ends_the_waiting_of_several_documents(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"b": TEXT, "a": "red fish", "empty": "", "other": "reef"}, OURS)
        assert list(repo.sparse_pending("d", SPARSE)) == ["a", "b", "other"]
        some = ["other", "empty", "a", "none"]
        assert list(repo.sparse_pending("d", SPARSE, some)) == ["a", "other"]
        assert list(repo.sparse_pending("d", "sparse/2", some)) == ["a", "other"]
        assert list(repo.sparse_pending("d", SPARSE, [])) == []
        vectors = vectors_of(store.chunks.iter_chunks("d", "b"))
        done = repo.add_sparse_vectors("d", SPARSE, ["b", "other", "a", "b", "empty"], vectors)
        assert list(done) == ["a", "b", "empty"]
        assert list(repo.sparse_pending("d", SPARSE)) == ["other"]

    @pytest.mark.parametrize("how", ["document", "set", "sets", "dataset", "many"])
    def test_deletes_take_vectors_along(self, store: Store, repo: SparseRepo, how: str) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        fill(store, "e", {"a": TEXT, "waits": "reef"}, OURS)
        for dataset_id in "de":
            encode(store, dataset_id, "a")
        digests = [chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d", "a")]
        info = store.documents.get_info("d", "a")
        assert info is not None
        if how == "document":
            assert store.documents.delete("d", "a")
        elif how == "set":
            store.chunks.delete_by_doc("d", "a")
        elif how == "sets":
            store.chunks.delete_by_dataset("d")
        elif how == "many":
            assert list(store.documents.delete_many("d", {"a": info.version})) == ["a"]
        else:
            assert store.documents.delete_dataset("d")
        assert dict(repo.known_sparse_vectors("d", SPARSE, digests)) == {}
        assert list(repo.sparse_spaces("d")) == []
        assert list(repo.sparse_pending("d", SPARSE)) == []
        assert repo.count_sparse_pending(["d"], SPARSE) == 0
        query = sparse_query("fish", "d", "e")
        assert {row[3] for row in rows(repo, query)} == {"e"}
        assert len(repo.known_sparse_vectors("e", SPARSE, digests)) == 3
        assert examined(store, ["d", "e"]) == []
        store.documents.delete("e", "waits")
        assert repo.count_sparse_pending(["e"], SPARSE) == 0

    def test_another_encoder_makes_all_sets_wait_and_takes_over_one_by_one(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue fish"}, OURS)
        for name in "ab":
            encode(store, "d", name)
        set_config(store, "d", OTHER)
        second = OTHER.sparse_sig
        assert list(repo.sparse_pending("d", second)) == ["a", "b"]
        assert list(repo.sparse_pending("d", SPARSE)) == ["a", "b"]
        assert repo.count_sparse_pending(["d"], second) == 2
        for space in (SPARSE, second):
            assert rows(repo, sparse_query("fish", "d", space=space)) == []
        assert encode(store, "d", "a", second) == ["a"]
        query = sparse_query("fish", "d", space=second)
        assert {name for name, _ in ids(repo.search_sparse(query))} == {"a"}
        assert rows(repo, attrs.evolve(query, sparse_sig=SPARSE)) == []
        assert [(each.sparse_sig, each.vectors) for each in repo.sparse_spaces("d")] == [
            (SPARSE, 1),
            (second, 3),
        ]
        # Back to the first: what was not encoded again is as it was, at once.
        set_config(store, "d", OURS)
        assert list(repo.sparse_pending("d", SPARSE)) == ["a"]
        assert {name for name, _ in ids(repo.search_sparse(sparse_query("fish", "d")))} == {"b"}
        assert encode(store, "d", "a") == ["a"]
        assert [(each.sparse_sig, each.vectors) for each in repo.sparse_spaces("d")] == [
            (SPARSE, 4)
        ]
        assert examined(store, ["d"]) == []

    def test_dataset_without_an_encoder_waits_for_none(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT})
        assert list(repo.sparse_pending("d", "")) == []
        assert repo.count_sparse_pending(["d"], "") == 0
        assert list(repo.sparse_pending("d", SPARSE)) == ["a"]
        assert rows(repo, sparse_query("fish", "d")) == []
        set_config(store, "d", OURS)
        encode(store, "d", "a")
        set_config(store, "d", CONFIG)
        assert rows(repo, sparse_query("fish", "d")) == []
        assert list(repo.sparse_pending("d", "")) == []
        set_config(store, "d", OURS)
        assert list(repo.sparse_pending("d", SPARSE)) == []
        assert len(rows(repo, sparse_query("fish", "d"))) == 3
        set_config(store, "d", CONFIG)
        assert derive(store, "d", "a")
        assert list(repo.sparse_spaces("d")) == []
        assert examined(store, ["d"]) == []

    def test_filter_acts_before_the_cut(self, store: Store, repo: SparseRepo) -> None:
        contents = {f"{number:02}": "red fish" for number in range(30)}
        fill(store, "d", contents, OURS, {name: {"n": int(name)} for name in contents})
        vectors = vectors_of(store.chunks.iter_chunks("d", "00"))
        assert len(repo.add_sparse_vectors("d", SPARSE, list(contents), vectors)) == 30
        where = filter_of(n={"$gte": 25})
        query = sparse_query("fish", "d", top_k=3, where=where)
        assert [name for name, _ in ids(repo.search_sparse(query))] == ["25", "26", "27"]
        none = attrs.evolve(query, filter=filter_of(n=99))
        assert rows(repo, none) == []
        assert len(rows(repo, attrs.evolve(query, top_k=10))) == 5
        assert len(rows(repo, attrs.evolve(query, top_k=100, filter=Filter()))) == 30

    def test_documents_are_found_by_the_best_of_their_chunks(
        self, store: Store, repo: SparseRepo
    ) -> None:
        contents = {"a": TEXT, "b": "blue owl\n\nred red red fish", "c": "owl"}
        fill(store, "d", contents, OURS)
        for name in contents:
            encode(store, "d", name)
        query = sparse_query("red fish", "d")
        best: dict[str, float] = {}
        for score, name, _, _ in expected(store, query):
            best[name] = max(score, best.get(name, 0.0))
        found = repo.search_docs_by_sparse(query)
        assert {each.doc_name: each.score for each in found} == best
        assert [each.doc_name for each in found] == ["b", "a"]
        assert {each.index for each in found} == {-1}
        searcher = or_skip(store.capabilities.document_search)
        units = searcher.fetch_docs([each.key for each in found])
        assert {unit.document.name for unit in units.values() if unit.document} == {"a", "b"}
        only = repo.search_docs_by_sparse(attrs.evolve(query, top_k=1))
        assert [each.doc_name for each in only] == ["b"]

    def test_text_without_a_term_waits_for_nothing_and_is_not_found(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": "one fish\n\n!!!"}, OURS)
        assert encode(store, "d", "a") == ["a"]
        assert len(rows(repo, sparse_query("one fish", "d"))) == 1
        assert rows(repo, sparse_query("!!!", "d")) == []

    def test_weights_come_back_as_they_were_kept(self, store: Store, repo: SparseRepo) -> None:
        fill(store, "d", {"a": "text"}, OURS)
        (digest,) = [chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d", "a")]
        vector = SparseVector([0, 65_535, 65_536, 2**32 - 1], [1e-38, 0.1, 3.0e38, 7.0])
        assert list(repo.add_sparse_vectors("d", SPARSE, ["a"], {digest: vector})) == ["a"]
        assert repo.known_sparse_vectors("d", SPARSE, [digest])[digest] == vector
        other = {digest: SparseVector([1], [1.0])}
        assert list(repo.add_sparse_vectors("d", SPARSE, ["a"], other)) == ["a"]
        assert repo.known_sparse_vectors("d", SPARSE, [digest])[digest] == vector
        query = SparseQuery(
            dataset_ids=("d",), vector=SparseVector([2**32 - 1], [0.5]), sparse_sig=SPARSE
        )
        assert [row[0] for row in rows(repo, query)] == [3.5]

    def test_sparse_vectors_are_there_when_the_store_is_opened_again(
        self, harness: Harness
    ) -> None:
        if not harness.persistent:
            pytest.skip("the store keeps nothing")
        store = harness.open()
        or_skip(store.capabilities.sparse)
        fill(store, "d", {"a": TEXT, "waits": "reef"}, OURS)
        encode(store, "d", "a")
        query = sparse_query("red fish", "d")
        before = rows(or_skip(store.capabilities.sparse), query)
        assert len(before) == 3
        store.close()
        store = harness.open()
        repo = or_skip(store.capabilities.sparse)
        assert rows(repo, query) == before
        assert list(repo.sparse_pending("d", SPARSE)) == ["waits"]
        assert store.chunks.config("d") == OURS
        store.close()

    def test_vectors_and_edits_at_once_leave_no_vector_of_another_text(
        self, store: Store, repo: SparseRepo
    ) -> None:
        fill(store, "d", {"a": TEXT}, OURS)
        done = threading.Event()
        errors: list[BaseException] = []

        def work() -> None:
            try:
                while not done.is_set():
                    encode(store, "d", "a")
            except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
                errors.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for turn in range(20):
                put(store, "d", "a", f"{TEXT}\n\nturn {turn}")
                assert derive(store, "d", "a", OURS)
                for score, *_ in rows(repo, sparse_query("red fish", "d")):
                    assert score > 0
                if turn % 5 == 4:
                    store.documents.delete("d", "a")
        finally:
            done.set()
            thread.join()
        assert errors == []
        put(store, "d", "a", TEXT)
        derive(store, "d", "a", OURS)
        encode(store, "d", "a")
        query = sparse_query("red fish", "d")
        assert rows(repo, query) == expected(store, query)
        assert examined(store, ["d"]) == []

    def test_lane_is_brute_force_over_any_edits(self, store: Store, repo: SparseRepo) -> None:
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


def _compare(store: Store, repo: SparseRepo, text: str) -> None:
    waiting = repo.sparse_pending("d", SPARSE)
    for datasets in (("d",), ("d", "e")):
        for top_k in (1, 3, 50):
            query = sparse_query(text, *datasets, top_k=top_k)
            assert rows(repo, query) == expected(store, query, waiting)


def _check_spaces(store: Store, repo: SparseRepo) -> None:
    """There is a vector for each text that was encoded and is there, and no other."""
    digests = {chunk.sig.input_sig for chunk in store.chunks.iter_chunks("d")}
    known: Mapping[str, SparseVector] = repo.known_sparse_vectors("d", SPARSE, sorted(digests))
    assert sum(each.vectors for each in repo.sparse_spaces("d")) == len(known)
    waiting = set(repo.sparse_pending("d", SPARSE))
    for chunk in store.chunks.iter_chunks("d"):
        assert chunk.sig.input_sig in known or chunk.doc_name in waiting
