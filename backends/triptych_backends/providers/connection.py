"""How a provider is spoken to: shared by every model that has one account or one server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from triptych._internal.retries import Retries
from triptych.errors import ValidationError
from triptych_backends.embedders.lazy import Lazy
from triptych_backends.providers.timeouts import CallClock, Timeouts

if TYPE_CHECKING:
    import httpx

__all__ = ["ConcurrencyLimit", "Connection"]

_SLICE = 0.05
_ASYNC_SLICE = 0.01


class ConcurrencyLimit:
    """At most ``limit`` requests at a time; a forked child starts with all places free."""

    def __init__(self, limit: int) -> None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValidationError(f"concurrency is a whole number from 1 up, not {limit!r}")
        self._places = Lazy(lambda: threading.Semaphore(limit))

    @contextmanager
    def place(self, clock: CallClock) -> Iterator[None]:
        """Hold one place; waits for it until ``clock`` is over, which raises."""
        places = self._places.get()
        clock.check()
        while not places.acquire(timeout=_SLICE):
            clock.check()
        try:
            yield
        finally:
            places.release()

    @asynccontextmanager
    async def async_place(self, clock: CallClock) -> AsyncIterator[None]:
        """`place` for an event loop, which goes on meanwhile. The places are the same ones."""
        places = self._places.get()
        clock.check()
        while not places.acquire(blocking=False):
            await asyncio.sleep(_ASYNC_SLICE)
            clock.check()
        try:
            yield
        finally:
            places.release()


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


@attrs.frozen(kw_only=True, slots=True, eq=False)
class Connection:
    """How requests are sent. Models that share one Connection share its concurrency.

    Attributes:
        timeouts: how long one call may take.
        retries: when an attempt is made again.
        concurrency: how many requests are under way at a time, streams included.
        max_answer_bytes: a longer answer, unpacked, is refused.
        proxy: the URL of a proxy to send through.
        transport: an httpx transport to send through, in place of ``proxy``: a client
            certificate, another certificate authority. It is closed by whoever made it, never
            by a model. Calls for an event loop need one that is an ``httpx.AsyncBaseTransport``.
        async_transport: such a transport, where ``transport`` is none.
    """

    timeouts: Timeouts = attrs.field(factory=Timeouts)
    retries: Retries = attrs.field(factory=Retries)
    concurrency: int = 4
    max_answer_bytes: int = attrs.field(default=1 << 26, validator=_size)
    proxy: str | None = attrs.field(default=None, repr=False, validator=_proxy)
    transport: httpx.BaseTransport | None = attrs.field(default=None, repr=False)
    async_transport: httpx.AsyncBaseTransport | None = attrs.field(default=None, repr=False)
    gate: ConcurrencyLimit = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: ConcurrencyLimit(self.concurrency), takes_self=True),
    )
