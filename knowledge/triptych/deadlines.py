"""Deadlines and cancellation, held in a context variable.

``with triptych.deadline(30):`` limits the calls inside the block. Long calls call `check` between
batches; batches committed before the deadline remain. A nested deadline cannot extend an outer one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from triptych.errors import CancelledError, ValidationError


class CancelScope:
    """One ``with deadline(...)`` block; `cancel` may be called from any thread."""

    __slots__ = ("_cancelled", "_outer", "_until")

    def __init__(self, until: float, outer: CancelScope | None) -> None:
        self._until: float = until if outer is None else min(until, outer._until)
        self._outer = outer
        self._cancelled = False

    def cancel(self) -> None:
        """End the calls inside this block at their next check."""
        self._cancelled = True

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called here or on a block around this one."""
        outer = self._outer
        return self._cancelled or (outer is not None and outer.cancelled)

    @property
    def remaining(self) -> float:
        """Seconds left; infinity without a deadline, never below zero."""
        return max(self._until - time.monotonic(), 0.0)


CURRENT: ContextVar[CancelScope | None] = ContextVar("triptych_deadline", default=None)
"""The innermost block around a call."""


@contextmanager
def deadline(seconds: float | None = None) -> Iterator[CancelScope]:
    """Limit the calls inside the block to ``seconds`` from now (None: only cancellable).

    Raises:
        ValidationError: ``seconds`` is negative or not a number.
    """
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if seconds is not None and not (number and seconds >= 0):
        raise ValidationError(f"a deadline is a number of seconds from 0 up, not {seconds!r}")
    until = math.inf if seconds is None else time.monotonic() + seconds
    scope = CancelScope(until, CURRENT.get())
    token = CURRENT.set(scope)
    try:
        yield scope
    finally:
        CURRENT.reset(token)


def check(doing: str = "the call") -> None:
    """Raise `CancelledError` when the deadline around this call has passed or was cancelled."""
    scope = CURRENT.get()
    if scope is None:
        return
    if scope.cancelled:
        raise CancelledError(f"{doing} was cancelled; committed work remains")
    if scope.remaining <= 0:
        raise CancelledError(
            f"the deadline passed during {doing}; committed work remains: call again to continue, "
            "or allow more seconds"
        )


def remaining() -> float | None:
    """Seconds left before the deadline around this call, None when there is none."""
    scope = CURRENT.get()
    if scope is None:
        return None
    left = scope.remaining
    return None if math.isinf(left) else left
