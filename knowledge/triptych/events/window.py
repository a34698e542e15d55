"""The window of events that wait for a rebuild: pure bookkeeping, with the time as an argument."""

from __future__ import annotations

from random import Random

import attrs

from triptych.events.options import ReloaderOptions
from triptych.events.scopes import join_scopes
from triptych.records import RebuildScope

_MAX_DOUBLINGS = 64


@attrs.frozen(kw_only=True, slots=True)
class Taken:
    """A window on its way into a rebuild."""

    scope: RebuildScope
    events: int
    attempt: int


class Window:
    """What is pending, and when it is due. Not thread-safe: the reloader's lock guards it.

    Fresh events are due ``debounce`` after the last of them, and at the latest ``max_delay``
    after the first. What failed is due when its backoff has passed. Both are one window, due
    at whichever comes first: a new event is often the repair, and must not be held back by
    an old failure.
    """

    def __init__(self, options: ReloaderOptions, random: Random) -> None:
        self._options = options
        self._random = random
        self._first = self._last = 0.0
        self._fresh = False
        self._retry_at: float | None = None
        self._events = 0
        self._failures = 0
        self.scope: RebuildScope | None = None

    def add(self, scope: RebuildScope, now: float) -> bool:
        """An event touched ``scope`` at ``now``; whether the window may be due sooner by it.

        Only the first fresh event can do that: all others put it off.
        """
        self.scope = join_scopes(self.scope, scope)
        self._events += 1
        self._last = now
        if self._fresh:
            return False
        self._fresh, self._first = True, now
        return True

    def due(self) -> float | None:
        """When the next rebuild may start; None while nothing asks for one."""
        times = [] if self._retry_at is None else [self._retry_at]
        if self._fresh:
            options = self._options
            times.append(min(self._last + options.debounce, self._first + options.max_delay))
        return min(times, default=None)

    def take(self) -> Taken:
        """Everything that is pending; the window is empty afterwards."""
        assert self.scope is not None  # the caller has looked
        taken = Taken(scope=self.scope, events=self._events, attempt=self._failures + 1)
        self.scope, self._retry_at = None, None
        self._fresh, self._events = False, 0
        return taken

    def done(self) -> None:
        """What was taken needs no further rebuild."""
        self._failures = 0

    def failed(self, taken: Taken, left: RebuildScope, now: float) -> float:
        """``left`` of what was taken failed: it is pending again; the seconds until its retry.

        The wait doubles with every failure in a row, and is drawn from the upper half of its
        range, so that the reloaders of several processes do not retry in step ("equal
        jitter": M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).
        """
        doublings = min(self._failures, _MAX_DOUBLINGS)
        ceiling = min(self._options.backoff_initial * 2.0**doublings, self._options.backoff_max)
        wait = ceiling * self._random.uniform(0.5, 1.0)
        self._failures += 1
        self._retry_at = now + wait
        self.put_back(taken, left)
        return wait

    def put_back(self, taken: Taken, left: RebuildScope) -> None:
        """``left`` of what was taken was not rebuilt; nothing says when it will be."""
        self.scope = join_scopes(left, self.scope)
        self._events += taken.events
