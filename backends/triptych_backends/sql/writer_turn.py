"""The turn of a writer among the threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from triptych.errors import StoreError, StoreLockedError


class WriterTurn:
    """One thread writes to a store at a time; the database sees to other processes.

    ``wait`` is how many seconds a thread waits for its turn.
    """

    def __init__(self, where: str, *, wait: float, read_only: bool) -> None:
        self._where = where
        self._wait = wait
        self._read_only = read_only
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The turn, until the context ends.

        Raises:
            StoreLockedError: other threads wrote for longer than the wait.
            StoreError: the store was opened read-only.
        """
        if self._read_only:
            raise StoreError(f"the store {self._where} was opened read-only: open it for writing")
        lock = self._lock
        if not lock.acquire(timeout=min(self._wait, threading.TIMEOUT_MAX)):
            raise StoreLockedError(
                f"another thread wrote to the store {self._where} for longer than "
                f"{self._wait:g} s: try again, or give a longer lock_timeout"
            )
        try:
            yield
        finally:
            lock.release()

    def after_fork_in_child(self) -> None:
        """Free the turn: the thread that had it is not in this process."""
        self._lock = threading.Lock()
