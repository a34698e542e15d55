"""Reads from streaming replicas that have replayed what this process has written or seen.

How far a server is, is a position in its write-ahead log (LSN), in bytes. After each write, and
each read from the primary, this process notes the primary's; a replica serves a read once it has
replayed as far. It is waited for, for a moment; then the primary serves.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Final, TypeAlias

import psycopg

from triptych.errors import StoreError
from triptych_backends.postgres.connection import Connections, ReplicaStatus
from triptych_backends.postgres.errors import driver_errors
from triptych_backends.postgres.location import PostgresLocation
from triptych_backends.postgres.session import Driver, PostgresSession

_Session: TypeAlias = AbstractContextManager[PostgresSession]

_AWAY: Final = 5.0
"""Seconds until a replica that could not be reached is tried again."""
_PAUSE: Final = 0.005

# With synchronous_commit = off a commit is seen before it is in the log's files.
_WRITTEN: Final = (
    "SELECT pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() "
    "WHEN current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn() "
    "ELSE pg_current_wal_flush_lsn() END, '0/0')::bigint"
)
# A promoted replica is not one any more: who knows which of the two has which write.
_REPLAYED: Final = (
    "SELECT CASE WHEN pg_is_in_recovery() "
    "THEN pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint END, "
    "extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8"
)


class _Replica:
    """One replica. ``replayed`` is how far it was when it was last asked."""

    def __init__(self, location: PostgresLocation) -> None:
        self.connections = Connections(location, read_only=True)
        self.replayed = -1
        self.away_until = 0.0
        self._looking: threading.Thread | None = None

    def look(self, seconds: float) -> int:
        """How far it has replayed; -1 where it cannot be used, or does not say so in time."""
        if self._looking is None or not self._looking.is_alive():
            self.away_until = time.monotonic() + _AWAY  # nobody else waits for it meanwhile
            self._looking = threading.Thread(target=self._look, daemon=True)
            self._looking.start()
        looking = self._looking
        looking.join(max(seconds, _PAUSE))
        return -1 if looking.is_alive() else self.replayed

    def _look(self) -> None:
        try:
            with self.connections.reading() as session:
                ((replayed, _),) = session.text(_REPLAYED)
        except (psycopg.Error, StoreError):
            replayed = None
        if replayed is None:
            self.leave()
        else:
            self.replayed, self.away_until = replayed, 0.0

    def leave(self) -> None:
        """Note that it cannot be used for a while."""
        self.replayed = -1
        self.away_until = time.monotonic() + _AWAY


class ReplicatedConnections:
    """The connections to a primary and to its replicas, as one `Connections`; thread-safe.

    One replica at a time serves this process, so that what is read never goes back in time; where
    another, or the primary, takes its place, it must be as far as what was read before.
    """

    def __init__(self, location: PostgresLocation, *, read_only: bool) -> None:
        self.location = location
        self.where = location.where
        self.primary = Connections(location, read_only=read_only)
        self._replicas = [_Replica(each) for each in location.replicas]
        random.shuffle(self._replicas)  # processes spread over them
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._seen = 0
        # A replica may lack even the tables: the first read is the primary's.
        self._unsure: object | None = object()
        self._here = threading.local()

    @contextmanager
    def only_primary(self) -> Iterator[None]:
        """Within it, this thread reads from the primary."""
        before = getattr(self._here, "only_primary", False)
        self._here.only_primary = True
        try:
            yield
        finally:
            self._here.only_primary = before

    @contextmanager
    def reading(self) -> Iterator[PostgresSession]:
        """See `Connections.reading`. Where the replica is lost, the primary is asked again."""
        with ExitStack() as held:
            replica, session = self._enter(held, lambda each: each.reading())
            if replica is not None:
                session._reconnect = lambda: self._replace(replica, held)
            yield session
            self._note(replica, session)

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSession]:
        """See `Connections.snapshot`."""
        with ExitStack() as held:
            replica, session = self._enter(held, lambda each: each.snapshot())
            yield session
            self._note(replica, session)

    def _enter(
        self, held: ExitStack, session_of: Callable[[Connections], _Session]
    ) -> tuple[_Replica | None, PostgresSession]:
        replica = self._choose()
        if replica is not None:
            try:
                return replica, held.enter_context(session_of(replica.connections))
            except (psycopg.Error, StoreError):
                replica.leave()
        return None, held.enter_context(session_of(self.primary))

    def _replace(self, replica: _Replica, held: ExitStack) -> Driver:
        """A connection to the primary for the rest of a session whose replica was lost."""
        replica.leave()
        driver = self.primary.connect_patiently(time.monotonic())
        held.callback(driver.close)  # it never becomes one of the replica's
        return driver

    @contextmanager
    def writing(self, *, lock_timeout: float) -> Iterator[PostgresSession]:
        """See `Connections.writing`."""
        with self.primary.writing(lock_timeout=lock_timeout) as session:
            yield session
        # The write is acknowledged: no replica serves before it is known how far it must be.
        self._lose_sight()
        with suppress(psycopg.Error, StoreError), self.primary.reading() as session:
            self._note(None, session)

    def connect(self) -> Driver:
        """See `Connections.connect`: to the primary."""
        return self.primary.connect()

    def status(self) -> Sequence[ReplicaStatus]:
        """How far each replica is behind the primary, which is asked last.

        Raises:
            psycopg.Error: the primary cannot be asked.
        """
        found: list[tuple[str, int | None, float, str]] = []
        for replica in self._replicas:
            where = replica.connections.where
            try:
                with driver_errors(where), replica.connections.reading() as session:
                    ((replayed, seconds),) = session.text(_REPLAYED)
            except StoreError as error:
                found.append((where, None, 0.0, str(error)))
                continue
            error_text = "" if replayed is not None else f"{where} is not a replica (any more)"
            found.append((where, replayed, seconds or 0.0, error_text))
        with self.primary.reading() as session:
            ((written,),) = session.text(_WRITTEN)
        return [
            ReplicaStatus(
                where=where,
                behind=None if replayed is None else max(written - replayed, 0),
                seconds=seconds if replayed is not None and replayed < written else 0.0,
                error=error_text,
            )
            for where, replayed, seconds, error_text in found
        ]

    def _choose(self) -> _Replica | None:
        """A replica that is as far as this process has seen; None for the primary."""
        if getattr(self._here, "only_primary", False):
            return None
        with self._lock:
            if self._unsure:
                return None
            seen, first = self._seen, self._replicas[0]
        if first.replayed >= seen:
            return first
        until = time.monotonic() + self.location.replica_wait
        while True:
            now = time.monotonic()
            usable = [each for each in self._replicas if each.away_until <= now]
            for replica in usable:
                if replica.look(until - now) >= seen:
                    self._prefer(replica)
                    return replica
            if not usable or now >= until:
                return None
            time.sleep(_PAUSE)

    def _prefer(self, replica: _Replica) -> None:
        with self._lock:
            if self._replicas[0] is not replica:
                self._replicas = [replica, *(r for r in self._replicas if r is not replica)]

    def _lose_sight(self) -> None:
        with self._lock:
            self._unsure = object()

    def _note(self, replica: _Replica | None, session: PostgresSession) -> None:
        """Note how far the server of ``session`` is, which has shown something to this process."""
        if replica is not None and len(self._replicas) == 1:
            return  # it does not go back
        with self._lock:
            unsure = self._unsure
        if replica is None:
            position = session.text(_WRITTEN)[0][0]
        else:
            try:
                position = session.text(_REPLAYED)[0][0] or 0
            except psycopg.Error:
                replica.leave()
                self._lose_sight()
                return
        with self._lock:
            self._seen = max(self._seen, position)
            # What became unsure since is not covered by this position.
            if replica is None and self._unsure is unsure:
                self._unsure = None

    def after_fork_in_child(self) -> None:
        """See `Connections.after_fork_in_child`."""
        self._begin()
        for each in (self.primary, *(replica.connections for replica in self._replicas)):
            each.after_fork_in_child()

    def close(self) -> None:
        """Close every connection. Idempotent."""
        for each in (self.primary, *(replica.connections for replica in self._replicas)):
            each.close()


def make_connections(
    location: PostgresLocation, *, read_only: bool
) -> Connections | ReplicatedConnections:
    """The connections to a server, and to its replicas where the URL names some."""
    if location.replicas:
        return ReplicatedConnections(location, read_only=read_only)
    return Connections(location, read_only=read_only)
