"""Time and waiting, as the reloader takes them: one small object that a test can replace."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


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


class SystemClock:
    """The real one: `time.monotonic`, which no change of the wall clock touches."""

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """As `Clock.wait`."""
        # The platform refuses waits of centuries; coming back early is allowed.
        condition.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))
