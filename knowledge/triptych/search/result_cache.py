"""Where the semantic cache keeps results of searches: a SQLite file beside the store, or memory."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import attrs
import numpy as np

from triptych._internal.forks import renewed_in_child
from triptych.errors import StoreError
from triptych.records import CacheStats, Vector
from triptych.resources.files import delete_results

_TABLES = """
CREATE TABLE IF NOT EXISTS result (
    id INTEGER PRIMARY KEY AUTOINCREMENT, maker TEXT NOT NULL, head TEXT NOT NULL,
    request TEXT NOT NULL, created_at REAL NOT NULL, vector BLOB NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS result_request ON result (request);
CREATE TABLE IF NOT EXISTS lookup (kind TEXT PRIMARY KEY, count INTEGER NOT NULL);
"""
_WAIT = 2.0  # seconds for another process, which holds the file for some milliseconds


@attrs.frozen(kw_only=True, eq=False)
class KeptResult:
    """A result that is kept.

    Attributes:
        request: the digest of options, filters and configuration: everything that decides the
            result except the question's wording and what the store holds.
        head: the end of the store's change log (`ChangeReader.change_head`) before the search.
        vector: the question's unit vector.
        created_at: when the search began, in seconds since 1970.
        body: the question and its result, serialized.
        maker: who keeps it: a name that no other cache has.
    """

    request: str
    head: str
    vector: Vector = attrs.field(repr=False)
    created_at: float
    body: str = attrs.field(repr=False)
    maker: str = ""


class ResultCache:
    """Results of searches in the file ``path``, or in this object's memory (None).

    Thread-safe and fork-safe. The file is opened for each call, so that it can be deleted at any
    time. A damaged file is deleted. Methods raise `StoreError` where it cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._memory: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        _CACHES.add(self)

    def renew(self) -> None:
        """In a forked child, begin with nothing: memory and lock are the parent's."""
        self._memory, self._lock = None, threading.Lock()

    def vectors(self, request: str, head: str) -> dict[int, Vector]:
        """Return the vectors of the questions with a result for ``request``, newest first."""
        with self._opened() as driver:
            rows = driver.execute(
                "SELECT id, vector FROM result WHERE request = ? AND head = ? ORDER BY id DESC",
                (request, head),
            ).fetchall()
        return {key: np.frombuffer(data, dtype="<f4") for key, data in rows}

    def get(self, key: int) -> tuple[float, str] | None:
        """Return when a result was made, and its body; None if it is gone."""
        with self._opened() as driver:
            row: tuple[float, str] | None = driver.execute(
                "SELECT created_at, body FROM result WHERE id = ?", (key,)
            ).fetchone()
        return row

    def keep(
        self, result: KeptResult, *, most: int, oldest: float, head: Callable[[], str]
    ) -> bool:
        """Keep ``result`` if ``head()`` is still its own; return whether it is.

        Drop all results of another head, those made before ``oldest``, and all but the newest
        ``most``.
        """
        with self._opened() as driver:
            driver.execute("BEGIN IMMEDIATE")
            data = np.ascontiguousarray(result.vector, dtype="<f4").tobytes()
            driver.execute(
                "INSERT INTO result (maker, head, request, created_at, vector, body) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (result.maker, result.head, result.request, result.created_at, data, result.body),
            )
            # Asked once this has the file: whoever deletes it after a write waits, or finds a file
            # that is not this one.
            if head() != result.head:
                return False
            driver.execute(
                "DELETE FROM result WHERE head != ? OR created_at < ? OR id <= "
                "(SELECT id FROM result ORDER BY id DESC LIMIT 1 OFFSET ?)",
                (result.head, oldest, most),
            )
            driver.execute("COMMIT")
            return True

    def count_lookups(self, *, hits: int, misses: int) -> None:
        """Add to the counts of searches that hit and that missed the cache."""
        with self._opened() as driver:
            driver.executemany(
                "INSERT INTO lookup VALUES (?, ?) "
                "ON CONFLICT (kind) DO UPDATE SET count = count + excluded.count",
                [("hits", hits), ("misses", misses)],
            )

    def stats(self, head: str, maker: str | None = None) -> CacheStats:
        """Return the number of results of ``head`` (of one ``maker``), and the lookups."""
        if self._memory is None if self._path is None else not self._path.exists():
            return CacheStats()
        with self._opened() as driver:
            counts = dict(driver.execute("SELECT kind, count FROM lookup"))
            ((entries,),) = driver.execute(
                "SELECT count(*) FROM result WHERE head = ? AND maker = coalesce(?, maker)",
                (head, maker),
            )
        return CacheStats(
            entries=entries, hits=counts.get("hits", 0), misses=counts.get("misses", 0)
        )

    def erase(self) -> None:
        """Delete all results and counts, with the file. Idempotent.

        Raises:
            StoreError: the file cannot be deleted.
        """
        if self._path is not None:
            delete_results(self._path)
        self.close()

    def close(self) -> None:
        """Forget what is in memory. Idempotent."""
        with self._lock:
            memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Within it, a connection, on which a transaction that does not end is undone."""
        try:
            if self._path is None:
                with self._lock:
                    if self._memory is None:
                        self._memory = _connect(":memory:")
                    try:
                        yield self._memory
                    finally:
                        self._memory.rollback()
                return
            _create(self._path)
            with closing(_connect(self._path)) as driver:
                yield driver
        except (sqlite3.Error, OSError) as error:
            if self._path is not None and type(error) is sqlite3.DatabaseError:
                delete_results(self._path)  # it is damaged; a busy file has another error
            raise StoreError(f"{self._path or 'memory'}: {error}") from error


def _connect(path: Path | str) -> sqlite3.Connection:
    driver = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
    try:
        driver.execute("PRAGMA trusted_schema=OFF")
        driver.executescript(_TABLES)
    except BaseException:
        driver.close()
        raise
    return driver


def _create(path: Path) -> None:
    """Create the file with the permissions of the store beside it, whose texts it holds."""
    with suppress(FileExistsError):
        mode = path.with_suffix("").stat().st_mode & 0o666
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        path.chmod(mode)


_CACHES = renewed_in_child("renew")
