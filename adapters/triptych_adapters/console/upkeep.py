"""The work list: what is stale, pending, expired or failed, why, and what can be done about it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

import attrs
from starlette.requests import Request
from starlette.responses import Response

from triptych._internal.progress import Progress
from triptych.errors import CancelledError, NotAvailableError
from triptych.records import Failure
from triptych_adapters.console.reviews import waiting_in
from triptych_adapters.console.site import Made, render, see_other
from triptych_adapters.console.tasks import Task, outcome, planned, said, said_of, task_of
from triptych_adapters.console.visit import Visit, may, visit_of
from triptych_adapters.console.work_lists import Listed, expiring, quarantined, remove_listed
from triptych_adapters.http.responses import problem_of
from triptych_adapters.http.server import Caller, Server
from triptych_adapters.http.streams import COMMENT, QUIET, Parts, StreamedResponse, event
from triptych_adapters.wire.build_layers import check_may_build, stale_layers

_LOOK: Final = 0.2
"""Seconds between two looks at how far a task is."""
_NAMED: Final = 5
"""Failures of a task that are named; of more, a sentence says so."""


def work(
    visit: Visit, came_to: str | None = None, failed: Sequence[Failure] = ()
) -> dict[str, Any]:
    """Everything that waits for somebody; what a task came to, and what of it failed."""
    service = visit.service
    stats = service.stats()
    plan, unplanned = None, ""
    try:
        if dataset_id := visit.one("plan"):
            plan = planned(visit, dataset_id)[1]
    except NotAvailableError as error:
        unplanned = str(error)
    return {
        "stats": stats,
        "todo": [each for each in stats if each.stale or each.pending or each.sparse_pending],
        "stale_layers": stale_layers(service, stats),
        "proposals": waiting_in(visit),
        "can_build": visit.can_write and may(check_may_build, service),
        "has_model": service.llm is not None,
        "said": said_of(visit) if came_to is None else came_to,
        "failures": Listed(
            [(each, visit.message_of(each.error)) for each in failed[:_NAMED]],
            max(len(failed) - _NAMED, 0),
        ),
        "checks": service.health(probe=False).problems,
        "plan": plan,
        "unplanned": unplanned,
        # It reads everything.
        "report": service.doctor() if visit.can_write and visit.one("doctor") == "1" else None,
        "quarantined": quarantined(visit, stats),
        "expiring": expiring(service),
        "removed": visit.number("removed", -1),
        "retry": visit.one("plan") != "" and visit.one("retry") == "1",
    }


def act(visit: Visit) -> Made:
    """Do one thing of the list, within its budget."""
    service = visit.service
    match visit.one("do"):
        case "expired":
            removed = remove_listed(service, visit.one("digest"))
            if removed is None:
                return see_other(visit.request, "/console/work?expired=changed#expired")
            return see_other(visit.request, f"/console/work?removed={removed}")
        case "repair":
            service.doctor(repair=True)
            return see_other(visit.request, "/console/work")
        case _:
            task = task_of(visit)
            report = task.run(None)
            done = outcome(task.name, report)
            if report.failed:  # what was said of each of them is in no URL
                return work(visit, said(done), report.failed)
            return see_other(visit.request, f"/console/work?{urlencode(done)}")


async def stream(server: Server, request: Request) -> Response:
    """Do a task, tell how far it is, and send the page as it is then.

    It ends when the reader goes away, and what was made is kept.
    """
    visit = await visit_of(server, request)
    visit.check_writes()

    async def parts(caller: Caller, task: Task) -> Parts:
        told = [{"phase": task.name, "done": 0, "total": task.total, "used": ""}]

        def note(progress: Progress) -> None:  # called in the thread of the task
            told.append(attrs.asdict(progress) | {"used": task.used()})

        running = asyncio.ensure_future(caller.run(partial(task.run, note)))
        spoke, sent = time.monotonic(), 0
        try:
            while True:
                ended, _ = await asyncio.wait({running}, timeout=_LOOK if sent else 0)
                if sent < len(told):
                    spoke, sent = time.monotonic(), len(told)
                    yield event("progress", told[-1])
                elif time.monotonic() - spoke > QUIET:
                    spoke = time.monotonic()
                    yield COMMENT
                if ended:
                    break
        except BaseException:
            running.cancel()
            await asyncio.wait({running})
            raise
        try:
            report, stopped = running.result(), ""
        except CancelledError as error:  # by the deadline: the reader is there
            if error.report is None:
                raise
            report, stopped = error.report, "time"

        def whole() -> bytes:
            text = said(outcome(task.name, report, stopped))
            return render("work", visit, layout="part.html", **work(visit, text, report.failed))

        # Apart from the request's time, which may be over.
        yield event("end", {"html": (await caller.apart(whole)).decode()})

    def failed(error: BaseException) -> bytes:
        return event("error", problem_of(error).json())

    return await StreamedResponse.start(
        server, request, partial(task_of, visit), parts, failed=failed, long=True
    )
