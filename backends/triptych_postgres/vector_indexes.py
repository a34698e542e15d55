"""The approximate indexes over vectors: one for each embedding space that has grown large.

A row that is put into such an index takes a millisecond, so that a space is filled first and then
indexed. Until then, and whenever an index might miss something, every vector is looked at.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg

from triptych_postgres.postings import fold
from triptych_postgres.session import Driver, PostgresSession

LEAST = 20_000
"""Vectors of a space from which on an index pays: fewer are looked at in 20 ms."""

MOST_DIMENSIONS = 4_000
"""pgvector indexes no wider halfvec."""

PAUSE = 60.0
"""Seconds between two attempts: another process may be at it, or this one may lack the right."""

_MEMORY = "512MB"
logger = logging.getLogger("triptych.postgres")


def index_name(space: int) -> str:
    """The name of the index of an embedding space."""
    return f"search_vector_hnsw_{space}"


class VectorIndexes:
    """Builds indexes on connections of their own, without hindering readers or writers.

    ``connect`` makes a connection. `build_soon` leaves it to a thread, one at a time.
    """

    def __init__(self, connect: Callable[[], Driver]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._driver: Driver | None = None
        self._not_before = 0.0
        self._closed = False

    def build(self, *, least: int = LEAST) -> Sequence[int]:
        """Index every space of ``least`` vectors or more that has no index; their ids.

        Indexes of spaces that are gone are dropped. One process does this at a time; others leave
        it to that one. Raises psycopg.Error.
        """
        driver = self._connect()
        try:
            self._driver = driver
            session = PostgresSession(driver)
            session.text("SELECT set_config('statement_timeout', '0', false)")
            # A graph that does not fit is built many times slower; the server may allow more.
            session.text(
                "SELECT set_config('maintenance_work_mem', greatest(pg_size_bytes(%s), "
                "pg_size_bytes(current_setting('maintenance_work_mem'))) / 1024 || 'kB', false)",
                (_MEMORY,),
            )
            ((is_mine,),) = session.text(
                "SELECT pg_try_advisory_lock(hashtextextended(current_schema(), 0))"
            )
            if not is_mine:
                return []
            fold(session)
            _drop_stale(session)
            spaces = session.text(
                "SELECT v.space_id, s.dimension FROM search_vector v JOIN space s "
                "ON s.id = v.space_id WHERE to_regclass('search_vector_hnsw_' || v.space_id) "
                "IS NULL AND s.dimension <= %s GROUP BY 1, 2 HAVING count(*) >= %s",
                (MOST_DIMENSIONS, least),
            )
            for space, dimension in spaces:
                # Numbers of our own: an index's definition takes no parameters.
                session.text(
                    f"CREATE INDEX CONCURRENTLY {index_name(space)} ON search_vector USING hnsw "
                    f"((embedding::halfvec({dimension})) halfvec_ip_ops) WHERE space_id = {space}"
                )
            if spaces:
                session.text("ANALYZE")
            return [space for space, _ in spaces]
        finally:
            self._driver = None
            driver.close()

    def build_soon(self) -> None:
        """Let a thread `build`, if none does, and none has a moment ago."""
        with self._lock:
            if self._closed or time.monotonic() < self._not_before:
                return
            if self._thread is not None and self._thread.is_alive():
                return
            self._not_before = time.monotonic() + PAUSE
            self._thread = threading.Thread(target=self._build_quietly, daemon=True)
            self._thread.start()

    def _build_quietly(self) -> None:
        try:
            self.build()
        except psycopg.Error as error:
            if not self._closed:
                logger.warning("building a vector index failed: %s", error)

    def close(self) -> None:
        """Cancel what is being built, and wait until it has ended. Idempotent."""
        with self._lock:
            self._closed = True
            thread = self._thread
        while thread is not None and thread.is_alive():
            driver = self._driver
            if driver is not None:
                with suppress(psycopg.Error):
                    driver.cancel_safe(timeout=5)
            thread.join(0.2)


def _drop_stale(session: PostgresSession) -> None:
    """Drop what a build that failed left behind, and the indexes of spaces that are gone."""
    rows = session.text(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() "
        "AND c.relname LIKE 'search\\_vector\\_hnsw\\_%%' AND (NOT i.indisvalid OR NOT EXISTS "
        "(SELECT FROM space s WHERE 'search_vector_hnsw_' || s.id = c.relname))",
        (),
    )
    for (name,) in rows:
        session.text(f"DROP INDEX CONCURRENTLY {name}")
