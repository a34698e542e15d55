"""The connections of one process to one store: a pool that outlives the server's restarts."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
from psycopg import sql
from psycopg.types.numeric import IntLoader

from triptych.errors import StoreError
from triptych_backends.postgres.errors import is_lost
from triptych_backends.postgres.location import PostgresLocation
from triptych_backends.postgres.session import Driver, PostgresSession
from triptych_backends.sql.errors import closed_error

__all__ = ["Connections", "connect"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_PATIENCE = 300.0  # seconds to wait for a free connection where nothing else says
_INHERITED: list[Driver] = []
"""Connections of a process that this one was forked from: to drop them would warn."""


class Connections:
    """Every connection that one store holds to its server; thread-safe, and fork-safe.

    At most ``pool_size`` are open at a time. One that was idle and proves lost is replaced by a
    new one, and the server is waited for as long as ``location.reconnect`` says.
    """

    def __init__(self, location: PostgresLocation, *, read_only: bool) -> None:
        self.location = location
        self.where = location.where
        self._read_only = read_only
        self._begin()
        self._closed = False

    def _begin(self) -> None:
        self._idle: deque[Driver] = deque()
        self._free = threading.BoundedSemaphore(self.location.pool_size)

    def connect(self) -> Driver:
        """A new connection, each statement a transaction of its own. Raises psycopg.Error."""
        return connect(self.location, read_only=self._read_only)

    def connect_patiently(self, since: float) -> Driver:
        """A new connection; while the server is away it is tried again.

        ``since`` is when the wait began, of `time.monotonic`. Raises psycopg.Error.
        """
        pause = _FIRST_PAUSE
        while True:
            try:
                return self.connect()
            except psycopg.Error as error:
                waited = time.monotonic() - since
                if not is_lost(error) or waited > self.location.reconnect or self._closed:
                    raise
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, _LONGEST_PAUSE)

    @contextmanager
    def reading(self) -> Iterator[PostgresSession]:
        """A session in which each statement is a snapshot of its own, asked again if need be."""
        with self._leased() as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSession]:
        """A session whose statements all see one state."""
        with self._leased() as session:
            session.text("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            inner = PostgresSession(session.driver)
            yield inner
            inner.text("COMMIT")

    @contextmanager
    def writing(self, *, lock_timeout: float) -> Iterator[PostgresSession]:
        """A session in a transaction that has the store for itself among writers.

        It holds the clock's row: whoever draws a number commits before the next one draws.
        """
        with self._leased() as session:
            session.text("SELECT 1")  # a lost connection is replaced now, while it is safe
            driver = session.driver
            inner = PostgresSession(driver)
            inner.text("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            millis = max(int(lock_timeout * 1000), 1)
            inner.text(
                "SELECT set_config('lock_timeout', %s, true)", (str(min(millis, 2**31 - 1)),)
            )
            inner.text("SELECT tick FROM clock FOR UPDATE")
            inner.text("SELECT set_config('lock_timeout', '0', true)")
            yield inner
            inner.text("COMMIT")

    @contextmanager
    def _leased(self) -> Iterator[PostgresSession]:
        if self._closed:
            raise closed_error(self.where)
        free = self._free
        if not free.acquire(timeout=self.location.statement_timeout or _PATIENCE):
            raise StoreError(
                f"all {self.location.pool_size} connections to the store {self.where} are in use: "
                "give a greater pool_size in the URL"
            )
        try:
            session = PostgresSession(self._take(), None)
            session._reconnect = lambda: self._replace(session.driver)
            try:
                yield session
            except BaseException:
                session.driver.close()
                raise
            self._give_back(session.driver)
        finally:
            free.release()

    def _take(self) -> Driver:
        try:
            driver = self._idle.pop()
        except IndexError:
            return self.connect_patiently(time.monotonic())
        return self._replace(driver) if driver.closed else driver

    def _replace(self, lost: Driver) -> Driver:
        """Another connection: all idle ones are as old as the lost one."""
        with suppress(psycopg.Error):
            lost.close()
        self._close_idle()
        return self.connect_patiently(time.monotonic())

    def _give_back(self, driver: Driver) -> None:
        if self._closed or driver.closed:
            driver.close()
        else:
            self._idle.append(driver)

    def _close_idle(self) -> None:
        while True:
            try:
                driver = self._idle.pop()
            except IndexError:
                return
            with suppress(psycopg.Error):
                driver.close()

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections alone, and begin with none."""
        _INHERITED.extend(self._idle)
        self._begin()

    def close(self) -> None:
        """Close what is idle; what is in use closes itself when it comes back."""
        self._closed = True
        self._close_idle()


def connect(
    location: PostgresLocation, *, read_only: bool = False, autocommit: bool = True
) -> Driver:
    """A new connection, its search path the store's schema. Raises psycopg.Error."""
    driver = psycopg.connect(
        location.conninfo,
        autocommit=True,
        fallback_application_name="triptych",
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
    )
    try:
        # Sums of whole numbers are of this type.
        driver.adapters.register_loader("numeric", _WholeLoader)
        driver.adapters.register_loader("numeric", _WholeBinaryLoader)
        millis = int(location.statement_timeout * 1000)
        driver.execute(
            sql.SQL(
                "SELECT set_config('search_path', quote_ident({}) || coalesce((SELECT ', ' || "
                "quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n "
                "ON n.oid = e.extnamespace WHERE extname = 'vector'), ', public'), false), "
                "set_config('statement_timeout', {}, false), "
                "set_config('idle_in_transaction_session_timeout', '600000', false), "
                "set_config('default_transaction_read_only', {}, false), "
                # To compile a search takes longer than to run it.
                "set_config('jit', 'off', false)"
            ).format(location.schema, str(millis), "on" if read_only else "off")
        )
        driver.autocommit = autocommit
    except BaseException:
        driver.close()
        raise
    return driver


class _WholeLoader(IntLoader):
    """Numerics as whole numbers: there are no others here."""


class _WholeBinaryLoader(psycopg.adapt.Loader):
    format = psycopg.pq.Format.BINARY

    def __init__(self, oid: int, context: psycopg.abc.AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._load = psycopg.types.numeric.NumericBinaryLoader(oid, context).load

    def load(self, data: psycopg.abc.Buffer) -> int:
        """See `Loader.load`."""
        return int(self._load(data))
