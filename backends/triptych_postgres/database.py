"""One store on a PostgreSQL server: who may read and write it when, and how it is erased.

A deleted row stays in its table's file until the table is rewritten, and a rewrite keeps it while a
transaction is open that may still read it. `ANALYZE` copies values of columns into `pg_statistic`,
and leaves them there once the table is empty.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from operator import itemgetter

from triptych.errors import StoreError, StoreLockedError
from triptych.records import ScrubReport
from triptych.runtime import renewed_in_child
from triptych_backends.sql import (
    Position,
    SingleReads,
    Transaction,
    WriterTurn,
    closed_error,
    in_list,
    select,
    tables as t,
)
from triptych_postgres.connection import Connections
from triptych_postgres.errors import driver_errors
from triptych_postgres.location import PostgresLocation
from triptych_postgres.postings import fold, unshare
from triptych_postgres.projection import Projection
from triptych_postgres.schema import prepare, require_current
from triptych_postgres.search_tables import are_made
from triptych_postgres.session import Driver, PostgresSession, milliseconds

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
_INDEXES = (
    "the indexes of other processes with search=local: those in memory until each searches again, "
    "those in other folders until the folder is deleted"
)
_STATISTICS = (
    "the server's pg_statistic, which this user may not rewrite: let the owner of the database run "
    "VACUUM FULL pg_catalog.pg_statistic"
)


_ADDED = select(t.document_change.c.document_id, t.document_change.c.added).where(
    in_list(t.document_change.c.document_id, "documents")
)


class PostgresTransaction(PostgresSession, Transaction):
    """A write transaction on a connection of the driver. See `Transaction`.

    Ids are drawn from runs of the connection. Numbers of the log are those of the clock, whose row
    is held from `finish` to the commit alone: they are committed in their order.
    """

    def __init__(self, driver: Driver, where: str, projection: Projection) -> None:
        PostgresSession.__init__(self, driver)
        Transaction.__init__(self, where, position=None)
        self._projection = projection
        self._draws = False

    def ticks(self, count: int) -> int:
        """See `Transaction.ticks`. In the log another number takes the place of such a one."""
        self._draws = True
        return self.driver.new_ids(count)

    def forget_deletions(self) -> None:
        """See `Transaction.forget_deletions`."""
        self.take_numbers()
        super().forget_deletions()

    def project(self) -> None:
        """Let what searches in the server read be as the changes say."""
        if tables := are_made(self):
            self._projection.update(self, self._changes, tables)

    def take_numbers(self) -> None:
        """Number what changed, in its order, and let no other transaction commit before this."""
        if not self._draws:
            return
        if self._tick < 0:
            super().ticks(0)
        drawn = {*self._changes.values(), *(row[0] for row in self._documents.values())}
        numbers = {each: at for at, each in enumerate(sorted(drawn), self._tick + 1)}
        self._tick += max(len(numbers), 1)
        self._changes = {key: numbers[seq] for key, seq in self._changes.items()}
        rows = self.all(_ADDED, documents=list(self._documents)) if self._documents else []
        known = dict(rows)
        for document, (seq, *row, _) in self._documents.items():
            added = known.get(document, numbers[seq])
            self._documents[document] = (numbers[seq], *row, added)

    @property
    def newest(self) -> dict[int, int]:
        """The number of the last change of each dataset that this transaction changes."""
        return {key[0]: seq for key, seq in sorted(self._changes.items(), key=itemgetter(1))}


class PostgresDatabase:
    """What the repositories read and write; thread-safe, and fork-safe. See `Database`.

    The writers of a dataset take turns, those of other processes too; those of different ones wait
    for each other's commits alone. Every commit is on the server's disk when it returns.
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

    @property
    def known(self) -> SingleReads:
        """See `Database.known`."""
        return SingleReads(self._cached)

    @contextmanager
    def _cached(self) -> Iterator[PostgresSession]:
        with driver_errors(self.where), self._connections.reading(cached=True) as session:
            yield session

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSession]:
        """See `Database.snapshot`."""
        with driver_errors(self.where), self._connections.snapshot() as session:
            yield session

    @contextmanager
    def writing(
        self, dataset: str | None = None, *, durable: bool = True
    ) -> Iterator[PostgresTransaction]:
        """See `Database.writing`; ``durable`` makes no difference here.

        Raises:
            StoreLockedError: other writers held the dataset for longer than the wait.
        """
        self.require_open()
        with self._writer_turn.held(dataset):
            with (
                driver_errors(self.where),
                self._connections.writing(dataset, lock_timeout=self.lock_timeout) as session,
            ):
                transaction = PostgresTransaction(session.driver, self.where, self._projection)
                yield transaction
                transaction.project()
                transaction.take_numbers()
                # Forgotten where the transaction fails: whether it was committed is not known.
                transaction.position, self._position = self._position, None
                transaction.finish()
            self._position = transaction.position
            self._projection.committed(transaction.newest)

    def connect(self) -> Driver:
        """A connection beside the pool; whoever asks for it closes it. Raises psycopg.Error."""
        return self._connections.connect()

    @contextmanager
    def turn(self, name: str, *, wait: float | None = None) -> Iterator[None]:
        """The turn of one process among all that ask for ``name``, waiting ``wait`` seconds.

        It is an advisory lock, held by a transaction that does nothing else.
        """
        seconds = self.lock_timeout if wait is None else wait
        with driver_errors(self.where), self._connections.transaction() as session:
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
            terms, is_local = 0, not are_made(session)
            if not is_local:
                fold(session, removed=True)
                with self.writing() as tx:
                    terms = drop_terms(tx)
            is_whole = rewrite(session, self.schema, wait=self.lock_timeout)
        beyond = [_BEYOND] if is_whole else [_STATISTICS, _BEYOND]
        return ScrubReport(terms=terms, beyond=(*beyond, _INDEXES) if is_local else tuple(beyond))

    def require_open(self) -> None:
        """Raise `StoreError` once the store is being closed, or is closed."""
        if self._closed:
            raise closed_error(self.where)

    def begin_close(self) -> bool:
        """Let only reads begin until `close`, and say whether this was the first call."""
        first, self._closed = not self._closed, True
        return first

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.begin_close()
        self._connections.close()

    def _after_fork_in_child(self) -> None:
        self._projection = Projection(self.where)
        self._writer_turn.after_fork_in_child()
        self._connections.after_fork_in_child()


_DATABASES = renewed_in_child("_after_fork_in_child")
