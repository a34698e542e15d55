"""Requests to an app in this process, without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx


class Client:
    """Asks an ASGI app; each request has an event loop of its own."""

    def __init__(self, app: Any, base: str = "http://localhost", **headers: str) -> None:
        self._app = app
        self._base = base
        self._headers = {key.replace("_", "-"): value for key, value in headers.items()}

    def __call__(self, method: str, url: str, **options: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            client = httpx.AsyncClient(
                transport=transport, base_url=self._base, headers=self._headers
            )
            async with client:
                return await client.request(method, url, **options)

        return asyncio.run(asked())
