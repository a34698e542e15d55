"""A real server on loopback, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from triptych.service import Service

__all__ = ["served"]


@contextmanager
def served(service: Service, **options: Any) -> Iterator[str]:
    """Serve ``service`` by `create_app` with these options; the base URL."""
    uvicorn: Any = pytest.importorskip("uvicorn")
    from triptych_adapters.http import create_app

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        create_app(service, **options), log_level="error", lifespan="on", ws="none"
    )
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
