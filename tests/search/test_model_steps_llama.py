"""Reranking and filtering with a real model on a real server; structure only, never content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import triptych
from triptych import Rerank
from triptych.errors import ProviderError, UnusableAnswerError
from triptych.search import ChunkFilter, LLMReranker
from triptych_providers import (
    BatchLimits,
    Connection,
    LlamaCppReranker,
    OpenAILLM,
    Retries,
    TEIReranker,
)

pytestmark = pytest.mark.llm

TEXTS = {
    "kettle.md": "# Kettle\n\nThe kettle whistles when the water in it boils.\n",
    "teapot.md": "# Teapot\n\nPorcelain keeps the water for the tea warm.\n",
    "engine.md": "# Engine\n\nSteam of water drives the pistons.\n",
}
ONCE = Connection(retries=Retries(attempts=1))


@pytest.fixture
def reranker(llama_rerank: str) -> Iterator[LlamaCppReranker]:
    batch = BatchLimits(texts=5, tokens=10_000)
    made = LlamaCppReranker(llama_rerank, batch=batch, connection=ONCE)
    yield made
    made.close()


@pytest.fixture
def llm(llama_chat: str) -> Iterator[OpenAILLM]:
    made = OpenAILLM("smollm2", base_url=llama_chat, temperature=0, connection=ONCE)
    yield made
    made.close()


def test_a_real_server_scores_each_text(reranker: LlamaCppReranker) -> None:
    texts = ["a panda", "", "a car\nand a road", "水"] * 3
    found = reranker.scores("bears?", texts)
    assert found.shape == (12,)
    assert np.isfinite(found).all()
    assert len(set(np.round(found[:4], 2))) > 1


async def _scores(url: str) -> np.ndarray:
    reranker = LlamaCppReranker(url)
    try:
        return await reranker.ascores("bears?", ["a panda", "a car"])
    finally:
        await reranker.aclose()


def test_a_real_server_is_awaited(llama_rerank: str) -> None:
    import asyncio

    assert asyncio.run(_scores(llama_rerank)).shape == (2,)


def test_it_answers_as_text_embeddings_inference_does(llama_rerank: str) -> None:
    model = TEIReranker(llama_rerank.removesuffix("/v1"), connection=ONCE)
    found = model.scores("bears?", ["a panda", "a car", "a bear"])
    assert found.shape == (3,)
    assert np.isfinite(found).all()
    model.close()


def test_a_text_over_the_context_is_cut(reranker: LlamaCppReranker) -> None:
    found = reranker.scores("bears?", ["a panda", "word " * 700])
    assert np.isfinite(found).all()
    assert reranker.inputs_cut == 1


def test_a_server_that_does_not_rerank_is_named(llama_chat: str) -> None:
    model = LlamaCppReranker(llama_chat, connection=ONCE)
    with pytest.raises(ProviderError, match="reranking"):
        model.scores("q", ["a"])
    model.close()


def test_a_search_is_reranked(llama_rerank: str) -> None:
    with triptych.open("memory://", embedder=None, reranker=f"llamacpp:{llama_rerank}") as kb:
        kb.put_documents("d", TEXTS)
        found = kb.search("water", dataset_id="d")
        assert sorted(hit.doc_name for hit in found) == sorted(TEXTS)
        scores = [hit.scores["rerank"] for hit in found]
        assert scores == sorted(scores, reverse=True)
        assert found.warnings == ()


def test_a_model_filters_or_says_why_not(llm: OpenAILLM) -> None:
    with triptych.open(
        "memory://", embedder=None, postprocessors=[ChunkFilter(llm, max_tokens=24)]
    ) as kb:
        kb.put_documents("d", TEXTS)
        found = kb.search("water", dataset_id="d")
        assert 1 <= len(found) <= 3
        filtered = all(hit.scores.get("filter", 0) >= 0.5 for hit in found)
        assert filtered != bool(found.warnings)


def test_a_model_reranks_or_says_why_not(llm: OpenAILLM) -> None:
    reranker = LLMReranker(llm, batch=2, max_tokens=24)
    try:
        found = reranker.scores("water", list(TEXTS.values()))
    except UnusableAnswerError:
        found = np.zeros(3)  # it did not keep to the format, as it may
    assert found.shape == (3,)
    assert ((found >= 0) & (found <= 1)).all()
    with triptych.open(
        "memory://", embedder=None, postprocessors=[Rerank(reranker, optional=True)]
    ) as kb:
        kb.put_documents("d", TEXTS)
        result = kb.search("water", dataset_id="d")
        assert len(result) == 3
        assert ("rerank" in result[0].scores) != bool(result.warnings)
