"""Erasing what was deleted: words that no text has any more, old rows, and the server's statistics.

A deleted row stays in its table's file until the table is rewritten, and a rewrite keeps it while a
transaction is open that may still read it. `ANALYZE` copies values of columns into `pg_statistic`,
and leaves them there once the table is empty.
"""

from __future__ import annotations

import time

import psycopg

from triptych.errors import StoreError, StoreLockedError
from triptych_backends.postgres.session import PostgresSession

__all__ = ["drop_terms", "rewrite"]

_STATISTICS = "pg_catalog.pg_statistic"
_PAUSE = 0.1

_TABLES = (
    "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables WHERE schemaname = %s "
    "ORDER BY pg_total_relation_size(format('%%I.%%I', schemaname, tablename)::regclass), tablename"
)
"""The smallest first: at it the rewrite waits for transactions."""

# A rewritten table's oldest transaction is the oldest that any open one may read.
_IS_CLEAN = "SELECT age(relfrozenxid) <= age(%s::xid) FROM pg_class WHERE oid = %s::regclass"

# A column that is given the type that it has loses its statistics, and a storage of its own.
_FORGET = (
    "SELECT 'ALTER ' || quote_ident(a.attname) || ' TYPE ' || format_type(a.atttypid, a.atttypmod) "
    "|| coalesce(' COLLATE ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname), '') "
    "|| CASE a.attstorage WHEN y.typstorage THEN '' ELSE ', ALTER ' || quote_ident(a.attname) "
    "|| ' SET STORAGE ' || CASE a.attstorage WHEN 'e' THEN 'EXTERNAL' WHEN 'm' THEN 'MAIN' "
    "WHEN 'p' THEN 'PLAIN' ELSE 'EXTENDED' END END "
    "FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid "
    "LEFT JOIN pg_collation c ON c.oid = a.attcollation "
    "LEFT JOIN pg_namespace n ON n.oid = c.collnamespace "
    "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped "
    "AND a.atttypid <> ALL ('{bool,int2,int4,int8,float8}'::regtype[]::oid[])"
)


def drop_terms(session: PostgresSession) -> int:
    """Remove the terms that are in no posting, in a transaction of a writer; how many there were.

    No process goes on using the id of one: the ids that it knows (`TermIds`) are those of its last
    write, which left postings of them, and others have written nothing since.
    """
    ((count,),) = session.text(
        "WITH gone AS (DELETE FROM search_term t WHERE NOT EXISTS "
        "(SELECT FROM search_posting p WHERE p.term = t.id) RETURNING 1) SELECT count(*) FROM gone"
    )
    return int(count)


def rewrite(session: PostgresSession, schema: str, *, wait: float) -> bool:
    """Write the tables of ``schema`` and the server's statistics without what was deleted.

    ``wait`` is how many seconds it waits for transactions that may still read what was deleted.
    Whether the statistics were rewritten too, which takes the owner of the database.

    Raises:
        StoreLockedError: such a transaction is still open.
        StoreError: the tables are another user's.
        psycopg.Error: the server failed, or others held a lock for too long.
    """
    tables = [name for (name,) in session.text(_TABLES, (schema,))]
    since, until = _newest(session), time.monotonic() + wait
    for table in tables:
        if not _vacuum(session, table, since, until):
            raise StoreError(
                f"the table {table} is another user's, and its file still holds what was deleted: "
                "purge again as the user that made the store"
            )
        _analyze(session, table)
    return _vacuum(session, _STATISTICS, _newest(session), time.monotonic() + wait)


def _newest(session: PostgresSession) -> str:
    """A transaction that is later than all that were committed."""
    ((found,),) = session.text("SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text")
    return str(found)


def _vacuum(session: PostgresSession, table: str, since: str, until: float) -> bool:
    """Rewrite ``table`` without what was deleted before ``since``; False where that is refused."""
    notices: list[psycopg.errors.Diagnostic] = []
    session.driver.add_notice_handler(notices.append)
    try:
        while True:
            session.driver.execute(f"VACUUM FULL {table}".encode(), prepare=False)
            if any(each.severity_nonlocalized == "WARNING" for each in notices):
                return False  # the server skips what it refuses
            ((is_clean,),) = session.text(_IS_CLEAN, (since, table))
            if is_clean:
                return True
            if time.monotonic() > until:
                raise StoreLockedError(
                    f"a transaction on the server may still read what was deleted from {table}: "
                    "find it by backend_xmin in pg_stat_activity, in pg_prepared_xacts or in "
                    "pg_replication_slots, end it, and purge again"
                )
            time.sleep(_PAUSE)
    finally:
        session.driver.remove_notice_handler(notices.append)


def _analyze(session: PostgresSession, table: str) -> None:
    """Let the server's statistics of ``table`` be of what it holds now."""
    driver = session.driver
    with driver.transaction():
        driver.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE".encode())
        ((is_empty,),) = driver.execute(f"SELECT NOT EXISTS (SELECT FROM {table})".encode())
        if not is_empty:
            driver.execute(f"ANALYZE {table}".encode())
        elif columns := session.text(_FORGET, (table,)):
            changes = ", ".join(change for (change,) in columns)
            driver.execute(f"ALTER TABLE {table} {changes}".encode())
