"""Providers by habits: each provider's shape, as a fake on loopback, with each habit of servers.

A provider is the shape of its answers and refusals; a habit is a change of that shape, or what a
server does instead of an answer. Each pair is one test. `make matrix` prints the table of the
page on providers. No real service is called.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from support.provider_server import Asked, ProviderServer, Reply, as_json, serving
from triptych._internal.thoughts import ThoughtFilter, without_thoughts
from triptych.errors import ProviderError
from triptych.records import Message
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
from triptych_testing import failures

TEXT = "It is not allowed."
TEXTS = [f"text {n}" for n in range(20)]
LONG = "word " * 300
KEY = "key-0123456789"
PAGE = Path(__file__).parents[3] / "docs/how-to/providers.md"

# --- The shapes of answers: whole ones, and the events of streams ---


def openai_chat(field: str | None = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": TEXT, **({field: "They ask."} if field else {})}
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 4},
    }


def delta(finish: str | None = None, **held: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": held, "finish_reason": finish}]}


def openai_events(field: str | None = None) -> list[Any]:
    usage = {"prompt_tokens": 5, "completion_tokens": 4}
    thought = [delta(content="", **{field: "They ask."})] if field else []
    return [
        delta(role="assistant", content=""),
        *thought,
        *(delta(content=piece) for piece in (TEXT[:6], TEXT[6:])),
        delta("stop"),
        {"choices": [], "usage": usage},
    ]


def anthropic_events() -> list[Any]:
    block = {"type": "content_block_delta", "index": 0}
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 5}}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(block | {"delta": {"type": "text_delta", "text": t}} for t in (TEXT[:6], TEXT[6:])),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ]


def anthropic_chat() -> dict[str, Any]:
    return {
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "output_tokens": 4},
    }


def ollama_chat(text: str = TEXT, *, done: bool = True) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "thinking": "They ask."}
    counted = {"done_reason": "stop", "prompt_eval_count": 5, "eval_count": 4} if done else {}
    return {"message": message, "done": done, **counted}


def ollama_events() -> list[Any]:
    pieces = [ollama_chat(piece, done=False) for piece in (TEXT[:6], TEXT[6:])]
    return [*pieces, ollama_chat("")]


def row_of(text: str) -> list[float]:
    return [float(len(text)), 1.0 + sum(map(ord, text)) % 97]


def data(texts: list[str]) -> dict[str, Any]:
    items = [{"index": n, "embedding": row_of(text)} for n, text in enumerate(texts)]
    return {"data": items, "usage": {"prompt_tokens": 9, "total_tokens": 9}}


def scored(texts: list[str], field: str) -> list[dict[str, Any]]:
    return [{"index": n, field: len(text) / 99} for n, text in enumerate(texts)]


def in_error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **more}}


def of_mistral(message: Any, **more: Any) -> dict[str, Any]:
    return {"object": "error", "message": message, "type": "invalid_request_error", **more}


# --- The providers ---


@attrs.frozen(kw_only=True)
class Provider:
    """What is special about one; ``chat``, ``embed`` and ``rerank`` are what it does for us."""

    chat: Callable[..., Any] | None = None
    embed: Callable[..., Any] | None = None
    rerank: Callable[..., Any] | None = None
    shape: str = "openai"
    path: str = "/v1"
    field: str | None = None
    """The field beside the text that holds thoughts, of those with OpenAI's shape."""
    refusal: Callable[..., Any] = in_error
    limit: int = 16
    batch: str = "too many inputs"
    long: str = "This model's maximum context length is 100 tokens, however you requested 375"
    spare: str = ""
    """A field that it refuses by its name, always."""
    unknown: Callable[[str], tuple[Any, int]] = lambda name: (
        in_error(f"Unsupported parameter: '{name}' is not supported with this model.", param=name),
        400,
    )
    first: tuple[Any, ...] = ()
    """Events before the text."""
    no_zero: bool = False
    """Leaves out ``index`` where it is 0."""
    as_list: bool = False
    """Its content is a list of parts, with thoughts among them."""


OPENAI: dict[str, Any] = {"chat": OpenAILLM, "embed": OpenAIEmbedder}
SAFE = {"hate": {"filtered": False, "severity": "safe"}}
AZURE_FIRST = {"choices": [], "prompt_filter_results": [{"content_filter_results": SAFE}]}
# With an asynchronous filter, what it finds comes in events without a delta.
AZURE_LATE = {"choices": [{"index": 0, "finish_reason": None, "content_filter_results": SAFE}]}

PROVIDERS: Mapping[str, Provider] = {
    "OpenAI": Provider(**OPENAI, limit=18),
    "Azure": Provider(
        **OPENAI,
        spare="max_tokens",
        first=(AZURE_FIRST, AZURE_LATE),
        batch="Too many inputs. The max number of inputs is 16.",
    ),
    "Gemini": Provider(
        **OPENAI,
        path="/v1beta/openai",
        no_zero=True,
        batch="* BatchEmbedContentsRequest.requests: at most 16 requests can be in one batch",
        refusal=lambda m, **_: {"error": {"code": 400, "message": m, "status": "INVALID_ARGUMENT"}},
    ),
    "Mistral": Provider(
        **OPENAI,
        refusal=of_mistral,
        as_list=True,
        spare="stream_options",
        unknown=lambda name: (
            of_mistral(
                {
                    "detail": [
                        {
                            "type": "extra_forbidden",
                            "loc": ["body", name],
                            "msg": "Extra inputs are not permitted",
                        }
                    ]
                }
            ),
            422,
        ),
        batch="Too many inputs in request, split into more batches.",
        long="Too many tokens in batch. Max is 100 got 375",
    ),
    "LM Studio": Provider(**OPENAI, field="reasoning_content", refusal=lambda m, **_: {"error": m}),
    "vLLM": Provider(
        **OPENAI,
        field="reasoning_content",
        refusal=of_mistral,
        long="This model's maximum context length is 100 tokens. However, you requested 375 tokens "
        "in the input for embedding generation. Please reduce the length of the input.",
    ),
    "DashScope": Provider(
        **OPENAI,
        field="reasoning_content",
        path="/compatible-mode/v1",
        limit=10,
        refusal=lambda m, **_: in_error(m, code="InvalidParameter") | {"request_id": "318cff27"},
        batch="<400> InternalError.Algo.InvalidParameter: Value error, batch size is invalid, it "
        "should not be larger than 10.: input.contents",
        long="<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 100]",
    ),
    "OpenRouter": Provider(
        **OPENAI,
        field="reasoning",
        path="/api/v1",
        refusal=lambda m, **_: {"error": {"code": 400, "message": m}, "user_id": "u"},
        first=(": OPENROUTER PROCESSING",),
    ),
    "Anthropic": Provider(
        chat=AnthropicLLM,
        shape="anthropic",
        path="",
        long="prompt is too long: 375 tokens > 100 maximum",
        refusal=lambda m, **_: {"type": "error", **in_error(m)},
    ),
    "Ollama": Provider(
        chat=OllamaLLM,
        embed=OllamaEmbedder,
        shape="ollama",
        path="",
        refusal=lambda m, **_: {"error": m},
        long="the input length exceeds the context length",
    ),
    "Voyage": Provider(
        embed=VoyageEmbedder,
        rerank=VoyageReranker,
        shape="voyage",
        refusal=lambda m, **_: {"detail": m},
        batch="The batch size limit is 16. Your batch size is 20.",
    ),
    "Cohere": Provider(rerank=CohereReranker, path="", refusal=lambda m, **_: {"message": m}),
    "Jina": Provider(rerank=JinaReranker, refusal=lambda m, **_: {"detail": m}),
    "TEI": Provider(
        rerank=TEIReranker,
        path="",
        refusal=lambda m, **_: {"error": m, "error_type": "Validation"},
        batch="batch size 20 > maximum allowed batch size 16",
        long="Input validation error: `inputs` must have less than 100 tokens. Given: 375",
    ),
    "llama.cpp": Provider(
        rerank=LlamaCppReranker,
        path="",
        long="input (375 tokens) is too large to process. increase the physical batch size",
    ),
}
KINDS = ("chat", "embed", "rerank")


def texts_of(body: Mapping[str, Any]) -> list[str]:
    return next(body[key] for key in ("input", "texts", "documents") if key in body)


def answer_of(provider: Provider, asked: Asked) -> Any:
    """A whole answer, or a list of events."""
    body = asked.body
    if "messages" in body:
        stream = bool(body["stream"])
        if provider.shape == "anthropic":
            return anthropic_events() if stream else anthropic_chat()
        if provider.shape == "ollama":
            return ollama_events() if stream else ollama_chat()
        if not stream:
            return openai_chat(provider.field)
        return [*provider.first, *openai_events(provider.field)]
    texts = texts_of(body)
    if "query" in body:
        if provider.rerank is TEIReranker:
            return scored(texts, "score")
        named = "data" if provider.rerank is VoyageReranker else "results"
        return {named: scored(texts, "relevance_score")}
    if provider.shape == "ollama":
        return {"embeddings": list(map(row_of, texts)), "prompt_eval_count": 9}
    value = data(texts)
    if provider.no_zero:
        del value["data"][0]["index"]
    return value


def as_parts(text: str) -> list[Any]:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "They ask."}]}
    return [thought, {"type": "text", "text": text}]


def each_content(value: Any, change: Callable[[str], Any]) -> Any:
    """The answer, or the events, with each text of theirs as ``change`` makes it."""
    if isinstance(value, list):
        return [each_content(each, change) for each in value]
    if not isinstance(value, dict):
        return value
    name = "text" if value.get("type") in ("text", "text_delta") else "content"
    return {
        key: change(each)
        if key == name and isinstance(each, str) and each
        else each_content(each, change)
        for key, each in value.items()
    }


def encoded(provider: Provider, value: Any, *, stream: bool, end: str = "\n") -> Reply:
    if not stream:
        return as_json(value)
    lines = [
        each
        if isinstance(each, str)
        else json.dumps(each)
        if provider.shape == "ollama"
        else f"data: {json.dumps(each)}"
        for each in value
    ]
    if provider.shape == "openai":
        lines.append("data: [DONE]")
    gap = end if provider.shape == "ollama" else end * 2
    return Reply(body=[f"{line}{gap}".encode() for line in lines])


# --- The habits ---

Change = Callable[[Provider, Any], Any]
Instead = Callable[[Provider, Asked, int], Reply | None]


@attrs.frozen(kw_only=True)
class Habit:
    """A change of an answer or its bytes, or what comes ``instead`` of an answer.

    ``error``: the words with which it is refused; "" if the answer is as good as without it.
    """

    kinds: str = "chat embed rerank"
    change: Change | None = None
    sent: Callable[[Provider, Any, bool], Reply] | None = None
    instead: Instead | None = None
    error: str = ""
    shapes: str = ""
    whole: bool = True
    requests: int = 0
    """How many requests it takes; 0: any number."""


def items_of(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, list):
        return value
    return next(value[key] for key in ("data", "results") if key in value)


def on_items(change: Callable[[list[Any]], Any]) -> Change:
    def changed(_: Provider, value: Any) -> Any:
        change(items_of(value))
        return value

    return changed


def without_index(items: list[Any]) -> None:
    for item in items:
        item.pop("index", None)


def with_index(index: Any, items: list[Any]) -> None:
    for item in items:
        item["index"] = index


def one_row(row: list[float]) -> Change:
    def changed(_: Provider, value: Any) -> Any:
        if "embeddings" in value:
            value["embeddings"][-1] = row
        else:
            value["data"][-1]["embedding"] = row
        return value

    return changed


def packed(items: list[Any]) -> None:
    for item in items:
        raw = struct.pack("<2f", *item["embedding"])
        item["embedding"] = base64.b64encode(raw).decode()


def without_usage(_: Provider, value: Any) -> Any:
    if isinstance(value, list):
        return [without_usage(_, each) for each in value if isinstance(each, str) or each]
    if isinstance(value, dict):
        gone = ("usage", "prompt_eval_count", "eval_count")
        return {k: without_usage(_, each) for k, each in value.items() if k not in gone}
    return value


def contents(change: Callable[[str], Any]) -> Change:
    return lambda _, value: each_content(value, change)


def pieces(text: str, provider: Provider, value: Any) -> Any:
    """``text`` as the answer; in a stream, a character in each event."""
    if not isinstance(value, list):
        return each_content(value, lambda _: text)
    speaks = [each_content(event, lambda _: None) != event for event in value]
    first = speaks.index(True)
    before = [event for event, has in zip(value[:first], speaks, strict=False) if not has]
    after = [event for event, has in zip(value, speaks, strict=True) if not has][len(before) :]
    chars = [each_content(value[first], lambda _, char=char: char) for char in text]
    return [*before, *chars, *after]


def nulls(_: Provider, value: Any) -> Any:
    return [
        {**each, "choices": None} if isinstance(each, dict) and "usage" in each else each
        for each in value
    ]


def broken(provider: Provider, value: Any) -> Any:
    """An error where the stream has begun."""
    return [*value[:-2], provider.refusal("the worker died")]


def ending(finish: str, error: Any, _: Provider, value: Any) -> Any:
    """Another reason of the end, with an ``error`` beside it or without."""
    changed = json.loads(json.dumps(value))
    for event in changed if isinstance(value, list) else [changed]:
        for choice in event["choices"] if isinstance(event, dict) else ():
            if choice["finish_reason"] == "stop":
                choice.update({"finish_reason": finish, **({"error": error} if error else {})})
    return changed


def finished(finish: str) -> Change:
    return partial(ending, finish, None)


def only(field: str, held: Any, _: Provider, value: Any) -> Any:
    """``held`` in a field of the message, in two events of a stream, and no text."""
    if isinstance(value, list):
        return [delta(**{field: held}), delta(**{field: held}), delta("stop")]
    value["choices"][0]["message"] = {"role": "assistant", "content": None, field: held}
    return value


def in_content(*before: Any) -> Change:
    """Parts that are no text before the text, in a list."""
    return contents(lambda text: [*before, {"type": "text", "text": text}])


def other_choices(_: Provider, value: Any) -> Any:
    other = {"index": 1, "finish_reason": None, "delta": {"content": "No."}}
    if isinstance(value, list):
        return [x for each in value for x in ({"choices": [other]}, each)]
    value["choices"].insert(0, {"index": 1, "message": {"content": "No."}})
    return value


def instead_of(answer: Any) -> Change:
    return lambda by, value: [answer] if by.chat and isinstance(value, list) else answer


def sent_as(**how: Any) -> Callable[[Provider, Any, bool], Reply]:
    def send(provider: Provider, value: Any, stream: bool) -> Reply:
        if how.get("comments") and stream:
            value = [each for event in value for each in (": keep-alive", event)]
        reply = encoded(provider, value, stream=stream, end=how.get("end", "\n"))
        whole = how.get("mark", b"") + reply.whole
        cut = len(whole) * 2 // 3 if how.get("cut") else None
        return attrs.evolve(reply, body=[whole] if stream else whole, cut=cut)

    return send


def first_only(reply: Reply) -> Instead:
    return lambda provider, asked, before: None if before else reply


def always(reply: Reply) -> Instead:
    return lambda provider, asked, before: reply


def too_many(status: int) -> Instead:
    def instead(provider: Provider, asked: Asked, before: int) -> Reply | None:
        if len(texts_of(asked.body)) <= provider.limit:
            return None
        return as_json(provider.refusal(provider.batch), status)

    return instead


def too_long(provider: Provider, asked: Asked, before: int) -> Reply | None:
    said = [m["content"] for m in asked.body.get("messages", ())] or texts_of(asked.body)
    if max(map(len, said)) <= 400:
        return None
    return as_json(provider.refusal(provider.long), 400)


def refused_field(provider: Provider, asked: Asked, before: int) -> Reply | None:
    """A field that it does not take is refused by its name, each of those that may be left out."""
    spare = {"stream_options", "encoding_format", "return_documents", "max_tokens"}
    name = next((each for each in sorted(spare) if each in asked.body), "")
    return refused(provider, name) if name else None


def refused(provider: Provider, name: str) -> Reply:
    value, status = provider.unknown(name)
    return as_json(value, status)


HTML = Reply(body=b"<html><h1>Welcome</h1></html>", headers={"content-type": "text/html"})
MOVED = Reply(status=307, headers={"location": "http://example.org/v1"})
DENIED = as_json({"error": {"message": f"Incorrect API key provided: {KEY[:8]}***"}}, 401)
LIMITED = as_json({"error": {"message": "slow down"}}, 429, retry_after="0")
FAILED = as_json({"error": {"message": "an error, once"}}, 500)
PATHLESS = as_json({"error": "Unexpected endpoint or method. (POST /chat/completions)"})

CANNOT = "cannot be used"
HABITS: Mapping[str, Habit] = {
    "a byte order mark first": Habit(sent=sent_as(mark=b"\xef\xbb\xbf")),
    "lines end in CR LF": Habit(kinds="chat", sent=sent_as(end="\r\n"), whole=False),
    "comments in a stream": Habit(
        kinds="chat", sent=sent_as(comments=True), whole=False, shapes="openai anthropic"
    ),
    "a stream that is cut": Habit(
        kinds="chat", sent=sent_as(cut=True), whole=False, error="ended early|without the end"
    ),
    "an error within a stream": Habit(
        kinds="chat", change=broken, whole=False, error="the worker died"
    ),
    "a choice that ends in an error": Habit(
        kinds="chat",
        change=partial(ending, "error", {"code": 502, "message": "the worker died"}),
        shapes="openai",
        error="the worker died",
    ),
    "an answer that a filter ended": Habit(
        kinds="chat",
        change=partial(ending, "content_filter", None),
        shapes="openai",
        error="refusal",
    ),
    "an error with status 200": Habit(
        instead=lambda provider, *_: as_json(provider.refusal("the worker died")),
        error="the worker died",
    ),
    "choices null beside the usage": Habit(
        kinds="chat", change=nulls, whole=False, shapes="openai"
    ),
    "content as a list of parts": Habit(
        kinds="chat",
        change=contents(lambda text: [{"type": "text", "text": text}]),
        shapes="openai ollama",
    ),
    "a part of an unknown type": Habit(
        kinds="chat",
        change=contents(lambda text: [{"type": "hologram", "data": text}]),
        shapes="openai ollama",
        error=CANNOT,
    ),
    "thoughts in `<think>`": Habit(
        kinds="chat", change=partial(pieces, f"<think>Hm. [1]</think>\n\n{TEXT}")
    ),
    "thoughts in `[THINK]`": Habit(
        kinds="chat", change=partial(pieces, f"[THINK]Hm. [1][/THINK]{TEXT}")
    ),
    "thoughts with an end mark only": Habit(
        kinds="chat", change=partial(pieces, f"Hm. [1]</think>\n\n{TEXT}")
    ),
    "a refusal, in its field": Habit(
        kinds="chat", change=partial(only, "refusal", "I can"), shapes="openai", error="refusal"
    ),
    "a refusal, as a part": Habit(
        kinds="chat",
        change=contents(lambda text: [{"type": "refusal", "refusal": text}]),
        shapes="openai",
        error="refusal",
    ),
    **{
        f"finish_reason {word}": Habit(
            kinds="chat", change=finished(word), shapes="openai", error="refusal"
        )
        for word in ("SAFETY", "recitation", "sensitive", "content_filter")
    },
    "finish_reason MAX_TOKENS": Habit(kinds="chat", change=finished("MAX_TOKENS"), shapes="openai"),
    "finish_reason network_error": Habit(
        kinds="chat", change=finished("network_error"), shapes="openai", error="network_error"
    ),
    "several choices": Habit(kinds="chat", change=other_choices, shapes="openai"),
    "only calls of tools": Habit(
        kinds="chat",
        change=partial(only, "tool_calls", [{"id": "a", "function": {"name": "f"}}]),
        shapes="openai",
        error="calls of tools",
    ),
    "only thoughts": Habit(
        kinds="chat",
        change=partial(only, "reasoning_content", "They ask."),
        shapes="openai",
        error="thoughts",
    ),
    "an error in base_resp": Habit(
        change=instead_of({"choices": None, "base_resp": {"status_code": 8, "status_msg": "died"}}),
        shapes="openai voyage",
        error="died",
    ),
    "an error in msg": Habit(
        change=instead_of({"code": 500, "msg": "died"}), shapes="openai voyage", error="died"
    ),
    "an error in detail": Habit(
        change=instead_of({"detail": [{"msg": "died"}]}), shapes="openai voyage", error="died"
    ),
    "parts without text": Habit(
        kinds="chat",
        change=in_content(
            {"type": "text", "text": None}, {"type": "reference", "reference_ids": [1]}
        ),
        shapes="openai",
    ),
    "text as an object": Habit(
        kinds="chat",
        change=contents(lambda text: [{"type": "text", "text": {"value": text}}]),
        shapes="openai",
    ),
    "an empty answer": Habit(kinds="chat", change=contents(lambda text: ""), error="empty text"),
    "no usage": Habit(change=without_usage),
    "no index": Habit(kinds="embed rerank", change=on_items(without_index), shapes="openai voyage"),
    "index null": Habit(
        kinds="embed rerank", change=on_items(partial(with_index, None)), shapes="openai voyage"
    ),
    "index 0 in each": Habit(
        kinds="embed rerank",
        change=on_items(partial(with_index, 0)),
        shapes="openai voyage",
        error=CANNOT,
    ),
    "another order": Habit(
        kinds="embed rerank", change=on_items(lambda items: items.reverse()), shapes="openai voyage"
    ),
    "fewer items than texts": Habit(
        kinds="embed rerank",
        change=on_items(lambda items: items.pop()),
        shapes="openai voyage",
        error=CANNOT,
    ),
    "vectors in base64": Habit(kinds="embed", change=on_items(packed), shapes="openai"),
    "NaN in one vector": Habit(kinds="embed", change=one_row([float("nan"), 1.0]), error=CANNOT),
    "a vector of zeros": Habit(kinds="embed", change=one_row([0.0, 0.0]), error=CANNOT),
    "too many texts, 400": Habit(kinds="embed rerank", instead=too_many(400)),
    "too many texts, 413": Habit(kinds="embed rerank", instead=too_many(413)),
    "too many texts, 422": Habit(kinds="embed rerank", instead=too_many(422)),
    "a text that is too long": Habit(kinds="embed rerank", instead=too_long),
    "a prompt that is too long": Habit(kinds="chat", instead=too_long, error="too long|length"),
    "a field refused by its name": Habit(instead=refused_field),
    "429 with Retry-After": Habit(instead=first_only(LIMITED), requests=2),
    "500, once": Habit(instead=first_only(FAILED), requests=2),
    "401": Habit(instead=always(DENIED), error="key", requests=1),
    "a web page": Habit(instead=always(HTML), error="web page", requests=1),
    "a redirect": Habit(instead=always(MOVED), error="redirected", requests=1),
    "200 for an unknown path": Habit(instead=always(PATHLESS), error="base_url", requests=1),
}


# --- Each with each ---

ONCE = Connection(retries=Retries(attempts=2, base=0, longest=0))
REFUSES = {OpenAILLM, OpenAIEmbedder, JinaReranker}
"""Those that send a field which not every server takes."""


def applies(name: str, habit: str, kind: str) -> bool:
    provider, how = PROVIDERS[name], HABITS[habit]
    model = getattr(provider, kind)
    if (
        model is None
        or kind not in how.kinds
        or provider.shape not in (how.shapes or provider.shape)
    ):
        return False
    if how.instead is refused_field:
        return model in REFUSES
    return True


def answerer(provider: Provider, habit: Habit, seen: list[Asked]) -> Callable[[Asked], Reply]:
    def answer(asked: Asked) -> Reply:
        reply = habit.instead and habit.instead(provider, asked, len(seen))
        if reply is None and provider.spare and provider.spare in asked.body:
            return refused(provider, provider.spare)
        seen.append(asked)
        if reply is not None:
            return reply
        value, stream = answer_of(provider, asked), bool(asked.body.get("stream"))
        if habit.change:
            value = habit.change(provider, value)
        if provider.as_list and '"type": "text"' not in json.dumps(value):
            value = each_content(value, as_parts)
        return (habit.sent or sent_as())(provider, value, stream)

    return answer


def made(provider: Provider, kind: str, url: str) -> Any:
    model = getattr(provider, kind)
    how = {"base_url": url + provider.path, "api_key": KEY, "connection": ONCE}
    return model(**how) if model in (TEIReranker, LlamaCppReranker) else model("m", **how)


def chat(model: Any, prompt: str) -> None:
    found = model.generate([Message("user", prompt)], max_tokens=50)
    assert without_thoughts(found.text).strip() == TEXT
    assert found.usage.output_tokens in (0, 4)


def stream(model: Any, prompt: str) -> None:
    thoughts, given = ThoughtFilter(), ""
    pieces = model.stream([Message("user", prompt)], max_tokens=50)
    for piece in pieces:
        said = thoughts.feed(piece)
        given = said if thoughts.restarted else given + said
        thoughts.restarted = False
    assert (given + thoughts.end()).strip() == TEXT
    assert pieces.usage.output_tokens in (0, 4)


def embed(model: Any, texts: list[str]) -> None:
    rows = model.embed(texts, kind="document")
    right = np.array(list(map(row_of, TEXTS)))
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    np.testing.assert_allclose(rows[: len(TEXTS)], right, atol=1e-5)
    assert (len(rows), model.inputs_cut) == (len(texts), len(texts) - len(TEXTS))


def rerank(model: Any, texts: list[str]) -> None:
    scores = model.scores("q", texts)
    np.testing.assert_allclose(scores[: len(TEXTS)], [len(t) / 99 for t in TEXTS], atol=1e-6)
    assert (len(scores), model.inputs_cut) == (len(texts), len(texts) - len(TEXTS))


def check(server: ProviderServer, name: str, habit: str) -> None:
    """Check that a habit makes no difference, or is an error that says so.

    Raises:
        AssertionError: something else happens.
    """
    provider, how, long = PROVIDERS[name], HABITS[habit], HABITS[habit].instead is too_long
    texts, prompt = [*TEXTS, *[LONG][: int(long)]], LONG if long else "May I?"
    asks = {"chat": (chat, stream) if how.whole else (stream,), "embed": (embed,)}
    kinds = [kind for kind in KINDS if applies(name, habit, kind)]
    for kind in kinds:
        for ask in asks.get(kind, (rerank,)):
            seen: list[Asked] = []
            server.answer = answerer(provider, how, seen)
            with closing(made(provider, kind, server.url)) as model:
                given: Any = prompt if kind == "chat" else texts
                if not how.error:
                    ask(model, given)
                else:
                    with pytest.raises(ProviderError, match=how.error) as failed:
                        ask(model, given)
                    assert KEY not in str(failed.value)
            assert len(seen) == how.requests or not how.requests


def where(habit: str) -> str:
    """The providers at which a habit can occur."""
    names = [name for name in PROVIDERS if any(applies(name, habit, kind) for kind in KINDS)]
    if names == list(PROVIDERS):
        return "all"
    compatible = list(PROVIDERS)[:8]
    assert names[:8] == compatible
    return ", ".join(["OpenAI's protocol", *names[8:]])


def table() -> str:
    rows: dict[tuple[str, str], list[str]] = {}
    for habit, how in HABITS.items():
        result = "an error" if how.error else "the same answer"
        rows.setdefault((where(habit), result), []).append(habit)
    lines = (f"| {of} | {result} | {'; '.join(each)} |" for (of, result), each in rows.items())
    return "\n".join(["| providers | result | differences |", "|---|---|---|", *lines])


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    with serving(lambda asked: Reply(status=404)) as running:
        yield running


EACH = [
    (name, habit)
    for name in PROVIDERS
    for habit in HABITS
    if any(applies(name, habit, kind) for kind in KINDS)
]


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_with_each_habit(server: ProviderServer, name: str) -> None:
    habits = [habit for each, habit in EACH if each == name]
    assert failures(habits, partial(check, server, name)) == []


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS", "model_length"])
def test_an_answer_that_stopped_at_its_ceiling_is_truncated(
    server: ProviderServer, word: str
) -> None:
    server.answer = answerer(PROVIDERS["OpenAI"], Habit(kinds="chat", change=finished(word)), [])
    with closing(made(PROVIDERS["OpenAI"], "chat", server.url)) as model:
        assert model.generate([Message("user", "q")], max_tokens=50).truncated
        given = model.stream([Message("user", "q")], max_tokens=50)
        assert "".join(given) == TEXT
        assert given.truncated


def test_the_page_has_this_table() -> None:
    assert table() in PAGE.read_text("utf-8")


if __name__ == "__main__":
    print(table())
