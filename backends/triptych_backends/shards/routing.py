"""From a dataset to the server that has it, however it moves meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from triptych import deadlines
from triptych._internal.concurrency import map_ordered
from triptych.errors import NotFoundError, StoreError, StoreLockedError
from triptych_backends.postgres import PostgresStore
from triptych_backends.shards.ownership import (
    BusyError,
    ElsewhereError,
    Expected,
    Mark,
    read_marks,
)
from triptych_backends.shards.placement import FIRST, PlacementMap
from triptych_backends.shards.server import OpenOptions, Server, ServerAwayError, own_url

__all__ = ["Part", "Place", "Router"]

T = TypeVar("T")

_PAUSE: Final = 0.02
_HOPS: Final = 100
_ATTEMPTS: Final = 50


@attrs.frozen
class Place:
    """Where a dataset is, and what is to be expected of it there."""

    server: Server
    expected: Expected = attrs.field(factory=Expected)


@attrs.frozen
class Part:
    """Those of several datasets that are on one server."""

    server: Server
    expected: Mapping[str, Expected]

    @property
    def dataset_ids(self) -> tuple[str, ...]:
        """The datasets, in the order in which they were given."""
        return tuple(self.expected)


class Router:
    """Runs what concerns a dataset on the server that has it. Thread-safe, and fork-safe.

    Places are remembered. One that is wrong by now is found out by the server's own mark, within
    the transaction, and looked up again; so what is run may run several times, but only the last
    time has an effect.
    """

    def __init__(self, url: str, options: OpenOptions) -> None:
        self.options = options
        self.first = Server(FIRST, url, options)
        with self.first.named():
            self.map = PlacementMap(self.first.database)
        self._servers: dict[str, Server] = {FIRST: self.first}
        self._places: dict[str, Place] = {}
        self._lock = threading.Lock()
        try:
            self.renew_servers()
        except BaseException:
            self.first.close()
            raise

    def run(self, dataset_id: str, do: Callable[[PostgresStore], T], *, places: bool = False) -> T:
        """``do`` with the store that has the dataset; ``places`` gives it a place if need be.

        Raises:
            StoreLockedError: the dataset was about to move for longer than a write waits.
            ServerAwayError: its server cannot be reached.
        """
        return self._patiently(lambda: self._run(dataset_id, do, places=places))

    def _run(self, dataset_id: str, do: Callable[[PostgresStore], T], *, places: bool) -> T:
        place = self.place(dataset_id, places=places)
        try:
            with place.server.expecting({dataset_id: place.expected}) as store:
                return do(store)
        except ServerAwayError:
            self._look_elsewhere(dataset_id, place)
            raise

    def run_all(
        self, dataset_ids: Iterable[str], do: Callable[[Part, PostgresStore], T]
    ) -> list[T]:
        """``do`` for each server that has some of the datasets, beside each other.

        A dataset that has no place is not asked for. Raises as `run`.
        """
        datasets = list(dict.fromkeys(dataset_ids))
        return self._patiently(lambda: self._run_all(datasets, do))

    def _run_all(self, datasets: Sequence[str], do: Callable[[Part, PostgresStore], T]) -> list[T]:
        def run_part(part: Part) -> T:
            with part.server.expecting(part.expected) as store:
                return do(part, store)

        parts = self.parts(datasets)
        try:
            return list(map_ordered(run_part, parts, max(len(parts), 1)))
        except ServerAwayError as error:
            for part in parts:
                if part.server.name == error.server:
                    for dataset_id, expected in part.expected.items():
                        self._look_elsewhere(dataset_id, Place(part.server, expected))
            raise

    def on_every_server(self, do: Callable[[Server], T]) -> list[T]:
        """``do`` for every server, in the order of their names, beside each other."""
        self.renew_servers()
        servers = [self._servers[name] for name in sorted(self._servers)]

        def run_one(server: Server) -> T:
            with server.named():
                return do(server)

        return list(map_ordered(run_one, servers, len(servers)))

    def _patiently(self, run: Callable[[], T]) -> T:
        attempts, until = 0, 0.0
        while True:
            try:
                return run()
            except ElsewhereError as error:
                self.forget(error.dataset_id)
                attempts += 1
                if attempts > _ATTEMPTS:
                    raise StoreError(
                        f"dataset {error.dataset_id!r} was on another server each time it was "
                        "looked for: try again"
                    ) from error
            except BusyError as error:
                now = time.monotonic()
                until = until or now + max(self.options.lock_timeout, 0.0)
                if now >= until:
                    raise StoreLockedError(
                        f"dataset {error.dataset_id!r} is being moved to the server "
                        f"{error.peer!r}, for longer than a write waits: try again, or give a "
                        "longer lock_timeout"
                    ) from error
                deadlines.check("waiting for a dataset that moves")
                time.sleep(_PAUSE)
                self.forget(error.dataset_id)

    def parts(self, dataset_ids: Iterable[str]) -> list[Part]:
        """The datasets by server; those without a place are on the first, if anywhere."""
        found: dict[str, dict[str, Expected]] = {}
        datasets = list(dict.fromkeys(dataset_ids))
        if sum(each not in self._places for each in datasets) > 1:
            self._recall(datasets)
        for dataset_id in datasets:
            place = self.place(dataset_id)
            found.setdefault(place.server.name, {})[dataset_id] = place.expected
        return [Part(self.server(name), expected) for name, expected in found.items()]

    def _recall(self, datasets: Iterable[str]) -> None:
        """Remember many places by one read of the map."""
        places = self.map.places()
        for dataset_id in datasets:
            name = places.get(dataset_id)
            if name is not None and dataset_id not in self._places:
                self._places[dataset_id] = Place(self.server(name))

    def place(self, dataset_id: str, *, places: bool = False) -> Place:
        """Where the dataset is, as far as is known; one without a place is on the first server.

        ``places`` gives it one.
        """
        found = self._places.get(dataset_id)
        if found is not None:
            return found
        with self.first.named():
            name = self.map.place_of(dataset_id)
            if name is None and places:
                name = self.map.place(dataset_id)
        if name is None:
            return Place(self.first)
        found = self._resolve(dataset_id, self.server(name))
        self._places[dataset_id] = found
        return found

    def _resolve(self, dataset_id: str, server: Server) -> Place:
        """Follow the marks from ``server`` to where the dataset is."""
        left = None
        for _ in range(_HOPS):
            mark = self.mark(server, dataset_id)
            if mark.state == "left":
                left = mark
            elif mark.state != "arriving":
                return Place(server, Expected(mark.brought_by))
            elif left is not None and left.move == mark.move:
                return Place(server, Expected(mark.move, arrived=True))
            else:
                left = None
            server = self.server(mark.peer)
        raise StoreError(
            f"it cannot be found out on which server dataset {dataset_id!r} is: the servers name "
            "each other"
        )

    def mark(self, server: Server, dataset_id: str) -> Mark:
        """What the server says of the dataset."""
        with server.named(), server.database.expecting({}), server.database.reading() as session:
            return read_marks(session, [dataset_id]).get(dataset_id, Mark())

    def forget(self, dataset_id: str) -> None:
        """Look the dataset up again when it is next needed."""
        self._places.pop(dataset_id, None)

    def _look_elsewhere(self, dataset_id: str, place: Place) -> None:
        """Raise `ElsewhereError` if the map says by now that it, or its server, is elsewhere."""
        try:
            name = self.map.place_of(dataset_id)
            self.renew_servers()
        except StoreError:
            return
        self.forget(dataset_id)
        moved = name is not None and name != place.server.name
        if moved or self._servers[place.server.name] is not place.server:
            raise ElsewhereError(dataset_id)

    def server(self, name: str) -> Server:
        """The server of this name.

        Raises:
            NotFoundError: there is none.
        """
        found = self._servers.get(name)
        if found is None:
            self.renew_servers()
            found = self._servers.get(name)
        if found is None:
            raise NotFoundError(
                f"this store has no server {name!r}; its servers are: "
                + ", ".join(map(repr, sorted(self._servers)))
            )
        return found

    def servers(self) -> Mapping[str, Server]:
        """Every server by its name, as the map has them now."""
        self.renew_servers()
        return dict(self._servers)

    def renew_servers(self) -> None:
        """Read the list of servers again."""
        with self.first.named():
            known = self.map.servers()
        with self._lock:
            for name, url in known.items():
                if name == FIRST:
                    continue
                whole = own_url(url, self.first.url)
                there = self._servers.get(name)
                if there is None or there.url != whole:
                    self._servers[name] = Server(name, whole, self.options)
                    if there is not None:
                        there.close()

    def close(self) -> None:
        """Close every connection. Idempotent."""
        with self._lock:
            for server in self._servers.values():
                server.close()
