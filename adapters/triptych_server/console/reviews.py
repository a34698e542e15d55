"""What agents propose: shown with what it changes, and approved or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from triptych.access.proposals import Proposal
from triptych.errors import NotAvailableError, TriptychError, ValidationError
from triptych.proposals import (
    Proposals,
    changes_of,
    decides,
    sees,
    signs_of,
    unrestricted,
)
from triptych.question_log import unlogged
from triptych.records import Hit
from triptych.service import KnowledgeBase
from triptych.text import diff_lines
from triptych_server.console.site import Made, see_other
from triptych_server.console.visit import KEY_COOKIE, Visit, cookie_of, may
from triptych_server.keys import KeyAuthenticator

_SHOWN: Final = 10
_DRAWN: Final = 200_000  # code points of differences on a page; what has no room has its own page
_QUERY: Final = 500  # code points of what is searched elsewhere
_ELSEWHERE: Final = 3


def reviews(visit: Visit) -> Made:
    """The datasets with what waits in each, and a page of the proposals of one with their diffs; or
    one proposal, of whatever size."""
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
    mine, one = found.get(made["dataset_id"], []), visit.one("id")
    last = max(-(-len(mine) // _SHOWN), 1)
    page = min(visit.number("page", 1, least=1), last)
    shown = mine[(page - 1) * _SHOWN : page * _SHOWN]
    if one:
        shown, page = [each for each in mine if each.id == one], 1
    return made | {
        "waiting": list(_shown(visit.service, shown, whole=bool(one))),
        "one": one,
        "page": page,
        "last": 1 if one else last,
        "makers": Counter(each.made_by for each in mine),
        "decided": [p for p in kept.decided(made["dataset_id"]) if sees(visit.service, p)],
        "decides": visit.can_write and decides(visit.own, made["dataset_id"]),
        "switches": visit.can_write and may(visit.server.check_sees_all, visit.own, ""),
    }


def _waiting(visit: Visit, kept: Proposals) -> dict[str, list[Proposal]]:
    """What the visitor sees waiting in each dataset that it sees the whole of, or has some in; the
    oldest first."""
    names = sorted({*visit.service.list_datasets(), *kept.reviewed()})
    accesses = unrestricted(visit.service)[1]
    found: dict[str, list[Proposal]] = {
        name: [] for name in names if all(each.is_whole(name) for each in accesses)
    }
    for each in kept.list():
        if each.state == "pending" and sees(visit.service, each):
            found.setdefault(each.dataset_id, []).append(each)
    return found


def waiting_in(visit: Visit) -> dict[str, int]:
    """How many proposals wait in each dataset that has some."""
    try:
        found = _waiting(visit, Proposals.of(visit.server.service))
    except NotAvailableError:
        return {}
    return {name: len(each) for name, each in found.items() if each}


def _shown(
    service: KnowledgeBase, found: Sequence[Proposal], *, whole: bool
) -> Iterator[dict[str, Any]]:
    """Proposals with their differences from what is stored now, and what other documents say.

    Each is shown whole, or not at all where the page has no room.
    """
    left = _DRAWN
    for each in found:
        version, changes = changes_of(service, each) if left > 0 else (0, "")
        left -= len(changes)
        if left <= 0 and not whole:
            yield {"proposal": each, "left_out": True}  # to be shown by itself
            continue
        lines = list(diff_lines(changes))
        kind = "removed" if each.document is None else "added"
        changed = " ".join(line[1:] for of, line in lines if of == kind)
        yield {
            "proposal": each,
            "left_out": False,
            "lines": lines,
            "signs": signs_of(each),
            "version": version,
            "elsewhere": _elsewhere(service, each, changed[:_QUERY]),
        }


def _elsewhere(service: KnowledgeBase, proposal: Proposal, text: str) -> list[Hit]:
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
    elif do == "approve":
        kept.approve(visit.service, dataset_id, visit.one("id"), _who(visit))
    elif do == "refuse":
        kept.refuse(visit.service, dataset_id, visit.one("id"), _who(visit))
    elif do == "refuse-all":
        for each in kept.list(dataset_id, waiting_of=visit.one("made_by")):
            kept.refuse(visit.service, dataset_id, each.id, _who(visit))
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
