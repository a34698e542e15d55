"""The keys of a server: listed, made and revoked; and the console as one of them sees it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.responses import Response

from triptych.errors import NotFoundError, ValidationError
from triptych.records import check_text
from triptych_adapters.wire import strict_json
from triptych_server.console.site import Made, html, render, see_other, set_cookie
from triptych_server.console.visit import AS_COOKIE, Visit
from triptych_server.keys import KeyStore

_MOST_DAYS = 3_650


def _store(visit: Visit) -> KeyStore:
    """The keys, for whoever may see everything.

    Raises:
        AccessDeniedError: the key is restricted.
        NotAvailableError: the store keeps no keys.
    """
    visit.server.check_sees_all(visit.service, "keys are")
    return KeyStore.of(visit.server.service)


def keys(visit: Visit) -> dict[str, Any]:
    """All keys, valid or not."""
    now = datetime.now(UTC)
    return {
        "keys": [(each, each.state(now)) for each in _store(visit).list()],
        "asked_for": visit.server.authenticate is not None,
        "datasets": list(visit.service.list_datasets()),
        "token": "",
    }


def change_keys(visit: Visit) -> Made:
    """Make a key, which is shown once, or revoke one."""
    store = _store(visit)
    match visit.one("do"):
        case "add":
            days = visit.number("days", 0, most=_MOST_DAYS)
            made = store.add(
                check_text(visit.one("name"), "a key's name"),
                dataset_ids=visit.several("dataset") or None,
                can_write=bool(visit.one("write")),
                agent=bool(visit.one("agent")),
                where=_where(visit.one("where")),
                expires_at=datetime.now(UTC) + timedelta(days=days) if days else None,
            )
            return html(render("keys", visit, **keys(visit) | {"token": made.token}))
        case "revoke":
            store.revoke(visit.one("id"))
        case unknown:
            raise ValidationError(f"there is no action {unknown!r:.60}")
    return see_other(visit.request, "/console/keys?done=revoked")


def _where(text: str) -> dict[str, Any] | None:
    """Conditions ``KEY=VALUE``, one a line, or as JSON."""
    if text.startswith("{"):
        try:
            return dict(strict_json(text))
        except (ValueError, RecursionError) as error:
            raise ValidationError(f"these conditions are no JSON object: {error}") from None
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals or key.strip()[-1:] in ("", "<", ">", "!"):
            raise ValidationError(
                f"a condition is KEY=VALUE, not {line!r:.60}: write a comparison as JSON, such as "
                '{"year": {"$gte": 2024}}'
            )
        found.setdefault(key.strip(), []).append(value.strip())
    return found or None


def see_as(visit: Visit) -> Response:
    """Show the console as a key sees it, or as oneself again."""
    key_id = visit.one("id")
    if key_id:
        visit.server.check_sees_all(visit.own, "seeing as a key is")
        if KeyStore.of(visit.server.service).get(key_id) is None:
            raise NotFoundError(f"there is no key {key_id!r:.60}")
    response = see_other(visit.request, "/")
    set_cookie(response, visit.request, AS_COOKIE, key_id or None)
    return response
