"""Connections that keep to the deadline of a call, whatever the other side does.

httpx's timeouts are for one read: a server that sends a byte now and then is waited for without
end. Here every wait for the network takes what is left of the whole call, and no more.
"""

from __future__ import annotations

import contextlib
import ipaddress
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from triptych_backends.providers.httpx_imports import httpcore, httpx
from triptych_backends.providers.timeouts import CallClock, Timeouts

__all__ = ["BoundedTransport", "as_httpx", "bounds", "core_url", "pool_options"]

_KEPT = 16  # idle connections, and seconds below
_KEPT_FOR = 5.0
_RECORD = 1 << 14  # bytes, the most that a TLS record holds


class _Bound(float):
    """Seconds for one wait, never more than are left of its call at the time of the wait.

    A float, because httpx and httpcore hand their timeouts through to the network as they are.
    """

    _clock: CallClock

    def __new__(cls, seconds: float, clock: CallClock) -> _Bound:
        made = super().__new__(cls, min(seconds, max(clock.left, 0.001)))
        made._clock = clock
        return made

    @property
    def left(self) -> float:
        return min(float(self), self._clock.left)


def bounds(timeouts: Timeouts, clock: CallClock) -> dict[str, float]:
    """The value of httpx's request extension "timeout": each ends with the call."""
    wait = _Bound(timeouts.read, clock)
    connect = _Bound(timeouts.connect, clock)
    return {"connect": connect, "read": wait, "write": wait, "pool": _Bound(timeouts.call, clock)}


def _left(timeout: float | None) -> float | None:
    left = timeout.left if isinstance(timeout, _Bound) else timeout
    if left is not None and left <= 0:  # a socket would take 0 for "do not wait"
        raise TimeoutError("the call is over")
    return left


@contextmanager
def _named(late: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """The errors of sockets as httpcore's."""
    try:
        yield
    except TimeoutError as error:
        raise late(str(error)) from error
    except OSError as error:
        raise broken(str(error)) from error


class _Stream(httpcore.NetworkStream):
    """A connected socket, with TLS or without."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _named(httpcore.ReadTimeout, httpcore.ReadError):
            self._sock.settimeout(_left(timeout))
            return self._sock.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        rest = memoryview(buffer)
        with _named(httpcore.WriteTimeout, httpcore.WriteError):
            while rest:
                self._sock.settimeout(_left(timeout))
                rest = rest[self._sock.send(rest) :]

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        try:
            with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
                if isinstance(self._sock, ssl.SSLSocket):
                    return _TunnelledTls(self, ssl_context, server_hostname, timeout)
                self._sock.settimeout(_left(timeout))
                return _Stream(ssl_context.wrap_socket(self._sock, server_hostname=server_hostname))
        except BaseException:
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        if info == "socket":
            return self._sock
        if info == "ssl_object":
            return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
        if info == "is_readable":
            return _is_readable(self._sock)
        if info in ("client_addr", "server_addr"):
            sock = self._sock
            return sock.getsockname() if info == "client_addr" else sock.getpeername()
        return None


class _TunnelledTls(httpcore.NetworkStream):
    """TLS inside the TLS of a proxy, for which Python has no socket."""

    def __init__(
        self,
        lower: _Stream,
        context: ssl.SSLContext,
        server_hostname: str | None,
        timeout: float | None,
    ) -> None:
        self._lower = lower
        self._came, self._goes = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._came, self._goes, server_hostname=server_hostname)
        self._done(self._tls.do_handshake, timeout)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _named(httpcore.ReadTimeout, httpcore.ReadError):
            found: bytes = self._done(lambda: self._tls.read(max_bytes), timeout)
        return found

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _named(httpcore.WriteTimeout, httpcore.WriteError):
            while buffer:
                part = buffer[:_RECORD]
                buffer = buffer[self._done(lambda part=part: self._tls.write(part), timeout) :]

    def close(self) -> None:
        self._lower.close()

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else self._lower.get_extra_info(info)

    def _done(self, step: Any, timeout: float | None) -> Any:
        while True:
            wants = False
            found: Any = b""
            try:
                found = step()
            except ssl.SSLWantReadError:
                wants = True
            except ssl.SSLEOFError:  # the other side went without its goodbye
                return b""
            if goes := self._goes.read():
                self._lower.write(goes, timeout)
            if not wants:
                return found
            came = self._lower.read(_RECORD, timeout)
            if came:
                self._came.write(came)
            else:
                self._came.write_eof()


class _Network(httpcore.NetworkBackend):
    """Connects: the lookup of the name and all its addresses within one time."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
            left = _left(timeout)
            until = None if left is None else time.monotonic() + left
            failed: OSError = OSError(f"{host} has no address")
            for family, kind, protocol, _, address in _addresses(host, port, left):
                sock = socket.socket(family, kind, protocol)
                try:
                    for option in socket_options or ():
                        sock.setsockopt(*option)
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    if local_address is not None:
                        sock.bind((local_address, 0))
                    sock.settimeout(_until(until))
                    sock.connect(address)
                    return _Stream(sock)
                except OSError as error:
                    sock.close()
                    failed = error
                    if isinstance(error, TimeoutError):
                        break
            raise failed


def _until(moment: float | None) -> float | None:
    if moment is None:
        return None
    left = moment - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _addresses(host: str, port: int, seconds: float | None) -> list[Any]:
    """What ``getaddrinfo`` finds. It cannot be interrupted: a lookup that takes too long is left to
    end on a thread of its own, by the resolver's own rules."""
    found: list[Any] = []
    failed: list[OSError] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
        except UnicodeError as error:  # a name that cannot be one
            failed.append(OSError(str(error)))
        except OSError as error:
            failed.append(error)

    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        seconds = None  # nothing is asked for
    if seconds is None:
        look_up()
    else:
        thread = threading.Thread(target=look_up, name="triptych-lookup", daemon=True)
        thread.start()
        thread.join(seconds)
        if thread.is_alive():
            raise TimeoutError(f"the name {host} was not found in time")
    if failed:
        raise failed[0]
    return found


def _is_readable(sock: socket.socket) -> bool:
    if sock.fileno() < 0:
        return True
    if not hasattr(select, "poll"):
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def pool_options(
    *, verify: bool, proxy: str | None
) -> tuple[Literal["direct", "proxy"], dict[str, Any]]:
    """Which pool of httpcore to make, and with what, but for its network."""
    options: dict[str, Any] = {
        "ssl_context": httpx.create_ssl_context(trust_env=False) if verify else None,
        # The gate limits; a second limit in the pool would only add a second error.
        "max_connections": None,
        "max_keepalive_connections": _KEPT,
        "keepalive_expiry": _KEPT_FOR,
    }
    if proxy is None:
        return "direct", options
    through = httpx.Proxy(proxy)
    return "proxy", {
        **options,
        "proxy_url": core_url(through.url),
        "proxy_auth": through.raw_auth,
        "proxy_headers": through.headers.raw,
    }


class BoundedTransport(httpx.BaseTransport):
    """What httpx sends through: httpx's own transport, over connections that keep to `bounds`."""

    def __init__(self, *, verify: bool, proxy: str | None) -> None:
        kind, options = pool_options(verify=verify, proxy=proxy)
        pool = httpcore.ConnectionPool if kind == "direct" else httpcore.HTTPProxy
        self._pool: httpcore.ConnectionPool = pool(network_backend=_Network(), **options)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.SyncByteStream)
        asked = httpcore.Request(
            method=request.method,
            url=core_url(request.url),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with as_httpx():
            answered = self._pool.handle_request(asked)
        return httpx.Response(
            status_code=answered.status,
            headers=answered.headers,
            stream=_Body(answered),
            extensions=answered.extensions,
        )

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answered: httpcore.Response) -> None:
        self._answered = answered

    def __iter__(self) -> Iterator[bytes]:
        with as_httpx():
            yield from self._answered.iter_stream()

    def close(self) -> None:
        with as_httpx():
            self._answered.close()


def core_url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(
        scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
    )


@contextmanager
def as_httpx() -> Iterator[None]:
    """httpcore's errors as httpx's, which have the same names."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.ProxyError,
        httpcore.UnsupportedProtocol,
        httpcore.ConnectionNotAvailable,
    ) as error:
        named = getattr(httpx, type(error).__name__, httpx.TransportError)
        raise named(str(error)) from error
