"""Time and waiting, as the reloader takes them: one small object that a test can replace."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Where a reloader's seconds come from."""

    def now(self) -> float:
        """Seconds since some fixed moment; never goes back. Called from several threads."""
        ...

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Release ``condition``, which the caller holds, and take it again once it was
        notified or ``timeout`` seconds have passed (None: only once notified). May return
        early."""
        ...


LOOK_UP = 1.0
"""Seconds. A signal that comes just as the main thread falls asleep on a lock leaves its
handler waiting until the thread wakes, and cancelling a deadline wakes nobody: so no wait is
longer than this."""


class SystemClock:
    """The real one: `time.monotonic`, which no change of the wall clock touches."""

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """As `Clock.wait`."""
        condition.wait(LOOK_UP if timeout is None else min(timeout, LOOK_UP))
