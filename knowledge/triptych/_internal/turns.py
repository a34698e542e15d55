"""Serializing searches that compute in this process, because of the interpreter's lock.

A search makes hundreds of short calls of SQLite and NumPy. Each lets go of the interpreter's lock
and then wants it back, so that threads which search at the same time interrupt each other at every
call, and pass what they work on from core to core: eight find half of what one finds
(docs/explanation/performance.md). Therefore they queue. A search lets the next go on while it waits
for a model or another store, and a long one between its parts. Without the interpreter's lock there
are as many turns as cores.
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
_PART = 0.025  # seconds of a turn after which it is passed on
_FIRST = 4  # turns that come before one that was passed on


class WouldWaitError(BaseException):
    """Ends a call in a block of `Turns.hurried`; nobody who reports failures catches it."""


class _Mine(threading.local):
    """What a thread has: a turn, since when, and until when it may compute, if it is hurried."""

    has_turn = False
    since = 0.0
    until: float | None = None


class _Taken:
    """The block of `Turns.taken`. Every search has one, and a generator would make more calls."""

    __slots__ = ("_mine", "_needs_one", "_turns")

    def __init__(self, turns: Turns, needs_one: bool) -> None:
        self._turns = turns
        self._needs_one = needs_one
        self._mine: _Mine | None = None  # what is to be given back

    def __enter__(self) -> None:
        turns, mine = self._turns, self._turns._mine
        if self._needs_one and not mine.has_turn:
            mine.has_turn = turns._free.acquire(blocking=False) or turns._take()
            mine.since = time.monotonic()
            self._mine = mine

    def __exit__(self, *error: object) -> None:
        mine, turns = self._mine, self._turns
        # A fork in the block, or a deadline while it was given up, has taken it away.
        if mine is not None and mine is turns._mine and mine.has_turn:
            mine.has_turn = False
            turns._give()


class Turns:
    """At most ``count`` threads have a turn at a time. Thread-safe; a forked child starts with none
    taken.

    A thread that has given its turn back may be the next to take one, for it need not be woken.
    Whoever has waited for ``patience`` seconds comes before that, first come, first served. Who has
    passed its turn on comes after four others, or when nobody else waits. After ``longest`` seconds
    it goes on without a turn: turns are for speed, and none may block a call.
    """

    def __init__(self, count: int, *, patience: float = 0.05, longest: float = 10.0) -> None:
        self._count = count
        self._part = min(patience, _PART)
        self._patience = patience
        self._longest = longest
        self._begin()
        in_child(self._begin)

    def _begin(self) -> None:
        self._free = threading.Semaphore(self._count) if self._count > 1 else threading.Lock()
        self._lock = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._late: deque[threading.Lock] = deque()
        self._coming = self._before = 0
        self._mine = _Mine()

    def taken(self, needs_one: bool = True) -> _Taken:
        """Wait for a turn, unless this thread is in one or needs none, and keep it for the block.

        Raises:
            CancelledError: the deadline around the call passed first.
        """
        return _Taken(self, needs_one)

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Let others have this thread's turn, if it has one, for the block.

        Raises:
            CancelledError: the deadline around the call passed before it was its turn again.
        """
        mine = self._mine
        if mine.until is not None:
            raise WouldWaitError
        if not mine.has_turn:
            yield
            return
        mine.has_turn = False
        self._give()
        try:
            yield
        finally:
            if mine is self._mine:
                mine.has_turn = self._take()
                mine.since = time.monotonic()

    @contextmanager
    def hurried(self, seconds: float) -> Iterator[None]:
        """Have this thread wait for nothing in the block: neither for a turn, nor where a turn is
        given up, nor between the parts of what lasts longer than ``seconds``.

        Raises:
            WouldWaitError: it had to wait. What only reads can be called again.
        """
        mine = self._mine
        mine.until = time.monotonic() + seconds
        try:
            yield
        finally:
            mine.until = None

    def pass_on(self, doing: str) -> None:
        """Let those who wait come first, where this thread has had its turn for a while: what
        lasts calls it between its parts, and holds no lock meanwhile.

        Raises:
            CancelledError: the deadline around the call passed.
        """
        if deadlines.CURRENT.get() is not None:
            deadlines.check(doing)
        mine, now = self._mine, time.monotonic()
        if mine.until is not None and now > mine.until:
            raise WouldWaitError
        if not mine.has_turn or now - mine.since < self._part:
            return
        if self._waiting or self._coming or self._late:
            mine.has_turn = False
            turn = self._queued(self._late)
            self._give()
            mine.has_turn, mine.since = self._wait(turn), time.monotonic()

    def _take(self) -> bool:
        """Wait for a turn; False: for too long."""
        if self._free.acquire(blocking=False):
            return True
        if self._mine.until is not None:
            raise WouldWaitError
        with self._lock:
            self._coming += 1
        is_free = self._free.acquire(timeout=self._patience)
        with self._lock:
            self._coming -= 1
        return is_free or self._wait(self._queued(self._waiting))

    def _queued(self, queue: deque[threading.Lock]) -> threading.Lock:
        turn = threading.Lock()
        turn.acquire()
        with self._lock:
            queue.append(turn)
        return turn

    def _wait(self, turn: threading.Lock) -> bool:
        """Wait for a turn in a queue; False: for too long."""
        end = time.monotonic() + self._longest
        try:
            while True:
                # It may have been given back since.
                if self._free.acquire(blocking=False):
                    self._give()
                if turn.acquire(timeout=_LOOK):
                    return True
                deadlines.check("the wait for other searches")
                if time.monotonic() > end:
                    return not self._withdrawn(turn)
        except BaseException:
            if not self._withdrawn(turn):
                self._give()
            raise

    def _withdrawn(self, turn: threading.Lock) -> bool:
        """Wait no longer; False where the turn came meanwhile."""
        with self._lock:
            for queue in (self._waiting, self._late):
                if turn in queue:
                    queue.remove(turn)
                    return True
        return False

    def _give(self) -> None:
        with self._lock:
            is_late = self._late and (self._before >= _FIRST or not (self._waiting or self._coming))
            self._before = self._before + 1 if self._late and not is_late else 0
            queue = self._late if is_late else self._waiting
            if queue:
                queue.popleft().release()
            else:
                self._free.release()


def _count() -> int:
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return 1 if has_lock else os.cpu_count() or 1


SEARCHES = Turns(_count())
"""The turns of searches, and of what else computes for long while others may search."""
