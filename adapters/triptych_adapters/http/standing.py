"""The routes that every server has: whether it lives, and what it offers."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response

import triptych
from triptych_adapters.http.answers import encoded, json_response
from triptych_adapters.http.openapi import document
from triptych_adapters.http.routing import RawRoute
from triptych_adapters.http.server import Server

__all__ = ["standing_routes"]


def standing_routes(server: Server) -> Iterator[RawRoute]:
    """``/v1/service``; ``/v1/live`` and ``/v1/openapi.json``, which need no key."""

    async def live(request: Request) -> Response:
        return json_response(encoded({"status": "ok"}))

    async def openapi(request: Request) -> Response:
        return json_response(encoded(document(server, request.app.routes)))

    async def about(request: Request) -> Response:
        service = await server.service_of(request)
        facts = {
            "version": triptych.__version__,
            "write": server.write,
            "lanes": list(service.lanes),
            "pipelines": sorted(service.pipelines),
        }
        return json_response(encoded(facts))

    yield RawRoute("/v1/service", about, methods=["GET"], name="service")
    yield RawRoute("/v1/live", live, methods=["GET"], name="live")
    yield RawRoute("/v1/openapi.json", openapi, methods=["GET"], name="openapi")
