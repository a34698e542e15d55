"""Answers of a model behind HTTP: a real server on loopback that misbehaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import triptych
from support.chat_server import chat, streamed, whole
from support.provider_server import Reply
from triptych.answers import Answer
from triptych.errors import (
    CancelledError,
    ProviderError,
    ProviderTimeoutError,
    RateLimitedError,
    TriptychError,
    UnusableAnswerError,
)
from triptych.records import Retries
from triptych.service import Service
from triptych_providers import Connection, OpenAILLM

QUESTION = "how do I take the lid off the kettle"
ONCE = Connection(retries=Retries(attempts=1))


@pytest.fixture(scope="module")
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder=None, llm=None) as service:
        service.put_document("d", "kettle.md", "# Kettle\n\nTurn the lid to the left, and pull.\n")
        yield service


def answered(kb: Service, url: str, *, stream: bool) -> Answer:
    llm = OpenAILLM("m", base_url=f"{url}/v1", connection=ONCE)
    try:
        if not stream:
            return kb.ask(QUESTION, dataset_id="d", llm=llm)
        with kb.ask_stream(QUESTION, dataset_id="d", llm=llm) as pieces:
            for _ in pieces:
                pass
        return pieces.answer
    finally:
        llm.close()


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_over_http_has_its_usage_and_citations(kb: Service, stream: bool) -> None:
    with chat(["Turn it ", "[", "1", "]. ", "Wait [", "9].", " Done."]) as server:
        answer = answered(kb, server.url, stream=stream)
    assert answer.text == "Turn it [1]. Wait. Done."
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 7)
    assert not answer.usage_estimated
    (asked,) = server.asked
    assert asked.body["stream"] is stream
    assert [each["role"] for each in asked.body["messages"]] == ["system", "user"]
    assert asked.body["messages"][1]["content"] == answer.sent[1].content


@pytest.mark.parametrize(
    ("stream", "reply", "error"),
    [
        (False, whole(""), UnusableAnswerError),
        (False, whole(" \n"), UnusableAnswerError),
        (False, whole("", finish="content_filter"), UnusableAnswerError),
        (False, Reply(body=b"<html>garbage"), ProviderError),
        (False, Reply(body=b'{"choices": []}'), ProviderError),
        (False, Reply(body=b'{"choices": [{"message": {"content": 7}}]}'), ProviderError),
        (False, Reply(body=b"busy", status=429), RateLimitedError),
        (False, Reply(body=b"down", status=500), ProviderError),
        (False, Reply(body=b'{"choices": [{"mess', cut=10), ProviderError),
        (True, streamed([]), UnusableAnswerError),
        (True, streamed(["[7]"]), UnusableAnswerError),
        (True, streamed(["Turn it ["], ends=False), ProviderError),
        (True, streamed(["Turn it [1]."], finish="content_filter"), UnusableAnswerError),
        (True, Reply(body=b"data: garbage\n\n"), ProviderError),
        (True, Reply(body=b'data: {"choices": 7}\n\n'), ProviderError),
        (True, Reply(body=b"no stream at all"), ProviderError),
        (True, Reply(body=b"down", status=500), ProviderError),
    ],
)
def test_a_server_that_misbehaves_is_an_error_and_never_an_answer(
    kb: Service, stream: bool, reply: Reply, error: type[TriptychError]
) -> None:
    with chat(reply) as server, pytest.raises(error):
        answered(kb, server.url, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_cut_at_its_limit_says_so(kb: Service, stream: bool) -> None:
    reply = (
        streamed(["Turn it [1]. And"], finish="length")
        if stream
        else whole("Turn it [1]. And", finish="length")
    )
    with chat(reply) as server:
        answer = answered(kb, server.url, stream=stream)
    assert answer.truncated
    assert any("max_tokens" in warning for warning in answer.warnings)


@pytest.mark.parametrize("stream", [False, True])
def test_a_server_that_hangs_ends_with_the_deadline(kb: Service, stream: bool) -> None:
    hold = threading.Event()
    with chat(Reply(body=b"{}", hold=hold)) as server:
        try:
            with triptych.deadline(0.2), pytest.raises((CancelledError, ProviderTimeoutError)):
                answered(kb, server.url, stream=stream)
        finally:
            hold.set()
