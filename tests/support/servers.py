"""Real servers on loopback: an app in a thread of this process, and ``triptych serve``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest

from triptych.service import Service


@contextmanager
def served(service: Service, **options: Any) -> Iterator[str]:
    """Serve ``service`` by `create_app` with these options; the base URL."""
    pytest.importorskip("uvicorn")
    from triptych_server.http import create_app

    with listening(create_app(service, **options)) as url:
        yield url


@contextmanager
def listening(app: Any, http: Any = "auto") -> Iterator[str]:
    """An ASGI app on a port of its own; the base URL. ``http`` is uvicorn's protocol."""
    uvicorn: Any = pytest.importorskip("uvicorn")
    # As the server listens itself: with the protocol named, small answers are sent at once.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    config = uvicorn.Config(app, log_level="error", lifespan="on", ws="none", http=http)
    server = uvicorn.Server(config)
    # Signals are for the main thread, whose tests are running.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


class Switch:
    """An app that is another one for each test, on one server."""

    def __init__(self) -> None:
        self.app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for answer in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{answer}.complete"})
            return
        await self.app(scope, receive, send)


@attrs.define
class Served:
    """A server that runs."""

    process: subprocess.Popen[str]
    url: str
    log: Path

    @property
    def address(self) -> tuple[str, int]:
        url = httpx.URL(self.url)
        assert url.port is not None
        return url.host, url.port

    def raw(self, request: bytes, *, seconds: float = 20, ends: bool = False) -> bytes:
        """Send these bytes as they are; what comes back until the connection is closed.

        ``ends`` sends nothing more after them.
        """
        with socket.create_connection(self.address, timeout=seconds) as connection:
            connection.sendall(request)
            if ends:
                connection.shutdown(socket.SHUT_WR)
            parts = []
            while part := connection.recv(1 << 16):
                parts.append(part)
        return b"".join(parts)

    def lines(self) -> list[dict[str, Any]]:
        """What was logged."""
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)


@contextmanager
def started(folder: Path, *options: str, store: str = "kb.db") -> Iterator[Served]:
    """A server over a store of this folder, in a process group of its own."""
    command = [sys.executable, "-m", "triptych_adapters.cli", "serve", "--port", "0"]
    with serving(folder, [*command, "--store", store, "--embedder", "hash", *options]) as served:
        yield served


@contextmanager
def serving(folder: Path, command: list[str]) -> Iterator[Served]:
    """The server that ``command`` starts, which prints its URL, in a process group of its own."""
    log = folder / "server.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), log.read_text(encoding="utf-8")
        yield Served(process, url, log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
