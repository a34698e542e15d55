"""How a provider is spoken to: shared by every model that has one account or one server."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs

from triptych._internal.retries import Retries
from triptych.errors import ValidationError
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.providers.timeouts import CallClock, Timeouts

if TYPE_CHECKING:
    import httpx


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
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValidationError(f"concurrency is a whole number from 1 up, not {limit!r}")
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


def _size(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValidationError(f"{attribute.name} is a whole number from 1 up, not {value!r}")


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
            f"transport is a function that makes an httpx.AsyncBaseTransport, not {value!r:.60}"
        )


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Connection:
    """How requests are sent. Models that share one Connection share its concurrency.

    Attributes:
        timeouts: how long one call may take.
        retries: when an attempt is made again.
        concurrency: how many requests are under way at a time, streams included.
        max_answer_bytes: a longer answer, unpacked, is refused.
        proxy: the URL of a proxy to send through.
        transport: makes an httpx transport to send through, in place of ``proxy``: a client
            certificate, another certificate authority. Each model has one for the calls that
            block, and one for each event loop; it is closed with their connections.
    """

    timeouts: Timeouts = attrs.field(factory=Timeouts)
    retries: Retries = attrs.field(factory=Retries)
    concurrency: int = 4
    max_answer_bytes: int = attrs.field(default=1 << 26, validator=_size)
    proxy: str | None = attrs.field(default=None, repr=False, validator=_proxy)
    transport: Callable[[], httpx.AsyncBaseTransport] | None = attrs.field(
        default=None, repr=False, validator=_transport
    )
    gate: ConcurrencyLimit = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: ConcurrencyLimit(self.concurrency), takes_self=True),
    )
