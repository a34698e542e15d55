"""Tests of a second embedding space: stored by text, swapped in, deleted with its texts."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

import attrs
import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from triptych.contracts import Store, VectorRepo
from triptych.errors import ModelMismatchError
from triptych.records import DatasetStats, Layer, Vector
from triptych.records.spaces import dense
from triptych.signatures import embedding_input_sig
from triptych.testing.builders import (
    CONFIG,
    chunks_of,
    derive,
    fill,
    ids,
    keyword_query,
    layer_of,
    layer_query,
    put,
    remove,
    set_config,
    sig_of,
    vector_of,
    vector_query,
)
from triptych.testing.harness import (
    Harness,
    HarnessTests,
    beside,
    examined,
    in_threads,
    or_skip,
    there,
)

OLD = CONFIG.embed_sig
NEW = "space/2"
NEXT = attrs.evolve(CONFIG, embed_sig=NEW)
TEXT = "one fish\n\ntwo fish\n\n~red fish"
WIDTH = 12
KEPT = dense(NEW)
NAMES = "abc"

_PARAGRAPHS = ("one fish", "two fish", "~red fish", "blue reef", "# Owl")
_TEXTS = st.lists(st.sampled_from(_PARAGRAPHS), max_size=4).map("\n\n".join)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), _TEXTS),
        st.tuples(st.just("store"), st.sampled_from(NAMES), _TEXTS),
        st.tuples(st.just("layer"), st.sampled_from([*NAMES, ""]), _TEXTS),
        st.tuples(st.just("prepare"), st.sampled_from([*NAMES, ""]), st.just("")),
        st.tuples(st.sampled_from(["delete", "drop", "swap"]), st.sampled_from(NAMES), st.just("")),
    ),
    max_size=14,
)


def embedded(text: str, space: str = NEW) -> Vector | None:
    """What the embedder of a space makes of a text: nothing of one that begins with "~"."""
    if text.startswith("~"):
        return None
    return vector_of(text, space, WIDTH if space == NEW else len(vector_of("")))


def texts_under(store: Store, dataset_id: str, names: Iterable[str]) -> dict[str, str]:
    """The texts of chunks and layers under ``names``, by digest."""
    found = {}
    for name in names:
        chunks = store.chunks.iter_chunks(dataset_id, name)
        found.update({chunk.sig.input_sig: chunk.content for chunk in chunks})
        for layer in (Layer.ABSTRACT, Layer.OVERVIEW):
            made = store.layers.get(dataset_id, name, layer)
            if made is not None:
                found[embedding_input_sig(made.content)] = made.content
    return found


def prepare(store: Store, dataset_id: str, *names: str, space: str = NEW) -> list[str]:
    """Keep all entries of what is under ``names``; what `VectorRepo.put_vectors` said."""
    repo = there(store.capabilities.spaces)
    texts = texts_under(store, dataset_id, names)
    entries = {digest: embedded(text, space) for digest, text in texts.items()}
    return list(repo.put_vectors(dataset_id, dense(space), names, entries, serves=False))


def swap_in(store: Store, name: str, space: str) -> bool:
    """Make the chunks of a document of "d" in a space, and swap them in; whether it was done."""
    document = there(store.documents.get("d", name))
    sig = sig_of(store, "d", name, attrs.evolve(CONFIG, embed_sig=space))
    chunks = [
        attrs.evolve(chunk, vector=embedded(chunk.content, space))
        for chunk in chunks_of(document, sig)
    ]
    return store.chunks.replace("d", name, chunks, sig=sig)


def found(store: Store, text: str, space: str, dataset_id: str = "d") -> list[tuple[str, int]]:
    """What is found by the vector of a text in a space, the nearest first."""
    vector = there(embedded(text, space))
    return ids(store.chunks.search(vector_query(vector, dataset_id, space=space)))


def layer_in(store: Store, content: str, name: str = "a") -> None:
    """Store an abstract with its vector in the dataset's space."""
    config = there(store.chunks.config("d"))
    made = layer_of(store, "d", name, content)
    sig = attrs.evolve(made.sig, embed_sig=config.embed_sig)
    vector = embedded(content, config.embed_sig)
    assert store.layers.put(attrs.evolve(made, sig=sig, vector=vector))


def counts(repo: VectorRepo, dataset_id: str = "d") -> list[tuple[str, int, int]]:
    """The kept spaces: signature, width and vectors."""
    spaces = repo.vector_spaces(dataset_id)
    return [(each.space.sig, each.dimension, each.vectors) for each in spaces]


class SpaceTests(HarnessTests):
    """`VectorRepo` in dense spaces that do not serve, and their swap."""

    @pytest.fixture
    def repo(self, store: Store) -> VectorRepo:
        return or_skip(store.capabilities.spaces)

    def test_entries_are_known_and_serve_nothing(self, store: Store, repo: VectorRepo) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue reef"})
        texts = texts_under(store, "d", ["a"])
        first, second, third = texts
        before = store.chunks.get_doc_sigs("d", ["a", "b"])
        nearest = found(store, "one fish", OLD)
        assert list(repo.waiting("d", KEPT)) == ["a", "b"]
        entry = {first: embedded(texts[first])}
        assert list(repo.put_vectors("d", KEPT, ["a"], entry, serves=False)) == []
        rest = {digest: embedded(texts[digest]) for digest in (second, third)}
        assert list(repo.put_vectors("d", KEPT, ["a"], rest, serves=False)) == ["a"]
        assert list(repo.waiting("d", KEPT)) == ["b"]
        assert list(repo.waiting("d", KEPT, ["a", "none"])) == []
        known = store.chunks.known_vectors("d", KEPT, [*texts, "none"])
        assert set(known) == {first, second}
        assert np.array_equal(known[first], vector_of("one fish", NEW, WIDTH))
        assert counts(repo) == [(NEW, WIDTH, 2)]
        assert store.chunks.config("d") == CONFIG
        assert store.chunks.get_doc_sigs("d", ["a", "b"]) == before
        assert found(store, "one fish", OLD) == nearest
        assert found(store, "one fish", NEW) == []
        assert list(store.chunks.waiting("d", dense(OLD))) == []
        assert examined(store, ["d"]) == []

    def test_only_what_the_dataset_has_the_text_of_is_kept(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": TEXT})
        texts = texts_under(store, "d", ["a"])
        entries = {digest: embedded(text) for digest, text in texts.items()}
        strange: dict[str, Vector | None] = {"0" * 64: embedded("strange")}
        assert list(repo.put_vectors("d", KEPT, ["a"], strange, serves=False)) == []
        assert list(repo.put_vectors("d", KEPT, ["none", ""], entries, serves=False)) == []
        assert list(repo.put_vectors("none", KEPT, ["a"], entries, serves=False)) == []
        for space in ("", OLD):
            assert list(repo.put_vectors("d", dense(space), ["a"], entries, serves=False)) == []
        assert counts(repo) == []
        assert list(repo.vector_spaces("none")) == []
        assert list(repo.waiting("none", KEPT)) == []
        assert list(store.documents.list_datasets()) == ["d"]
        assert dict(store.chunks.known_vectors("d", KEPT, [*texts, "0" * 64])) == {}

    def test_swap_lets_whole_sets_be_found_at_once_and_others_wait(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue reef\n\none fish", "c": "two owls", "e": ""})
        assert prepare(store, "d", "a") == ["a"]
        assert store.chunks.configure("d", NEXT, expected=CONFIG)
        assert list(store.chunks.waiting("d", KEPT)) == ["b", "c"]
        assert store.chunks.count_waiting(["d"], KEPT) == 2
        sigs = store.chunks.get_doc_sigs("d", "abce")
        assert {name: sig.embed_sig for name, sig in sigs.items()} == {
            "a": NEW,
            "b": "",
            "c": "",
            "e": NEW,
        }
        # Of a set that waits, what has its vector already is found: a text that b shares with a.
        assert sorted(found(store, "one fish", NEW)) == [("a", 0), ("a", 1), ("b", 1)]
        assert found(store, "one fish", OLD) == []
        assert ("b", 0) in ids(store.chunks.search(keyword_query("reef", "d")))
        spaces_of = {(each.embed_sig, each.vectors) for each in _stats(store).spaces}
        assert spaces_of == {(NEW, 3)}, "the text that b shares has its vector already"
        # What waits is filled as after any other change of the embedder.
        some = list(store.chunks.iter_chunks("d", "b", vectors=True))
        assert [chunk.vector is not None for chunk in some] == [False, True]
        assert swap_in(store, "b", NEW)
        assert found(store, "blue reef", NEW)[0] == ("b", 0)
        assert list(store.chunks.waiting("d", KEPT)) == ["c"]
        assert examined(store, ["d"]) == []

    def test_way_back_is_the_same_call(self, store: Store, repo: VectorRepo) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue reef"})
        layer_in(store, "fish of all kinds")
        before = _seen(store)
        nearest = found(store, "blue reef", OLD)
        prepare(store, "d", "a", "b")
        assert store.chunks.configure("d", NEXT, expected=CONFIG)
        assert counts(repo) == [(OLD, len(vector_of("")), 4)]
        assert list(repo.waiting("d", dense(OLD))) == []
        assert found(store, "blue reef", NEW)[0] == ("b", 0)
        assert not store.chunks.configure("d", NEXT, expected=CONFIG), "somebody else was first"
        assert store.chunks.configure("d", CONFIG, expected=NEXT)
        assert _seen(store) == before
        assert found(store, "blue reef", OLD) == nearest
        assert found(store, "blue reef", NEW) == []
        assert counts(repo) == [(NEW, WIDTH, 4)]
        assert store.chunks.configure("d", NEXT, expected=CONFIG)
        assert list(store.chunks.waiting("d", KEPT)) == []
        assert found(store, "blue reef", NEW)[0] == ("b", 0)
        assert examined(store, ["d"]) == []

    def test_what_is_written_after_a_swap_lacks_entries_of_what_served(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": TEXT, "b": "blue reef"})
        prepare(store, "d", "a", "b")
        set_config(store, "d", NEXT)
        put(store, "d", "b", "blue reef\n\nnew owl")
        swap_in(store, "b", NEW)
        assert list(repo.waiting("d", dense(OLD))) == ["b"]
        set_config(store, "d", CONFIG)
        assert list(store.chunks.waiting("d", dense(OLD))) == ["b"]
        assert list(repo.waiting("d", KEPT)) == []
        # The text of b that is not new has its vector, and may be found before the set is whole.
        seen = sorted(found(store, "blue reef", OLD))
        assert [each for each in seen if each != ("b", 0)] == [("a", 0), ("a", 1)]
        assert examined(store, ["d"]) == []

    def test_text_of_which_no_vector_is_made_keeps_nothing_waiting(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": "~fish", "b": "~fish\n\none fish"})
        layer_in(store, "~a layer")
        assert prepare(store, "d", "a", "b") == ["a", "b"]
        assert counts(repo) == [(NEW, WIDTH, 1)]
        set_config(store, "d", NEXT)
        assert list(store.chunks.waiting("d", KEPT)) == []
        assert found(store, "one fish", NEW) == [("b", 1)]
        layer = there(store.layers.get("d", "a", Layer.ABSTRACT, vectors=True))
        assert (layer.sig.embed_sig, layer.vector) == (NEW, None)
        assert list(repo.waiting("d", dense(OLD))) == []
        set_config(store, "d", CONFIG)
        assert list(store.chunks.waiting("d", dense(OLD))) == []
        assert found(store, "one fish", OLD) == [("b", 1)]
        assert examined(store, ["d"]) == []

    def test_only_texts_without_vectors_have_a_space_without_a_width(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": "~fish", "b": "one fish"})
        assert prepare(store, "d", "a") == ["a"]
        assert counts(repo) == [(NEW, 0, 0)]
        assert _stats(store).vectors == 1
        assert prepare(store, "d", "b") == ["b"]
        assert counts(repo) == [(NEW, WIDTH, 1)]

    def test_layers_go_along(self, store: Store, repo: VectorRepo) -> None:
        fill(store, "d", {"a": TEXT, "b/c": "blue reef"})
        layer_in(store, "about fish")
        layer_in(store, "about reefs", "b/")
        layer_in(store, "about all", "")
        assert list(repo.waiting("d", KEPT)) == ["", "a", "b/", "b/c"]
        assert prepare(store, "d", "a", "b/", "b/c") == ["a", "b/", "b/c"]
        assert list(repo.waiting("d", KEPT)) == [""]
        set_config(store, "d", NEXT)
        query = vector_query(vector_of("about fish", NEW, WIDTH), "d", space=NEW)
        assert ids(store.layers.search(layer_query(query))) == [("a", -1), ("b/", -1)] or (
            {name for name, _ in ids(store.layers.search(layer_query(query)))} == {"a", "b/"}
        )
        assert there(store.layers.get("d", "", Layer.ABSTRACT)).sig.embed_sig == OLD
        old = vector_query(vector_of("about fish", OLD), "d", space=OLD)
        assert ids(store.layers.search(layer_query(old))) == []
        set_config(store, "d", CONFIG)
        assert len(store.layers.search(layer_query(old))) == 3
        layer_in(store, "about other fish")
        assert list(repo.waiting("d", KEPT)) == ["", "a"]
        assert examined(store, ["d"]) == []

    @pytest.mark.parametrize("how", ["document", "many", "set", "sets", "dataset", "text"])
    @pytest.mark.parametrize("swapped", [False, True])
    def test_deletes_take_entries_along(
        self, store: Store, repo: VectorRepo, how: str, swapped: bool
    ) -> None:
        for dataset_id in "de":
            fill(store, dataset_id, {"a": TEXT})
        layer_in(store, "about fish")
        for dataset_id in "de":
            prepare(store, dataset_id, "a")
        digests = list(texts_under(store, "d", ["a"]))
        other = NEW
        if swapped:
            set_config(store, "d", NEXT)
            other = OLD
        if how in ("set", "text"):
            store.layers.delete_by_doc("d", "a")
        if how == "text":
            put(store, "d", "a", "blue reef")
            assert swap_in(store, "a", NEW if swapped else OLD)
        else:
            remove(store, "d", "a", how)
        assert dict(store.chunks.known_vectors("d", dense(other), digests)) == {}
        assert counts(repo) == []
        assert counts(repo, "e") == [(NEW, WIDTH, 2)]
        assert not repo.drop_space("d", dense(other))
        assert examined(store, ["d", "e"]) == []

    def test_documents_share_an_entry_until_the_last_of_them_goes(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": "one fish", "b": "one fish"})
        (digest,) = texts_under(store, "d", ["a"])
        assert prepare(store, "d", "a") == ["a"]
        assert list(repo.waiting("d", KEPT)) == ["b"]
        assert list(repo.put_vectors("d", KEPT, ["b"], {}, serves=False)) == ["b"], (
            "it is there already"
        )
        store.documents.delete("d", "a")
        assert set(store.chunks.known_vectors("d", KEPT, [digest])) == {digest}
        put(store, "d", "c", "one fish\n\ntwo fish")
        assert derive(store, "d", "c")
        store.documents.delete("d", "b")
        assert set(store.chunks.known_vectors("d", KEPT, [digest])) == {digest}
        assert list(repo.waiting("d", KEPT)) == ["c"]
        store.documents.delete("d", "c")
        assert dict(store.chunks.known_vectors("d", KEPT, [digest])) == {}
        assert counts(repo) == []

    def test_edit_keeps_the_entries_of_unchanged_texts(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": TEXT})
        prepare(store, "d", "a")
        put(store, "d", "a", "one fish\n\nblue reef")
        assert derive(store, "d", "a")
        assert counts(repo) == [(NEW, WIDTH, 1)]
        assert list(repo.waiting("d", KEPT)) == ["a"]
        put(store, "d", "a", "one fish")
        assert derive(store, "d", "a")
        assert list(repo.waiting("d", KEPT)) == []
        assert examined(store, ["d"]) == []

    def test_space_that_is_dropped_is_gone_and_what_serves_is_not(
        self, store: Store, repo: VectorRepo
    ) -> None:
        fill(store, "d", {"a": TEXT})
        prepare(store, "d", "a")
        prepare(store, "d", "a", space="space/3")
        nearest = found(store, "one fish", OLD)
        assert [each[0] for each in counts(repo)] == [NEW, "space/3"]
        assert not repo.drop_space("d", dense(OLD))
        assert not repo.drop_space("none", KEPT)
        assert repo.drop_space("d", KEPT)
        assert not repo.drop_space("d", KEPT)
        assert [each[0] for each in counts(repo)] == ["space/3"]
        assert found(store, "one fish", OLD) == nearest
        digests = list(texts_under(store, "d", ["a"]))
        assert dict(store.chunks.known_vectors("d", KEPT, digests)) == {}
        set_config(store, "d", attrs.evolve(CONFIG, embed_sig="space/3"))
        assert found(store, "one fish", "space/3")[0] == ("a", 0)
        assert [each[0] for each in counts(repo)] == [OLD]
        assert examined(store, ["d"]) == []

    def test_dataset_without_vectors_takes_on_a_kept_space(
        self, store: Store, repo: VectorRepo
    ) -> None:
        bare = attrs.evolve(CONFIG, embed_sig="")
        fill(store, "d", {"a": TEXT, "b": "blue reef"}, bare)
        assert prepare(store, "d", "a") == ["a"]
        assert store.chunks.configure("d", NEXT, expected=bare)
        assert list(store.chunks.waiting("d", KEPT)) == ["b"]
        assert found(store, "two fish", NEW)[0] == ("a", 1)
        assert counts(repo) == []

    def test_entry_of_another_width_is_refused(self, store: Store, repo: VectorRepo) -> None:
        fill(store, "d", {"a": TEXT})
        first, second, _ = texts_under(store, "d", ["a"])
        repo.put_vectors("d", KEPT, ["a"], {first: vector_of("one fish", NEW, WIDTH)}, serves=False)
        wide = {second: vector_of("two fish", NEW, WIDTH + 1)}
        with pytest.raises(ModelMismatchError):
            repo.put_vectors("d", KEPT, ["a"], wide, serves=False)
        assert counts(repo) == [(NEW, WIDTH, 1)]
        kept = {first: vector_of("other", NEW, WIDTH)}
        repo.put_vectors("d", KEPT, ["a"], kept, serves=False)
        known = store.chunks.known_vectors("d", KEPT, [first])
        assert np.array_equal(known[first], vector_of("one fish", NEW, WIDTH))

    def test_swap_drops_answers_that_were_kept(self, store: Store, repo: VectorRepo) -> None:
        cache = or_skip(store.capabilities.answers)
        fill(store, "d", {"a": TEXT})
        prepare(store, "d", "a")
        before = cache.revisions(["d"])
        set_config(store, "d", NEXT)
        assert cache.revisions(["d"]) != before

    def test_entries_are_there_when_the_store_is_opened_again(self, lasting: Harness) -> None:
        with closing(lasting.open()) as store:
            or_skip(store.capabilities.spaces)
            fill(store, "d", {"a": TEXT, "b": "blue reef"})
            layer_in(store, "about fish")
            prepare(store, "d", "a")
        with closing(lasting.open()) as store:
            repo = or_skip(store.capabilities.spaces)
            assert counts(repo) == [(NEW, WIDTH, 3)]
            assert list(repo.waiting("d", KEPT)) == ["b"]
            set_config(store, "d", NEXT)
            nearest = found(store, "one fish", NEW)
        with closing(lasting.open()) as store:
            assert store.chunks.config("d") == NEXT
            assert found(store, "one fish", NEW) == nearest
            assert list(store.chunks.waiting("d", KEPT)) == ["b"]
            set_config(store, "d", CONFIG)
            assert len(found(store, "one fish", OLD)) == 3
            assert examined(store, ["d"]) == []

    def test_swaps_fills_and_edits_at_once_never_mix_spaces(
        self, store: Store, repo: VectorRepo
    ) -> None:
        """A search in either space finds right scores or nothing, whatever others do."""
        fill(store, "d", {"a": TEXT, "b": "blue reef"})
        prepare(store, "d", "a", "b")

        def swap() -> None:
            now = there(store.chunks.config("d"))
            other = NEXT if now == CONFIG else CONFIG
            store.chunks.configure("d", other, expected=now)
            prepare(store, "d", "a", "b", space=now.embed_sig)

        with beside(swap):
            for turn in range(12):
                put(store, "d", "b", f"blue reef\n\nturn {turn}")
                config = there(store.chunks.config("d"))
                swap_in(store, "b", config.embed_sig)
                for space in (OLD, NEW):
                    vector = there(embedded("one fish", space))
                    query = vector_query(vector, "d", space=space)
                    for each in store.chunks.search(query):
                        if (each.doc_name, each.index) == ("a", 0):
                            assert each.score == pytest.approx(1, abs=1e-5)
        assert examined(store, ["d"]) == []

    def test_of_several_who_swap_one_succeeds(self, store: Store, repo: VectorRepo) -> None:
        fill(store, "d", {"a": TEXT})
        prepare(store, "d", "a")
        answers = in_threads(lambda _: store.chunks.configure("d", NEXT, expected=CONFIG))
        assert sorted(answers) == [False, False, False, True]
        assert found(store, "one fish", NEW)[0] == ("a", 0)

    def test_any_steps_leave_what_a_fresh_store_has(self, store: Store, repo: VectorRepo) -> None:
        """Entries are those of texts that are there; sets are whole where their entries were."""

        @settings(max_examples=15, deadline=None)
        @given(_STEPS)
        # A space is kept of which there is no vector, and serves.
        @example([("put", "a", ""), ("drop", "a", ""), ("prepare", "a", ""), ("swap", "a", ""),
                  ("put", "a", "one fish")])  # fmt: skip
        def run(steps: list[tuple[str, str, str]]) -> None:
            store.documents.delete_dataset("d")
            fill(store, "d", {"z": "one fish"})
            prepare(store, "d", "z")
            for step, name, text in steps:
                config = there(store.chunks.config("d"))
                other = OLD if config.embed_sig == NEW else NEW
                if step in ("put", "store"):
                    put(store, "d", name, text)
                    if step == "put":
                        assert swap_in(store, name, config.embed_sig)
                elif step == "layer":
                    if text and (not name or store.documents.get_info("d", name)):
                        layer_in(store, text, name)
                elif step == "prepare":
                    if store.documents.get_info("d", name) or not name:
                        prepare(store, "d", name, space=other)
                        assert list(repo.waiting("d", dense(other), [name])) == []
                elif step == "delete":
                    store.documents.delete("d", name)
                elif step == "drop":
                    repo.drop_space("d", dense(other))
                else:
                    _swap(store, repo, config.embed_sig, other)
                _check_entries(store, repo)
            _check_search(store)

        run()


def _stats(store: Store) -> DatasetStats:
    config = there(store.chunks.config("d"))
    found = there(store.stats("d", chunker_sig=config.chunker_sig, embed_sig=config.embed_sig))
    return found


def _seen(store: Store) -> tuple[object, ...]:
    """What a reader sees of the sets and layers, vectors included."""
    chunks = [
        (c.doc_name, c.index, c.sig, None if c.vector is None else c.vector.tobytes())
        for c in store.chunks.iter_chunks("d", vectors=True)
    ]
    layer = there(store.layers.get("d", "a", Layer.ABSTRACT, vectors=True))
    assert layer.vector is not None
    return (*chunks, layer.sig, layer.vector.tobytes(), store.chunks.get_doc_sigs("d", "ab"))


def _swap(store: Store, repo: VectorRepo, old: str, new: str) -> None:
    """Swap, and compare with what was there."""
    kept = [each[0] for each in counts(repo)]
    whole = set(store.chunks.doc_names("d")).difference(repo.waiting("d", dense(new)))
    complete = set(store.chunks.doc_names("d")).difference(store.chunks.waiting("d", dense(old)))
    set_config(store, "d", attrs.evolve(CONFIG, embed_sig=new))
    if new not in kept:
        return
    waiting = set(store.chunks.waiting("d", dense(new)))
    assert not whole & waiting
    # A layer may not have been of the space when that served.
    layers = {each.doc_name for each in store.layers.list("d")}
    assert not complete & set(repo.waiting("d", dense(old))) - layers
    for chunk in store.chunks.iter_chunks("d", vectors=True):
        if chunk.doc_name not in waiting:
            wanted = embedded(chunk.content, new)
            assert (chunk.vector is None) == (wanted is None)
        if chunk.vector is not None:
            wanted = there(embedded(chunk.content, chunk.sig.embed_sig))
            assert np.array_equal(chunk.vector, wanted)


def _check_search(store: Store) -> None:
    """Each space finds what brute force finds: the sets that do not wait, in the one that serves.

    Of a set that waits, chunks that have their vector may be found. By keyword all are found.
    """
    config = there(store.chunks.config("d"))
    for space in (OLD, NEW):
        wanted = there(embedded("one fish", space))
        best = []
        waiting = set(store.chunks.waiting("d", dense(space)))
        for chunk in store.chunks.iter_chunks("d", vectors=True):
            if config.embed_sig != space or chunk.vector is None:
                continue
            if chunk.vector.shape != wanted.shape:  # of a set that waits: still of the other space
                continue
            score = float(np.round(np.dot(chunk.vector, wanted), 6))
            best.append((-score, chunk.doc_name, chunk.index))
        query = vector_query(wanted, "d", space=space, top_k=100)
        seen = [(-each.score, each.doc_name, each.index) for each in store.chunks.search(query)]
        found_early = {each[1:] for each in seen if each[1] in waiting}
        wanted_of = [each[1:] for each in sorted(best)]
        whole = [each for each in wanted_of if each[0] not in waiting or each in found_early]
        assert whole == [each[1:] for each in seen]
        assert [each[0] for each in sorted(best)] == pytest.approx([each[0] for each in seen])
    texts = {c.doc_name for c in store.chunks.iter_chunks("d") if "fish" in c.content}
    query = keyword_query("fish", "d", top_k=100)
    assert {name for name, _ in ids(store.chunks.search(query))} == texts


def _check_entries(store: Store, repo: VectorRepo) -> None:
    """Every entry has its text in the dataset, and its vector is that of the text."""
    names = {*store.chunks.doc_names("d"), *(each.doc_name for each in store.layers.list("d"))}
    texts = texts_under(store, "d", names)
    for space, _, vectors in counts(repo):
        known = store.chunks.known_vectors("d", dense(space), list(texts))
        assert vectors <= len(known)
        for digest, vector in known.items():
            assert np.array_equal(vector, there(embedded(texts[digest], space)))
    assert there(store.chunks.config("d")).embed_sig not in [each[0] for each in counts(repo)]
