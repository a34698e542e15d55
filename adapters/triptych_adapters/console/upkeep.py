"""The work list: what is stale, pending, expired or failed, why, and the button that mends it."""

from __future__ import annotations

from typing import Any, Final

from triptych.errors import NotAvailableError
from triptych.layers import ExtractiveSummarizer, LayerBuilder
from triptych.records import HealthCheck
from triptych.service import Service
from triptych_adapters.console.site import Made, see_other
from triptych_adapters.console.visit import Visit
from triptych_adapters.wire.build_layers import check_may_build

_LISTED: Final = 50


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
        "checks": _checks(service),
        "plan": plan,
        "unplanned": unplanned,
        "report": _report(visit),
    }


def _checks(service: Service) -> list[HealthCheck]:
    found = service.health(probe=False)
    return [each for each in found.checks if each.status != "ok"]


def _plan(visit: Visit) -> Any:
    """What building a dataset's layers would make and cost, where that was asked for."""
    dataset_id = visit.one("plan")
    if not dataset_id:
        return None
    check_may_build(visit.service)
    return LayerBuilder(visit.service, _summarizer(visit)).plan(dataset_id)


def _summarizer(visit: Visit) -> ExtractiveSummarizer | None:
    return None if visit.service.llm is not None else ExtractiveSummarizer()


def _report(visit: Visit) -> Any:
    """What the doctor finds, where that was asked for: it reads everything."""
    return visit.service.doctor() if visit.one("doctor") else None


def mend(visit: Visit) -> Made:
    """Do one thing of the list, within its budget."""
    service, dataset_id = visit.service, visit.one("dataset")
    match visit.one("do"):
        case "rebuild":
            service.rebuild(dataset_id=dataset_id)
        case "embed":
            service.embed_pending(dataset_id)
        case "expired":
            service.remove_expired(dataset_id or None)
        case "layers":
            check_may_build(service)
            builder = LayerBuilder(service, _summarizer(visit))
            most = visit.number("max_calls", 100, most=1_000_000)
            builder.apply(builder.plan(dataset_id), max_calls=most)
        case "repair":
            service.doctor(repair=True)
    return see_other(visit, "/console/work")
