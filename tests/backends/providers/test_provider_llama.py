"""A real llama.cpp server with a real small model; asserts structure, never what it writes."""

from __future__ import annotations

import json

import httpx
import pytest

from triptych import Message
from triptych.errors import ProviderError
from triptych_providers import Connection, OpenAIEmbedder, OpenAILLM, Retries

pytestmark = pytest.mark.llm

ASK = [Message(role="user", content="Say hello.")]


def test_a_real_model_answers(llama_chat: str) -> None:
    llm = OpenAILLM("any", base_url=llama_chat)
    found = llm.generate(ASK, max_tokens=12)
    assert found.text.strip()
    assert found.usage.input_tokens > 0
    assert 0 < found.usage.output_tokens <= 12
    llm.close()


def test_a_real_model_streams(llama_chat: str) -> None:
    llm = OpenAILLM("any", base_url=llama_chat)
    stream = llm.stream(ASK, max_tokens=12)
    assert "".join(stream).strip()
    assert 0 < stream.usage.output_tokens <= 12
    llm.close()


def test_a_prompt_over_the_context_is_named(llama_chat: str) -> None:
    llm = OpenAILLM("any", base_url=llama_chat, connection=Connection(retries=Retries(attempts=1)))
    with pytest.raises(ProviderError, match="too long"):
        llm.generate([Message(role="user", content="word " * 3000)], max_tokens=12)
    llm.close()


def test_a_real_model_embeds_and_long_texts_are_cut(llama_embed: str) -> None:
    embedder = OpenAIEmbedder("any", base_url=llama_embed)
    rows = embedder.embed(["hello", "word " * 3000, "end"], kind="document")
    assert rows.shape == (3, embedder.dimension)
    assert embedder.inputs_cut == 1
    embedder.close()


def test_the_server_holds_an_answer_to_a_json_schema(llama_chat: str) -> None:
    numbers = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    answer = httpx.post(
        f"{llama_chat}/chat/completions",
        json={
            "messages": [{"role": "user", "content": "Two numbers."}],
            "max_tokens": 100,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "numbers", "strict": True, "schema": numbers},
            },
        },
        timeout=60,
    )
    found = json.loads(answer.json()["choices"][0]["message"]["content"])
    assert [type(each) in (int, float) for each in found] == [True, True]


def test_the_server_ranks_texts(llama_rerank: str) -> None:
    asked = {"query": "bears", "documents": ["a panda", "a car", "a bear"]}
    answer = httpx.post(f"{llama_rerank}/rerank", json=asked, timeout=60).json()
    assert sorted(each["index"] for each in answer["results"]) == [0, 1, 2]
    assert all(type(each["relevance_score"]) is float for each in answer["results"])
