"""What servers that are not OpenAI's own answer, and refuse, otherwise."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from support.provider_server import Asked, Reply, as_json, events, in_turn, serving
from support.rows import each_row
from triptych.errors import ProviderError, ProviderSetupError
from triptych.records import Message
from triptych_providers import (
    AnthropicLLM,
    Connection,
    OllamaLLM,
    OpenAIEmbedder,
    OpenAILLM,
    Retries,
)

ASKED = [Message("user", "May I?")]
ONCE = Connection(retries=Retries(attempts=1))


def openai(server: Any) -> closing[OpenAILLM]:
    return closing(OpenAILLM("m", base_url=f"{server.url}/v1", connection=ONCE))


def chat(content: Any) -> Reply:
    return as_json({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})


def delta(content: Any, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {"content": content}, "finish_reason": finish}]}


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "They ask."}]}
PARTS = [
    ([THINKING, {"type": "text", "text": "It is not allowed."}], "It is not allowed."),
    (["It is ", {"type": "text", "text": "not allowed."}], "It is not allowed."),
    ([{"type": "output_text", "text": "no"}, {"text": "!"}], "no!"),
]
UNKNOWN: list[Any] = [7, {"text": "no"}, [{"type": "image_url"}], [{"type": "text"}], [[]], [None]]


@pytest.mark.parametrize(("content", "text"), PARTS)
def test_the_text_of_parts_is_the_answer(content: Any, text: str) -> None:
    with (
        serving(in_turn(chat(content), events(delta(content), delta("", "stop")))) as server,
        openai(server) as model,
    ):
        assert model.generate(ASKED, max_tokens=9).text == text
        assert "".join(model.stream(ASKED, max_tokens=9)) == text


@each_row("content", UNKNOWN)
def test_content_of_another_kind_is_an_error_and_never_empty(content: Any) -> None:
    with (
        serving(in_turn(chat(content), events(delta(content), delta("", "stop")))) as server,
        openai(server) as model,
    ):
        with pytest.raises(ProviderError, match="cannot be used"):
            model.generate(ASKED, max_tokens=9)
        with pytest.raises(ProviderError, match="cannot be used"):
            list(model.stream(ASKED, max_tokens=9))


def test_ollama_s_content_is_read_likewise() -> None:
    answer = {"message": {"content": [{"type": "text", "text": "no"}]}, "done": True}
    with (
        serving(in_turn(as_json(answer))) as server,
        closing(OllamaLLM("m", base_url=server.url, connection=ONCE)) as model,
    ):
        assert model.generate(ASKED, max_tokens=9).text == "no"


def test_a_byte_order_mark_before_a_stream_costs_nothing() -> None:
    reply = events(delta("It is not "), delta("allowed.", "stop"))
    marked = Reply(body=[b"\xef\xbb\xbf", *reply.body], headers=reply.headers)  # type: ignore[list-item]
    with serving(in_turn(marked)) as server, openai(server) as model:
        assert "".join(model.stream(ASKED, max_tokens=9)) == "It is not allowed."


def test_choices_may_be_null_beside_the_usage() -> None:
    usage = {"choices": None, "usage": {"prompt_tokens": 5, "completion_tokens": 4}}
    with serving(in_turn(events(delta("yes", "stop"), usage))) as server, openai(server) as model:
        stream = model.stream(ASKED, max_tokens=9)
        assert ("".join(stream), stream.usage.output_tokens) == ("yes", 4)


def test_text_in_the_start_of_a_block_is_text() -> None:
    stream = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm"}},
        {"type": "content_block_start", "content_block": {"type": "text", "text": "It is "}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "not."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    with (
        serving(in_turn(events(*stream, done=False))) as server,
        closing(AnthropicLLM("m", api_key="k", base_url=server.url, connection=ONCE)) as model,
    ):
        assert "".join(model.stream(ASKED, max_tokens=9)) == "It is not."


REFUSALS = {
    "azure": {
        "error": {
            "message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "param": "max_tokens",
        }
    },
    "pydantic": {
        "detail": [
            {"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs"}
        ]
    },
}


def server_that_refuses(field: str, refusal: Any, status: int) -> Any:
    def answer(asked: Asked) -> Reply:
        if field in asked.body:
            return as_json(refusal, status)
        return events(delta("yes", "stop")) if asked.body["stream"] else chat("yes")

    return serving(answer)


@pytest.mark.parametrize(
    ("field", "other", "refusal", "status"),
    [
        ("max_tokens", "max_completion_tokens", REFUSALS["azure"], 400),
        ("stream_options", None, REFUSALS["pydantic"], 422),
    ],
)
def test_a_field_that_is_refused_by_name_is_said_otherwise_and_that_is_kept(
    field: str, other: str | None, refusal: Any, status: int
) -> None:
    with server_that_refuses(field, refusal, status) as server, openai(server) as model:
        assert "".join(model.stream(ASKED, max_tokens=9)) == "yes"
        assert [field in each.body for each in server.asked] == [True, False]
        assert "".join(model.stream(ASKED, max_tokens=9)) == "yes"
        assert model.generate(ASKED, max_tokens=9).text == "yes"
        assert [field in each.body for each in server.asked[2:]] == [False, False]
        if other:
            assert all(each.body[other] == 9 for each in server.asked[1:])


def test_a_second_try_that_does_not_help_is_not_kept_and_the_first_refusal_is_shown() -> None:
    refusals = [
        as_json({"error": {"message": "max_tokens is too large: at most 5"}}, 400),
        as_json({"error": {"message": "unknown field max_completion_tokens"}}, 400),
        chat("yes"),
    ]
    with serving(in_turn(*refusals)) as server, openai(server) as model:
        with pytest.raises(ProviderError, match="too large"):
            model.generate(ASKED, max_tokens=9)
        assert len(server.asked) == 2
        assert model.generate(ASKED, max_tokens=3).text == "yes"
        assert server.asked[2].body["max_tokens"] == 3


def test_an_embedder_without_an_encoding_format() -> None:
    def answer(asked: Asked) -> Reply:
        if "encoding_format" in asked.body:
            return as_json({"message": "encoding_format: extra fields not permitted"}, 422)
        return as_json({"data": [{"embedding": [1.0, 2.0]} for _ in asked.body["input"]]})

    with (
        serving(answer) as server,
        closing(OpenAIEmbedder("m", base_url=f"{server.url}/v1", connection=ONCE)) as model,
    ):
        assert model.embed(["a", "b"], kind="document").shape == (2, 2)
        assert len(server.asked) == 2


def test_an_address_without_its_version_says_so_whatever_its_status() -> None:
    reply = as_json({"error": "Unexpected endpoint or method. (POST /chat/completions)"})
    with (
        serving(in_turn(reply)) as server,
        openai(server) as model,
        pytest.raises(ProviderSetupError, match="base_url"),
    ):
        model.generate(ASKED, max_tokens=9)
