"""The map in the first server: its servers by name, and on which of them each dataset is placed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from triptych.errors import ConflictError, ValidationError
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.sql.errors import corrupt

__all__ = ["FIRST", "PlacementMap", "check_server_name"]

FIRST: Final = "first"
"""The name of the server that the store's URL names, which keeps the map."""

_SERVERS = "shards"
_PLACE = "shard-at:"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_GET = "SELECT value FROM meta WHERE key = %s"
_PLACES = "SELECT key, value FROM meta WHERE starts_with(key, 'shard-at:')"
_COUNTS = "SELECT value, count(*) FROM meta WHERE starts_with(key, 'shard-at:') GROUP BY value"
_KNOWN = "SELECT 1 FROM dataset WHERE name = %s"
_PUT = (
    "INSERT INTO meta (key, value) VALUES (%s, %s) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)


def check_server_name(name: str) -> str:
    """``name``, if a server may have it.

    Raises:
        ValidationError: it may not.
    """
    if not _NAME.fullmatch(name):
        raise ValidationError(
            f"{name!r} cannot name a server: give up to 63 letters, digits, '.', '_' and '-'"
        )
    return name


class PlacementMap:
    """The map, in the table ``meta`` of the first server. Each change is one transaction there.

    What it says of a dataset that moves may be old: see `triptych_backends.shards.ownership`.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    def servers(self) -> Mapping[str, str]:
        """The URL of each server by its name; "" for the first."""
        with self._database.reading() as session:
            return self._servers(session)

    def add_server(self, name: str, url: str) -> None:
        """Note a server.

        Raises:
            ConflictError: there is a server of this name with another URL.
        """
        with self._database.writing() as tx:
            servers = dict(self._servers(tx.session))
            servers.setdefault(FIRST, "")
            if servers.get(name, url) != url:
                raise ConflictError(
                    f"there is a server {name!r} with another URL: name it otherwise"
                )
            servers[name] = url
            tx.session.text(_PUT, (_SERVERS, json.dumps(servers)))

    def change_url(self, name: str, url: str) -> None:
        """Note that a server is reached by another URL, such as that of its promoted replica."""
        with self._database.writing() as tx:
            servers = {**self._servers(tx.session), name: url}
            tx.session.text(_PUT, (_SERVERS, json.dumps(servers)))

    def place_of(self, dataset_id: str) -> str | None:
        """The name of the server that the dataset is placed on; None before it has a place."""
        with self._database.reading() as session:
            return _place_of(session, dataset_id)

    def places(self) -> Mapping[str, str]:
        """The server of each dataset that has a place."""
        with self._database.reading() as session:
            return {key[len(_PLACE) :]: value for key, value in session.text(_PLACES)}

    def place(self, dataset_id: str, server: str | None = None) -> str:
        """Give a dataset a place, unless it has one; where it is.

        Without ``server`` it is the server with the fewest datasets. What the first server has
        already stays there.
        """
        with self._database.writing() as tx:
            found = _place_of(tx.session, dataset_id)
            if found is not None:
                return found
            if tx.session.text(_KNOWN, (dataset_id,)):
                server = FIRST
            elif server is None:
                counts = Counter(dict(tx.session.text(_COUNTS)))
                server = min(self._servers(tx.session), key=lambda name: (counts[name], name))
            tx.session.text(_PUT, (_PLACE + dataset_id, server))
            return server

    def note(self, dataset_id: str, server: str) -> None:
        """Note where a dataset is now."""
        with self._database.writing() as tx:
            if _place_of(tx.session, dataset_id) != server:
                tx.session.text(_PUT, (_PLACE + dataset_id, server))

    def _servers(self, session: PostgresSession) -> Mapping[str, str]:
        rows = session.text(_GET, (_SERVERS,))
        if not rows:
            return {FIRST: ""}
        try:
            return {str(name): str(url) for name, url in json.loads(rows[0][0]).items()}
        except (AttributeError, ValueError) as error:
            raise corrupt(self._database.where, f"the list of its servers: {error}") from error


def _place_of(session: PostgresSession, dataset_id: str) -> str | None:
    rows = session.text(_GET, (_PLACE + dataset_id,))
    return str(rows[0][0]) if rows else None
