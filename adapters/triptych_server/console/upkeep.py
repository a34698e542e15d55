"""The work list: what is stale, pending, expired or failed, why, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from triptych.errors import CancelledError, NotAvailableError
from triptych.records import Failure
from triptych_adapters.wire import check_may_build, stale_layers
from triptych_server.console.progress import Task
from triptych_server.console.reviews import waiting_in
from triptych_server.console.site import Made, render, see_other
from triptych_server.console.tasks import Report, outcome, planned, said, said_of, task_of
from triptych_server.console.visit import Visit, may
from triptych_server.console.work_lists import (
    Listed,
    expiring,
    not_searched,
    quarantined,
    remove_listed,
    sees_all,
)
from triptych_server.http.responses import public

_NAMED: Final = 5
"""Failures of a task that are named; of more, a sentence says so."""


def work(
    visit: Visit, came_to: str | None = None, failed: Sequence[Failure] = ()
) -> dict[str, Any]:
    """Everything that waits for somebody; the result of a task, and what of it failed."""
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
        "todo": [each for each in stats if each.stale or each.pending or each.further_pending],
        "stale_layers": stale_layers(service, stats),
        "proposals": waiting_in(visit),
        "can_build": visit.can_write and may(check_may_build, service),
        "has_model": service.llm is not None,
        "said": said_of(visit) if came_to is None else came_to,
        "failures": Listed(
            [(each, visit.message_of(each.error)) for each in failed[:_NAMED]],
            max(len(failed) - _NAMED, 0),
        ),
        "checks": [
            each if sees_all(visit) else public(each)
            for each in service.health(probe=False).problems
        ],
        "plan": plan,
        "unplanned": unplanned,
        # It reads everything.
        "report": service.doctor() if visit.can_write and visit.one("doctor") == "1" else None,
        "quarantined": quarantined(visit, [each.dataset_id for each in stats]),
        "not_searched": not_searched(service, stats),
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


def ended(visit: Visit, task: Task[Report], came_to: Report | CancelledError) -> bytes:
    """The page after a task that was watched."""
    if not isinstance(came_to, CancelledError):
        report, stopped = came_to, ""
    elif came_to.report is None:
        raise came_to
    else:
        report, stopped = came_to.report, "time"
    text = said(outcome(task.name, report, stopped))
    return render("work", visit, layout="part.html", **work(visit, text, report.failed))
