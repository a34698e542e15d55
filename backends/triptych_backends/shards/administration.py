"""The servers of a store, as whoever runs it sees and changes them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from triptych._internal.progress import ProgressCallback
from triptych._internal.redaction import shown_url
from triptych.errors import ConflictError, StoreError
from triptych.records import check_identifier
from triptych_backends.postgres.database import PostgresDatabase
from triptych_backends.postgres.location import parse_url
from triptych_backends.shards.listing import ServerList, list_server, owned_datasets
from triptych_backends.shards.move import MoveReport, move_dataset
from triptych_backends.shards.placement import FIRST, check_server_name
from triptych_backends.shards.routing import Router
from triptych_backends.shards.server import Server, own_url

__all__ = ["ServerInfo", "ShardedAdministration"]

_ID: Final = "shard-id"
"""In the first server: what the store is called by its other servers."""
_MEMBER: Final = "shard-of"
"""In each other server: the store that it belongs to, and its name there."""
_SERVERS: Final = "shards"
_GET = "SELECT value FROM meta WHERE key = %s"
_PUT = "INSERT INTO meta (key, value) VALUES (%s, %s) ON CONFLICT (key) DO NOTHING"


@attrs.frozen(kw_only=True)
class ServerInfo:
    """One server of a store.

    Attributes:
        name: its name.
        url: where it is, without a password.
        datasets: what it has; None where it cannot be reached.
        incoming: datasets that are being copied to it.
        error: why it cannot be reached, "" if it can be.
    """

    name: str
    url: str
    datasets: tuple[str, ...] | None = None
    incoming: tuple[str, ...] = ()
    error: str = ""


class ShardedAdministration:
    """What changes the servers of a store over a `Router`, for the store to inherit."""

    router: Router

    def servers(self) -> Sequence[ServerInfo]:
        """Every server, the first one first, and what it has. One that is away says why."""
        servers = self.router.servers()
        lists, errors = [], {}
        for name, server in servers.items():
            try:
                with server.named():
                    lists.append(list_server(server))
            except StoreError as error:
                errors[name] = str(error)
        owned, _ = owned_datasets(lists)
        incoming = {each.name: _incoming(each, owned) for each in lists}
        return [
            ServerInfo(
                name=name,
                url=shown_url(servers[name].url),
                datasets=tuple(sorted(owned[name])) if name in owned else None,
                incoming=incoming.get(name, ()),
                error=errors.get(name, ""),
            )
            for name in sorted(servers, key=lambda name: (name != FIRST, name))
        ]

    def add_server(self, name: str, url: str) -> ServerInfo:
        """Let the store have another server; datasets that are there already join the store.

        New datasets go to the server with the fewest. ``url`` is kept in the first server; without
        a user, that of the first server's URL is meant, with its password. Idempotent.

        Raises:
            ValidationError: the name or the URL is invalid.
            ConflictError: the name is taken; or the server belongs to a store already, or has a
                dataset whose id the store has on another server.
            StoreError: the server cannot be reached.
        """
        check_server_name(name)
        whole = own_url(url, self.router.first.url)
        parse_url(whole)
        if self.router.map.servers().get(name, url) != url:
            raise ConflictError(
                f"there is a server {name!r} with another URL: name this otherwise, or change that"
            ).hinted(f"`triptych shards change {name} URL`")
        store_id = _made(self.router.first.database, _ID, secrets.token_hex(8))
        server = Server(name, whole, self.router.options)
        try:
            with server.named():
                present = self._join(server, f"{store_id} {name}", url)
        finally:
            server.close()
        self.router.map.add_server(name, url)
        for dataset_id in present:
            self.router.map.place(dataset_id, name)
        return next(each for each in self.servers() if each.name == name)

    def _join(self, server: Server, member: str, url: str) -> Sequence[str]:
        """Let the server be of this store; the datasets that come with it."""
        database = server.database
        if _kept(database, _SERVERS) or _kept(database, _MEMBER) not in (None, member):
            raise ConflictError(
                f"the server at {shown_url(url)} belongs to a store already: give another "
                "database, or another schema in the URL"
            ).hinted("`triptych shards list` shows the servers of this store")
        found = list_server(server)
        present = sorted(found.live - found.marks.keys())
        places = {**dict.fromkeys(self.router.first.store.documents.list_datasets(), FIRST)}
        places |= self.router.map.places()
        for dataset_id in present:
            place = places.get(dataset_id, server.name)
            if place != server.name:
                raise ConflictError(
                    f"the server {server.name!r} has a dataset {dataset_id!r}, which this store "
                    f"has on the server {place!r}: delete one of them first"
                )
        if _made(database, _MEMBER, member) != member:
            raise ConflictError(f"the server at {shown_url(url)} is being added to another store")
        return present

    def change_server(self, name: str, url: str) -> None:
        """Let a server be reached at ``url`` from now on, such as its promoted replica.

        Processes that have the store open learn of it when they next read the list of servers,
        which they do when the server is away.

        Raises:
            NotFoundError: there is no such server.
            ConflictError: it is the first, which the store's own URL names; or what is at ``url``
                is not this server.
            StoreError: the server at ``url`` cannot be reached, or has no store.
        """
        self.router.server(name)
        if name == FIRST:
            raise ConflictError(
                "the first server is where the store's URL says: change that URL"
            ).hinted("`triptych status` shows the URL, and where it is set")
        whole = own_url(url, self.router.first.url)
        parse_url(whole)
        self._check_is(name, whole)
        self.router.map.change_url(name, url)
        self.router.renew_servers()

    def _check_is(self, name: str, url: str) -> None:
        """Two names for one server would let a move delete the only copy of a dataset."""
        store_id = _kept(self.router.first.database, _ID)
        options = attrs.evolve(self.router.options, read_only=True, create=False)
        server = Server(name, url, options)
        try:
            with server.named():
                member = _kept(server.database, _MEMBER)
                is_first = _kept(server.database, _SERVERS) is not None
        finally:
            server.close()
        if is_first or member != (None if store_id is None else f"{store_id} {name}"):
            raise ConflictError(
                f"what is at {shown_url(url)} is not the server {name!r} of this store: give the "
                "URL of that server, of its promoted replica, or of a restored backup of it"
            ).hinted("`triptych shards list` shows where the servers are")

    def place_dataset(self, dataset_id: str, server: str) -> None:
        """Let a dataset that does not exist yet be made on ``server``.

        Raises:
            NotFoundError: there is no such server.
            ConflictError: the dataset has a place already.
        """
        check_identifier(dataset_id, "dataset_id")
        self.router.server(server)
        found = self.router.map.place(dataset_id, server)
        if found != server:
            raise ConflictError(
                f"dataset {dataset_id!r} is on the server {found!r} already: move it"
            ).hinted(f"`triptych shards move {dataset_id} {server}`")

    def move_dataset(
        self, dataset_id: str, server: str, *, progress: ProgressCallback | None = None
    ) -> MoveReport:
        """Move a dataset while it is used: see `triptych_backends.shards.move`."""
        return move_dataset(self.router, dataset_id, server, progress=progress)


def _incoming(each: ServerList, owned: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    return tuple(
        sorted(
            name
            for name, mark in each.marks.items()
            if mark.state == "arriving" and name not in owned[each.name]
        )
    )


def _made(database: PostgresDatabase, key: str, value: str) -> str:
    """The value of ``key``, which is ``value`` if there was none."""
    with database.writing() as tx:
        tx.session.text(_PUT, (key, value))
        return str(tx.session.text(_GET, (key,))[0][0])


def _kept(database: PostgresDatabase, key: str) -> str | None:
    with database.reading() as session:
        rows = session.text(_GET, (key,))
    return str(rows[0][0]) if rows else None
