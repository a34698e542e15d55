"""The protocol SDK's own client, called from tests that are not asynchronous."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from starlette.types import ASGIApp

from support.servers import listening
from triptych_server.mcp.http import PATH

ERAS = ("legacy", "2026-07-28")
"""The modes of the client: with a handshake (up to 2025-11-25), and without."""


class Connected:
    """A connected client: each of its coroutines as a function."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self.portal = portal
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        def call(*arguments: Any, **keywords: Any) -> Any:
            return self.portal.call(lambda: method(*arguments, **keywords))

        return call


@contextmanager
def connected(server: Any, era: str) -> Iterator[Connected]:
    """A client of ``server``, a URL, a command or a transport."""
    with start_blocking_portal() as portal:
        client = Client(server, mode=era, cache=None)
        with portal.wrap_async_context_manager(client):
            yield Connected(portal, client)


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """The app on loopback; the URL of its protocol."""
    with listening(app) as url:
        yield f"{url}{PATH}"
