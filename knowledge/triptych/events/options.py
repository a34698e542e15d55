"""The options of a reloader, its clock, how its parts wait, and the records of its rebuilds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import attrs
from attrs.validators import optional

from triptych import deadlines
from triptych._internal.numbers import number
from triptych.errors import ValidationError
from triptych.records import RebuildReport, RebuildScope


class Clock(Protocol):
    """Where a reloader's seconds come from: one small object that a test can replace."""

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


_POLL = 0.1
"""Seconds between two looks at a deadline, which cannot notify the condition it cancels."""


class SystemClock:
    """The real one: `time.monotonic`, which no change of the wall clock touches."""

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """As `Clock.wait`."""
        condition.wait(LOOK_UP if timeout is None else min(timeout, LOOK_UP))


def wait_for(condition: threading.Condition, predicate: Callable[[], bool], doing: str) -> None:
    """Wait until ``predicate`` holds; the caller holds ``condition``.

    Raises:
        CancelledError: the deadline around this call passed, or was cancelled.
    """
    while not predicate():
        deadlines.check(doing)
        left = deadlines.remaining()
        # Cancelling a deadline cannot notify this condition, so it is looked for.
        condition.wait(_POLL if left is None else min(left, _POLL))


@attrs.frozen(kw_only=True, slots=True)
class RebuildRecord:
    """One rebuild that a reloader has made, or tried to make.

    Attributes:
        scope: what was to be rebuilt.
        events: how many events asked for it, those of failed windows before it included.
        attempt: 1, and one more for every failure in a row before it.
        duration: seconds.
        report: what the rebuild did, its cost included; None when it raised.
        error: what it raised; None when it did not. A report with ``failed`` items is a
            failure as well, without an error.
        retry: what is pending again because it failed; None when nothing is.
        retry_in: seconds until it is tried again without new events; None when it is not:
            all was done, or the named dataset is gone, or the reloader was closed.
    """

    scope: RebuildScope
    events: int
    attempt: int
    duration: float
    report: RebuildReport | None = None
    error: Exception | None = attrs.field(default=None, eq=False)
    retry: RebuildScope | None = None
    retry_in: float | None = None


RebuildCallback = Callable[[RebuildRecord], None]
"""Called after each rebuild, in the thread that rebuilds: events go on being gathered, but the
next rebuild waits for it."""


_ABOVE_0 = number(of="seconds", above=True)
_NONE_OR_ABOVE_0: Any = optional(_ABOVE_0)


@attrs.frozen(kw_only=True, slots=True)
class ReloaderOptions:
    """Times of an `EventReloader`, all in seconds.

    Attributes:
        debounce: a rebuild starts when no event has come for this long; 0 waits for nothing.
        max_delay: under a steady stream of events, it starts this long after the first.
        rebuild_timeout: the deadline of one rebuild; None sets none. What the rebuild has
            committed by then stays, and the window counts as failed.
        backoff_initial: how long after the first failure a window is tried again.
        backoff_max: the wait doubles with every failure in a row, up to this.

    Raises:
        ValidationError: a field is not a duration, ``max_delay`` is below ``debounce``, or
            ``backoff_max`` below ``backoff_initial``.
    """

    debounce: float = attrs.field(default=0.5, validator=number(of="seconds"))
    max_delay: float = attrs.field(default=5.0, validator=number(of="seconds"))
    rebuild_timeout: float | None = attrs.field(default=30.0, validator=_NONE_OR_ABOVE_0)
    backoff_initial: float = attrs.field(default=1.0, validator=_ABOVE_0)
    backoff_max: float = attrs.field(default=300.0, validator=_ABOVE_0)

    def __attrs_post_init__(self) -> None:
        if self.max_delay < self.debounce:
            raise ValidationError(
                f"max_delay ({self.max_delay}) is below debounce ({self.debounce}), which "
                "could then never be waited for: raise the one or lower the other"
            )
        if self.backoff_max < self.backoff_initial:
            raise ValidationError(
                f"backoff_max ({self.backoff_max}) is below backoff_initial "
                f"({self.backoff_initial}): raise the one or lower the other"
            )
