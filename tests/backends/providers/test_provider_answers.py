"""Any JSON as an answer: a result that is well-formed, or an error of the provider's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from support.examples import examples
from support.http_library import httpx
from support.rows import each_row
from triptych import Message
from triptych.errors import ProviderError
from triptych_providers import (
    AnthropicLLM,
    CohereReranker,
    Connection,
    JinaReranker,
    LlamaCppReranker,
    OllamaEmbedder,
    OllamaLLM,
    OpenAIEmbedder,
    OpenAILLM,
    Retries,
    TEIReranker,
    VoyageEmbedder,
    VoyageReranker,
)
from triptych_providers.response_parsing import rows_of

pytestmark = pytest.mark.property

ASK = [Message(role="user", content="?")]
HUGE = 10**400
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1.5, HUGE, -HUGE, 2**63, 2**1023, 1e300, 5e-324),
    *(float("inf"), float("-inf"), float("nan"), "", "x", "\ud800", "\udc00a", "a\ud83d"),
    *([], {}, [[]], [None], [HUGE], "AAAA", "AACAfw==", "AACAfwAA", [1.0, 2.0], {"index": HUGE}),
]
odd = st.sampled_from(ODD)
values = st.recursive(
    odd | st.floats() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)

OPENAI = {
    "choices": [
        {"message": {"content": "fine", "refusal": None}, "finish_reason": "stop", "index": 0}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 2},
}
ANTHROPIC = {
    "content": [{"type": "text", "text": "fine"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 3},
}
OLLAMA = {
    "message": {"content": "fine"},
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 1,
    "eval_count": 2,
}
VECTORS = {
    "data": [{"index": n, "embedding": [1.0, 2.0]} for n in range(2)],
    "usage": {"prompt_tokens": 1, "total_tokens": 1},
}
EMBEDDINGS = {"embeddings": [[1.0, 2.0], [2.0, 1.0]], "prompt_eval_count": 1}
SCORES = {"data": [{"index": n, "relevance_score": 0.5} for n in range(2)]}
RESULTS = {"results": SCORES["data"]}
PLAIN = [{"index": n, "score": 0.5} for n in range(2)]
OPENAI_EVENTS: list[Any] = [
    {"choices": [{"delta": {"content": "fi"}, "finish_reason": None}]},
    {"choices": [{"delta": {"content": "ne"}, "finish_reason": "stop"}], "usage": {}},
]
ANTHROPIC_EVENTS: list[Any] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
    {"type": "content_block_delta", "delta": {"text": "fine"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
OLLAMA_EVENTS: list[Any] = [{"message": {"content": "fi"}, "done": False}, OLLAMA]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if not isinstance(value, dict | list):
        return [path]
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], to: Any) -> Any:
    if not path:
        return to
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = changed(value[path[0]], path[1:], to)
    return copy


def spoilt(whole: Any) -> st.SearchStrategy[Any]:
    one = st.tuples(st.sampled_from(places(whole)), odd | values)
    return values | one.map(lambda how: changed(whole, *how))


def connection(body: str | bytes, status: int = 200) -> Connection:
    data = body.encode() if isinstance(body, str) else body
    transport = httpx.MockTransport(lambda request: httpx.Response(status, content=data))
    return Connection(transport=lambda: transport, retries=Retries(attempts=1))


def chats(made: Any) -> None:
    found = made.generate(ASK, max_tokens=9)
    assert found.text.encode().strip()
    assert 0 <= found.usage.input_tokens <= 1 << 53
    assert 0 <= found.usage.output_tokens <= 1 << 53


def streams(made: Any) -> None:
    pieces = list(made.stream(ASK, max_tokens=9))
    assert "".join(pieces).encode().strip()
    assert all(piece.encode() for piece in pieces)


def embeds(made: Any) -> None:
    rows = made.embed(["a", "b"], kind="query")
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)


def ranks(made: Any) -> None:
    scores = made.scores("q", ["a", "b"])
    assert scores.shape == (2,)
    assert np.isfinite(scores).all()


MADE: dict[str, tuple[Callable[[Connection], Any], Callable[[Any], None], Any]] = {
    "openai": (lambda how: OpenAILLM("m", api_key="k", connection=how), chats, OPENAI),
    "anthropic": (lambda how: AnthropicLLM("m", api_key="k", connection=how), chats, ANTHROPIC),
    "ollama": (lambda how: OllamaLLM("m", connection=how), chats, OLLAMA),
    "openai embeddings": (
        lambda how: OpenAIEmbedder("m", api_key="k", connection=how),
        embeds,
        VECTORS,
    ),
    "voyage embeddings": (
        lambda how: VoyageEmbedder("m", api_key="k", connection=how),
        embeds,
        VECTORS,
    ),
    "ollama embeddings": (lambda how: OllamaEmbedder("m", connection=how), embeds, EMBEDDINGS),
    "voyage scores": (lambda how: VoyageReranker("m", api_key="k", connection=how), ranks, SCORES),
    "cohere scores": (lambda how: CohereReranker("m", api_key="k", connection=how), ranks, RESULTS),
    "jina scores": (lambda how: JinaReranker("m", api_key="k", connection=how), ranks, RESULTS),
    "tei scores": (lambda how: TEIReranker(connection=how), ranks, PLAIN),
    "llama.cpp scores": (lambda how: LlamaCppReranker(connection=how), ranks, RESULTS),
    "openai stream": (
        lambda how: OpenAILLM("m", api_key="k", connection=how),
        streams,
        OPENAI_EVENTS,
    ),
    "anthropic stream": (
        lambda how: AnthropicLLM("m", api_key="k", connection=how),
        streams,
        ANTHROPIC_EVENTS,
    ),
    "ollama stream": (lambda how: OllamaLLM("m", connection=how), streams, OLLAMA_EVENTS),
}
DEEP = "[" * 100_000
TEXTS = [
    "",
    "{",
    DEEP,
    DEEP + "]" * 100_000,
    '{"a":' * 50_000,
    "9" * 5000,
    "NaN",
    "\0",
    "{}{}",
    "1",
]


def sent(name: str, answer: Any) -> str:
    if not name.endswith("stream") or not isinstance(answer, list):
        return json.dumps(answer)
    mark, end = ("", "\n") if name.startswith("ollama") else ("data: ", "\n\n")
    return "".join(f"{mark}{json.dumps(event)}{end}" for event in answer)


def asked(name: str, body: str | bytes, status: int = 200) -> None:
    make, use, _ = MADE[name]
    made = make(connection(body, status))
    try:
        use(made)
    except ProviderError as error:
        str(error).encode()  # can be printed and logged
    finally:
        made.close()


@each_row("name", MADE)
def test_what_is_whole_is_read(name: str) -> None:
    make, use, whole = MADE[name]
    made = make(connection(sent(name, whole)))
    use(made)
    made.close()


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=examples(150))
@given(data=st.data())
def test_any_json_is_read_or_named(name: str, data: st.DataObject) -> None:
    asked(name, sent(name, data.draw(spoilt(MADE[name][2]))))


@each_row("name", MADE)
def test_each_place_may_hold_anything(name: str) -> None:
    whole = MADE[name][2]
    for path in places(whole):
        for value in ODD:
            asked(name, sent(name, changed(whole, path, value)))


# A case each: as rows of one test, texts that nest too deep end in a RecursionError of pytest.
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("status", [200, 400, 404, 500])
def test_what_is_no_json_is_named(name: str, status: int) -> None:
    for text in TEXTS:
        for body in (
            text,
            f"data: {text}\n\n",
            f'{{"error": {text}}}',
            b"\xff\xfe" + text.encode(),
        ):
            asked(name, body, status)


@pytest.mark.parametrize("name", MADE)
@settings(max_examples=examples(60))
@given(status=st.sampled_from([400, 404, 413, 429, 500]), body=values)
def test_any_refusal_is_named(name: str, status: int, body: Any) -> None:
    for told in (body, {"error": body}, {"detail": [{"msg": body}]}):
        asked(name, json.dumps(told), status)


@pytest.mark.parametrize("name", ["openai", "anthropic", "ollama"])
def test_a_lone_surrogate_is_replaced(name: str) -> None:
    make, _, whole = MADE[name]
    said = json.dumps(whole).replace('"fine"', r'"a\ud800b \ud83d\ude00\udc00"')
    made = make(connection(said))
    assert made.generate(ASK, max_tokens=9).text == "a�b \U0001f600�"
    made.close()


@each_row(
    ("pieces", "text"),
    [
        ([r"a\ud83d", r"\ude00b"], "a\U0001f600b"),
        ([r"a\ud83d", "", r"\ude00b"], "a\U0001f600b"),
        ([r"a\ud83d", "b"], "a�b"),
        ([r"a\ud83d", r"\ud83d", r"\ude00"], "a�\U0001f600"),
        ([r"a\ude00", "b"], "a�b"),
        ([r"a\ud83d"], "a�"),
    ],
)
def test_a_pair_that_a_stream_splits_is_joined(pieces: list[str], text: str) -> None:
    events = [f'{{"choices": [{{"delta": {{"content": "{piece}"}}}}]}}' for piece in pieces]
    events.append('{"choices": [{"delta": {}, "finish_reason": "stop"}]}')
    body = "".join(f"data: {event}\n\n" for event in events)
    made = OpenAILLM("m", api_key="k", connection=connection(body))
    assert "".join(made.stream(ASK, max_tokens=9)) == text
    made.close()


@each_row("size", [5e-324, 2e-162, 1e-30, 1.0, 1e30, 1e160, 1e308])
def test_vectors_of_any_size_have_unit_length(size: float) -> None:
    rows = rows_of([[size, -size, 0.0], [size, 0, size / 2]], 2)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
