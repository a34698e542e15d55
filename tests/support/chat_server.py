"""A server on loopback that speaks OpenAI's protocol for chats, and misbehaves as it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from support.provider_server import Asked, ProviderServer, Reply, serving


def whole(text: str, *, finish: str = "stop") -> Reply:
    """An answer in one piece."""
    answer = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
    }
    return Reply(body=json.dumps(answer).encode(), headers={"content-type": "application/json"})


def streamed(pieces: Sequence[str], *, ends: bool = True, finish: str = "stop") -> Reply:
    """An answer in pieces; one that does not end breaks off after the last."""
    parts: list[Any] = [{"choices": [{"delta": {"content": each}}]} for each in pieces]
    if ends:
        parts.append({"choices": [{"delta": {}, "finish_reason": finish}]})
        parts.append({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}})
    lines = [f"data: {json.dumps(part)}\n\n".encode() for part in parts]
    lines += [b"data: [DONE]\n\n"] if ends else []
    return Reply(body=lines, headers={"content-type": "text/event-stream"})


@contextmanager
def chat(*replies: Reply | Sequence[str]) -> Iterator[ProviderServer]:
    """The server: the replies in turn, the last again and again.

    The pieces of a text are an answer: in one piece or streamed, as it is asked for.
    """
    left = list(replies)

    def answer(asked: Asked) -> Reply:
        reply = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(reply, Reply):
            return reply
        return streamed(reply) if asked.body.get("stream") else whole("".join(reply))

    with serving(answer) as server:
        yield server
