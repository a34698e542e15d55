"""The routes that every server has: whether it lives, and what it offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

import triptych
from triptych_adapters.http.guard import LIVE_PATH
from triptych_adapters.http.openapi import document
from triptych_adapters.http.responses import encoded, json_response
from triptych_adapters.http.route_description import DocumentedRoute, RouteDescription
from triptych_adapters.http.server import Server

__all__ = ["service_routes"]


LIVE: Final = RouteDescription(
    name="live",
    method="GET",
    path=LIVE_PATH,
    summary="Whether the process answers; it looks at nothing else.",
    answers={200: ("It does.", {"application/json": {"type": "object"}})},
    secured=False,
)
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
SERVICE: Final = RouteDescription(
    name="service",
    method="GET",
    path="/v1/service",
    summary="What is served: the version, the embedder, the lanes, the pipelines, the limit.",
    answers={
        200: (
            "What is served.",
            {
                "application/json": {
                    "type": "object",
                    "properties": {
                        "version": {"type": "string"},
                        "write": {"type": "boolean"},
                        "embedder": {"type": ["string", "null"]},
                        "dimension": {"type": ["integer", "null"]},
                        "lanes": _TEXTS,
                        "pipelines": _TEXTS,
                        "max_body": {"type": "integer"},
                        "idempotency": {
                            "type": "boolean",
                            "description": "Whether writes take an Idempotency-Key.",
                        },
                    },
                    "required": [
                        *("version", "write", "embedder", "dimension"),
                        *("lanes", "pipelines", "max_body", "idempotency"),
                    ],
                }
            },
        )
    },
)
OPENAPI: Final = RouteDescription(
    name="openapi",
    method="GET",
    path="/v1/openapi.json",
    summary="This document.",
    answers={200: ("OpenAPI 3.1.", {"application/json": {"type": "object"}})},
    secured=False,
)


def service_routes(server: Server) -> Iterator[DocumentedRoute]:
    """``/v1/service``; ``/v1/live`` and ``/v1/openapi.json``, which need no key."""

    async def live(request: Request) -> Response:
        return json_response(encoded({"status": "ok"}))

    async def openapi(request: Request) -> Response:
        return json_response(encoded(document(server, request.app.routes)))

    async def about(request: Request) -> Response:
        service = await server.service_of(request)
        embedder = service.options.embedder
        facts = {
            "version": triptych.__version__,
            "write": server.write,
            "embedder": None if embedder is None else embedder.signature,
            "dimension": None if embedder is None else embedder.dimension,
            "lanes": list(service.lanes),
            "pipelines": sorted(service.pipelines),
            "max_body": server.limits.body,
            "idempotency": server.service.capabilities.settings is not None,
        }
        return json_response(encoded(facts))

    yield DocumentedRoute(SERVICE, about)
    yield DocumentedRoute(LIVE, live)
    yield DocumentedRoute(OPENAPI, openapi)
