"""Changes as server-sent events: what was added, updated and deleted, as it is committed.

Each event has the cursor as its id, so that a browser's EventSource that was cut off goes on from
where it was (``Last-Event-ID``); ids without an event say how far a quiet stream has come. A
stream ends after the time that a request has; its client asks again.
"""

from __future__ import annotations

import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from triptych.records import ChangePage
from triptych.records.serialization import to_json
from triptych.service import Service
from triptych_adapters.http.calls import Caller
from triptych_adapters.http.problems import problem_of
from triptych_adapters.http.server import Server
from triptych_adapters.http.streams import COMMENT, QUIET, Parts, StreamedResponse, event

_POLL: Final = 0.5
"""Seconds between two looks at the store."""


async def change_stream(
    server: Server, request: Request, service: Service, arguments: dict[str, Any]
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
        while caller.remaining > 2 * _POLL:
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
