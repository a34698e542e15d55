"""How long one call may take: its timeouts, its clock, and the pauses that servers ask for."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import attrs

from triptych import deadlines
from triptych.errors import CancelledError, ProviderTimeoutError, ValidationError

T = TypeVar("T")

_SLICE = 0.05  # seconds between two looks at whether the call was cancelled


def _positive(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValidationError(f"{attribute.name} is a number of seconds above 0, not {value!r}")


@attrs.frozen(kw_only=True, slots=True)
class Timeouts:
    """Seconds that one call may take.

    Attributes:
        connect: until the connection stands.
        read: between two pieces of the answer, and before the first.
        call: for the whole: waiting for a free place, every attempt, the pauses between them
            and the last byte of a stream. It ends then, as it does at a deadline around it,
            whatever the server does. A lookup of the server's name is left to end on a thread of
            its own, until the resolver gives up.
    """

    connect: float = attrs.field(default=10.0, validator=_positive)
    read: float = attrs.field(default=120.0, validator=_positive)
    call: float = attrs.field(default=600.0, validator=_positive)


def retry_after_seconds(value: str | None, *, now: datetime | None = None) -> float | None:
    """What a ``Retry-After`` header asks for: seconds or an HTTP date (RFC 9110, 10.2.3).

    A date in the past is 0; what is neither is None.
    """
    if value is None:
        return None
    text = value.strip()
    try:
        seconds = float(text)
    except ValueError:
        return _until(text, now or datetime.now(UTC))
    return seconds if 0 <= seconds < math.inf else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": UTC, of a source that knows no zone
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)


class CallClock:
    """What is left of one call: its own ceiling, and the deadline around it."""

    def __init__(self, doing: str, seconds: float) -> None:
        self._doing = doing
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds, never below zero."""
        own = max(self._end - time.monotonic(), 0.0)
        around = deadlines.remaining()
        return own if around is None else min(own, around)

    def check(self) -> None:
        """Raise when the call is over.

        Raises:
            CancelledError: the deadline around it passed, or it was cancelled.
            ProviderTimeoutError: its own ceiling was reached.
        """
        deadlines.check(self._doing)
        if time.monotonic() >= self._end:
            raise ProviderTimeoutError(
                f"{self._doing} was not done within {self._seconds:g} seconds: allow more "
                "(Timeouts.call), or ask for less at a time"
            )

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """End the wait inside, and raise as `check` does, as soon as the call is over."""
        self.check()
        loop = asyncio.get_running_loop()
        timer = asyncio.timeout(None)
        next_look: asyncio.TimerHandle

        def look() -> None:
            nonlocal next_look
            try:
                self.check()
            except (CancelledError, ProviderTimeoutError):
                timer.reschedule(loop.time())
            else:
                next_look = loop.call_later(min(self.left, _SLICE), look)

        try:
            async with timer:
                next_look = loop.call_later(min(self.left, _SLICE), look)
                try:
                    yield
                finally:
                    next_look.cancel()
        except TimeoutError:
            if timer.expired():
                self.check()
            raise

    async def next(self, items: AsyncIterator[T]) -> T | None:
        """The next of ``items``, None at their end, waited for within `limit`."""
        async with self.limit():
            return await anext(items, None)
