"""Connections whose waits end where the server stands still: all other limits are the server's."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Hashable
from contextlib import closing
from functools import cached_property
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from triptych import deadlines
from triptych.errors import CancelledError, StoreError
from triptych_backends.sql import KEPT_ROWS
from triptych_postgres.errors import is_starting

_AT_LEAST: Final = 1.0
"""Seconds that a statement has, also after the deadline: what is begun can be tidied up."""
_SHORTEST: Final = 2
"""Seconds: the driver does not connect with less."""
_UNACKNOWLEDGED: Final = 10_000
"""Milliseconds for which a machine may be gone that data was sent to."""
RUN_BITS: Final = 24
"""A run of ids has 2 to the power of this: more than one write ever draws."""
# Two statements without parameters go to the server at once.
_BEGIN: Final = (
    b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
    b"SELECT CASE WHEN NOT pg_is_in_recovery() THEN pg_current_snapshot()::text END"
)


def server_answers(conninfo: str) -> bool:
    """Whether the server takes a connection, or refuses it, within two seconds; True where the
    deadline passes before that is known."""
    try:
        WatchedConnection.connect(conninfo, connect_timeout=_SHORTEST).close()
    except CancelledError:
        return True
    except psycopg.Error as error:
        away = isinstance(error, psycopg.errors.ConnectionTimeout) or is_starting(error)
        return not away and "temporarily unavailable" not in str(error)
    return True


class WatchedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that ends where a statement waits past the deadline, or for a server that does
    not take another connection either. Slow statements have all the time that the server gives.

    Attributes:
        conninfo: what another connection is made by.
        patience: seconds without an answer after which another connection is tried.
        rows: what was read of the state that its transaction reads, by `CachedSession`.
    """

    conninfo: str = ""
    patience: float = 5.0
    _state: str | None = None
    _next_id = _last_id = _sequence = 0

    @classmethod
    def dial(cls, conninfo: str, *, seconds: float = 5.0, **options: Any) -> WatchedConnection:
        """A new connection, each statement a transaction of its own; waits for ``seconds`` at most,
        and for the deadline. Raises psycopg.Error."""
        left = deadlines.remaining()
        seconds = seconds if left is None else min(seconds, left)
        if "tcp_user_timeout" not in conninfo:
            options["tcp_user_timeout"] = _UNACKNOWLEDGED
        driver = cls.connect(
            conninfo,
            autocommit=True,
            connect_timeout=max(math.ceil(seconds), _SHORTEST),
            fallback_application_name="triptych",
            **options,
        )
        driver.conninfo = conninfo
        return driver

    @classmethod
    def _connect_gen(cls, *args: Any, **options: Any) -> Generator[Any, Any, Any]:
        """See `psycopg.Connection`: also ended by the deadline, while no limit is below 2 s."""
        with closing(super()._connect_gen(*args, **options)) as gen:
            state = next(gen)
            while True:
                ready = yield state
                deadlines.check("connecting to the server")
                try:
                    state = gen.send(ready)
                except StopIteration as end:
                    return end.value

    @cached_property
    def rows(self) -> dict[Hashable, list[tuple[Any, ...]]]:
        return {}

    def draw_ids_of(self, sequence: int) -> None:
        """Draw from another sequence than before, where a copy was put in the store's place."""
        if sequence != self._sequence:
            self._sequence, self._next_id, self._last_id = sequence, 0, 0

    def new_ids(self, count: int) -> int:
        """The first of ``count`` numbers in a row that nothing has as its id: no writer waits for
        another. What a transaction does not use, or rolls back, is used by none."""
        if count > 1 << RUN_BITS:
            raise StoreError(f"{count} rows are more than one write puts: split it")
        if self._next_id + count > self._last_id:
            row = self.execute("SELECT nextval('id_run')").fetchone()
            assert row is not None
            self._next_id, self._last_id = row[0] << RUN_BITS, (row[0] + 1) << RUN_BITS
        first, self._next_id = self._next_id, self._next_id + count
        return int(first)

    def begin_reading(self) -> None:
        """Begin a read transaction of one state, with the `rows` of an earlier one of the same.

        Every commit gives the snapshot another name. A replica's does not tell which transactions
        it leaves out, so that each has rows of its own.
        """
        cursor = self.execute(_BEGIN)
        cursor.nextset()
        row = cursor.fetchone()
        state = row[0] if row else None
        if state is None or state != self._state or len(self.rows) >= KEPT_ROWS:
            self.rows.clear()
        self._state = state

    @cached_property
    def reader(self) -> psycopg.Cursor[tuple[Any, ...]]:
        """A cursor for statements whose rows are read before the next one: to make another takes
        a quarter of the time of a short statement."""
        return self.cursor(binary=True)

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """See `psycopg.Connection.wait`, which sends nothing to ``gen`` ten times a second."""
        return super().wait(self._watched(gen), *args, **options)

    def _watched(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        began, patience = time.monotonic(), self.patience
        heard = began
        try:
            state = next(gen)
            while True:
                ready = yield state
                now = time.monotonic()
                if ready:
                    heard = now
                elif self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                    if now - heard >= patience:
                        self._check_server()
                        patience += now - heard  # a slow statement is asked for ever more seldom
                    if now - began >= _AT_LEAST:
                        self._check_deadline()
                state = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _check_server(self) -> None:
        if not server_answers(self.conninfo):
            self.pgconn.finish()
            raise psycopg.OperationalError("the server hangs: it does not respond")

    def _check_deadline(self) -> None:
        try:
            deadlines.check("waiting for the server")
        except BaseException:
            self.pgconn.finish()
            raise
