"""A real server on loopback, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from triptych.service import Service

__all__ = ["Switch", "listening", "served"]


@contextmanager
def served(service: Service, **options: Any) -> Iterator[str]:
    """Serve ``service`` by `create_app` with these options; the base URL."""
    pytest.importorskip("uvicorn")
    from triptych_adapters.http import create_app

    with listening(create_app(service, **options)) as url:
        yield url


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """An ASGI app on a port of its own; the base URL."""
    uvicorn: Any = pytest.importorskip("uvicorn")
    # As the server listens itself: with the protocol named, small answers are sent at once.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on", ws="none"))
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
