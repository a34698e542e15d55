"""The two formats of streams, as JSON objects: server-sent events and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from triptych_backends.providers.response_parsing import MalformedAnswerError


class EventFormat(Protocol):
    """Makes events of the lines of one stream, whoever reads them."""

    def feed(self, line: str) -> Iterator[dict[str, Any] | None]:
        """The events that end with ``line``; None for one that says that nothing follows.

        Raises:
            MalformedAnswerError: one is not a JSON object.
        """
        ...


class ServerSent:
    """The data of each event (WHATWG HTML, 9.2.6); None for OpenAI's closing "[DONE]".

    An event that the end of the stream cut short is left out, as the standard says.
    """

    def __init__(self) -> None:
        self._data: list[str] = []

    def feed(self, line: str) -> Iterator[dict[str, Any] | None]:
        """See `EventFormat.feed`."""
        if line:
            name, _, value = line.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
        elif self._data:
            text, self._data = "\n".join(self._data), []
            yield None if text.strip() == "[DONE]" else _object(text)


class JsonLines:
    """The object in each line that is not blank."""

    def feed(self, line: str) -> Iterator[dict[str, Any] | None]:
        """See `EventFormat.feed`."""
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
