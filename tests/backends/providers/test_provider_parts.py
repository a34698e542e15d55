"""The pure parts of the providers: pauses, Retry-After, batches, cuts, refusals, streams."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

import triptych
from support.rows import each_row
from triptych.errors import CancelledError, ProviderError, ProviderTimeoutError, ValidationError
from triptych_providers import (
    BatchLimits,
    CallClock,
    Connection,
    Retries,
    Timeouts,
    retry_after_seconds,
)
from triptych_providers.errors import (
    InputTooLongError,
    ProviderErrorRules,
    Refusal,
    Retryable,
    fault,
    shown,
)
from triptych_providers.remote_model import batches, high_token_estimate, shortened
from triptych_providers.response_parsing import (
    EventFormat,
    JsonLines,
    MalformedAnswerError,
    ServerSent,
    at,
    by_index,
    rows_of,
)

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@each_row(
    ("header", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0),
        (" 7 ", 7),
        ("1.5", 1.5),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("soon", None),
        ("Tue, 01 Jan 2030 12:00:30 GMT", 30),
        ("Tuesday, 01-Jan-30 12:00:30 GMT", 30),
        ("Tue Jan  1 12:00:30 2030", 30),
        ("Tue, 01 Jan 2030 12:00:30 -0000", 30),
        ("Tue, 01 Jan 2030 13:00:30 +0100", 30),
        ("Tue, 01 Jan 2030 11:00:00 GMT", 0),
        ("Tue, 99 Jan 2030 11:00:00 GMT", None),
    ],
)
def test_retry_after_is_read(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, now=NOW) == seconds


@given(st.text(max_size=40))
def test_no_retry_after_breaks_the_reader(header: str) -> None:
    found = retry_after_seconds(header, now=NOW)
    assert found is None or 0 <= found < float("inf")


@given(st.integers(0, 2**32), st.integers(1, 9), st.floats(0, 100))
def test_pauses_stay_in_their_bounds(seed: int, made: int, asked: float) -> None:
    retries = Retries(attempts=10, base=0.5, longest=20)
    own = retries.pause(made, None, random.Random(seed))
    assert own is not None
    assert 0 <= own <= min(20, 0.5 * 2 ** (made - 1))
    told = retries.pause(made, asked, random.Random(seed))
    assert (told is None) == (asked > 20)
    assert told is None or asked <= told <= asked * 1.1
    assert retries.pause(10, asked, random.Random(seed)) is None


def test_pauses_differ() -> None:
    rng = random.Random(1)
    assert len({Retries().pause(3, None, rng) for _ in range(20)}) == 20


@each_row(
    "make",
    [
        lambda: Timeouts(read=0),
        lambda: Timeouts(call=float("inf")),
        lambda: Timeouts(connect=True),
        lambda: Retries(attempts=0),
        lambda: Retries(base=-1),
        lambda: Retries(longest=float("nan")),
        lambda: Connection(concurrency=0),
        lambda: Connection(max_answer_bytes=0),
        lambda: Connection(proxy="socks5://host"),
        lambda: BatchLimits(texts=0, tokens=1),
    ],
)
def test_invalid_settings_are_refused(make: Any) -> None:
    with pytest.raises(ValidationError):
        make()


def test_a_proxy_with_a_password_is_not_shown() -> None:
    with pytest.raises(ValidationError) as caught:
        Connection(proxy="ftp://me:hunter2@host")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(Connection(proxy="http://me:hunter2@host"))


async def waiting(clock: CallClock) -> None:
    async with clock.limit():
        await asyncio.sleep(60)


def test_a_clock_heeds_its_own_end_and_the_deadline() -> None:
    with pytest.raises(ProviderTimeoutError):
        CallClock("it", 0).check()
    with triptych.deadline(0), pytest.raises(CancelledError):
        asyncio.run(waiting(CallClock("it", 60)))
    with triptych.deadline(5):
        assert 0 < CallClock("it", 60).left <= 5


TEXTS = st.lists(st.text(max_size=60), max_size=40)


@given(TEXTS, st.integers(1, 9), st.integers(1, 60))
def test_batches_cover_in_order_and_keep_to_the_limits(
    texts: list[str], most: int, tokens: int
) -> None:
    spans = list(batches(texts, BatchLimits(texts=most, tokens=tokens)))
    assert [n for span in spans for n in span] == list(range(len(texts)))
    sizes = [sum(high_token_estimate(texts[n]) for n in span) for span in spans]
    for span, size in zip(spans, sizes, strict=True):
        assert 1 <= len(span) <= most
        assert size <= tokens or len(span) == 1
    for (span, size), after in zip(
        zip(spans[:-1], sizes[:-1], strict=True), spans[1:], strict=True
    ):
        # No batch ends before it must.
        assert len(span) == most or size + high_token_estimate(texts[after.start]) > tokens


@given(st.text(min_size=1, max_size=500), st.text(max_size=80))
def test_a_cut_is_a_shorter_beginning(text: str, refusal: str) -> None:
    cut = shortened(text, refusal)
    assert text.startswith(cut)
    assert cut
    assert len(cut) < len(text) or len(text) == 1


def test_a_cut_goes_by_the_numbers_of_the_refusal() -> None:
    text = "x" * 1000
    said = "maximum context length is 8192 tokens, however you requested 16384 tokens"
    assert len(shortened(text, said)) == 475
    assert len(shortened(text, "input (600 tokens) is too large (batch size: 512)")) == 810
    assert len(shortened(text, "too long")) == 750
    assert len(shortened(text, "index 0 of 3; code 400")) == 750


PROFILE = ProviderErrorRules(
    name="P", model="m", key_advice="K", model_advice="M", start_advice="S"
)


def faulted(status: int, body: Any) -> Exception:
    text = body if isinstance(body, str) else json.dumps(body)
    return fault(Refusal(status=status, body=text), PROFILE, ["s3cret"])


@each_row(
    ("status", "body"),
    [
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}),
        (400, {"error": "the input length exceeds the context length"}),
        (400, {"error": {"message": "the request exceeds the available context size, try it"}}),
        (500, {"error": "input length exceeds maximum context length"}),
        (400, {"detail": "too many tokens in example 0"}),
        (500, {"error": {"message": "input is too large to process. increase the batch size"}}),
        (400, {"error": {"type": "exceed_context_size_error", "message": "?"}}),
        (400, {"type": "error", "error": {"message": "prompt is too long: 210000 tokens"}}),
        (413, ""),
    ],
)
def test_too_long_is_known_in_each_wording(status: int, body: Any) -> None:
    assert isinstance(faulted(status, body), InputTooLongError)


@each_row("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 529])
def test_passing_faults_may_be_tried_again(status: int) -> None:
    assert isinstance(faulted(status, {}), Retryable)


@each_row("status", [400, 401, 402, 403, 404, 405, 406, 413, 418, 422, 451])
def test_lasting_faults_may_not(status: int) -> None:
    assert isinstance(faulted(status, {}), ProviderError)


@given(st.integers(300, 599), st.text(max_size=30), st.text(max_size=30))
def test_no_refusal_shows_a_secret(status: int, before: str, after: str) -> None:
    for body in ({"error": {"message": f"{before}s3cret{after}"}}, f"{before}s3cret{after}"):
        found = faulted(status, body)
        assert "s3cret" not in str(found)
        assert "\n" not in str(found)


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda c: (
            st.lists(c)
            | st.dictionaries(st.sampled_from(["error", "detail", "message", "msg", "x"]), c)
        ),
    )
)
def test_no_shape_of_a_refusal_breaks_its_reader(body: Any) -> None:
    assert isinstance(Refusal(status=400, body=json.dumps(body)).detail, str)


def test_a_key_is_replaced_before_a_message_is_shortened() -> None:
    assert "s3c" not in shown("x" * 298 + "s3cret", ["s3cret"])


def events_of(form: EventFormat, lines: list[str]) -> list[dict[str, Any] | None]:
    return [event for line in lines for event in form.feed(line)]


def test_events_are_read_as_the_standard_says() -> None:
    lines = [
        ": comment",
        "event: x",
        'data: {"a":',
        "data: 1}",
        "",
        "id: 3",
        "",
        'data:{"b": 2}',
        "",
        "data: [DONE]",
        "",
        'data: {"cut": 1}',
    ]
    assert events_of(ServerSent(), lines) == [{"a": 1}, {"b": 2}, None]


def test_json_lines_skip_blank_ones() -> None:
    lines = ['{"a": 1}', " ", '{"b": "\u2028"}']
    assert events_of(JsonLines(), lines) == [
        {"a": 1},
        {"b": "\u2028"},
    ]
    with pytest.raises(MalformedAnswerError):
        events_of(JsonLines(), ["3"])


def test_a_missing_value_is_named_by_its_path() -> None:
    with pytest.raises(MalformedAnswerError, match=r"no a\[1\]$"):
        at({"a": [1]}, "a", 1, "b", of=str)
    with pytest.raises(MalformedAnswerError, match=r"bool as a\[0\], where a int"):
        at({"a": [True]}, "a", 0, of=int)


@given(st.permutations(range(6)))
def test_any_order_of_indexes_is_put_right(order: list[int]) -> None:
    assert [item["index"] for item in by_index([{"index": n} for n in order], 6)] == list(range(6))


def test_rows_come_out_of_unit_length() -> None:
    assert rows_of([[3, 4], [0, 2.0]], 2).tolist() == [[0.6, 0.8], [0.0, 1.0]]
    # Far from 1, squares still neither vanish nor run over.
    assert rows_of([[1e-30, 0.0]], 1).tolist() == [[1.0, 0.0]]


@each_row(
    ("indexes", "order"),
    [
        ([None, None, None], [0, 1, 2]),
        ([None, 1, 2], [0, 1, 2]),  # protobuf leaves out a 0
        ([2, 1, None], [2, 1, 0]),
        ([1, None, 0], [2, 0, 1]),
        ([None, 1, None], [0, 1, 2]),
    ],
)
def test_an_item_without_an_index_has_its_position(
    indexes: list[int | None], order: list[int]
) -> None:
    items = [
        {"n": at} if index is None else {"n": at, "index": index}
        for at, index in enumerate(indexes)
    ]
    assert [each["n"] for each in by_index(items, 3)] == order
    nulls = [{"index": None, **each} for each in items]
    assert [each["n"] for each in by_index(nulls, 3)] == order


@pytest.mark.parametrize("indexes", [[1, None, None], [0, 0, None], [None, None, 0]])
def test_an_index_that_could_be_several_is_refused(indexes: list[int | None]) -> None:
    with pytest.raises(MalformedAnswerError):
        by_index([{"index": index} for index in indexes], 3)
