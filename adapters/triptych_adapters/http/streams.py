"""Answers in pieces: server-sent events, and plain text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from triptych.answering import AnswerStream
from triptych_adapters.http.calls import Caller, ClientGoneError
from triptych_adapters.http.responses import encoded
from triptych_adapters.http.server import Server

__all__ = ["EVENTS_TYPE", "QUIET", "Pieces", "StreamedAnswer", "event"]

EVENTS_TYPE: Final = "text/event-stream"
QUIET: Final = 15.0
"""Seconds after which a comment shows proxies that the connection lives."""

Pieces = AsyncIterator[bytes]


def event(name: str, value: Any) -> bytes:
    """A server-sent event whose data is the JSON of ``value``; without a name for ``""``."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encoded(value) + b"\n\n"


class StreamedAnswer(Response):
    """An answer that is sent as its model writes it.

    The search is done before the first byte: what fails then has a status of its own. A client
    that goes away ends the model's call.
    """

    @classmethod
    async def start(
        cls,
        server: Server,
        request: Request,
        begin: Callable[[], AnswerStream],
        render: Callable[[Reading], Pieces],
        *,
        media_type: str,
        failed: Callable[[BaseException], bytes] | None,
    ) -> StreamedAnswer:
        """Search, and make the answer.

        ``render`` makes bytes of the pieces. ``failed`` makes the last bytes when reading fails;
        None closes the connection, so that what was sent is not taken for whole.
        """
        held = AsyncExitStack()
        caller = await held.enter_async_context(server.calls.caller(request, long=True))
        try:
            stream = await caller.run(begin)
        except BaseException:
            await held.aclose()
            raise
        return cls(Reading(caller, stream), held, render, media_type, failed)

    def __init__(
        self,
        reading: Reading,
        held: AsyncExitStack,
        render: Callable[[Reading], Pieces],
        media_type: str,
        failed: Callable[[BaseException], bytes] | None,
    ) -> None:
        super().__init__(None, media_type=media_type, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._reading = reading
        self._held = held
        self._render = render
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""

        async def send_part(part: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": part, "more_body": more})

        async with self._held:
            try:
                await send(
                    {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                )
                is_events = self.media_type == EVENTS_TYPE
                self._reading.idle = (lambda: send_part(b": \n\n")) if is_events else None
                async for part in self._render(self._reading):
                    await send_part(part)
            except ClientGoneError:
                raise
            except Exception as error:
                if self._failed is None:
                    raise
                scope.setdefault("state", {})["failure"] = error
                await send_part(self._failed(error))
            finally:
                await self._reading.close()
            await send_part(b"", more=False)


class Reading:
    """The pieces of an `AnswerStream`, read in a thread."""

    def __init__(self, caller: Caller, stream: AnswerStream) -> None:
        self._caller = caller
        self.stream = stream
        self.idle: Callable[[], Awaitable[None]] | None = None

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            asked = asyncio.ensure_future(self._caller.run(self._next))
            try:
                while not (await asyncio.wait({asked}, timeout=QUIET))[0]:
                    if self.idle is not None:
                        await self.idle()
            except BaseException:
                asked.cancel()
                await asyncio.wait({asked})
                raise
            pieces = asked.result()
            if not pieces:
                return
            for piece in pieces:
                yield piece

    def _next(self) -> tuple[str, ...]:
        # No StopIteration may leave a future.
        for piece in self.stream:
            return (piece,)
        return ()

    async def close(self) -> None:
        """Let go of the model."""
        await self._caller.apart(self.stream.close)
