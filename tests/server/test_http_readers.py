"""Clients that do not read what they asked for, and more clients than there is room for."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from support.servers import listening
from support.sync_folder import until

pytest.importorskip("uvicorn")
from triptych.errors import ValidationError
from triptych_server.http import Limits
from triptych_server.http.protocol import HeadProtocol, connections_of

LARGE = 32 << 20
SMALL = 100
ASK = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Impatient(HeadProtocol):
    read_seconds = 0.2


class Crowded(HeadProtocol):
    most_connections = 10
    read_seconds = 600.0


class Large:
    """An app with a large answer; it counts the requests that are under way."""

    def __init__(self) -> None:
        self.begun = self.under_way = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for answer in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{answer}.complete"})
            return
        self.begun += 1
        self.under_way += 1
        try:
            parts = LARGE >> 20 if scope["path"] == "/large" else 1
            part = b"x" * ((1 << 20) if parts > 1 else SMALL)
            headers = [(b"content-length", str(parts * len(part)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for _ in range(parts):
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.under_way -= 1


def deaf(url: str, held: ExitStack) -> socket.socket:
    """A connection that asks, and does not read."""
    address = httpx.URL(url)
    connection = held.enter_context(socket.socket())
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((address.host, address.port))
    connection.sendall(ASK)
    return connection


def test_who_does_not_read_is_cut_off_and_the_request_ends() -> None:
    app = Large()
    with listening(app, http=Impatient) as url, ExitStack() as held:
        connections = [deaf(url, held) for _ in range(8)]
        until(lambda: app.begun == 8 and not app.under_way)
        # What is cut is seen to be cut: nobody takes it for a whole answer.
        for connection in connections:
            connection.settimeout(30)
            read = 0
            try:
                while part := connection.recv(1 << 20):
                    read += len(part)
            except ConnectionResetError:
                pass
            assert read < LARGE
        assert len(httpx.get(f"{url}/small", timeout=30).content) == SMALL


def test_idle_connections_make_room_and_busy_ones_are_not_cut() -> None:
    app = Large()
    with listening(app, http=Crowded) as url, ExitStack() as held:
        busy = [deaf(url, held) for _ in range(3)]
        until(lambda: app.under_way == 3)
        address = httpx.URL(url)
        idle = []
        for _ in range(40):
            connection = held.enter_context(
                socket.create_connection((address.host, address.port), timeout=30)
            )
            connection.sendall(ASK.replace(b"large", b"small"))
            answer = b""
            while not answer.endswith(b"x" * SMALL):
                answer += connection.recv(1 << 16)
            idle.append(connection)
        for connection in busy:
            connection.settimeout(30)
            read = 0
            while read < LARGE:
                part = connection.recv(1 << 20)
                assert part
                read += len(part)
        assert cut(idle) >= 40 - Crowded.most_connections


def cut(connections: list[socket.socket]) -> int:
    """How many of these connections the server has closed; of the others nothing more is read."""
    count = 0
    for connection in connections:
        connection.settimeout(0.2)
        try:
            while connection.recv(1 << 20):
                pass
            count += 1
        except TimeoutError:
            pass
        except OSError:
            count += 1
    return count


def test_files_are_left_for_the_store() -> None:
    resource = pytest.importorskip("resource")
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, most))
    try:
        assert connections_of(Limits()) == 640
        assert connections_of(Limits(connections=7)) == 7
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, most))
        assert connections_of(Limits()) == 128  # 256 more may be accepted at once
        resource.setrlimit(resource.RLIMIT_NOFILE, (399, most))
        with pytest.raises(ValidationError, match=r"only 399 files.*`ulimit -n 1024`"):
            connections_of(Limits())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    assert connections_of(Limits()) <= 2000


def test_who_reads_gets_all_of_it() -> None:
    with listening(Large(), http=HeadProtocol) as url:
        assert len(httpx.get(f"{url}/large", timeout=60).content) == LARGE
