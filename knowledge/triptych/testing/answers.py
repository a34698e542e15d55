"""Tests of cached answers: a write that may change them drops them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta

import attrs
import numpy as np
import pytest

from triptych.contracts import AnswerCache, Store
from triptych.errors import StoreError
from triptych.records import CachedAnswer, CacheStats, DerivedSig, Layer, NewDocument
from triptych.records.spaces import dense
from triptych.testing.builders import (
    CONFIG,
    SPARSE,
    chunks_of,
    derive,
    fill,
    layer_of,
    put,
    set_config,
    sig_of,
    vector_of,
)
from triptych.testing.harness import Harness, HarnessTests, or_skip, there
from triptych.testing.sparse import encode

NOW = datetime(2026, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)
_TEXT = "# Kettle\n\nThe lid whistles.\n\nWater boils."


def answers_of(store: Store) -> AnswerCache:
    return or_skip(store.capabilities.answers)


def answer_from(
    answers: AnswerCache,
    *dataset_ids: str,
    request: str = "r",
    text: str = "q",
    created_at: datetime = NOW,
) -> CachedAnswer:
    return CachedAnswer(
        request=request,
        vector=vector_of(text),
        revisions=answers.revisions(dataset_ids),
        created_at=created_at,
        body=f"the answer to {text} \N{GREEK SMALL LETTER MU}",
    )


def _without_vectors(store: Store) -> None:
    """Swap in a set that waits for its vectors."""
    document = there(store.documents.get("d", "a"))
    sig = attrs.evolve(sig_of(store, "d", "a"), embed_sig="")
    store.chunks.delete_by_doc("d", "a")  # with its vectors, which the set would take
    assert store.chunks.replace("d", "a", chunks_of(document, sig, vectors=False), sig=sig)


def _give(store: Store, which: slice) -> list[str]:
    vectors = [
        (chunk.sig.input_sig, vector_of(chunk.content))
        for chunk in store.chunks.iter_chunks("d", "a")
    ]
    space = dense(CONFIG.embed_sig)
    return list(store.chunks.put_vectors("d", space, ["a"], dict(vectors[which])))


def _with_some_vectors(store: Store) -> None:
    _without_vectors(store)
    assert _give(store, slice(1)) == []


def _complete(store: Store) -> None:
    assert _give(store, slice(1, None)) == ["a"]


def _with_sparse(store: Store) -> None:
    or_skip(store.capabilities.sparse)
    set_config(store, "d", attrs.evolve(CONFIG, sparse_sig=SPARSE))


def _expire(store: Store) -> None:
    later = datetime(2999, 1, 1, tzinfo=UTC)
    store.documents.put("d", NewDocument(name="a", content=_TEXT, expires_at=later))


def _restamp(store: Store) -> None:
    assert store.chunks.update_source_version("d", "a", sig_of(store, "d", "a"))


def _load(store: Store) -> None:
    document = there(store.documents.get("d", "a"))
    newer = attrs.evolve(document, version=document.version + 5, content="Loaded.")
    store.documents.load(newer)


def _nothing(store: Store) -> None:
    """No preparation."""


def _layered(store: Store) -> None:
    assert store.layers.put(layer_of(store, "d", "a", "About a kettle."))


def _changed_metadata(store: Store) -> None:
    put(store, "d", "a", _TEXT, lang="de")


_Step = Callable[[Store], object]
_WRITES: dict[str, tuple[_Step, _Step]] = {
    "a new document": (_nothing, lambda store: put(store, "d", "b", "Tea.")),
    "new content": (_nothing, lambda store: put(store, "d", "a", "Other.")),
    "new metadata": (_nothing, _changed_metadata),
    "a moment of expiry": (_nothing, _expire),
    "a loaded version": (_nothing, _load),
    "a chunk set": (lambda store: put(store, "d", "a", "Other."), lambda s: derive(s, "d", "a")),
    "a set of another version": (_changed_metadata, _restamp),
    "a set without vectors": (_nothing, _without_vectors),
    "the first vectors of a set": (_without_vectors, lambda store: _give(store, slice(1))),
    "the last vectors of a set": (_with_some_vectors, _complete),
    "sparse vectors": (_with_sparse, lambda store: encode(store, "d", "a")),
    "a layer": (_nothing, _layered),
    "a layer of a folder": (
        _nothing,
        lambda store: store.layers.put(layer_of(store, "d", "", "All of it.", Layer.OVERVIEW)),
    ),
    "layers that are deleted": (_layered, lambda store: store.layers.delete_by_doc("d", "a")),
    "all layers deleted": (_layered, lambda store: store.layers.delete_by_dataset("d")),
    "a set that is deleted": (_nothing, lambda store: store.chunks.delete_by_doc("d", "a")),
    "all sets deleted": (_nothing, lambda store: store.chunks.delete_by_dataset("d")),
    "a configuration": (
        _nothing,
        lambda store: set_config(store, "d", attrs.evolve(CONFIG, language="german")),
    ),
    "a chunker": (
        _nothing,
        lambda store: set_config(store, "d", attrs.evolve(CONFIG, chunker_sig="other/1")),
    ),
    "a deleted document": (_nothing, lambda store: store.documents.delete("d", "a")),
    "deleted documents": (_nothing, lambda store: store.documents.delete_many("d", {"a": 1})),
    "orphans": (
        lambda store: store.layers.put(layer_of(store, "d", "gone/", "Gone.")),
        lambda store: store.documents.delete_orphans("d", ["gone/"]),
    ),
    "a deleted dataset": (_nothing, lambda store: store.documents.delete_dataset("d")),
}


class AnswerTests(HarnessTests):
    """What every store with the capability `AnswerCache` does."""

    def test_an_answer_is_kept_and_found_by_its_request(self, store: Store) -> None:
        answers = answers_of(store)
        fill(store, "d", {"a": _TEXT})
        first = answer_from(answers, "d", text="one")
        second = answer_from(answers, "d", text="two", created_at=NOW + timedelta(seconds=1))
        other = answer_from(answers, "d", request="other")
        for each in (first, second, other):
            assert answers.keep_answer(each, most=10)
        found = answers.cached_questions("r")
        assert len(found) == 2
        for question, wanted in zip(found, (second, first), strict=True):
            assert np.array_equal(question.vector, wanted.vector)
            assert answers.cached_answer(question.key) == wanted
        assert answers.cached_questions("unknown") == []
        assert answers.cached_answer(10**12) is None
        assert answers.cache_stats().entries == 3

    def test_a_dataset_that_does_not_exist_has_no_revision(self, store: Store) -> None:
        answers = answers_of(store)
        assert answers.revisions(["d"]) == {}
        assert answers.revisions([]) == {}
        fill(store, "d", {"a": _TEXT})
        fill(store, "e", {"a": _TEXT})
        found = answers.revisions(["e", "d", "none"])
        assert set(found) == {"d", "e"}
        assert answers.revisions(["d"]) == {"d": found["d"]}

    @pytest.mark.parametrize("write", _WRITES)
    def test_a_write_drops_the_answers_of_its_dataset(self, store: Store, write: str) -> None:
        prepare, change = _WRITES[write]
        answers = answers_of(store)
        fill(store, "d", {"a": _TEXT})
        fill(store, "e", {"a": _TEXT})
        prepare(store)
        before = answers.revisions(["d", "e"])
        kept = answer_from(answers, "d")
        assert answers.keep_answer(kept, most=10)
        assert answers.keep_answer(answer_from(answers, "e", request="of e"), most=10)
        assert answers.keep_answer(answer_from(answers, "d", "e", request="of both"), most=10)
        change(store)
        after = answers.revisions(["d", "e"])
        assert after.get("d") != before["d"]
        assert after["e"] == before["e"]
        assert answers.cached_questions("r") == []
        assert answers.cached_questions("of both") == []
        assert len(answers.cached_questions("of e")) == 1
        # What was found before the write is not kept after it.
        assert not answers.keep_answer(kept, most=10)
        assert answers.cached_questions("r") == []

    def test_what_changes_nothing_drops_nothing(self, store: Store) -> None:
        answers = answers_of(store)
        fill(store, "d", {"a": _TEXT})
        assert store.documents.get("d", "a") is not None
        assert answers.keep_answer(answer_from(answers, "d"), most=10)
        put(store, "d", "a", _TEXT)
        stale = DerivedSig(source_version=99, chunker_sig=CONFIG.chunker_sig)
        assert not store.chunks.replace("d", "a", [], sig=stale)
        assert not store.documents.delete("d", "unknown")
        store.documents.create_dataset("other")
        assert len(answers.cached_questions("r")) == 1

    def test_the_oldest_answers_go_first(self, store: Store) -> None:
        answers = answers_of(store)
        fill(store, "d", {"a": _TEXT})
        for number in range(7):
            request = "r" if number % 2 else "other"
            answer = answer_from(answers, "d", text=f"{number}", request=request)
            assert answers.keep_answer(answer, most=3)
            assert answers.cache_stats().entries == min(number + 1, 3)
        found = [answers.cached_answer(each.key) for each in answers.cached_questions("other")]
        assert [each and each.body[:15] for each in found] == ["the answer to 6", "the answer to 4"]

    def test_answers_are_dropped_by_age(self, store: Store) -> None:
        answers = answers_of(store)
        fill(store, "d", {"a": _TEXT})
        for hours in range(4):
            created = NOW + timedelta(hours=hours)
            answer = answer_from(answers, "d", text=f"{hours}", created_at=created)
            assert answers.keep_answer(answer, most=10)
        assert answers.drop_answers(before=NOW + timedelta(hours=2)) == 2
        assert len(answers.cached_questions("r")) == 2
        assert answers.drop_answers(before=NOW + timedelta(hours=9)) == 2
        assert answers.drop_answers(before=NOW + timedelta(hours=9)) == 0
        assert answers.cache_stats().entries == 0

    def test_lookups_are_counted(self, store: Store) -> None:
        answers = answers_of(store)
        assert answers.cache_stats() == CacheStats()
        answers.count_lookups(hits=2, misses=3)
        answers.count_lookups(hits=1, misses=0)
        assert answers.cache_stats() == CacheStats(hits=3, misses=3)

    def test_another_process_sees_answers_and_drops_them(self, harness: Harness) -> None:
        if not harness.shared:
            pytest.skip("one process at a time has the store open")
        store, other = harness.open(), harness.open()
        try:
            fill(store, "d", {"a": _TEXT})
            mine, theirs = answers_of(store), answers_of(other)
            assert mine.keep_answer(answer_from(mine, "d"), most=10)
            assert mine.revisions(["d"]) == theirs.revisions(["d"])
            (question,) = theirs.cached_questions("r")
            assert theirs.cached_answer(question.key) == mine.cached_answer(question.key)
            put(other, "d", "a", "Other.")
            assert mine.cached_questions("r") == []
            assert mine.revisions(["d"]) == theirs.revisions(["d"])
        finally:
            store.close()
            other.close()

    def test_answers_last_or_are_gone_after_reopening(self, lasting: Harness) -> None:
        with closing(lasting.open()) as store:
            answers = answers_of(store)
            fill(store, "d", {"a": _TEXT})
            assert answers.keep_answer(answer_from(answers, "d"), most=10)
            kept = answers.revisions(["d"])
        with closing(lasting.open()) as again:
            found = answers_of(again)
            if found.cached_questions("r"):
                assert found.revisions(["d"]) == kept

    def test_a_closed_store_refuses_answers(self, harness: Harness) -> None:
        with closing(harness.open()) as store:
            answers = answers_of(store)
        with pytest.raises(StoreError):
            answers.revisions(["d"])
        with pytest.raises(StoreError):
            answers.cached_questions("r")
