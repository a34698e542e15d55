"""The connections of one process to one store: a pool that outlives the server's restarts."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from psycopg import sql
from psycopg.adapt import PyFormat
from psycopg.pq import TransactionStatus
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import IntLoader
from psycopg.types.string import BytesBinaryDumper

from triptych import deadlines
from triptych.errors import StoreAwayError, StoreError
from triptych_backends.sql import HeldReader, closed_error, reader_of_call
from triptych_postgres.binary import BIGINTS, bigint_array
from triptych_postgres.errors import driver_errors, is_lost, is_starting
from triptych_postgres.location import PostgresLocation, parse_url
from triptych_postgres.session import (
    CachedSession,
    Driver,
    PostgresSession,
    lock_writers,
    milliseconds,
)
from triptych_postgres.watched import WatchedConnection

if TYPE_CHECKING:
    from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection, QueuePool


_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5
_PATIENCE = 300.0  # seconds to wait for a free connection where nothing else says
_LOOK_AGAIN = 0.1  # seconds of that between two looks at the deadline
_INHERITED: list[Any] = []
"""Pools of a process that this one was forked from: to drop their connections would end them."""

_Lease: TypeAlias = "PoolProxiedConnection"


class Connections:
    """Every connection that one store holds to its server; thread-safe, and fork-safe.

    At most ``pool_size`` are open at a time. One that was idle and proves lost is replaced by a
    new one, and the server is waited for as long as ``location.reconnect`` says.
    """

    def __init__(self, location: PostgresLocation, *, read_only: bool) -> None:
        self.location = location
        self.where = location.where
        self._read_only = read_only
        self._closed = False
        self._lost_at = 0.0  # of `time.monotonic`: what was opened before is as lost
        self._pool = self._new_pool()

    def _new_pool(self) -> QueuePool:
        from sqlalchemy import event
        from sqlalchemy.exc import DisconnectionError
        from sqlalchemy.pool import QueuePool

        # Annotated for DBAPI's connections.
        dial: Any = lambda: self.connect_patiently(time.monotonic())  # noqa: E731
        pool = QueuePool(
            dial,
            pool_size=self.location.pool_size,
            max_overflow=0,
            timeout=_LOOK_AGAIN,
            use_lifo=True,
            reset_on_return=None,
        )

        def note(driver: Driver, entry: ConnectionPoolEntry) -> None:
            entry.info["opened"] = time.monotonic()

        def check(driver: Driver, entry: ConnectionPoolEntry, lease: _Lease) -> None:
            if driver.closed or entry.info["opened"] <= self._lost_at:
                raise DisconnectionError  # another one is opened in its place

        event.listen(pool, "connect", note)
        event.listen(pool, "checkout", check)
        return pool

    def connect(self) -> Driver:
        """A new connection, each statement a transaction of its own. Raises psycopg.Error."""
        return connect(self.location, read_only=self._read_only)

    def connect_patiently(self, since: float) -> Driver:
        """A new connection; while the server is away it is tried again.

        ``since`` is when the wait began, of `time.monotonic`. Raises psycopg.Error.
        """
        return _patiently(
            self.connect,
            lambda error: not self._closed and is_lost(error),
            until=since + self.location.reconnect,
        )

    @contextmanager
    def reading(self, *, cached: bool = False) -> Iterator[PostgresSession]:
        """A session in which each statement is a snapshot of its own, asked again if need be; or,
        in `one_state`, that of the call, ``cached`` from memory where its connection read it."""
        with self._of_call() as reader:
            if reader is not None:
                yield CachedSession(reader.driver.driver) if cached else reader.driver
                return
        with self._leased() as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSession]:
        """A session whose statements all see one state, and whose settings end with it."""
        with self._of_call() as reader:
            if reader is not None:
                if reader.is_nested:
                    yield reader.driver
                    return
                reader.driver.text("SAVEPOINT part")
                try:
                    yield reader.driver
                finally:
                    reader.driver.text("ROLLBACK TO SAVEPOINT part")
                return
        with self.transaction() as session:
            yield session

    @contextmanager
    def _of_call(self) -> Iterator[HeldReader[PostgresSession] | None]:
        """What the call reads by, while this thread does."""
        reader = reader_of_call(self, self._begun)
        try:
            yield reader
        finally:
            if reader is not None:
                status = reader.driver.driver.pgconn.transaction_status
                reader.leave(ends=status != TransactionStatus.INTRANS)  # a statement failed

    def _begun(self) -> HeldReader[PostgresSession]:
        held = ExitStack()
        session = held.enter_context(self.transaction())

        def give_back(_: PostgresSession) -> None:
            with suppress(psycopg.Error):  # a lost connection is replaced
                held.close()

        return HeldReader(session, give_back)

    @contextmanager
    def transaction(self) -> Iterator[PostgresSession]:
        """A session in a read transaction of its own."""
        with self._leased() as session:
            session.begin_reading()
            inner = PostgresSession(session.driver)
            yield inner
            inner.text("COMMIT")

    @contextmanager
    def writing(self, dataset: str | None, *, lock_timeout: float) -> Iterator[PostgresSession]:
        """A session in a transaction that has the dataset for itself among writers, or the store.

        It waits for a lock for so many seconds, also for those that it takes later.
        """
        with self._leased() as session:
            session.text("SELECT 1")  # a lost connection is replaced now, while it is safe
            driver = session.driver
            inner = PostgresSession(driver)
            inner.text("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
            inner.text("SELECT set_config('lock_timeout', %s, true)", (milliseconds(lock_timeout),))
            lock_writers(inner, dataset)
            driver.draw_ids_of(inner.text("SELECT 'id_run'::regclass::oid")[0][0])
            yield inner
            inner.text("COMMIT")

    @contextmanager
    def _leased(self) -> Iterator[PostgresSession]:
        if self._closed:
            raise closed_error(self.where)
        first = self._lease()
        session = PostgresSession(_driver_of(first), None)
        lease: _Lease | None = first

        def replace() -> Driver:
            nonlocal lease
            if lease is not None:
                lost, lease = lease, None
                lost.invalidate()
            self._lost_at = time.monotonic()
            lease = found = self._lease()
            return _driver_of(found)

        session._reconnect = replace
        is_whole = False
        try:
            yield session
            is_whole = True
        finally:
            if lease is not None:  # the lost one may have no successor
                if self._closed or not is_whole:
                    lease.invalidate()
                lease.close()  # gives it back

    def _lease(self) -> _Lease:
        from sqlalchemy.exc import TimeoutError as PoolTimeoutError

        until = time.monotonic() + (self.location.statement_timeout or _PATIENCE)
        while True:
            deadlines.check("waiting for a connection to the server")
            try:
                return self._pool.connect()
            except PoolTimeoutError as error:
                if time.monotonic() < until:
                    continue
                raise StoreError(
                    f"all {self.location.pool_size} connections to the store {self.where} are in "
                    "use: give a greater pool_size in the URL"
                ) from error

    def after_fork_in_child(self) -> None:
        """Leave the parent's connections alone, and begin with none."""
        _INHERITED.append(self._pool)
        self._pool = self._new_pool()

    def close(self) -> None:
        """Close what is idle; what is in use is closed when it comes back."""
        self._closed = True
        self._pool.dispose()


def _driver_of(lease: _Lease) -> Driver:
    driver: Any = lease.driver_connection  # annotated for DBAPI's connections
    found: Driver = driver
    return found


def connect_when_up(location: PostgresLocation) -> Driver:
    """A new connection; a server that is only starting is waited for.

    Raises:
        StoreAwayError: it is not there after `PostgresLocation.startup` seconds.
        psycopg.Error: it refuses.
    """
    try:
        return _patiently(
            lambda: connect(location), is_starting, until=time.monotonic() + location.startup
        )
    except psycopg.Error as error:
        if not is_starting(error):
            raise
        raise StoreAwayError(
            f"the server of the store {location.where} did not answer for {location.startup:g} s "
            f"({' '.join(str(error).split())}): check that the server runs, and the host and port "
            "of the URL; for one that takes longer to start, give a longer connect_timeout in it"
        ) from error


def _patiently(
    dial: Callable[[], Driver], again: Callable[[psycopg.Error], bool], *, until: float
) -> Driver:
    pause = _FIRST_PAUSE
    while True:
        try:
            return dial()
        except psycopg.Error as error:
            if time.monotonic() > until or not again(error):
                raise
        deadlines.check("waiting for the server")
        time.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(pause * 2, _LONGEST_PAUSE)


def connect(
    location: PostgresLocation, *, read_only: bool = False, autocommit: bool = True
) -> Driver:
    """A new connection, its search path the store's schema. Raises psycopg.Error."""
    driver = WatchedConnection.dial(
        location.conninfo,
        seconds=location.startup,
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
    )
    driver.patience = min(driver.patience, location.statement_timeout or driver.patience)
    try:
        # Sums of whole numbers are of this type.
        driver.adapters.register_loader("numeric", _WholeLoader)
        driver.adapters.register_loader("numeric", _WholeBinaryLoader)
        # Among the driver's own, one that is not compiled comes before it where COPY looks.
        driver.adapters.register_dumper(bytes, BytesBinaryDumper)
        driver.adapters.register_dumper(list, _ListDumper)
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


class _ListDumper(ListBinaryDumper):
    """Whole numbers in one go: the driver's own takes twenty times as long."""

    def get_key(self, obj: list[Any], format: PyFormat) -> psycopg.abc.DumperKey:
        """See `Dumper.get_key`."""
        return _WholesDumper if set(map(type, obj)) == {int} else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> Any:
        """See `Dumper.upgrade`."""
        is_whole = set(map(type, obj)) == {int}
        return _WholesDumper(list, self._tx) if is_whole else super().upgrade(obj, format)


class _WholesDumper(psycopg.adapt.Dumper):
    format = psycopg.pq.Format.BINARY
    oid = BIGINTS

    def dump(self, obj: list[int]) -> bytes:
        """See `Dumper.dump`."""
        return bigint_array(obj)


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


def most_pools(url: str) -> int:
    """How many processes the server at ``url`` has connections for, each with its whole pool.

    Raises:
        StoreError: it cannot be asked.
    """
    location = parse_url(url)
    seconds = max(round(location.startup), 2)
    with (
        driver_errors(location.where),
        psycopg.connect(location.conninfo, connect_timeout=seconds) as asked,
    ):
        row = asked.execute("SELECT current_setting('max_connections')::int").fetchone()
    return 0 if row is None else int(row[0]) // location.pool_size
