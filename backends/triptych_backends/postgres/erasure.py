"""Erasing what was deleted: words that no text has any more, old rows, and the server's statistics.

A deleted row stays in its table's file until the table is rewritten, and a rewrite keeps it while a
transaction is open that may still read it. `ANALYZE` copies values of columns into `pg_statistic`,
and leaves them there once the table is empty.
"""

from __future__ import annotations

import time

from triptych.errors import StoreError, StoreLockedError
from triptych_backends.postgres.session import PostgresSession

_PAUSE = 0.1

# The smallest first: there it waits for transactions.
_TABLES = (
    "SELECT format('%%I.%%I', schemaname, tablename), pg_has_role(tableowner, 'USAGE') "
    "FROM pg_tables WHERE schemaname = %s "
    "ORDER BY pg_total_relation_size(format('%%I.%%I', schemaname, tablename)::regclass)"
)
# A rewritten table's oldest transaction is the oldest that any open one may read.
_IS_CLEAN = "SELECT age(relfrozenxid) <= age(%s::xid) FROM pg_class WHERE oid = %s::regclass"

# A column that is given the type that it has loses its statistics. It also loses a storage of its
# own, which only the numbers of postings have.
_FORGET = (
    "SELECT string_agg('ALTER ' || quote_ident(a.attname) || ' TYPE ' || format_type(a.atttypid, "
    "a.atttypmod) || CASE a.attcollation WHEN 0 THEN '' ELSE ' COLLATE ' || "
    "a.attcollation::regcollation END, ', ') "
    "FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid AND y.typstorage = a.attstorage "
    "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped "
    "AND a.atttypid <> ALL ('{bool,int2,int4,int8,float8}'::regtype[]::oid[])"
)


def drop_terms(session: PostgresSession) -> int:
    """Remove the terms that are in no posting, in a transaction of a writer; how many there were.

    No process uses the id of one again: the ids that it knows (`TermIds`) had postings after its
    last write, and others have written nothing since.
    """
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
