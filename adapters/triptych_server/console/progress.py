"""Long work that a page watches: how far it is, and the page with its result."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

import attrs
from starlette.requests import Request
from starlette.responses import Response

from triptych import Progress, ProgressCallback
from triptych.errors import CancelledError
from triptych_server.console.visit import Visit, visit_of
from triptych_server.http.responses import ProblemError, problem_of
from triptych_server.http.server import Caller, Server
from triptych_server.http.streams import COMMENT, QUIET, Parts, StreamedResponse, event

_LOOK: Final = 0.2
"""Seconds between two looks at how far a task is."""

ReportT = TypeVar("ReportT")
_State = tuple[dict[str, Progress], str]
"""Each phase of a task so far, and what the model was used for."""


@attrs.frozen(kw_only=True)
class Task(Generic[ReportT]):
    """Something that lasts.

    ``run`` tells a callback how far it is; ``total`` is how many items there are, None where that
    is not known before; ``used`` says what the model was used for so far.
    """

    name: str
    run: Callable[[ProgressCallback | None], ReportT]
    total: int | None = None
    used: Callable[[], str] = lambda: ""


async def stream(
    begin: Callable[[Visit], Task[ReportT]],
    end: Callable[[Visit, Task[ReportT], ReportT | CancelledError], bytes],
    server: Server,
    request: Request,
) -> Response:
    """Do a task, tell how far it is, and send the page that ``end`` makes of its result.

    It ends when the reader goes away or the server stops, and what was made is kept. ``end`` is
    given a `CancelledError` where the time limit of a request ended it.
    """
    visit = await visit_of(server, request)
    visit.check_writes()

    async def parts(caller: Caller, task: Task[ReportT]) -> Parts:
        begun = Progress(phase=task.name, done=0, total=task.total)
        now: _State = ({} if task.total is None else {task.name: begun}, "")
        sent = None

        def note(progress: Progress) -> None:  # called in the thread of the task
            nonlocal now
            now = ({**now[0], progress.phase: progress}, task.used())

        running = asyncio.ensure_future(caller.run(partial(task.run, note)))
        spoke, ended = time.monotonic(), False
        try:
            while not ended:
                ended = bool((await asyncio.wait({running}, timeout=_LOOK if sent else 0))[0])
                if sent is not now:
                    spoke, sent = time.monotonic(), now
                    phases = [attrs.asdict(each) for each in sent[0].values()]
                    yield event("progress", {"phases": phases, "used": sent[1]})
                elif time.monotonic() - spoke > QUIET:
                    spoke = time.monotonic()
                    yield COMMENT
                if caller.stops and not ended:
                    raise ProblemError(503, "STOPPING", "the server was stopped")
        except BaseException:
            running.cancel()
            await asyncio.wait({running})
            raise
        came_to: ReportT | CancelledError
        try:
            came_to = running.result()
        except CancelledError as error:  # by the deadline: the reader is there
            came_to = error
        # Apart from the request's time, which may be over.
        page = await caller.apart(partial(end, visit, task, came_to))
        yield event("end", {"html": page.decode()})

    def failed(error: BaseException) -> bytes:
        return event("error", problem_of(error).json())

    return await StreamedResponse.start(
        server, request, partial(begin, visit), parts, failed=failed, long=True
    )
