"""The two formats of streams, as JSON objects: server-sent events and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from triptych_backends.providers.response_parsing import MalformedAnswerError

__all__ = ["json_lines", "server_sent"]


def server_sent(lines: Iterable[str]) -> Iterator[dict[str, Any] | None]:
    """The data of each event (WHATWG HTML, 9.2.6); None for OpenAI's closing "[DONE]".

    An event that the end of the stream cut short is left out, as the standard says.
    """
    data: list[str] = []
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                data.append(value.removeprefix(" "))
            continue
        if data:
            text, data = "\n".join(data), []
            yield None if text.strip() == "[DONE]" else _object(text)


def json_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The object in each line that is not blank."""
    for line in lines:
        if line.strip():
            yield _object(line)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswerError("has an event that is not JSON") from error
    if not isinstance(found, dict):
        raise MalformedAnswerError("has an event that is not a JSON object")
    return found
