"""What agents propose: shown with what it changes, and approved or refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup

from triptych.access.proposals import Proposal
from triptych.errors import (
    ConflictError,
    NotAvailableError,
    NotFoundError,
    TriptychError,
    ValidationError,
)
from triptych.proposals import (
    Proposals,
    changes_of,
    decides,
    is_synced,
    missing_sources,
    sees,
    signs_of,
    unrestricted,
)
from triptych.question_log import unlogged
from triptych.records import Hit
from triptych.service import KnowledgeBase
from triptych.text import diff_lines
from triptych_server.console.line_sources import line_sources
from triptych_server.console.site import Made, see_other
from triptych_server.console.visit import KEY_COOKIE, Visit, cookie_of, may
from triptych_server.keys import KeyAuthenticator

_SHOWN: Final = 10
_DRAWN: Final = 200_000  # code points of differences on a page; what has no room has its own page
_LARGE: Final = _DRAWN // _SHOWN  # code points of one of several
_QUERY: Final = 500  # code points of what is searched elsewhere
_ELSEWHERE: Final = 3
_SOURCES: Final = "In its sources"
_COMPARED: Final = 1_000  # code points of two lines that are compared word by word
_LOOKED_UP: Final = 20  # new lines of a page that are looked up in their sources, up to 40 ms each
_PAIRS: Final = 20  # pairs of lines of a proposal that are, as a hostile pair takes 50 ms


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
    left, room = _DRAWN, _LOOKED_UP
    for each in found:
        version, changes = changes_of(service, each) if left > 0 else (0, "")
        left -= len(changes)
        if (left <= 0 or len(changes) > _LARGE) and not whole:
            yield {"proposal": each, "left_out": True}  # to be shown by itself
            continue
        lines = list(diff_lines(changes))
        kind = "removed" if each.document is None else "added"
        changed = [line[1:] for of, line in lines if of == kind]
        said = _said(service, each, " ".join(changed)[:_QUERY])
        sources = line_sources(service, each, changed, room)
        room -= len(changed)
        placed = {one.place.doc_name for found in sources.values() for one in found}
        named = said.get(_SOURCES, ())
        said |= {_SOURCES: [hit for hit in named if hit.doc_name not in placed]}
        yield {
            "proposal": each,
            "left_out": False,
            "rows": list(side_by_side(lines)),
            "signs": signs_of(each),
            "synced": is_synced(service, each),
            "missing": missing_sources(service, each),
            "version": version,
            "said": said,
            "sources": [sources.get(line, ()) for line in changed],
        }


def side_by_side(lines: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str | None, str | None]]:
    """The lines of a difference as rows: what is removed beside what is added; any other line
    once, with its kind."""
    removed: list[str] = []
    added: list[str] = []
    pairs = 0
    for kind, line in (*lines, ("", "")):
        if kind == "removed" and not added:
            removed.append(line)
        elif kind == "added":
            added.append(line)
        else:
            for left, right in zip_longest(removed, added):
                pairs += left is not None and right is not None
                marks = marked_words if pairs <= _PAIRS else lambda *lines: lines
                yield "changed", *marks(left, right)
            removed, added = [line] if kind == "removed" else [], []
            if kind not in ("", "removed"):
                yield kind, line, None


def marked_words(left: str | None, right: str | None) -> tuple[str | None, str | None]:
    """Two lines, the words in which they differ marked as HTML."""
    if left is None or right is None or len(left) + len(right) > _COMPARED:
        return left, right
    old, new = (re.findall(r"\w+|\W", each) for each in (left[1:], right[1:]))
    parts: tuple[list[str], list[str]] = ([left[:1]], [right[:1]])
    for kind, *places in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        ends = zip(parts, (old, new), (places[:2], places[2:]), ("del", "ins"), strict=True)
        for side, words, (start, end), tag in ends:
            text = Markup.escape("".join(words[start:end]))
            side.append(text if kind == "equal" or not text else Markup(f"<{tag}>{text}</{tag}>"))
    return Markup("").join(parts[0]), Markup("").join(parts[1])


def _said(service: KnowledgeBase, proposal: Proposal, text: str) -> dict[str, Sequence[Hit]]:
    """The best passages for the lines that change: of the sources that are named, and of other
    documents."""
    named = sorted({*proposal.sources} - {proposal.name})
    places = {
        _SOURCES: {"$name": {"$in": named}},
        "What is said elsewhere": {"$name": {"$nin": [proposal.name, *named]}},
    }
    found: dict[str, Sequence[Hit]] = {}
    for title, where in places.items() if text.strip() else ():
        with suppress(TriptychError), unlogged():  # the dataset may be new
            options: Any = {"top_k": _ELSEWHERE, "where": where, "per_document": 1}
            found[title] = service.search(text, dataset_id=proposal.dataset_id, **options).hits
    return found


def decide(visit: Visit) -> Made:
    """Approve or refuse proposals; or let a dataset be reviewed, or no longer.

    Of several, those that cannot be decided on are counted, and stay.
    """
    kept, dataset_id, do = Proposals.of(visit.server.service), visit.one("dataset"), visit.one("do")
    failed = 0
    if do in ("on", "off"):
        visit.server.check_sees_all(visit.own, "reviews of a dataset are switched")
        kept.set_reviewed(dataset_id, do == "on")
    elif do in ("approve", "refuse"):
        ids = visit.several("id") or [""]
        for id in ids:
            try:
                getattr(kept, do)(visit.service, dataset_id, id, _who(visit))
            except (ConflictError, NotFoundError):
                if len(ids) == 1:
                    raise
                failed += 1
    elif do == "refuse-all":
        for each in kept.list(dataset_id, waiting_of=visit.one("made_by")):
            kept.refuse(visit.service, dataset_id, each.id, _who(visit))
    else:
        raise ValidationError(f"there is no action {do!r:.60}")
    return see_other(
        visit.request, f"/console/reviews?dataset={quote(dataset_id)}&done={do}&failed={failed}"
    )


def _who(visit: Visit) -> str:
    """The key that decides, in words."""
    keys = visit.server.authenticate
    if not isinstance(keys, KeyAuthenticator):
        return "the console"
    cookie = f"Bearer {cookie_of(visit.request, KEY_COOKIE)}"
    return keys.key(visit.request.headers.get("authorization", cookie)).who
