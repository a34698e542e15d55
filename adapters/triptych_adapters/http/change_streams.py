"""Changes as server-sent events: what was added, updated and deleted, as it is committed.

Each event has the cursor as its id, so that a browser's EventSource that was cut off goes on from
where it was (``Last-Event-ID``); ids without an event say how far a quiet stream has come. A
stream ends after the time that a request has; its client asks again.
"""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from triptych.errors import TriptychError
from triptych.records import ChangePage
from triptych.records.serialization import to_json
from triptych.service import Service
from triptych_adapters.http.calls import Caller
from triptych_adapters.http.problems import problem_of
from triptych_adapters.http.server import Server
from triptych_adapters.http.streams import EVENTS_TYPE, QUIET, event

__all__ = ["ChangeStream"]

_POLL: Final = 0.5
"""Seconds between two looks at the store."""


class ChangeStream(Response):
    """The changes since a cursor, and those to come."""

    @classmethod
    async def start(
        cls,
        server: Server,
        request: Request,
        service: Service,
        arguments: dict[str, Any],
    ) -> ChangeStream:
        """Read the first page: what fails there has a status of its own."""
        last = request.headers.get("last-event-id")
        asked = arguments | ({"since": last} if last else {})
        held = AsyncExitStack()
        caller = await held.enter_async_context(server.calls.caller(request))
        try:
            page = await caller.run(lambda: service.changes(**asked))
        except BaseException:
            await held.aclose()
            raise
        return cls(service, asked, page, caller, held)

    def __init__(
        self,
        service: Service,
        arguments: dict[str, Any],
        page: ChangePage,
        caller: Caller,
        held: AsyncExitStack,
    ) -> None:
        super().__init__(None, media_type=EVENTS_TYPE, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._service = service
        self._arguments = arguments
        self._page = page
        self._caller = caller
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is there, and go on until the request's time is over."""

        async def send_part(part: bytes, more: bool = True) -> None:
            await send({"type": "http.response.body", "body": part, "more_body": more})

        async with self._held:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await send_part(self._events(self._page))
            spoke = time.monotonic()
            try:
                while self._caller.remaining > 2 * _POLL:
                    if not self._page.more:
                        await self._caller.pause(_POLL)
                    self._page = await self._caller.run(self._next)
                    if part := self._events(self._page):
                        await send_part(part)
                        spoke = time.monotonic()
                    elif time.monotonic() - spoke > QUIET:
                        await send_part(self._place())
                        spoke = time.monotonic()
            except TriptychError as error:
                scope.setdefault("state", {})["failure"] = error
                await send_part(event("error", problem_of(error).json()))
            await send_part(self._place(), more=False)

    def _next(self) -> ChangePage:
        return self._service.changes(**self._arguments | {"since": self._page.cursor})

    def _place(self) -> bytes:
        """Where the next stream goes on, as a comment with an id: no event of EventSource."""
        return f"id: {self._page.cursor}\n: \n\n".encode()

    def _events(self, page: ChangePage) -> bytes:
        changes = (
            f"id: {change.cursor}\n".encode() + event("change", to_json(change))
            for change in page.changes
        )
        if not page.reset:
            return b"".join(changes)
        # An id here would be after the changes that follow: they have their own.
        head = b"" if page.changes else f"id: {page.cursor}\n".encode()
        return head + event("reset", {}) + b"".join(changes)
