"""Answers in pieces: server-sent events of answers and of changes, and plain text."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from triptych.answers import AnswerStream
from triptych.records import ChangePage
from triptych.records.serialization import to_json
from triptych.service import KnowledgeBase
from triptych_server.http.responses import encoded, note_failure, problem_of
from triptych_server.http.server import Caller, ClientGoneError, Server

EVENTS_TYPE: Final = "text/event-stream"
COMMENT: Final = b": \n\n"
"""Shows proxies that the connection lives."""
QUIET: Final = 15.0
"""Seconds after which a comment is sent."""

Parts = AsyncGenerator[bytes, None]
Failed = Callable[[BaseException], bytes]
T = TypeVar("T")


def event(name: str, value: Any) -> bytes:
    """A server-sent event whose data is the JSON of ``value``; without a name for ``""``."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encoded(value) + b"\n\n"


class StreamedResponse(Response):
    """An answer that is sent part by part.

    What it begins with, and its first part, are made before the first byte: what fails then has a
    status of its own. A client that goes away ends the calls.
    """

    @classmethod
    async def start(
        cls,
        server: Server,
        request: Request,
        begin: Callable[[], T],
        render: Callable[[Caller, T], Parts],
        *,
        media_type: str = EVENTS_TYPE,
        failed: Failed | None,
        long: bool = False,
        pieces: bool = False,
        close: Callable[[T], object] | None = None,
    ) -> StreamedResponse:
        """Begin, and make the answer.

        ``render`` makes parts of what ``begin`` gives, which ``close`` lets go of; ``pieces`` where
        these are pieces of an answer, with a call for each. ``failed`` makes
        the last part when that fails; None closes the connection, so that what was sent is not
        taken for whole.
        """
        held = AsyncExitStack()
        calls = server.calls.caller(request, long=long or pieces, streams=pieces)
        caller = await held.enter_async_context(calls)
        try:
            begun = await caller.run(begin)
            if close is not None:
                held.push_async_callback(caller.apart, lambda: close(begun))
            parts = await held.enter_async_context(aclosing(render(caller, begun)))
            first = await anext(parts, b"")
        except BaseException:
            await held.aclose()
            raise
        return cls(held, first, parts, media_type, failed)

    def __init__(
        self,
        held: AsyncExitStack,
        first: bytes,
        parts: Parts,
        media_type: str,
        failed: Failed | None,
    ) -> None:
        super().__init__(None, media_type=media_type, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._held = held
        self._first = first
        self._parts = parts
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""

        async def send_part(part: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": part, "more_body": more})

        async with self._held:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                await send_part(self._first)
                async for part in self._parts:
                    await send_part(part)
            except ClientGoneError:
                raise
            except Exception as error:
                if self._failed is None:
                    raise
                note_failure(scope, error)
                await send_part(self._failed(error))
        await send_part(b"", more=False)


async def streamed_answer(
    server: Server,
    request: Request,
    begin: Callable[[], AnswerStream],
    piece: Callable[[str], bytes],
    *,
    first: Callable[[AnswerStream], Iterable[bytes]] = lambda stream: (),
    last: Callable[[AnswerStream], Iterable[bytes]] = lambda stream: (),
    media_type: str = EVENTS_TYPE,
    failed: Failed | None,
) -> Response:
    """An answer that is sent as its model writes it; the search is done before.

    ``piece`` makes a part of each piece; ``first`` and ``last`` make those around them.
    """

    async def render(caller: Caller, stream: AnswerStream) -> Parts:
        for part in first(stream):
            yield part
        async with aclosing(pieces_of(caller, stream)) as pieces:
            async for each in pieces:
                if each:
                    yield piece(each)
                elif media_type == EVENTS_TYPE:
                    yield COMMENT
        for part in last(stream):
            yield part

    return await StreamedResponse.start(
        server,
        request,
        begin,
        render,
        media_type=media_type,
        failed=failed,
        pieces=True,
        close=AnswerStream.close,
    )


async def pieces_of(caller: Caller, stream: AnswerStream) -> AsyncGenerator[str, None]:
    """The pieces of an answer, read in a thread; "" when none has come for `QUIET` seconds."""
    while True:
        # No StopIteration may leave a future.
        asked = asyncio.ensure_future(caller.run(lambda: next(stream, None)))
        try:
            while not (await asyncio.wait({asked}, timeout=QUIET))[0]:
                yield ""
        except BaseException:
            asked.cancel()
            await asyncio.wait({asked})
            raise
        piece = asked.result()
        if piece is None:
            return
        yield piece


# Changes

_POLL: Final = 0.5
"""Seconds between two looks at the store."""


async def change_stream(
    server: Server, request: Request, service: KnowledgeBase, arguments: dict[str, Any]
) -> Response:
    """The changes since a cursor, and those to come."""
    last = request.headers.get("last-event-id")
    asked = arguments | ({"since": last} if last else {})
    cursor = ""

    def look() -> ChangePage:
        return service.changes(**asked | {"since": cursor})

    async def render(caller: Caller, page: ChangePage) -> Parts:
        nonlocal cursor
        cursor = page.cursor
        yield _events(page)
        spoke = time.monotonic()
        while caller.remaining > 2 * _POLL and not caller.stops:
            if not page.more:
                await caller.pause(_POLL)
            page = await caller.run(look)
            cursor = page.cursor
            part = _events(page)
            if not part and time.monotonic() - spoke > QUIET:
                part = _place(cursor)
            if part:
                yield part
                spoke = time.monotonic()
        yield _place(cursor)

    def failed(error: BaseException) -> bytes:
        return event("error", problem_of(error).json()) + _place(cursor)

    return await StreamedResponse.start(
        server, request, lambda: service.changes(**asked), render, failed=failed
    )


def _place(cursor: str) -> bytes:
    """Where the next stream goes on, as a comment with an id: no event of EventSource."""
    return f"id: {cursor}\n".encode() + COMMENT


def _events(page: ChangePage) -> bytes:
    changes = (
        f"id: {change.cursor}\n".encode() + event("change", to_json(change))
        for change in page.changes
    )
    if not page.reset:
        return b"".join(changes)
    # An id here would be after the changes that follow: they have their own.
    head = b"" if page.changes else f"id: {page.cursor}\n".encode()
    return head + event("reset", {}) + b"".join(changes)
