"""Which datasets there are on all servers together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from triptych_backends.postgres import PostgresStore
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.shards.ownership import Mark, read_marks
from triptych_backends.shards.routing import Router
from triptych_backends.shards.server import Server

__all__ = ["ServerList", "list_server", "owned_datasets", "visible_datasets"]

_LIVE = "SELECT name FROM dataset WHERE live"
_IS_LIVE = "SELECT live FROM dataset WHERE name = %s"


@attrs.frozen
class ServerList:
    """What one server has, as of one moment: datasets that are there, and the marks."""

    name: str
    live: frozenset[str]
    marks: Mapping[str, Mark]


def list_server(server: Server) -> ServerList:
    """The datasets and the marks of one server, as of one moment."""
    with server.database.snapshot() as session:
        return _list(session, server.name)


def _list(session: PostgresSession, name: str) -> ServerList:
    live = frozenset(row[0] for row in session.text(_LIVE))
    return ServerList(name, live, read_marks(session))


def owned_datasets(
    found: Sequence[ServerList],
) -> tuple[Mapping[str, frozenset[str]], frozenset[str]]:
    """The datasets that each server has, and those of which the lists do not tell.

    The lists are of different moments. A dataset that one server says has left for another, whose
    list is older than that, is in none.
    """
    gone = {
        (dataset_id, mark.move)
        for each in found
        for dataset_id, mark in each.marks.items()
        if mark.state == "left"
    }
    owned: dict[str, frozenset[str]] = {}
    seen: set[tuple[str, str]] = set()
    for each in found:
        here = set(each.live)
        for dataset_id, mark in each.marks.items():
            if mark.state == "left" or (
                mark.state == "arriving" and (dataset_id, mark.move) not in gone
            ):
                here.discard(dataset_id)
            else:
                seen.add((dataset_id, mark.brought_by))
        owned[each.name] = frozenset(here)
    there = frozenset().union(*owned.values())
    # A later move took it on from there: what is known of that move decides.
    passed = {dataset_id for dataset_id, _ in seen}
    unclear = {dataset_id for dataset_id, _ in gone if dataset_id not in passed | there}
    return owned, frozenset(unclear)


def visible_datasets(router: Router) -> Sequence[str]:
    """Every dataset that is on some server, ordered."""
    owned, unclear = owned_datasets(router.on_every_server(list_server))
    there = set().union(*owned.values())
    for dataset_id in unclear:
        router.forget(dataset_id)
        if router.run(dataset_id, partial(_is_live, dataset_id=dataset_id)):
            there.add(dataset_id)
    return sorted(there)


def _is_live(store: PostgresStore, dataset_id: str) -> bool:
    with store.database.reading() as session:
        rows = session.text(_IS_LIVE, (dataset_id,))
    return bool(rows and rows[0][0])
