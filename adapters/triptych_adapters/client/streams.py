"""An answer in pieces, as server-sent events bring it."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, Final

from triptych.answers.answerer import AnswerStream
from triptych.answers.pack import ContextPack
from triptych.answers.records import Answer
from triptych.errors import ProviderError, StoreError
from triptych.records.serialization import from_dict
from triptych_adapters.client.connection import Connection
from triptych_adapters.client.requests import failure_of, prepare

_ACCEPT: Final = "text/event-stream"


def open_stream(
    connection: Connection, arguments: Mapping[str, Any], pipeline: str = ""
) -> AnswerStream:
    """The answer to ``ask`` with these arguments; the search is done when this returns.

    Raises:
        TriptychError: as `Service.ask_stream`.
    """
    prepared = prepare("ask", arguments, pipeline)
    assert prepared.body is not None
    with ExitStack() as stack:
        lines = connection.lines(prepared.path, prepared.body, _ACCEPT)
        events = _events(stack.enter_context(closing(lines)), connection.url)
        name, data = next(events, ("", None))
        if name != "context":
            raise _failed(name, data, connection.url)
        pack: ContextPack = from_dict(ContextPack, data)
        pieces = _pieces(events, stack.pop_all(), connection.url)
    return AnswerStream(pack, pieces)


def _pieces(
    events: Iterator[tuple[str, Any]], held: ExitStack, url: str
) -> Generator[str, None, Answer]:
    with held:
        for name, data in events:
            if name == "text":
                yield data["text"]
            elif name == "answer":
                answer: Answer = from_dict(Answer, data)
                return answer
            else:
                raise _failed(name, data, url)
    raise ProviderError(f"the answer of the server at {url} broke off")


def _failed(name: str, data: Any, url: str) -> Exception:
    if name == "error":
        return failure_of(500, json.dumps(data).encode(), f"ask at {url}")
    return StoreError(
        f"the server at {url} sent the event {name!r:.40}, which is none of an answer"
    )


def _events(lines: Iterator[str], url: str) -> Iterator[tuple[str, Any]]:
    """The events of a stream, each with its name and its data."""
    name = ""
    data: list[str] = []
    for line in lines:
        if not line:
            if data:
                try:
                    found = json.loads("\n".join(data))
                except (ValueError, RecursionError) as error:
                    raise StoreError(
                        f"the server at {url} sent an event that cannot be read ({error!s:.200})"
                    ) from error
                yield name, found
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
