"""The options of a reloader, its clock, and the records of its rebuilds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import attrs
from attrs.validators import optional

from triptych import deadlines
from triptych.errors import ValidationError
from triptych.records import RebuildReport, RebuildScope
from triptych.records.values import number


class Clock(Protocol):
    """The clock of a reloader, which tests can replace."""

    def now(self) -> float:
        """Return monotonic seconds since a fixed moment. Called from several threads."""
        ...

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Release ``condition``, which the caller holds, and acquire it again after it is notified
        or after ``timeout`` seconds (None: no timeout). It may return early."""
        ...


LOOK_UP = 1.0
"""The maximum wait in seconds: a signal that arrives just when the main thread starts to wait for a
lock is handled only when the thread wakes, and cancelling a deadline wakes no thread."""


_POLL = 0.1
"""Seconds between checks of a deadline, which cannot notify a condition."""


class SystemClock:
    """The default clock: `time.monotonic`."""

    def now(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """See `Clock.wait`."""
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
    """The record of one rebuild by a reloader.

    Attributes:
        scope: the scope of the rebuild.
        events: the number of events that caused it, including those of earlier failed windows.
        attempt: 1, plus the number of directly preceding failures.
        duration: seconds.
        report: the report of the rebuild; None if it raised.
        error: the error that it raised, or None. A report with ``failed`` items is also a failure,
            without an error.
        retry: the scope that is pending again because it failed, or None.
        retry_in: seconds until it is tried again without new events; None if it is not: all was
            done, the dataset is gone, or the reloader was closed.
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
"""Called after each rebuild in the rebuilding thread; events are still collected, but the next
rebuild waits for it."""


_ABOVE_0 = number(of="seconds", above=True)
_NONE_OR_ABOVE_0: Any = optional(_ABOVE_0)


@attrs.frozen(kw_only=True, slots=True)
class ReloaderOptions:
    """The times of an `EventReloader`, all in seconds.

    Attributes:
        debounce: a rebuild starts when there was no event for this long; 0 does not wait.
        max_delay: under a steady stream of events, it starts this long after the first.
        rebuild_timeout: the deadline of one rebuild; None sets none. Work committed until then
            remains, and the window counts as failed.
        backoff_initial: the delay before a failed window is tried again.
        backoff_max: the delay doubles with each consecutive failure, up to this maximum.

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
                f"max_delay ({self.max_delay}) is below debounce ({self.debounce}), which would "
                "then never elapse: raise max_delay or lower debounce"
            )
        if self.backoff_max < self.backoff_initial:
            raise ValidationError(
                f"backoff_max ({self.backoff_max}) is below backoff_initial "
                f"({self.backoff_initial}): raise backoff_max or lower backoff_initial"
            )
