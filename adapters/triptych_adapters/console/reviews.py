"""What agents propose: shown with what it changes, and approved or refused."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from triptych.access.proposals import (
    Proposal,
    Proposals,
    changes_of,
    check_reviewer,
    unrestricted,
)
from triptych.errors import NotAvailableError, TriptychError, ValidationError
from triptych.records import Hit
from triptych.search.question_log import unlogged
from triptych.service import Service
from triptych_adapters.console.documents import diff_lines
from triptych_adapters.console.site import Made, see_other
from triptych_adapters.console.visit import KEY_COOKIE, Visit, cookie_of, may
from triptych_adapters.keys import KeyAuthenticator

_SHOWN: Final = 10
_LINES: Final = 2_000
_WIDTH: Final = 4_000  # code points of a line that are shown
_QUERY: Final = 500  # code points of what is searched elsewhere
_ELSEWHERE: Final = 3


def reviews(visit: Visit) -> Made:
    """The datasets with what waits in each, and the proposals of one: its oldest, with diffs."""
    made: dict[str, Any] = {"datasets": [], "dataset_id": visit.one("dataset"), "why": ""}
    try:
        kept = Proposals.of(visit.server.service)
    except NotAvailableError as error:
        return made | {"why": str(error)}
    reviewed, found = kept.reviewed(), _waiting(visit, kept)
    made["datasets"] = [(name, name in reviewed, len(each)) for name, each in found.items()]
    if not made["dataset_id"]:
        made["dataset_id"] = next((name for name, waits in found.items() if waits), "")
    elif made["dataset_id"] not in found:
        made["dataset_id"] = ""
    mine = found.get(made["dataset_id"], [])
    lines = None if visit.one("all") else _LINES
    return made | {
        "waiting": [_shown(visit.service, each, lines) for each in mine[:_SHOWN]],
        "more": len(mine[_SHOWN:]),
        "decided": kept.decided(made["dataset_id"]),
        "decides": visit.can_write and may(check_reviewer, visit.own, made["dataset_id"]),
        "switches": visit.can_write and may(visit.server.check_sees_all, visit.own, ""),
    }


def _waiting(visit: Visit, kept: Proposals) -> dict[str, list[Proposal]]:
    """What waits in each dataset that the visitor sees the whole of, the oldest first."""
    every = kept.list()
    names = {*visit.service.list_datasets(), *kept.reviewed(), *(p.dataset_id for p in every)}
    accesses = unrestricted(visit.service)[1]
    return {
        name: [p for p in every if p.dataset_id == name and p.state == "pending"]
        for name in sorted(names)
        if all(each.is_whole(name) for each in accesses)
    }


def waiting_in(visit: Visit) -> dict[str, int]:
    """How many proposals wait in each dataset that has some."""
    try:
        found = _waiting(visit, Proposals.of(visit.server.service))
    except NotAvailableError:
        return {}
    return {name: len(each) for name, each in found.items() if each}


def _shown(service: Service, proposal: Proposal, most: int | None) -> dict[str, Any]:
    """A proposal with its difference from what is stored now, and what other documents say."""
    version, changes = changes_of(service, proposal)
    lines = diff_lines(changes)
    kind = "removed" if proposal.document is None else "added"
    changed = [line[1:] for each, line in lines if each == kind and line[1:3] not in ("++", "--")]
    return {
        "proposal": proposal,
        "lines": [(each, line[:_WIDTH]) for each, line in lines[:most]],
        "cut": len(lines) - len(lines[:most]),
        "version": version,
        "elsewhere": _elsewhere(service, proposal, " ".join(changed)[:_QUERY]),
    }


def _elsewhere(service: Service, proposal: Proposal, text: str) -> list[Hit]:
    """The best passages of other documents for the lines that change."""
    if not text.strip():
        return []
    where, place = {"$name": {"$ne": proposal.name}}, proposal.dataset_id
    try:
        with unlogged():
            found = service.search(
                text, dataset_id=place, top_k=_ELSEWHERE, where=where, per_document=1
            )
    except TriptychError:  # the dataset is new, say
        return []
    return list(found.hits)


def decide(visit: Visit) -> Made:
    """Approve or refuse a proposal; or let a dataset be reviewed, or no longer."""
    kept, dataset_id, do = Proposals.of(visit.server.service), visit.one("dataset"), visit.one("do")
    if do in ("on", "off"):
        visit.server.check_sees_all(visit.own, "reviews of a dataset are switched")
        kept.set_reviewed(dataset_id, do == "on")
    elif do in ("approve", "refuse"):
        act = kept.approve if do == "approve" else kept.refuse
        act(visit.service, dataset_id, visit.one("id"), _who(visit))
    else:
        raise ValidationError(f"there is no action {do!r:.60}")
    return see_other(visit.request, f"/console/reviews?dataset={quote(dataset_id)}&done={do}")


def _who(visit: Visit) -> str:
    """The key that decides, in words."""
    keys = visit.server.authenticate
    if not isinstance(keys, KeyAuthenticator):
        return "the console"
    cookie = f"Bearer {cookie_of(visit.request, KEY_COOKIE)}"
    return keys.key(visit.request.headers.get("authorization", cookie)).who
