"""What a change of a document made untrue in others."""

from __future__ import annotations

from typing import Final

from triptych.errors import NotAvailableError, NotFoundError
from triptych_impact import version_impact
from triptych_server.console.site import Made
from triptych_server.console.visit import Visit

_RECENT: Final = 20


def impact(visit: Visit) -> Made:
    """The documents of a dataset that changed last, and the impact of a change of one."""
    datasets = visit.service.list_datasets()
    dataset_id, name = visit.one("dataset") or next(iter(datasets), ""), visit.one("name")
    infos = visit.service.list_documents(dataset_id) if dataset_id else []
    again = [each for each in infos if each.version > 1]
    made: dict[str, object] = {
        "datasets": datasets,
        "dataset_id": dataset_id,
        "name": name,
        "recent": sorted(again, key=lambda e: (e.updated_at, e.name), reverse=True)[:_RECENT],
        "found": None,
        "why": "",
    }
    if not name:
        return made
    old, new = (visit.number(each, 0) or None for each in ("old", "new"))
    try:
        found = version_impact(visit.service, dataset_id, name, old, new)
    except (NotAvailableError, NotFoundError) as error:
        return made | {"why": str(error)}
    return made | {"found": found}
