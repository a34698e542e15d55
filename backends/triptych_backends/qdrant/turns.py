"""Who may write to Qdrant: one thread at a time, of all processes that have the store open."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from triptych import deadlines
from triptych.errors import CancelledError, StoreLockedError
from triptych_backends.qdrant.points import BusyError
from triptych_backends.qdrant.truth import SharedDatabase

_POLL = 0.1
"""Seconds after which a thread that waits for another looks whether it was cancelled."""


class Turns:
    """The turns to write to Qdrant, which messages call ``where``. Thread-safe."""

    def __init__(self, database: SharedDatabase, where: str) -> None:
        self._database = database
        self._where = where
        self._lock = threading.Lock()

    @contextmanager
    def held(self, wait: float | None = None) -> Iterator[None]:
        """Hold the turn; wait for it ``wait`` seconds, by default as long as the database does.

        Raises:
            BusyError: another thread or process had it for longer.
            CancelledError: the deadline has passed.
        """
        wait = self._database.lock_timeout if wait is None else wait
        left = deadlines.remaining()
        if left is not None:
            wait = min(wait, left)
        end = time.monotonic() + wait
        # First among the threads: a turn may take a connection while it waits.
        while not self._lock.acquire(timeout=min(_POLL, max(end - time.monotonic(), 0))):
            deadlines.check("the search")
            if time.monotonic() >= end:
                raise self._busy(wait)
        try:
            with ExitStack() as held:
                left = max(end - time.monotonic(), 0)
                try:
                    held.enter_context(self._database.turn("qdrant", wait=left))
                except StoreLockedError as error:
                    raise self._busy(wait) from error
                yield
        finally:
            self._lock.release()

    def _busy(self, wait: float) -> BusyError:
        deadlines.check("the search")
        return BusyError(
            f"another thread or process has been writing to Qdrant at {self._where} for longer "
            f"than {wait:g} s: try again when it is done, or give a longer lock_timeout"
        )


def is_over(end: float) -> bool:
    """Whether the time is ``end``, or the deadline has passed."""
    try:
        deadlines.check()
    except CancelledError:
        return True
    return time.monotonic() >= end
