"""`HttpClient`'s calls for an event loop, over httpx's asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, NoReturn, TypeVar
from weakref import WeakKeyDictionary

from triptych.errors import NotAvailableError, ProviderError
from triptych_backends.providers.async_network import AsyncTransport
from triptych_backends.providers.errors import Retryable
from triptych_backends.providers.exchange import (
    BodyReader,
    Exchange,
    LineSplitter,
    RefusalBody,
)
from triptych_backends.providers.httpx_imports import httpx
from triptych_backends.providers.timeouts import CallClock

__all__ = ["AsyncHttpClient"]

T = TypeVar("T")

_SLICE = 0.05
_TICK = 0.001


class _Borrowed(httpx.AsyncBaseTransport):
    """A transport that stays open when the client that uses it is closed."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._transport.handle_async_request(request)


class AsyncHttpClient:
    """POSTs JSON to one provider; connections are those of the event loop that runs."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            WeakKeyDictionary()
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop. Idempotent."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def post(self, path: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """See `HttpClient.post`."""
        return self._exchange.object_in(await self._answer(path, payload))

    async def post_for_list(self, path: str, payload: Mapping[str, Any]) -> list[Any]:
        """See `HttpClient.post_for_list`."""
        return self._exchange.list_in(await self._answer(path, payload))

    async def lines(self, path: str, payload: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        """See `HttpClient.lines`."""
        clock = self._exchange.clock()
        body = self._exchange.body(payload)

        async def attempt() -> tuple[AsyncExitStack, httpx.Response]:
            async with AsyncExitStack() as stack:
                response = await stack.enter_async_context(self._sent(path, body, clock))
                return stack.pop_all(), response

        held, response = await self._attempts(attempt, clock)
        async with held:
            lines = LineSplitter(self._exchange.profile)
            try:
                async with aclosing(self._chunks(response, clock)) as chunks:
                    async for chunk in chunks:
                        for line in lines.feed(chunk):
                            yield line
                for line in lines.end():
                    yield line
            except Retryable as broken:
                raise broken.error from broken.__cause__

    async def _answer(self, path: str, payload: Mapping[str, Any]) -> bytes:
        clock = self._exchange.clock()
        body = self._exchange.body(payload)

        async def attempt() -> bytes:
            async with (
                self._sent(path, body, clock) as response,
                aclosing(self._chunks(response, clock)) as chunks,
            ):
                return b"".join([chunk async for chunk in chunks])

        return await self._attempts(attempt, clock)

    async def _attempts(self, attempt: Callable[[], Awaitable[T]], clock: CallClock) -> T:
        made = 0
        while True:
            made += 1
            try:
                return await attempt()
            except Retryable as failed:
                pause = self._exchange.pause_after(failed, made, clock)
            await _sleep(pause, clock)

    @asynccontextmanager
    async def _sent(
        self, path: str, body: bytes, clock: CallClock
    ) -> AsyncIterator[httpx.Response]:
        """An answer with status 200, its body not read yet, while a place is held for it."""
        exchange = self._exchange
        limits = exchange.connection.timeouts
        async with exchange.connection.gate.async_place(clock):
            exchange.require_open()
            client = self._client()
            timeout = {
                "connect": limits.connect,
                "read": limits.read,
                "write": limits.read,
                "pool": limits.call,
            }
            with exchange.mapped(clock):
                request = client.build_request(
                    "POST", path, content=body, extensions={"timeout": timeout}
                )
                async with _within(clock):
                    response = await client.send(request, stream=True)
            try:
                if response.status_code != 200:
                    await self._refuse(response, clock)
                yield response
            finally:
                await response.aclose()

    async def _refuse(self, response: httpx.Response, clock: CallClock) -> NoReturn:
        if redirected := self._exchange.redirected(response):
            raise redirected
        body, failed = RefusalBody(), None
        try:
            async with aclosing(self._chunks(response, clock)) as chunks:
                async for chunk in chunks:
                    if not body.feed(chunk):
                        break
        except ProviderError as error:
            failed = error
        raise self._exchange.fault(response, body.whole(failed))

    async def _chunks(
        self, response: httpx.Response, clock: CallClock
    ) -> AsyncGenerator[bytes, None]:
        # A transport may have read the answer already, and unpacked it.
        whole = response.is_stream_consumed
        encoding = "" if whole else response.headers.get("content-encoding", "")
        with self._exchange.mapped(clock):
            body = BodyReader(self._exchange, encoding, clock)
            async with aclosing(_pieces(response, clock, whole=whole)) as pieces:
                async for piece in pieces:
                    for chunk in body.feed(piece):
                        yield chunk
            for chunk in body.end():
                yield chunk

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._open()
        return client

    def _open(self) -> httpx.AsyncClient:
        exchange = self._exchange
        given = exchange.connection.async_transport or exchange.connection.transport
        if given is not None and not isinstance(given, httpx.AsyncBaseTransport):
            raise NotAvailableError(
                "the connection has a transport for calls that block alone: give "
                "Connection.async_transport, too"
            )
        return httpx.AsyncClient(
            base_url=exchange.base_url,
            headers=exchange.headers,
            transport=_Borrowed(given)
            if given is not None
            else AsyncTransport(verify=exchange.verifies, proxy=exchange.connection.proxy),
            follow_redirects=False,
            trust_env=False,
        )


async def _pieces(
    response: httpx.Response, clock: CallClock, *, whole: bool
) -> AsyncGenerator[bytes, None]:
    """The body as it was sent; each wait for it ends with the call."""
    if whole:
        yield response.content
        return
    pieces = response.aiter_raw()
    while True:
        async with _within(clock):
            piece = await anext(pieces, None)
        if piece is None:
            return
        yield piece


@asynccontextmanager
async def _within(clock: CallClock) -> AsyncIterator[None]:
    """A wait that ends with the call, as its clock says."""
    clock.check()
    timer = asyncio.timeout(clock.left)
    try:
        async with timer:
            yield
    except TimeoutError:
        if not timer.expired():
            raise
        while True:  # the timer of the loop may be early by a tick
            clock.check()
            await asyncio.sleep(_TICK)


async def _sleep(seconds: float, clock: CallClock) -> None:
    """Wait, and raise as soon as the call is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while True:
        clock.check()
        left = until - loop.time()
        if left <= 0:
            return
        await asyncio.sleep(min(left, _SLICE))
