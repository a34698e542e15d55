"""The options of connections to providers: timeouts, retries, concurrency, proxies."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import attrs

from triptych import deadlines
from triptych.errors import CancelledError, ProviderTimeoutError, ValidationError
from triptych.records import Retries, number, whole
from triptych_models import Lazy

if TYPE_CHECKING:
    import httpx2 as httpx

T = TypeVar("T")

_SLICE = 0.05  # seconds between two looks at whether the call was cancelled


_SECONDS = number(above=True, of="seconds")


@attrs.frozen(kw_only=True, slots=True)
class Timeouts:
    """The timeouts of one call in seconds.

    Attributes:
        connect: until the connection is established.
        read: before the first piece of the response, and between pieces.
        call: for the whole call: waiting for a free slot, all attempts and pauses, and the last
            byte of a stream. The call always ends then, as at a deadline around it. A pending
            lookup of the server's name continues in a separate thread.
    """

    connect: float = attrs.field(default=10.0, validator=_SECONDS)
    read: float = attrs.field(default=120.0, validator=_SECONDS)
    call: float = attrs.field(default=600.0, validator=_SECONDS)


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
                "(Timeouts.call), or request less at a time"
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

    async def piece(self, items: AsyncIterator[T]) -> T | None:
        """The next of ``items``, None at their end, waited for within `limit`."""
        async with self.limit():
            return await anext(items, None)


class _Places:
    """So many places, which the event loops of all threads share. First come, first served."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[Future[None]] = deque()

    def ask(self) -> Future[None]:
        """Done once a place is taken."""
        place: Future[None] = Future()
        with self._lock:
            if self._free:
                self._free -= 1
                place.set_result(None)
            else:
                self._waiting.append(place)
        return place

    def give_back(self, place: Future[None]) -> None:
        """Let the next one have ``place``, if it was taken."""
        with self._lock:
            if place.cancel():
                return
            while self._waiting:
                following = self._waiting.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._free += 1


class ConcurrencyLimit:
    """At most ``limit`` requests at a time; a forked child starts with all places free."""

    def __init__(self, limit: int) -> None:
        self._places = Lazy(lambda: _Places(limit))

    @asynccontextmanager
    async def place(self, clock: CallClock) -> AsyncIterator[None]:
        """Hold one place; waits for it until ``clock`` is over, which raises."""
        places = self._places.get()
        clock.check()
        place = places.ask()
        try:
            if not place.done():
                async with clock.limit():
                    await asyncio.wrap_future(place)
            yield
        finally:
            places.give_back(place)


def _proxy(instance: object, attribute: attrs.Attribute[str | None], value: str | None) -> None:
    # A proxy's URL may hold a password: it is not quoted.
    try:
        parts = urlsplit(value or "http://none")
        fits = parts.scheme in ("http", "https") and parts.hostname
        _ = parts.port
    except (ValueError, TypeError, AttributeError):
        fits = None
    if not fits:
        raise ValidationError(
            "the proxy is not a URL such as http://host:3128: check proxy, or the variables "
            "HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"
        )


def _transport(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not callable(value):
        raise ValidationError(
            f"transport is a function that makes an AsyncBaseTransport of httpx2, not {value!r:.60}"
        )


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Connection:
    """How requests are sent. Models that share one Connection share its concurrency.

    Attributes:
        timeouts: the timeouts of one call.
        retries: when to retry.
        concurrency: the maximum number of concurrent requests, including streams.
        max_answer_bytes: the maximum size of an unpacked response.
        proxy: the URL of a proxy.
        ca_file: a file (PEM) or folder of certificate authorities to trust besides the usual ones.
        transport: makes a transport of httpx2 (or httpx if only that is installed) instead of
            ``proxy``, such as for a client certificate. Each model
            has one for blocking calls, and one for each event loop; it is closed with the model's
            connections.
    """

    timeouts: Timeouts = attrs.field(factory=Timeouts)
    retries: Retries = attrs.field(factory=Retries)
    concurrency: int = attrs.field(default=4, validator=whole(least=1))
    max_answer_bytes: int = attrs.field(default=1 << 26, validator=whole(least=1))
    proxy: str | None = attrs.field(default=None, repr=False, validator=_proxy)
    ca_file: str | None = None
    transport: Callable[[], httpx.AsyncBaseTransport] | None = attrs.field(
        default=None, repr=False, validator=_transport
    )
    gate: ConcurrencyLimit = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: ConcurrencyLimit(self.concurrency), takes_self=True),
    )
