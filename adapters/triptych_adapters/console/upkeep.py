"""The work list: what is stale, pending, expired or failed, why, and what can be done about it."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from triptych.errors import NotAvailableError
from triptych.layers import LayerPlan
from triptych_adapters.console.site import Made, see_other
from triptych_adapters.console.tasks import outcome, planned, said_of, task_of
from triptych_adapters.console.visit import Visit, may
from triptych_adapters.console.waiting import expiring, quarantined, remove_listed
from triptych_adapters.wire.build_layers import check_may_build, stale_layers


def work(visit: Visit) -> Made:
    """Everything that waits for somebody."""
    service = visit.service
    stats = service.stats()
    plan, unplanned = None, ""
    try:
        plan = _plan(visit)
    except NotAvailableError as error:
        unplanned = str(error)
    return {
        "stats": stats,
        "todo": [each for each in stats if each.stale or each.pending or each.sparse_pending],
        "stale_layers": stale_layers(service, stats),
        "can_build": visit.can_write and may(check_may_build, service),
        "has_model": service.llm is not None,
        "said": said_of(visit),
        "checks": service.health(probe=False).problems,
        "plan": plan,
        "unplanned": unplanned,
        "report": _report(visit),
        "quarantined": quarantined(visit, stats),
        "expiring": expiring(service),
        "removed": visit.number("removed", -1, most=1_000_000_000),
        "retry": visit.one("retry") == "1",
    }


def _plan(visit: Visit) -> LayerPlan | None:
    """What building a dataset's layers would make and cost, where that was asked for."""
    dataset_id = visit.one("plan")
    return planned(visit, dataset_id)[1] if dataset_id else None


def _report(visit: Visit) -> Any:
    """What the doctor finds, where that was asked for: it reads everything."""
    asked = visit.can_write and visit.one("doctor") == "1"
    return visit.service.doctor() if asked else None


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
            done = outcome(task.name, task.run(None))
            return see_other(visit.request, f"/console/work?{urlencode(done)}")
