"""Connections to a database that is not ours: it is read, in read-only transactions only."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias, TypeVar

import attrs
import psycopg
from psycopg import errors, sql

from triptych import deadlines
from triptych.errors import CancelledError, StoreError, TriptychError
from triptych.resources import url_options
from triptych_postgres.errors import is_lost, store_error
from triptych_postgres.location import PostgresLocation, parse_url
from triptych_postgres.watched import WatchedConnection

T = TypeVar("T")
_Driver: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_TIMEOUT = 30.0
"""Seconds that a statement may take where the URL says nothing."""

_ROUNDED = 0.01
"""Seconds by which the server, which counts in whole ms, may end a statement too early."""

_INHERITED: list[_Driver] = []
"""Connections of a process that this one was forked from: to drop them would warn."""


@attrs.frozen
class Reader:
    """One read-only transaction: all its statements see one state."""

    _driver: _Driver

    def rows(
        self, statement: sql.Composable | str, values: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows of a statement."""
        query = statement if isinstance(statement, str) else statement.as_bytes(self._driver)
        return self._driver.execute(query, dict(values or {}), prepare=False).fetchall()

    def attempt(self, ask: Callable[[], T], where: str) -> T:
        """What ``ask`` reads; if a statement fails, as a StoreError, the transaction goes on."""
        try:
            with self._driver.transaction():
                return ask()
        except psycopg.Error as error:
            if is_lost(error):
                raise
            with table_errors(where):
                raise

    def configure(self, settings: Mapping[str, str]) -> None:
        """Change settings of the server for this transaction."""
        calls = sql.SQL(", ").join(
            sql.SQL("set_config({}, {}, true)").format(sql.Literal(name), sql.Literal(value))
            for name, value in settings.items()
        )
        self._driver.execute(sql.SQL("SELECT {}").format(calls), prepare=False)


class ForeignDatabase:
    """A pool of connections; thread-safe, and fork-safe.

    Nothing is written, no session keeps a setting, and no statement is prepared: a role that may
    read is enough, and a pooler of any mode may stand in between.
    """

    def __init__(self, url: str) -> None:
        """``url`` is one of PostgreSQL, as of a store; ``schema`` plays no role.

        Raises:
            ValidationError: it is invalid.
        """
        location = parse_url(url)
        given = {key for key, _ in url_options(url)}
        if "statement_timeout" not in given:
            location = attrs.evolve(location, statement_timeout=_TIMEOUT)
        self._location: PostgresLocation = location
        self.where: str = location.where
        self._begin()
        self._closed = False

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._idle: deque[_Driver] = deque()
        self._free = threading.BoundedSemaphore(self._location.pool_size)

    def read(self, ask: Callable[[Reader], T]) -> T:
        """What ``ask`` reads in a transaction; asked again if the connection proves lost.

        Raises:
            StoreError: the server cannot be reached, or a statement took too long.
            CancelledError: the deadline has passed.
        """
        deadlines.check("the search")
        if self._pid != os.getpid():
            _INHERITED.extend(self._idle)
            self._begin()
        with table_errors(self.where):
            free = self._free
            if not free.acquire(timeout=self._location.statement_timeout or 300.0):
                raise StoreError(
                    f"all {self._location.pool_size} connections to {self.where} are in use: give "
                    "a greater pool_size in the URL"
                )
            try:
                return self._asked(ask)
            finally:
                free.release()

    def _asked(self, ask: Callable[[Reader], T]) -> T:
        while True:
            try:
                driver, fresh = self._idle.pop(), False
            except IndexError:
                driver, fresh = self._connect(), True
            try:
                return self._transaction(driver, ask)
            except psycopg.Error as error:
                # What waited in the pool may have been cut off meanwhile; a new one counts.
                if fresh or not is_lost(error):
                    raise

    def _transaction(self, driver: _Driver, ask: Callable[[Reader], T]) -> T:
        try:
            driver.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader = Reader(driver)
            reader.configure(
                {
                    "statement_timeout": str(self._millis()),
                    "timezone": "UTC",
                    "jit": "off",
                    "extra_float_digits": "1",
                }
            )
            found = ask(reader)
            driver.execute("COMMIT")
        except BaseException as error:
            self._give_up(driver, error)
            raise
        self._give_back(driver)
        return found

    def _millis(self) -> int:
        left = min(self._location.statement_timeout or 86_400.0, deadlines.remaining() or 86_400.0)
        return max(int(min(left, 86_400.0) * 1000), 1)

    def _give_up(self, driver: _Driver, error: BaseException) -> None:
        """Keep a connection whose statement failed, and close one that is in an unknown state."""
        if isinstance(error, psycopg.Error) and not is_lost(error) and not driver.closed:
            with suppress(psycopg.Error):
                driver.execute("ROLLBACK")
                self._give_back(driver)
                return
        driver.close()

    def _connect(self) -> _Driver:
        if self._closed:
            raise StoreError("this pipeline is closed: open the knowledge base again")
        return WatchedConnection.dial(self._location.conninfo, prepare_threshold=None)

    def _give_back(self, driver: _Driver) -> None:
        if self._closed or driver.closed:
            driver.close()
        else:
            self._idle.append(driver)

    def close(self) -> None:
        """Close what is idle; what is in use closes itself when it comes back. Idempotent."""
        self._closed = True
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return


@contextmanager
def table_errors(where: str) -> Iterator[None]:
    """Let no driver's error out."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error, where) from error


def _translated(error: psycopg.Error, where: str) -> TriptychError:
    text = " ".join(str(error).split())
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"the user of {where} may not read what the pipeline searches ({text}): grant it "
            "USAGE on the schema and SELECT on the table; no other right is needed"
        )
    if isinstance(error, errors.QueryCanceled):
        left = deadlines.remaining()
        if left is not None and left < _ROUNDED:
            return CancelledError(
                f"the deadline passed during a search of the tables in {where}: allow more seconds"
            )
        return StoreError(
            f"a search of the tables in {where} took longer than the statement timeout: make the "
            "index that `triptych doctor` names, or give a longer statement_timeout in the URL"
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreError(
            f"the tables in {where} have changed since the pipeline was opened ({text}): correct "
            "the pipeline's columns, and open it again"
        )
    if isinstance(error, errors.UndefinedFunction | errors.UndefinedObject):
        return StoreError(
            f"the tables in {where} have changed since the pipeline was opened, or the extension "
            f"pgvector is gone ({text}): check the types of the columns that the pipeline names, "
            "and open it again"
        )
    return store_error(error, where)
