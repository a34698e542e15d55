"""Language models against a real HTTP server that speaks each provider's format."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from typing import Any, TypeVar

import pytest

import triptych
from support.awaited import AwaitedLLM, RemoteLLM
from support.http_library import httpx
from support.provider_server import (
    Answerer,
    Asked,
    ProviderServer,
    Reply,
    as_json,
    events,
    in_turn,
    json_lines,
    serving,
)
from support.rows import each_row
from support.sync_folder import until
from triptych import Message
from triptych.errors import (
    CancelledError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitedError,
    UnusableAnswerError,
    ValidationError,
)
from triptych.records import Usage
from triptych_providers import (
    AnthropicLLM,
    Connection,
    OllamaLLM,
    OpenAILLM,
    Retries,
    Timeouts,
)

KEY = "sk-test-0123456789abcdef"
ASK = [
    Message(role="system", content="Be short."),
    Message(role="user", content="你好\u2028?"),
]
QUICK = Retries(attempts=3, base=0.001)


def openai_whole(text: str, finish: str = "stop", **message: Any) -> dict[str, Any]:
    return {
        "choices": [{"message": {"content": text, **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    }


def anthropic_whole(text: str, stop: str = "end_turn") -> dict[str, Any]:
    return {
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}],
        "stop_reason": stop,
        "usage": {"input_tokens": 8, "cache_read_input_tokens": 3, "output_tokens": 7},
    }


def ollama_whole(text: str, reason: str = "stop") -> dict[str, Any]:
    return {
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": reason,
        "prompt_eval_count": 11,
        "eval_count": 7,
    }


def openai_stream(pieces: Sequence[str], *, whole: bool = True) -> Reply:
    parts: list[Any] = [
        {"choices": [{"delta": {"content": piece}, "finish_reason": None}]} for piece in pieces
    ]
    if whole:
        parts.append({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        parts.append({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}})
    return events(*parts, done=whole)


def anthropic_stream(pieces: Sequence[str], *, whole: bool = True) -> Reply:
    parts: list[Any] = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 11, "output_tokens": 1}}},
        {"type": "ping"},
        *(
            {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}
            for piece in pieces
        ),
    ]
    if whole:
        parts.append(
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn"},
                "usage": {"output_tokens": 7},
            }
        )
        parts.append({"type": "message_stop"})
    return events(*parts, done=False)


def ollama_stream(pieces: Sequence[str], *, whole: bool = True) -> Reply:
    parts: list[Any] = [{"message": {"content": piece}, "done": False} for piece in pieces]
    return json_lines(*parts, *([ollama_whole("")] if whole else []))


L = TypeVar("L", bound=RemoteLLM)
MADE: list[RemoteLLM] = []


AWAITED: list[bool] = []


@pytest.fixture(autouse=True, params=["blocking", "awaited"])
def close_all(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test twice: by the calls that block, and by those for an event loop."""
    AWAITED[:] = [request.param == "awaited"]
    yield
    while MADE:
        MADE.pop().close()


def kept(llm: L) -> L:
    MADE.append(llm)
    model: Any = AwaitedLLM(llm) if AWAITED[0] else llm
    made: L = model
    return made


def openai(server: ProviderServer | str, **how: Any) -> OpenAILLM:
    base = server if isinstance(server, str) else server.url
    how.setdefault("retries", QUICK)
    return kept(
        OpenAILLM("small", api_key=KEY, base_url=f"{base}/v1", connection=Connection(**how))
    )


def anthropic(server: ProviderServer | str, **how: Any) -> AnthropicLLM:
    base = server if isinstance(server, str) else server.url
    how.setdefault("retries", QUICK)
    return kept(AnthropicLLM("small", api_key=KEY, base_url=base, connection=Connection(**how)))


def ollama(server: ProviderServer | str, **how: Any) -> OllamaLLM:
    base = server if isinstance(server, str) else server.url
    how.setdefault("retries", QUICK)
    return kept(OllamaLLM("small", api_key=KEY, base_url=base, connection=Connection(**how)))


Make = Callable[..., RemoteLLM]
Whole = Callable[..., dict[str, Any]]
Stream = Callable[..., Reply]
PROVIDERS = pytest.mark.parametrize(
    ("make", "whole", "stream"),
    [
        pytest.param(openai, openai_whole, openai_stream, id="openai"),
        pytest.param(anthropic, anthropic_whole, anthropic_stream, id="anthropic"),
        pytest.param(ollama, ollama_whole, ollama_stream, id="ollama"),
    ],
)
MAKERS = pytest.mark.parametrize("make", [openai, anthropic, ollama])


def run(make: Make, answer: Answerer | Reply, **how: Any) -> triptych.Generation:
    answerer = answer if callable(answer) else in_turn(answer)
    with serving(answerer) as server:
        llm = make(server, **how)
        try:
            return llm.generate(ASK, max_tokens=50)
        finally:
            llm.close()


def chain(error: BaseException | None) -> str:
    """Everything a traceback would print of an error, its causes and notes included."""
    said = ""
    while error is not None:
        said += f"{error!r} {error} {getattr(error, '__notes__', '')}"
        error = error.__cause__ or error.__context__
    return said


@PROVIDERS
def test_an_answer_has_its_text_and_its_tokens(make: Make, whole: Whole, stream: Stream) -> None:
    found = run(make, as_json(whole("Grüße\u2028 🎈")))
    assert found.text == "Grüße\u2028 🎈"
    assert found.usage == Usage(input_tokens=11, output_tokens=7)
    assert not found.truncated


@PROVIDERS
def test_a_stream_joined_is_its_text(make: Make, whole: Whole, stream: Stream) -> None:
    pieces = ["Grü", "ße\u2028", "\u0085x\n\ny 🎈"]
    with serving(in_turn(stream(pieces))) as server:
        llm = make(server)
        found = llm.stream(ASK, max_tokens=50)
        assert list(found) == pieces
        assert found.usage == Usage(input_tokens=11, output_tokens=7)
        assert not found.truncated
        llm.close()


@each_row(
    ("make", "answer"),
    [
        (openai, openai_whole("cut", "length")),
        (anthropic, anthropic_whole("cut", "max_tokens")),
        (ollama, ollama_whole("cut", "length")),
    ],
)
def test_an_answer_at_the_ceiling_says_so(make: Make, answer: dict[str, Any]) -> None:
    assert run(make, as_json(answer)).truncated


@each_row(
    ("make", "answer", "match"),
    [
        (openai, openai_whole(""), "empty text"),
        (openai, openai_whole(" \n"), "empty text"),
        (openai, openai_whole("", "length"), "max_tokens=50"),
        (openai, openai_whole("", refusal="I will not"), "refusal"),
        (openai, openai_whole("half", "content_filter"), "refusal"),
        (openai, {"choices": []}, r"no choices\[0\]"),
        (openai, {}, "no choices"),
        (anthropic, anthropic_whole(""), "empty text"),
        (anthropic, anthropic_whole("no", "refusal"), "refusal"),
        (anthropic, {"content": "text"}, "list was expected"),
        (ollama, ollama_whole(""), "empty text"),
        (ollama, {**ollama_whole("half"), "done": False}, "done"),
    ],
)
def test_an_invalid_answer_is_named(make: Make, answer: dict[str, Any], match: str) -> None:
    with pytest.raises(ProviderError, match=match):
        run(make, as_json(answer))


ERRORS_OF_200 = [
    (openai, {"error": {"message": "the pool is empty"}}),
    (openai, {"id": "1", "choices": None, "error": {"message": "the pool is empty"}}),
    (anthropic, {"type": "error", "error": {"message": "the pool is empty"}}),
    (ollama, {"error": "the pool is empty", "done": True}),
]


@each_row(("make", "answer"), ERRORS_OF_200)
def test_an_error_with_the_status_of_success_begins_with_the_words_of_the_provider(
    make: Make, answer: dict[str, Any]
) -> None:
    says = r"^[^:]+(:[^ ]+)* says: the pool is empty \(HTTP 200\): "
    with pytest.raises(ProviderError, match=says):
        run(make, as_json(answer))
    # Some servers answer what should be a stream with one object, over several lines even.
    for whole in (json.dumps(answer), json.dumps(answer, indent=1)):
        with serving(in_turn(Reply(body=[whole.encode()]))) as server, closing(make(server)) as llm:
            if make is not ollama or "\n" not in whole:
                with pytest.raises(ProviderError, match=says):
                    list(llm.stream(ASK, max_tokens=50))


def refused_stream(**choice: Any) -> Reply:
    return events({"choices": [{"delta": {"content": "I"}}]}, {"choices": [choice]})


UNUSABLE = [
    (openai, as_json(openai_whole("", refusal="I will not")), "refusal"),
    (openai, as_json(openai_whole("half", "content_filter")), "refusal"),
    (
        openai,
        as_json({"choices": [{"message": None, "finish_reason": "content_filter"}]}),
        "refusal",
    ),
    (openai, as_json({"error": {"code": "content_filter", "message": "no"}}, 400), "refusal"),
    (openai, as_json(openai_whole("")), "empty"),
    (openai, as_json({"choices": [{"message": {"content": None}}]}), "empty"),
    (openai, as_json(openai_whole(" ", "length")), "endless"),
    (anthropic, as_json(anthropic_whole("no", "refusal")), "refusal"),
    (anthropic, as_json({"content": [], "stop_reason": "refusal"}), "refusal"),
    (anthropic, as_json({"content": None, "stop_reason": "refusal"}), "refusal"),
    (anthropic, as_json(anthropic_whole("")), "empty"),
    (anthropic, as_json(anthropic_whole("", "max_tokens")), "endless"),
    (ollama, as_json(ollama_whole("\n")), "empty"),
    (ollama, as_json(ollama_whole("", "length")), "endless"),
]
UNUSABLE_STREAMS = [
    (openai, refused_stream(delta={}, finish_reason="content_filter"), "refusal"),
    (openai, refused_stream(delta={"refusal": "no"}, finish_reason="stop"), "refusal"),
    (openai, openai_stream([" "]), "empty"),
    (openai, events({"choices": [{"delta": {}, "finish_reason": "length"}]}), "endless"),
    (
        anthropic,
        events(
            {"type": "message_delta", "delta": {"stop_reason": "refusal"}},
            {"type": "message_stop"},
            done=False,
        ),
        "refusal",
    ),
    (anthropic, anthropic_stream([]), "empty"),
    (
        anthropic,
        events(
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
            {"type": "message_stop"},
            done=False,
        ),
        "endless",
    ),
    (ollama, ollama_stream([]), "empty"),
    (ollama, json_lines(ollama_whole("", "length")), "endless"),
]


@each_row(("make", "reply", "reason"), UNUSABLE)
def test_an_answer_of_no_use_says_why_and_is_asked_for_once(
    make: Make, reply: Reply, reason: str
) -> None:
    with serving(in_turn(reply)) as server:
        with pytest.raises(UnusableAnswerError) as caught:
            make(server).generate(ASK, max_tokens=50)
        assert caught.value.reason == reason
        assert len(server.asked) == 1


@each_row(("make", "reply", "reason"), UNUSABLE_STREAMS)
def test_so_does_a_stream_of_no_use(make: Make, reply: Reply, reason: str) -> None:
    with serving(in_turn(reply)) as server:
        with pytest.raises(UnusableAnswerError) as caught:
            list(make(server).stream(ASK, max_tokens=50))
        assert caught.value.reason == reason
        assert len(server.asked) == 1


def test_a_stream_that_named_its_finish_is_whole_without_its_tokens() -> None:
    parts = [
        {"choices": [{"delta": {"content": "whole"}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    with serving(in_turn(events(*parts, done=False))) as server:
        found = openai(server).stream(ASK, max_tokens=50)
        assert list(found) == ["whole"]
        assert found.usage == Usage()  # not told


@PROVIDERS
@each_row(
    ("told", "taken"),
    [
        (10**30, 2**53),
        (10**400, 2**53),
        (-5, 0),
        (float("nan"), 0),
        (float("inf"), 0),
        (1e300, 2**53),
        (12.0, 12),
        ("12", 0),
        (True, 0),
        (None, 0),
        ([], 0),
    ],
)
def test_tokens_out_of_any_range_are_brought_back_into_it(
    make: Make, whole: Whole, stream: Stream, told: Any, taken: int
) -> None:
    answer = whole("fine")
    if make is ollama:
        answer |= {"prompt_eval_count": told, "eval_count": told}
    else:
        names = ("prompt_tokens", "completion_tokens", "input_tokens", "output_tokens")
        cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
        answer["usage"] = dict.fromkeys((*names, *cached), told)
    found = run(make, as_json(answer))
    assert found.text == "fine"
    assert found.usage.output_tokens == taken
    assert found.usage.input_tokens == min(taken * (3 if make is anthropic else 1), 2**53)


@MAKERS
@each_row(
    ("body", "match"),
    [
        (b"<html>sign in</html>", "web page"),
        (b'{"choices": [', "not JSON"),
        (b"", "not JSON"),
        (b"[1]", "JSON list"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_malformed_json_is_named(make: Make, body: bytes, match: str) -> None:
    with pytest.raises(ProviderError, match=match):
        run(make, Reply(body=body))


@MAKERS
@each_row("status", [401, 403])
def test_a_wrong_key_is_named_and_never_shown(make: Make, status: int) -> None:
    reply = as_json({"error": {"message": f"bad key {KEY[:9]}***: {KEY}"}}, status)
    with pytest.raises(ProviderError, match="key is missing, wrong") as caught:
        run(make, reply)
    assert KEY[:9] not in chain(caught.value)


@MAKERS
@each_row(
    ("status", "words", "advice"),
    [
        (401, "Incorrect API key provided: see /account/api-keys", "its key is missing, wrong"),
        (402, "Your credit balance is too low", "no credit left"),
        (404, "The model `small` does not exist", "has no model 'small'"),
        (422, "no such field", "change the request"),
        (429, "Rate limit reached for requests per minute", "refused by a rate limit"),
        (500, "The server had an error", "failed on the provider's side"),
    ],
)
def test_what_a_provider_says_comes_first(make: Make, status: int, words: str, advice: str) -> None:
    with pytest.raises(ProviderError) as caught:
        run(make, as_json({"error": {"message": words}}, status))
    said = str(caught.value)
    assert said.partition(" says: ")[2].startswith(f"{words} (HTTP {status}): ")
    assert advice in said
    if status == 402:
        assert caught.value.hint == "add credit with the provider, or name another model"


@MAKERS
def test_a_refused_key_is_not_shown_in_a_form_of_its_own(make: Make) -> None:
    reply = as_json({"error": {"message": f"bad key {KEY[::-1]}, key id 4f0f2c9a1b77"}}, 401)
    with pytest.raises(ProviderError, match=r"bad key \[…\],? key id \[…\]") as caught:
        run(make, reply)
    assert "4f0f2c9a1b77" not in chain(caught.value)


@MAKERS
def test_a_web_page_in_place_of_a_stream_is_named(make: Make) -> None:
    reply = Reply(body=b"<html>\n<title>Sign in</title>\n</html>")
    with (
        serving(in_turn(reply)) as server,
        pytest.raises(ProviderError, match=r"answered with a web page|not JSON"),
    ):
        list(make(server).stream(ASK, max_tokens=50))


def test_a_pause_before_the_next_attempt_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    refused = as_json({"error": {"message": "slow down"}}, 429, retry_after="1")
    with serving(in_turn(refused, as_json(openai_whole("fine")))) as server:
        llm = openai(server, retries=Retries(attempts=2))
        assert llm.generate(ASK, max_tokens=50).text == "fine"
    (line,) = caplog.messages
    assert line.startswith(
        "trying again in 1 seconds: the OpenAI-compatible server says: slow down"
    )


@MAKERS
@each_row("status", [400, 404, 418, 429, 500, 301])
def test_an_echoed_key_is_never_shown(make: Make, status: int) -> None:
    text = "x" * 290 + KEY + " model small not found"
    reply = as_json({"error": {"message": text}}, status, location=f"http://{KEY}@h/{KEY}")
    with pytest.raises(ProviderError) as caught:
        run(make, reply)
    assert KEY[:9] not in chain(caught.value)
    assert len(str(caught.value)) < 900


PARTS = [KEY[:20], KEY[-9:], f"{KEY[:7]}{'*' * 12}{KEY[-4:]}", f"{KEY[:9]}...{KEY[-6:]}"]


@MAKERS
@each_row("status", [200, 400, 404, 413, 429, 500])
@each_row("part", PARTS)
def test_a_part_of_a_key_is_never_shown(make: Make, status: int, part: str) -> None:
    text = f"Incorrect key provided: {part}. Bearer {part}"
    with pytest.raises(ProviderError) as caught:
        run(make, as_json({"error": {"message": text}}, status))
    told = chain(caught.value) + repr(vars(caught.value))
    assert part not in told
    assert KEY[:7] not in told
    assert KEY[-6:] not in told


@each_row(
    ("make", "reply"),
    [
        (openai, events({"error": {"message": f"bad {KEY[:20]}"}})),
        (anthropic, events({"type": "error", "error": {"message": f"bad {KEY[:20]}"}})),
        (ollama, json_lines({"error": f"bad {KEY[:20]}"})),
    ],
)
def test_nor_is_one_in_a_stream(make: Make, reply: Reply) -> None:
    with serving(in_turn(reply)) as server, pytest.raises(ProviderError) as caught:
        list(make(server).stream(ASK, max_tokens=50))
    assert "bad [key]" in str(caught.value)
    assert KEY[:8] not in chain(caught.value)


@MAKERS
def test_a_redirect_to_no_address_is_named(make: Make) -> None:
    with pytest.raises(ProviderError, match="redirected"):
        run(make, Reply(status=307, headers={"location": "http://[bad"}))


@MAKERS
def test_a_key_is_in_no_repr(make: Make) -> None:
    llm = make("http://127.0.0.1:9")
    assert KEY not in repr(llm) + repr(vars(llm)) + llm.signature


def test_a_missing_model_is_named() -> None:
    said = {"error": "model 'small' not found"}
    with pytest.raises(ProviderError, match="pull it first, with `ollama pull small`"):
        run(ollama, as_json(said, 404))
    with pytest.raises(ProviderError, match="has no model 'small'"):
        run(openai, as_json({"error": {"code": "model_not_found", "message": "?"}}, 404))
    with pytest.raises(ProviderError, match="has no model 'small'"):
        run(anthropic, as_json({"error": {"type": "not_found_error", "message": "?"}}, 404))
    with pytest.raises(ProviderError, match="check base_url"):
        run(openai, as_json({"detail": "Not Found"}, 404))


@MAKERS
@each_row("status", [429, 529])
def test_a_storm_of_refusals_ends_after_the_attempts(make: Make, status: int) -> None:
    with serving(in_turn(as_json({"error": "slow down"}, status, retry_after="0"))) as server:
        llm = make(server)
        with pytest.raises(RateLimitedError, match="slow down") as caught:
            llm.generate(ASK, max_tokens=5)
        assert caught.value.retry_after == 0
        assert caught.value.__notes__ == ["3 attempts were made"]
        assert len(server.asked) == 3
        llm.close()


@PROVIDERS
@each_row("status", [429, 500, 503, 529, 408])
def test_a_passing_fault_is_tried_again(
    make: Make, whole: Whole, stream: Stream, status: int
) -> None:
    assert run(make, in_turn(as_json({}, status), as_json(whole("fine")))).text == "fine"


@each_row("header", ["0", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_what_retry_after_says_is_kept_to(header: str) -> None:
    # Without the header the pause would be up to an hour, the call's ceiling.
    slow = Retries(attempts=2, base=3600, longest=3600)
    answers = in_turn(as_json({}, 429, retry_after=header), as_json(openai_whole("fine")))
    assert run(openai, answers, retries=slow, timeouts=Timeouts(call=3600)).text == "fine"


@each_row("status", [429, 503])
def test_a_longer_wait_than_allowed_ends_at_once(status: int) -> None:
    with serving(in_turn(as_json({}, status, retry_after="3600"))) as server:
        with pytest.raises(ProviderError) as caught:
            openai(server).generate(ASK, max_tokens=5)
        assert len(server.asked) == 1
        assert getattr(caught.value, "retry_after", 3600) == 3600


def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    with (
        serving(in_turn(as_json({}, 429, retry_after="30"))) as server,
        triptych.deadline(10),
        pytest.raises(RateLimitedError),
    ):
        openai(server).generate(ASK, max_tokens=5)


def test_an_empty_purse_is_not_tried_again() -> None:
    with serving(in_turn(as_json({"error": {"code": "insufficient_quota"}}, 429))) as server:
        with pytest.raises(RateLimitedError, match="no credit"):
            openai(server).generate(ASK, max_tokens=5)
        assert len(server.asked) == 1


def test_a_request_that_is_wrong_is_not_tried_again() -> None:
    with serving(in_turn(as_json({"detail": [{"msg": "no such field"}]}, 422))) as server:
        with pytest.raises(ProviderError, match=r"no such field \(HTTP 422\)"):
            openai(server).generate(ASK, max_tokens=5)
        assert len(server.asked) == 1


@MAKERS
def test_nothing_there_says_how_to_start(make: Make) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        llm = make(f"http://127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(
            ProviderError, match=r"reached nothing at http://127.*Connection refused"
        ) as caught:
            llm.generate(ASK, max_tokens=5)
        assert "3 attempts" in chain(caught.value)
        llm.close()


@MAKERS
def test_a_redirect_is_not_followed(make: Make) -> None:
    with serving(in_turn(Reply(status=307, headers={"location": "http://else.where/x"}))) as server:
        with pytest.raises(ProviderError, match=r"redirected to 'else\.where'"):
            make(server).generate(ASK, max_tokens=5)
        assert len(server.asked) == 1


@PROVIDERS
def test_a_body_that_ends_early_is_tried_again(make: Make, whole: Whole, stream: Stream) -> None:
    broken = attrs_cut(as_json(whole("a long enough answer")), 20)
    assert run(make, in_turn(broken, as_json(whole("fine")))).text == "fine"
    with pytest.raises(ProviderError, match="ended early"):
        run(make, broken)


def attrs_cut(reply: Reply, cut: int, hold: threading.Event | None = None) -> Reply:
    return Reply(body=reply.body, status=reply.status, headers=reply.headers, cut=cut, hold=hold)


@PROVIDERS
def test_a_stream_that_just_ends_is_no_answer(make: Make, whole: Whole, stream: Stream) -> None:
    with serving(in_turn(stream(["half", " of"], whole=False))) as server:
        llm = make(server)
        found = llm.stream(ASK, max_tokens=50)
        read: list[str] = []
        with pytest.raises(ProviderError, match="ended early after 7 characters"):
            read.extend(found)
        assert len(server.asked) == 1
        llm.close()


@PROVIDERS
def test_a_stream_cut_in_an_event_is_no_answer(make: Make, whole: Whole, stream: Stream) -> None:
    reply = stream(["half", " of", " it"])
    end = max(reply.whole.find(b'"stop"'), reply.whole.find(b'"end_turn"'))
    for cut in (30, end):
        with serving(in_turn(attrs_cut(reply, cut))) as server:
            llm = make(server)
            with pytest.raises(ProviderError):
                "".join(llm.stream(ASK, max_tokens=50))
            llm.close()


@each_row(
    ("make", "reply"),
    [
        (openai, events({"error": {"message": "overloaded now"}})),
        (anthropic, events({"type": "error", "error": {"message": "overloaded now"}})),
        (ollama, json_lines({"message": {"content": "a"}}, {"error": "overloaded now"})),
    ],
)
def test_an_error_inside_a_stream_is_named(make: Make, reply: Reply) -> None:
    with (
        serving(in_turn(reply)) as server,
        pytest.raises(ProviderError, match="says: overloaded now"),
    ):
        list(make(server).stream(ASK, max_tokens=50))


@each_row(
    ("make", "body"),
    [
        (openai, b"data: {oops\n\n"),
        (openai, b"data: [1]\n\n"),
        (openai, b'data: {"id": 1}\n\n'),
        (openai, b'data: {"choices": 3}\n\n'),
        (anthropic, b"data: {oops\n\n"),
        (anthropic, b"data: [DONE]\n\n"),
        (ollama, b"{oops\n"),
        (ollama, b'{"done": true}\n'),
    ],
)
def test_a_stream_of_something_else_is_named(make: Make, body: bytes) -> None:
    reply = Reply(body=[body])
    with (
        serving(in_turn(reply)) as server,
        pytest.raises(ProviderError, match="cannot be used"),
    ):
        list(make(server).stream(ASK, max_tokens=50))


@PROVIDERS
def test_a_stream_is_tried_again_before_it_begins(make: Make, whole: Whole, stream: Stream) -> None:
    with serving(in_turn(as_json({}, 503), stream(["fine"]))) as server:
        assert "".join(make(server).stream(ASK, max_tokens=50)) == "fine"


@each_row("streamed", [False, True])
def test_a_huge_answer_is_refused(streamed: bool) -> None:
    reply = openai_stream(["x" * 5000]) if streamed else as_json(openai_whole("x" * 5000))
    with serving(in_turn(reply)) as server:
        llm = openai(server, max_answer_bytes=1000)
        with pytest.raises(ProviderError, match="more than 1000 bytes"):
            "".join(llm.stream(ASK, max_tokens=5)) if streamed else llm.generate(ASK, max_tokens=5)


def test_silence_becomes_a_timeout_and_is_paid_for_once() -> None:
    held = threading.Event()
    with serving(in_turn(Reply(hold=held))) as server:
        with pytest.raises(ProviderTimeoutError, match=r"got no data for 0.05 seconds"):
            openai(server, timeouts=Timeouts(read=0.05)).generate(ASK, max_tokens=5)
        # The client may be tired of waiting before the server has read what it was sent.
        until(lambda: server.asked)
        assert len(server.asked) == 1
        held.set()


def test_silence_in_a_stream_becomes_a_timeout() -> None:
    held = threading.Event()
    reply = attrs_cut(openai_stream(["one", "two"]), 70, held)
    with serving(in_turn(reply)) as server:
        with pytest.raises(ProviderTimeoutError):
            list(openai(server, timeouts=Timeouts(read=0.05)).stream(ASK, max_tokens=5))
        held.set()


def test_the_whole_call_has_a_ceiling() -> None:
    held = threading.Event()
    with serving(in_turn(Reply(hold=held))) as server:
        with pytest.raises(ProviderTimeoutError, match=r"within 0.05 seconds"):
            openai(server, timeouts=Timeouts(call=0.05)).generate(ASK, max_tokens=5)
        held.set()


@each_row("streamed", [False, True])
def test_an_answer_that_drips_has_the_same_ceiling(streamed: bool) -> None:
    whole = openai_stream(["x" * 9999]) if streamed else as_json(openai_whole("x" * 9999))
    reply = Reply(body=whole.body, drip=0.01)
    with serving(in_turn(reply)) as server:
        llm = openai(server, timeouts=Timeouts(read=5, call=0.1))
        with pytest.raises(ProviderTimeoutError, match=r"within 0.1 seconds"):
            "".join(llm.stream(ASK, max_tokens=5)) if streamed else llm.generate(ASK, max_tokens=5)


def test_the_deadline_reaches_the_client() -> None:
    held = threading.Event()
    with serving(in_turn(Reply(hold=held))) as server:
        with triptych.deadline(0.05), pytest.raises(CancelledError, match="deadline passed"):
            openai(server).generate(ASK, max_tokens=5)
        held.set()


def test_a_cancelled_call_stops_waiting_for_its_retry() -> None:
    slow = Retries(attempts=2, base=3600, longest=3600)
    with serving(in_turn(as_json({}, 429, retry_after="3000"))) as server:
        llm = openai(server, retries=slow, timeouts=Timeouts(call=3600))

        def cancel() -> None:
            until(lambda: server.asked)
            threading.Event().wait(0.1)
            scope.cancel()

        with triptych.deadline() as scope:
            helper = threading.Thread(target=cancel)
            helper.start()
            with pytest.raises(CancelledError):
                llm.generate(ASK, max_tokens=5)
        helper.join()
        assert len(server.asked) == 1


def test_at_most_so_many_requests_are_under_way() -> None:
    barrier = threading.Barrier(2, timeout=10)

    def answer(asked: Asked) -> Reply:
        barrier.wait()  # answers only when two are there: the limit is reached, too
        return as_json(openai_whole("fine"))

    with serving(answer) as server:
        connection = Connection(concurrency=2)
        models = [OpenAILLM("small", base_url=server.url, connection=connection) for _ in range(2)]
        threads = [
            threading.Thread(target=models[n % 2].generate, args=(ASK,), kwargs={"max_tokens": 5})
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert len(server.asked) == 8
        assert server.most_at_once == 2
        for model in models:
            model.close()


def test_an_unread_stream_gives_its_place_back() -> None:
    with serving(in_turn(openai_stream(["a", "b"]))) as server:
        llm = openai(server, concurrency=1)
        for _ in range(3):
            stream = llm.stream(ASK, max_tokens=5)
            assert next(stream) == "a"
            stream.close()
        unread = llm.stream(ASK, max_tokens=5)
        unread.close()
        assert len(server.asked) == 3
        llm.close()


def test_a_closed_model_says_so() -> None:
    with serving(in_turn(as_json(openai_whole("fine")))) as server:
        llm = openai(server)
        assert llm.generate(ASK, max_tokens=5).text == "fine"
        llm.close()
        llm.close()
        with pytest.raises(ProviderError, match="closed"):
            llm.generate(ASK, max_tokens=5)


class _ToLoopback(httpx.AsyncHTTPTransport):
    """Sends what is meant for a provider's own address to the server of the test."""

    def __init__(self, server: ProviderServer) -> None:
        super().__init__()
        self._to = httpx.URL(server.url)
        self.closed = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(scheme="http", host=self._to.host, port=self._to.port)
        return await super().handle_async_request(request)

    async def aclose(self) -> None:
        self.closed = True
        await super().aclose()


def test_what_openai_itself_is_sent() -> None:
    with serving(in_turn(as_json(openai_whole("fine")))) as server:
        made: list[_ToLoopback] = []

        def transport() -> httpx.AsyncBaseTransport:
            made.append(_ToLoopback(server))
            return made[-1]

        llm = OpenAILLM(
            "gpt-x", api_key=KEY, temperature=0, connection=Connection(transport=transport)
        )
        llm.generate(ASK, max_tokens=50)
        assert [each.closed for each in made] == [False]
        llm.close()
        assert [each.closed for each in made] == [True]
        (asked,) = server.asked
    assert llm.signature == "openai/gpt-x/temperature=0"
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "gpt-x",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "你好\u2028?"},
        ],
        "max_completion_tokens": 50,
        "stream": False,
        "temperature": 0,
    }


def test_what_each_other_is_sent() -> None:
    def answer(asked: Asked) -> Reply:
        return {
            "/v1/chat/completions": openai_stream(["a"]),
            "/v1/messages": anthropic_stream(["a"]),
            "/api/chat": ollama_stream(["a"]),
        }[asked.path]

    with serving(answer) as server:
        for make in (openai, anthropic, ollama):
            llm = make(server)
            list(llm.stream(ASK, max_tokens=50))
            llm.close()
        first, second, third = server.asked
    assert first.body["max_tokens"] == 50
    assert first.body["stream_options"] == {"include_usage": True}
    assert second.headers["x-api-key"] == KEY
    assert second.headers["anthropic-version"] == "2023-06-01"
    assert second.body == {
        "model": "small",
        "max_tokens": 50,
        "system": "Be short.",
        "messages": [{"role": "user", "content": "你好\u2028?"}],
        "stream": True,
    }
    assert third.body["options"] == {"num_predict": 50}
    assert third.body["truncate"] is False


def test_no_proxy_and_no_netrc_is_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    assert run(openai, as_json(openai_whole("fine"))).text == "fine"


@each_row(
    ("messages", "max_tokens"),
    [
        ([], 5),
        ([Message(role="system", content="a")], 5),
        (ASK, 0),
        (ASK, True),
        ([Message(role="user", content="\ud800")], 5),
        (["user"], 5),
    ],
)
def test_what_cannot_be_asked_is_refused_before_it_is_sent(messages: Any, max_tokens: Any) -> None:
    llm = openai("http://127.0.0.1:9")
    with pytest.raises(ValidationError):
        llm.generate(messages, max_tokens=max_tokens)
    with pytest.raises(ValidationError):
        llm.stream(messages, max_tokens=max_tokens)


@each_row("key", ["sk abc", "sk-abc\n", "sk-ключ", "sk-abc\x7f"])
def test_an_invalid_key_is_refused_unseen(key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        OpenAILLM("small", api_key=key)
    assert key.strip() not in chain(caught.value)


@each_row(
    "url",
    ["", "localhost:8000", "ftp://a", "http://", "http://a?k=1", "http://a:99999", "http://a/#x"],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url"):
        OpenAILLM("small", api_key=KEY, base_url=url)


def test_a_password_in_an_address_is_refused_unseen() -> None:
    with pytest.raises(ValidationError, match="password") as caught:
        OllamaLLM("small", base_url="http://me:hunter2@host")
    assert "hunter2" not in chain(caught.value)


@each_row(
    "url",
    ["http://me:hunter2@h:abc", "http://me:hunt/er2@h", "http://h/v1?k=hunter2", "me:hunter2@h"],
)
def test_nor_is_one_in_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ValidationError, match="base_url") as caught:
        OllamaLLM("small", base_url=url)
    assert "hunter2" not in chain(caught.value)
    assert "hunt" not in chain(caught.value)


@each_row("missing", [None, ""])
def test_a_missing_key_says_what_to_set(missing: str | None) -> None:
    with pytest.raises(ValidationError, match="OPENAI_API_KEY"):
        OpenAILLM("small", api_key=missing)
    with pytest.raises(ValidationError, match="ANTHROPIC_API_KEY"):
        AnthropicLLM("small", api_key=missing)


@cache
def bomb(nested: bool) -> bytes:
    """What unpacks to some times as much as may be in memory, packed once or twice."""
    return gzip.compress(bomb(False) if nested else bytes(1 << 26))


@MAKERS
@each_row("status", [200, 400, 429])
@each_row("nested", [False, True])
def test_a_packed_bomb_is_refused_while_it_is_unpacked(
    make: Make, status: int, nested: bool
) -> None:
    headers = {"content-encoding": "gzip, gzip" if nested else "gzip"}
    reply = Reply(body=bomb(nested), status=status, headers={**headers, "retry-after": "0"})
    tracemalloc.start()
    try:
        with pytest.raises(ProviderError) as caught:
            run(make, reply, max_answer_bytes=1 << 20, retries=Retries(attempts=1))
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()
    if status == 429:
        assert isinstance(caught.value, RateLimitedError)
    elif status == 400:
        assert "HTTP 400" in str(caught.value)
    else:
        match = "are packed as 'gzip, gzip'" if nested else "more than 1048576 bytes"
        assert match in str(caught.value)


@PROVIDERS
def test_a_packed_answer_is_read(make: Make, whole: Whole, stream: Stream) -> None:
    for packings in ("gzip", "identity"):
        data = json.dumps(whole("Grüße " * 99)).encode()
        body = gzip.compress(data) if packings == "gzip" else data
        reply = Reply(body=body, headers={"content-encoding": packings})
        with serving(in_turn(reply)) as server:
            assert make(server).generate(ASK, max_tokens=9).text == "Grüße " * 99
            assert server.asked[0].headers["accept-encoding"] == "gzip"
        data = stream(["Grü", "ße"]).whole
        body = gzip.compress(data) if packings == "gzip" else data
        with serving(in_turn(Reply(body=body, headers=reply.headers))) as server:
            assert list(make(server).stream(ASK, max_tokens=9)) == ["Grü", "ße"]
