"""Clients that do not read what they asked for."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from support.servers import listening
from support.sync_folder import until

pytest.importorskip("uvicorn")
from triptych_adapters.http.protocol import HeadProtocol

LARGE = 32 << 20
ASK = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Impatient(HeadProtocol):
    read_seconds = 0.2


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
            part = b"x" * (1 << 20)
            size = LARGE if scope["path"] == "/large" else len(part)
            headers = [(b"content-length", str(size).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for _ in range(size // len(part)):
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
        assert len(httpx.get(f"{url}/small", timeout=30).content) == 1 << 20


def test_who_reads_gets_all_of_it() -> None:
    with listening(Large(), http=HeadProtocol) as url:
        assert len(httpx.get(f"{url}/large", timeout=60).content) == LARGE
