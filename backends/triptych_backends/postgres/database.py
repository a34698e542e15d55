"""One store on a PostgreSQL server: who may read and write it when, and how it is erased.

A deleted row stays in its table's file until the table is rewritten, and a rewrite keeps it while a
transaction is open that may still read it. `ANALYZE` copies values of columns into `pg_statistic`,
and leaves them there once the table is empty.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from triptych._internal.forks import renewed_in_child
from triptych.errors import StoreError, StoreLockedError
from triptych.records import ScrubReport
from triptych_backends.postgres.connection import Connections
from triptych_backends.postgres.errors import driver_errors
from triptych_backends.postgres.location import PostgresLocation
from triptych_backends.postgres.postings import fold, unshare
from triptych_backends.postgres.projection import Projection
from triptych_backends.postgres.schema import prepare, require_current
from triptych_backends.postgres.session import Driver, PostgresSession, milliseconds
from triptych_backends.sql.database import WriterTurn
from triptych_backends.sql.errors import closed_error
from triptych_backends.sql.transaction import Position, Transaction

_PAUSE = 0.1

# The smallest first: there it waits for transactions.
_TABLES = (
    "SELECT format('%%I.%%I', schemaname, tablename), pg_has_role(tableowner, 'USAGE') "
    "FROM pg_tables WHERE schemaname = %s "
    "ORDER BY pg_total_relation_size(format('%%I.%%I', schemaname, tablename)::regclass)"
)
# A rewritten table's oldest transaction is the oldest that any open one may read.
_IS_CLEAN = "SELECT age(relfrozenxid) <= age(%s::xid) FROM pg_class WHERE oid = %s::regclass"

# A column that is given the type that it has loses its statistics, and a storage of its own.
_FORGET = (
    "SELECT string_agg('ALTER ' || quote_ident(a.attname) || ' TYPE ' || format_type(a.atttypid, "
    "a.atttypmod) || CASE a.attcollation WHEN 0 THEN '' ELSE ' COLLATE ' || "
    "a.attcollation::regcollation END || CASE a.attstorage WHEN y.typstorage THEN '' ELSE "
    "', ALTER ' || quote_ident(a.attname) || ' SET STORAGE EXTERNAL' END, ', ') "
    "FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid "
    "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped "
    "AND a.atttypid <> ALL ('{bool,int2,int4,int8,float8}'::regtype[]::oid[])"
)


def drop_terms(session: PostgresSession) -> int:
    """Remove the terms that are in no posting, in a transaction of a writer; how many there were.

    No process uses the id of one again: the ids that it knows (`TermIds`) had postings after its
    last write, and others have written nothing since.
    """
    unshare(session)  # what was written since `fold`
    ((count,),) = session.text(
        "WITH gone AS (DELETE FROM search_term t WHERE NOT EXISTS "
        "(SELECT FROM search_posting p WHERE p.term = t.id) RETURNING 1) SELECT count(*) FROM gone"
    )
    return int(count)


def rewrite(session: PostgresSession, schema: str, *, wait: float) -> bool:
    """Write the tables of ``schema`` and the server's statistics without what was deleted.

    Whether the statistics were rewritten too, which takes the owner of the database. ``wait`` is
    how many seconds it waits for transactions that may still read what was deleted. Raises
    StoreLockedError for these, StoreError where a table is another user's, and psycopg.Error.
    """
    since = _newest(session)
    for table, is_mine in session.text(_TABLES, (schema,)):
        if not (is_mine and _vacuum(session, table, since, wait)):
            raise StoreError(f"the table {table} is another user's: purge again as its owner")
        _analyze(session, table)
    return _vacuum(session, "pg_catalog.pg_statistic", _newest(session), wait)


def _newest(session: PostgresSession) -> str:
    """A transaction that is later than all that were committed."""
    ((found,),) = session.text("SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text")
    return str(found)


def _vacuum(session: PostgresSession, table: str, since: str, wait: float) -> bool:
    """Rewrite ``table`` without what was deleted before ``since``; False where that is refused."""
    told: list[str | None] = []
    # What a notice says is gone after the call.
    session.driver.add_notice_handler(lambda notice: told.append(notice.severity_nonlocalized))
    until = time.monotonic() + wait
    while True:
        session.driver.execute(f"VACUUM FULL {table}".encode(), prepare=False)
        if "WARNING" in told:
            return False  # the server skips what it refuses
        ((is_clean,),) = session.text(_IS_CLEAN, (since, table))
        if is_clean:
            return True
        if time.monotonic() > until:
            raise StoreLockedError(
                f"a transaction on the server may still read what was deleted from {table}: end it "
                "(see backend_xmin in pg_stat_activity, pg_prepared_xacts, pg_replication_slots), "
                "and purge again"
            )
        time.sleep(_PAUSE)


def _analyze(session: PostgresSession, table: str) -> None:
    """Let the server's statistics of ``table`` be of what it holds now."""
    driver = session.driver
    with driver.transaction():
        driver.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        ((changes,),) = session.text(_FORGET, (table,))
        if driver.execute(f"SELECT 1 FROM {table} LIMIT 1".encode()).fetchall():
            driver.execute(f"ANALYZE {table}".encode())
        elif changes:
            driver.execute(f"ALTER TABLE {table} {changes}".encode())


_BEYOND = "the server's write-ahead log, backups and log files"
_STATISTICS = (
    "the server's pg_statistic, which this user may not rewrite: let the owner of the database run "
    "VACUUM FULL pg_catalog.pg_statistic"
)


class PostgresTransaction(PostgresSession, Transaction):
    """A write transaction on a connection of the driver. See `Transaction`."""

    def __init__(
        self, driver: Driver, where: str, projection: Projection, *, position: Position | None
    ) -> None:
        PostgresSession.__init__(self, driver)
        Transaction.__init__(self, where, position=position)
        self._projection = projection

    def finish(self) -> None:
        """See `Transaction.finish`; what searches read changes with it."""
        self._projection.update(self, self._changes, since=self._started)
        super().finish()


class PostgresDatabase:
    """What the repositories read and write; thread-safe, and fork-safe. See `Database`.

    All writers take turns, those of other processes too: each transaction holds the clock's row
    from its beginning, so that numbers are committed in their order. Every commit is on the
    server's disk when it returns.
    """

    def __init__(
        self,
        connections: Connections,
        *,
        read_only: bool,
        wait: float,
        history: int,
    ) -> None:
        self.where = connections.where
        self.schema = connections.location.schema
        self.read_only = read_only
        self.history = history
        self._connections = connections
        self.lock_timeout = wait
        self._closed = False
        self._position: Position | None = None
        self._writer_turn = WriterTurn(self.where, wait=wait, read_only=read_only)
        self._projection = Projection(self.where)
        _DATABASES.add(self)

    @classmethod
    def open(
        cls,
        location: PostgresLocation,
        *,
        read_only: bool,
        lock_timeout: float,
        create: bool,
        history: int,
    ) -> PostgresDatabase:
        """Connect, and bring the schema up to date. Raises as `PostgresStore.open`."""
        with driver_errors(location.where):
            if read_only:
                require_current(location)
            else:
                prepare(location, lock_timeout=lock_timeout, create=create)
        connections = Connections(location, read_only=read_only)
        return cls(connections, read_only=read_only, wait=lock_timeout, history=history)

    @contextmanager
    def reading(self) -> Iterator[PostgresSession]:
        """See `Database.reading`."""
        with driver_errors(self.where), self._connections.reading() as session:
            yield session

    def cached(self) -> Any:
        """See `Database.cached`: to ask whether anything was committed takes as long as to read."""
        return self.reading()

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSession]:
        """See `Database.snapshot`."""
        with driver_errors(self.where), self._connections.snapshot() as session:
            yield session

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[PostgresTransaction]:
        """See `Database.writing`; ``durable`` makes no difference here.

        Raises:
            StoreLockedError: other writers held the store for longer than the wait.
        """
        self.require_open()
        with self._writer_turn.held():
            # Forgotten where the transaction fails: whether it was committed is not known.
            position, self._position = self._position, None
            with (
                driver_errors(self.where),
                self._connections.writing(lock_timeout=self.lock_timeout) as session,
            ):
                transaction = PostgresTransaction(
                    session.driver, self.where, self._projection, position=position
                )
                yield transaction
                transaction.finish()
            self._position = transaction.position
            if transaction.position is not None:
                self._projection.committed(transaction.position.tick)

    def connect(self) -> Driver:
        """A connection beside the pool; whoever asks for it closes it. Raises psycopg.Error."""
        return self._connections.connect()

    @contextmanager
    def turn(self, name: str, *, wait: float | None = None) -> Iterator[None]:
        """The turn of one process among all that ask for ``name``, waiting ``wait`` seconds.

        It is an advisory lock, held by a transaction that does nothing else.
        """
        seconds = self.lock_timeout if wait is None else wait
        with driver_errors(self.where), self._connections.snapshot() as session:
            session.text("SELECT set_config('lock_timeout', %s, true)", (milliseconds(seconds),))
            session.text("SELECT set_config('idle_in_transaction_session_timeout', '0', true)")
            session.text(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
                (f"triptych {self.schema} {name}",),
            )
            yield

    def flush(self) -> None:
        """See `Database.flush`: the server has done so at each commit."""

    def scrub(self) -> ScrubReport:
        """Leave nothing of what was deleted in the tables, nor in the server's statistics.

        The server's write-ahead log and backups are its administrator's.

        Raises:
            StoreLockedError: others are reading or writing, or a transaction on the server may
                still read what was deleted; nothing is lost, try again.
            StoreError: this user does not own the tables.
        """
        with driver_errors(self.where), closing(self.connect()) as driver:
            session = PostgresSession(driver)
            session.text(
                "SELECT set_config('lock_timeout', %s, false)", (milliseconds(self.lock_timeout),)
            )
            session.text("SELECT set_config('statement_timeout', '0', false)")
            fold(session, removed=True)
            with self.writing() as tx:
                terms = drop_terms(tx)
            is_whole = rewrite(session, self.schema, wait=self.lock_timeout)
        return ScrubReport(terms=terms, beyond=(_BEYOND,) if is_whole else (_STATISTICS, _BEYOND))

    def require_open(self) -> None:
        """Raise `StoreError` once the store is being closed, or is closed."""
        if self._closed:
            raise closed_error(self.where)

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self._closed = True
        self._connections.close()

    def _after_fork_in_child(self) -> None:
        self._writer_turn.after_fork_in_child()
        self._connections.after_fork_in_child()


_DATABASES = renewed_in_child("_after_fork_in_child")
