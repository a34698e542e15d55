"""Connections for an event loop: httpcore's own, closed whatever ends their making.

The clock of a call ends its waits by cancelling them. httpcore leaves the socket open when the
handshake of TLS is cancelled; here it is closed.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any

from triptych_backends.providers.httpx_imports import httpcore, httpx
from triptych_backends.providers.network import as_httpx, core_url, pool_options

__all__ = ["AsyncTransport"]


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that is closed when TLS does not come about."""

    def __init__(self, inner: httpcore.AsyncNetworkStream) -> None:
        self._inner = inner

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._inner.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._inner.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Network(httpcore.AsyncNetworkBackend):
    def __init__(self) -> None:
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(
            await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        )

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class AsyncTransport(httpx.AsyncBaseTransport):
    """What httpx sends through: `network.BoundedTransport` for an event loop."""

    def __init__(self, *, verify: bool, proxy: str | None) -> None:
        kind, options = pool_options(verify=verify, proxy=proxy)
        pool = httpcore.AsyncConnectionPool if kind == "direct" else httpcore.AsyncHTTPProxy
        self._pool: httpcore.AsyncConnectionPool = pool(network_backend=_Network(), **options)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        asked = httpcore.Request(
            method=request.method,
            url=core_url(request.url),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with as_httpx():
            answered = await self._pool.handle_async_request(asked)
        return httpx.Response(
            status_code=answered.status,
            headers=answered.headers,
            stream=_Body(answered),
            extensions=answered.extensions,
        )

    async def aclose(self) -> None:
        await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answered: httpcore.Response) -> None:
        self._answered = answered

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with as_httpx():
            async for chunk in self._answered.aiter_stream():
                yield chunk

    async def aclose(self) -> None:
        with as_httpx():
            await self._answered.aclose()
