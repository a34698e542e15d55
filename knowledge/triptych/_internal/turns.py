"""Serializing searches that compute in this process, because of the interpreter's lock.

A search makes hundreds of short calls of SQLite and NumPy. Each lets go of the interpreter's lock
and then wants it back, so that threads which search at the same time interrupt each other at every
call, and pass what they work on from core to core: eight find half of what one finds
(docs/explanation/performance.md). Therefore they queue. A search lets the next go on while it waits
for a model or another store. Without the interpreter's lock there are as many turns as cores.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from triptych import deadlines
from triptych._internal.forks import in_child

_LOOK = 0.25  # seconds after which who waits looks whether its call was cancelled


class Turns:
    """At most ``count`` threads have a turn at a time. Thread-safe; a forked child starts with none
    taken.

    A thread that has given its turn back may be the next to take one, for it need not be woken.
    Whoever has waited for ``patience`` seconds comes before that, first come, first served. After
    ``longest`` seconds it goes on without a turn: turns are for speed, and none may block a call.
    """

    def __init__(self, count: int, *, patience: float = 0.05, longest: float = 10.0) -> None:
        self._count = count
        self._patience = patience
        self._longest = longest
        self._begin()
        in_child(self._begin)

    def _begin(self) -> None:
        self._free = threading.Semaphore(self._count) if self._count > 1 else threading.Lock()
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._mine = threading.local()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a turn, unless this thread is in one, and keep it for the block.

        Raises:
            CancelledError: the deadline around the call passed first.
        """
        mine = self._mine
        if getattr(mine, "has_turn", False):
            yield
            return
        mine.has_turn = self._take()
        try:
            yield
        finally:
            # A fork in the block, or a deadline while it was given up, has taken it away.
            if mine is self._mine and mine.has_turn:
                mine.has_turn = False
                self._give()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let others have this thread's turn, if it has one, for the block.

        Raises:
            CancelledError: the deadline around the call passed before it was its turn again.
        """
        mine = self._mine
        if not getattr(mine, "has_turn", False):
            yield
            return
        mine.has_turn = False
        self._give()
        try:
            yield
        finally:
            if mine is self._mine:
                mine.has_turn = self._take()

    def _take(self) -> bool:
        """Wait for a turn; False: for too long."""
        if self._free.acquire(timeout=self._patience):
            return True
        turn = threading.Lock()
        turn.acquire()
        with self._lock:
            self._waiting.append(turn)
        # It may have been given back since.
        if self._free.acquire(blocking=False):
            self._give()
        end = time.monotonic() + self._longest
        try:
            while not turn.acquire(timeout=_LOOK):
                deadlines.check("the wait for other searches")
                if time.monotonic() > end:
                    return not self._withdrawn(turn)
        except BaseException:
            if not self._withdrawn(turn):
                self._give()
            raise
        return True

    def _withdrawn(self, turn: threading.Lock) -> bool:
        """Wait no longer; False where the turn came meanwhile."""
        with self._lock:
            is_waiting = turn in self._waiting
            if is_waiting:
                self._waiting.remove(turn)
        return is_waiting

    def _give(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._free.release()


def _count() -> int:
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return 1 if has_lock else os.cpu_count() or 1


SEARCHES = Turns(_count())
