"""Requests to one web site, bounded in time and bytes, one after the other."""

from __future__ import annotations

import http.client
import ipaddress
import math
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

import attrs

from triptych import deadlines
from triptych.errors import SourceError

AGENT: Final = "triptych"
"""The name under which rules of robots.txt hold for it."""
_CONNECT: Final = 10.0
_ANSWER: Final = 60.0
"""Seconds for a connection, and for a whole answer."""
_LONGEST_PAUSE: Final = 60.0
_TRIES: Final = 3
_HOPS: Final = 5
_AWAY: Final = 3
"""So many requests in a row without an answer, and the site is taken to be away."""
_BLOCK: Final = 1 << 16
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


@attrs.frozen
class Answer:
    """An answer: its final address, status, headers (names in lower case) and unpacked body."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class _RetryableError(SourceError):
    """The site did not answer, or asks to come back; ``pause`` in seconds, None for the usual."""

    pause: float | None = None


def same_site(one: SplitResult, other: SplitResult) -> bool:
    """Return whether two addresses are of one site: of one host, with or without ``www.``, and one
    port, where the usual ports of HTTP and HTTPS are one."""
    return _site(one) == _site(other)


def _site(parts: SplitResult) -> tuple[str, int | None]:
    host = (parts.hostname or "").rstrip(".").removeprefix("www.")
    return host, None if parts.port in (None, 80, 443) else parts.port


class SiteClient:
    """Fetches addresses of one site. Thread-safe: one request at a time.

    A host is looked up once for each connection, and only the addresses that were checked are
    connected to, so that no other answer of the name server counts. No proxy is used.
    """

    def __init__(
        self,
        site: str,
        *,
        private: bool,
        delay: float,
        seconds: float,
        allowed: Callable[[str], bool],
    ) -> None:
        """Start the clock; nothing is fetched yet.

        Args:
            site: an address of the site; redirects to others are refused.
            private: whether its host may have addresses of this machine and of private networks.
            delay: the least number of seconds between the starts of two requests.
            seconds: the time for all requests together.
            allowed: whether the site's rules allow an address; asked for redirects.
        """
        self._site = urlsplit(site)
        self._private = private
        self.delay = delay
        self._end = time.monotonic() + seconds
        self._seconds = seconds
        self._allowed = allowed
        self._next = 0.0
        self._failed = 0
        self._over = ""
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def get(self, url: str, *, most: int, headers: Mapping[str, str] | None = None) -> Answer:
        """Return the answer for ``url``, after redirects within the site.

        Raises:
            SourceError: there is none, or it exceeds a limit: ``most`` bytes, the time for an
                answer, or that for all.
        """
        with self._lock:
            for left in reversed(range(_TRIES)):
                try:
                    return self._redirected(url, most, headers or {})
                except _RetryableError as error:
                    pause = 1.0 if error.pause is None else error.pause
                    if pause > _LONGEST_PAUSE:
                        self._over = f"{error}; nothing more was asked of the site"
                    if not left or self._over or error.pause is None:
                        raise SourceError(self._over or str(error)) from error
                    self._next = max(self._next, time.monotonic() + pause)
            raise AssertionError("unreachable")

    def _redirected(self, url: str, most: int, headers: Mapping[str, str]) -> Answer:
        first = url
        for _ in range(_HOPS + 1):
            answer = self._asked(url, most, headers)
            location = answer.headers.get("location", "")
            if answer.status not in (301, 302, 303, 307, 308) or not location:
                return answer
            try:
                url = urljoin(url, location)
                target = urlsplit(url)
                if self._site.scheme == "https":  # servers behind others often name http
                    url = (target := target._replace(scheme="https")).geturl()
                inside = target.scheme in ("http", "https") and same_site(target, self._site)
            except ValueError:
                inside = False
            if not inside or (target.username or target.password):
                raise SourceError(
                    f"{first} leads to another site, {url[:200]!r}: add that site instead, if its "
                    "pages are wanted"
                )
            if not self._allowed(url):
                raise SourceError(f"{first} leads to {url}, which robots.txt disallows")
        raise SourceError(f"{first} redirects more than {_HOPS} times: check it in a browser")

    def _asked(self, url: str, most: int, headers: Mapping[str, str]) -> Answer:
        self._wait()
        left = self._end - time.monotonic()
        try:
            with _cut_off(min(_ANSWER, left)) as watch:
                answer = self._exchange(urlsplit(url), most, headers, watch)
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            self._failed += 1
            if self._failed >= _AWAY:
                self._over = f"{self._site.netloc} does not answer any more: sync again later"
            why = f"{type(error).__name__}: {error}"[:200]
            raise _RetryableError(f"{url} cannot be read ({why}): try again later") from error
        self._failed = 0
        if answer.status in (429, 503):
            pause = _seconds(answer.headers.get("retry-after", ""))
            busy = _RetryableError(
                f"{url} asks to come back in {pause:g} seconds (HTTP {answer.status})"
            )
            busy.pause = pause
            raise busy
        return answer

    def _wait(self) -> None:
        """Wait for the next turn, as long as there is time at all."""
        if not self._over and max(self._next, time.monotonic()) >= self._end:
            self._over = (
                f"the sync of {self._site.netloc} takes longer than {self._seconds:g} seconds, "
                f"with {self.delay:g} between two requests: sync again for the other pages, or "
                "raise max_seconds"
            )
        if self._over:
            raise SourceError(self._over)
        while (pause := self._next - time.monotonic()) > 0:
            deadlines.check("waiting between requests")
            time.sleep(min(pause, 0.1))
        deadlines.check("reading a web site")
        self._next = time.monotonic() + self.delay

    def _exchange(
        self, url: SplitResult, most: int, headers: Mapping[str, str], watch: _Watch
    ) -> Answer:
        host, secure = url.hostname or "", url.scheme == "https"
        port = url.port or (443 if secure else 80)
        made = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        with closing(made(host, port)) as connection:
            connection.sock = self._connected(host, port)
            watch.watch(connection.sock)
            if secure:
                self._context = self._context or ssl.create_default_context()
                # The handshake comes after: it must be possible to cut it off.
                connection.sock = tls = self._context.wrap_socket(
                    connection.sock, server_hostname=host, do_handshake_on_connect=False
                )
                watch.watch(tls)
                tls.do_handshake()
            target = f"{url.path or '/'}{'?' if url.query else ''}{url.query}"
            sent = {"user-agent": AGENT, "accept-encoding": "gzip", "connection": "close"}
            connection.request("GET", target, headers={**sent, **headers})
            with closing(connection.getresponse()) as response:
                found = {name.lower(): value for name, value in response.getheaders()}
                blocks = iter(lambda: response.read(_BLOCK), b"")
                coding = found.get("content-encoding", "").strip().lower()
                if coding not in ("", "identity", "gzip", "x-gzip"):
                    raise http.client.HTTPException(f"it is packed by {coding:.40}")
                packed = coding in ("gzip", "x-gzip")
                body = limited(blocks, most, url.geturl(), packed=packed)
                watch.check()
                if response.length:
                    raise http.client.IncompleteRead(body, response.length)
        return Answer(url.geturl(), response.status, found, body)

    def _connected(self, host: str, port: int) -> socket.socket:
        failed: OSError | None = None
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        usable = [each for each in found if self._private or is_public(str(each[4][0]))]
        if not usable:
            raise SourceError(
                f"{host} has no address on the public internet but {found[0][4][0]}, which is "
                "refused: if you trust the host, allow private addresses (--private)"
            )
        for family, kind, protocol, _, address in usable:
            connection = socket.socket(family, kind, protocol)
            connection.settimeout(_CONNECT)
            try:
                connection.connect(address)
            except OSError as error:
                connection.close()
                failed = error
            else:
                return connection
        assert failed is not None
        raise failed


def is_public(address: str) -> bool:
    """Return whether an IP address is of the public internet, and so is any that it contains."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    within = [ip]
    if isinstance(ip, ipaddress.IPv6Address):
        inner = [ip.ipv4_mapped, ip.sixtofour, *(ip.teredo or ())]
        if ip in _NAT64:
            inner.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        within += [each for each in inner if each is not None]
        if ip.ipv4_mapped is not None:
            within.remove(ip)
    return all(each.is_global and not each.is_multicast for each in within)


def limited(blocks: Iterable[bytes], most: int, name: str, *, packed: bool) -> bytes:
    """Return ``blocks`` joined, and unpacked by gzip if they are ``packed``.

    Raises:
        SourceError: that has more than ``most`` bytes. It is unpacked no further.
        zlib.error: the packed bytes are damaged or cut off.
    """
    unpacker = zlib.decompressobj(wbits=31) if packed else None
    body = bytearray()
    for block in blocks:
        body += block if unpacker is None else unpacker.decompress(block, most + 1 - len(body))
        if len(body) > most:
            raise SourceError(
                f"{name} has more than {most:,} bytes: raise max_bytes, or exclude it"
            )
    if unpacker is not None and (unpacker.unused_data or (body and not unpacker.eof)):
        raise zlib.error("the packed bytes end too early, or too late")
    return bytes(body)


class _Watch:
    """Closes the connection of a request that takes too long."""

    def __init__(self) -> None:
        self.late = False
        self._socket: socket.socket | None = None

    def watch(self, connection: socket.socket) -> None:
        self._socket = connection
        self.check()

    def cut(self) -> None:
        self.late = True
        if self._socket is not None:
            with suppress(OSError):
                # Not by SSLSocket's own, which takes its state away from the thread that reads.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def check(self) -> None:
        if self.late:
            raise TimeoutError("the answer took too long")


@contextmanager
def _cut_off(seconds: float) -> Iterator[_Watch]:
    watch = _Watch()
    timer = threading.Timer(max(seconds, 0.0), watch.cut)
    timer.daemon = True
    timer.start()
    try:
        yield watch
    except (OSError, http.client.HTTPException, zlib.error):
        watch.check()
        raise
    finally:
        timer.cancel()


def _seconds(after: str) -> float:
    """The seconds that a Retry-After says, as a number or a date; 5 if it says nothing."""
    with suppress(ValueError, OverflowError):
        return max(float(after), 0.0) if math.isfinite(float(after)) else 5.0
    with suppress(ValueError, TypeError):
        return max((parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds(), 0.0)
    return 5.0
