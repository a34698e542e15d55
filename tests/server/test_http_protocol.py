"""How requests are parsed: in parts, so that none holds the loop that serves all others."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import h11
import httpx
import pytest

import triptych
from support.servers import Switch, listening
from support.sync_folder import until
from triptych import Service
from triptych_server.http import Limits, create_app
from triptych_server.http.protocol import HeadProtocol
from triptych_server.keys import KeyStore, authenticator

pytest.importorskip("uvicorn")


@pytest.fixture
def kb() -> Iterator[Service]:
    with triptych.open("memory://", embedder="none") as opened:
        yield opened


class Turns:
    """An app that counts the turns of its event loop."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.count = 0
        self._counting: asyncio.Task[None] | None = None

    async def _count(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self._counting is None:
            self._counting = asyncio.get_running_loop().create_task(self._count())
        await self.app(scope, receive, send)


def sent(url: str, request: bytes) -> bytes:
    address = httpx.URL(url)
    assert address.port is not None
    with socket.create_connection((address.host, address.port), timeout=60) as connection:
        connection.sendall(request)
        return connection.recv(1 << 16)


def chunked(method: str, path: str, body: bytes) -> bytes:
    """A request whose body comes in chunks of one byte."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize("keyed", [True, False])
def test_a_body_of_tiny_chunks_lets_others_have_their_turn(
    kb: Service, keyed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two parts that are parsed the loop has turned."""
    if keyed:
        KeyStore.of(kb).add("somebody")
    app = Turns(create_app(kb, write=True, authenticate=authenticator(kb) if keyed else None))
    parts: list[tuple[int, int]] = []
    receive_data = h11.Connection.receive_data

    def received(self: Any, data: bytes) -> None:
        parts.append((app.count, len(data)))
        receive_data(self, data)

    body = b'{"content": "' + b"x" * 60_000 + b'"}'
    with listening(app, http=HeadProtocol) as url:
        assert httpx.get(f"{url}/v1/live").is_success
        monkeypatch.setattr(h11.Connection, "receive_data", received)
        answer = sent(url, chunked("PUT", "/v1/datasets/d/documents/a.md", body))
        assert answer.startswith(b"HTTP/1.1 401" if keyed else b"HTTP/1.1 201")
        monkeypatch.undo()
    if not keyed:
        assert kb.get_document("d", "a.md").content == "x" * 60_000
        assert sum(size for _, size in parts) == len(chunked("PUT", "", body)) + 29
    assert max(size for _, size in parts) <= 2048
    turns = [turn for turn, _ in parts]
    assert len(set(turns)) > len(turns) / 2


def test_requests_one_after_another_on_a_connection_are_read_in_order(kb: Service) -> None:
    with (
        listening(create_app(kb, write=True), http=HeadProtocol) as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        for number, size in enumerate((10, 5_000, 900_000, 0, 4096)):
            body = {"content": f"{number} " * size}
            put = client.put(f"/v1/datasets/d/documents/{number}.md", json=body)
            assert put.status_code == 201 if size * 2 < (1 << 20) - 20 else 413
        names = [each.name for each in kb.list_documents("d")]
    assert names == ["0.md", "1.md", "3.md", "4.md"]


def test_two_requests_in_one_packet_are_both_answered(kb: Service) -> None:
    one = b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\nX-Pad: " + b"x" * 3000 + b"\r\n\r\n"
    last = one.replace(b"X-Pad", b"Connection: close\r\nX-Pad")
    with listening(create_app(kb, limits=Limits()), http=HeadProtocol) as url:
        address = httpx.URL(url)
        assert address.port is not None
        with socket.create_connection((address.host, address.port), timeout=60) as connection:
            connection.sendall(one + one + last)
            answers = b""
            while part := connection.recv(1 << 16):
                answers += part
    assert answers.count(b"HTTP/1.1 200") == 3


def test_an_answer_is_sent_at_once_and_the_head_of_a_stream_before_its_body(kb: Service) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await Switch()(scope, receive, send)
            return
        is_whole = scope["path"] == "/whole"
        length = [(b"content-length", b"1")] if is_whole else []
        await send({"type": "http.response.start", "status": 200, "headers": length})
        if is_whole:
            await asyncio.sleep(0.05)  # a head that is sent alone comes alone
        else:
            await receive(), await receive()  # until the client goes away
        await send({"type": "http.response.body", "body": b"x"})

    with listening(app, http=HeadProtocol) as url:
        address = httpx.URL(url)
        assert address.port is not None
        with socket.create_connection((address.host, address.port), timeout=60) as connection:
            connection.sendall(b"GET /whole HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(1 << 16).endswith(b"\r\n\r\nx")
            connection.sendall(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(1 << 16).endswith(b"\r\n\r\n")


def is_cut(connection: socket.socket, pause: float) -> bool:
    """Whether the server closes it while a body goes on and on."""
    end = time.monotonic() + 20
    try:
        for _ in range(8 << 10):
            connection.sendall(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
            time.sleep(pause)
            if time.monotonic() > end:
                return False
    except OSError:
        return True
    return False


@pytest.mark.parametrize("way", ["bytes", "seconds"])
def test_the_rest_of_a_body_after_an_answer_has_the_limits_of_bodies(kb: Service, way: str) -> None:
    """A sender without a key has its 401 before its body has ended, if that ever ends."""
    KeyStore.of(kb).add("somebody")
    size, seconds = (64 << 10, 60.0) if way == "bytes" else (1 << 30, 0.5)
    limits = Limits(body=size, body_seconds=seconds)

    class Limited(HeadProtocol):
        pass

    Limited.limit(limits)
    app = create_app(kb, write=True, authenticate=authenticator(kb), limits=limits)
    head = (
        b"PUT /v1/datasets/d/documents/a.md HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with listening(app, http=Limited) as url:
        address = httpx.URL(url)
        assert address.port is not None
        with socket.create_connection((address.host, address.port), timeout=30) as connection:
            connection.sendall(head)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 401")
            assert is_cut(connection, pause=0.02 if way == "seconds" else 0)
        # One whose body ends goes on with the same connection.
        with socket.create_connection((address.host, address.port), timeout=30) as connection:
            connection.sendall(head)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 401")
            connection.sendall(b"1\r\nx\r\n0\r\n\r\n")
            time.sleep(1)
            connection.sendall(b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answers = b""
            while b"HTTP/1.1 200" not in answers:
                part = connection.recv(1 << 16)
                assert part
                answers += part


PUT = (
    b"PUT /v1/datasets/d/documents/%d.md HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 18\r\n\r\n"
)
LIVE = b"GET /v1/live HTTP/1.1\r\nHost: localhost\r\n"


def connected(url: str) -> socket.socket:
    address = httpx.URL(url)
    assert address.port is not None
    return socket.create_connection((address.host, address.port), timeout=30)


def half_closed(url: str, request: bytes) -> bytes:
    """All that a client reads which has ended its own side, until the server closes."""
    with connected(url) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answers = b""
        while part := connection.recv(1 << 16):
            answers += part
    return answers


class Slow:
    """An app that answers after a while, unless its client goes away."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begun = self.gone = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for answer in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{answer}.complete"})
            return
        self.begun += 1
        try:
            async with asyncio.timeout(self.seconds):
                while (await receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            headers = [(b"content-length", b"4")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"done"})
        else:
            self.gone += 1


def test_a_client_that_has_ended_its_own_side_is_answered(kb: Service) -> None:
    with listening(create_app(kb, write=True), http=HeadProtocol) as url:
        for number in range(4):
            request = PUT % number + b'{"content": "Tea"}'
            assert half_closed(url, request).startswith(b"HTTP/1.1 201")
        answers = half_closed(url, (LIVE + b"\r\n") * 3)
        assert answers.count(b"HTTP/1.1 200") == 3
    assert len(list(kb.list_documents("d"))) == 4


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_that_takes_long_reaches_a_client_that_has_ended_its_own_side(
    version: bytes,
) -> None:
    """It is asked for by interim answers whether it is there, which HTTP/1.0 does not have."""
    app = Slow(1)
    with listening(app, http=HeadProtocol) as url:
        request = b"GET / HTTP/%s\r\nHost: localhost\r\n\r\n" % version
        answers = half_closed(url, request)
    *interim, answer, body = answers.split(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert body == b"done"
    assert all(each.startswith(b"HTTP/1.1 102") for each in interim)
    assert bool(interim) == (version == b"1.1")
    assert app.gone == 0


@pytest.mark.parametrize("way", ["closed", "reset", "half-closed, then closed"])
def test_a_client_that_goes_away_ends_its_request(way: str) -> None:
    app = Slow(60)
    with listening(app, http=HeadProtocol) as url:
        with connected(url) as connection:
            connection.sendall(LIVE + b"\r\n")
            until(lambda: app.begun == 1)
            if way == "reset":
                linger = struct.pack("ii", 1, 0)
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            elif way == "half-closed, then closed":
                connection.shutdown(socket.SHUT_WR)
                assert connection.recv(1 << 16).startswith(b"HTTP/1.1 102")
        until(lambda: app.gone == 1)


@pytest.mark.parametrize(
    "sent_",
    [b"", LIVE, LIVE + b"\r\n", PUT % 1 + b'{"content"', LIVE + b"\r\n" + PUT % 1 + b"{"],
    ids=["nothing", "half a head", "an answered request", "half a body", "half a second body"],
)
def test_a_connection_whose_client_sends_no_whole_request_any_more_is_closed_at_once(
    kb: Service, sent_: bytes
) -> None:
    with listening(create_app(kb, write=True), http=HeadProtocol) as url:
        with connected(url) as connection:
            connection.sendall(sent_)
            if LIVE + b"\r\n" in sent_:
                answer = b""
                while b'"ok"}' not in answer:
                    answer += connection.recv(1 << 16)
            began = time.monotonic()
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1 << 16) == b""
            assert time.monotonic() - began < 5
        assert half_closed(url, sent_).count(b"HTTP/1.1 200") == sent_.count(LIVE + b"\r\n")
    assert not list(kb.list_datasets())


@pytest.mark.parametrize("size", [15_000, 17_000, 40_000, 70_000, 300_000])
def test_the_line_of_a_request_counts_as_its_head(kb: Service, size: int) -> None:
    answer = b""
    line = LIVE.replace(b"live", b"live?" + b"a" * size)
    with listening(create_app(kb), http=HeadProtocol) as url, connected(url) as connection:
        with suppress(OSError):  # what is still sent when the server closes resets the connection
            connection.sendall(line + b"Connection: close\r\n\r\n")
        with suppress(OSError):
            while part := connection.recv(1 << 16):
                answer += part
    assert answer.startswith(b"HTTP/1.1 200" if size < 16 << 10 else b"HTTP/1.1 431")
    assert (b"HEADERS_TOO_LARGE" in answer) == (size > 16 << 10)


def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(kb: Service) -> None:
    request = (PUT % 1).replace(b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n")
    request += b'12\r\n{"content": "Tea"}\r\n0\r\n\r\n' + LIVE + b"\r\n"
    with (
        listening(create_app(kb, write=True), http=HeadProtocol) as url,
        connected(url) as connection,
    ):
        connection.sendall(request)
        answers = b""
        while part := connection.recv(1 << 16):
            answers += part
    assert answers.startswith(b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1") == 1
    assert not list(kb.list_datasets())
