"""One of the servers of a store: opened when it is first needed, and named in what fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlunsplit

import attrs
import psycopg

from triptych._internal.urls import split_url
from triptych.errors import StoreError
from triptych_backends.postgres import PostgresStore
from triptych_backends.postgres.errors import is_lost
from triptych_backends.postgres.location import parse_url
from triptych_backends.shards.ownership import Expected, ShardDatabase
from triptych_backends.sql.errors import closed_error

__all__ = ["OpenOptions", "Server", "ServerAwayError", "own_url"]


class ServerAwayError(StoreError):
    """A server of the store cannot be reached. ``server`` is its name."""

    def __init__(self, message: str, server: str) -> None:
        super().__init__(message)
        self.server = server


@attrs.frozen(kw_only=True)
class OpenOptions:
    """How every server is opened: see `PostgresStore.open`."""

    read_only: bool = False
    lock_timeout: float = 30.0
    create: bool = True
    history: int = 10
    replicas: bool = True
    """Whether reads go to the replicas that a server's URL names."""


class Server:
    """A `PostgresStore` whose database is a `ShardDatabase`. Thread-safe.

    It is opened at its first use, so that a server that is away stops nobody who does not need it.
    """

    def __init__(self, name: str, url: str, options: OpenOptions) -> None:
        self.name = name
        self.url = url
        location = parse_url(url)
        self.where = location.where
        self._location = location if options.replicas else attrs.evolve(location, replicas=())
        self._options = options
        self._lock = threading.Lock()
        self._store: PostgresStore | None = None
        self._closed = False

    @property
    def store(self) -> PostgresStore:
        """The store on the server.

        Raises:
            ServerAwayError: it cannot be reached.
            StoreError: it cannot be opened.
        """
        store = self._store
        if store is None:
            with self._lock, self.named():
                if self._closed:
                    raise closed_error(self._location.where)
                if self._store is None:
                    options = self._options
                    self._store = PostgresStore(
                        ShardDatabase.open(
                            self._location,
                            read_only=options.read_only,
                            lock_timeout=options.lock_timeout,
                            create=options.create,
                            history=options.history,
                        )
                    )
                store = self._store
        return store

    @property
    def database(self) -> ShardDatabase:
        """The database of `store`. Raises as that."""
        database = self.store.database
        assert isinstance(database, ShardDatabase)
        return database

    @contextmanager
    def expecting(self, datasets: Mapping[str, Expected]) -> Iterator[PostgresStore]:
        """The store, for what concerns ``datasets`` alone: see `ShardDatabase.expecting`.

        Raises:
            ServerAwayError: the server cannot be reached.
        """
        store = self.store
        with self.named(), self.database.expecting(datasets):
            yield store

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let the error of a server that cannot be reached say which it is."""
        try:
            yield
        except ServerAwayError:
            raise
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, psycopg.Error) and is_lost(cause):
                raise ServerAwayError(
                    f"the server {self.name!r} of this store is away: {error}", self.name
                ) from error
            raise

    def after_fork_in_child(self) -> None:
        """Free the lock: the thread that had it is not in this process."""
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close every connection. Idempotent."""
        with self._lock:
            self._closed = True
            if self._store is not None:
                self._store.close()


def own_url(url: str, first: str) -> str:
    """``url`` with the user and the password of ``first`` where it has none."""
    parts, kept = split_url(url), split_url(first)
    if "@" in parts.netloc or "@" not in kept.netloc:
        return url
    user = kept.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc}"))
