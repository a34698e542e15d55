"""The routes that every server has: whether it lives, and what it offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

import triptych
from triptych_adapters.http.guard import LIVE_PATH
from triptych_adapters.http.openapi import document
from triptych_adapters.http.preconditions import etag, is_unchanged
from triptych_adapters.http.responses import answer_of, encoded, json_response
from triptych_adapters.http.route_description import DocumentedRoute, RouteDescription
from triptych_adapters.http.server import Server
from triptych_adapters.wire.routes import SERVICE_PATH, ServerFacts

LIVE: Final = RouteDescription(
    name="live",
    method="GET",
    path=LIVE_PATH,
    summary="Whether the process answers; it looks at nothing else.",
    answers={200: ("It does.", {"application/json": {"type": "object"}})},
    secured=False,
)
SERVICE: Final = RouteDescription(
    name="service",
    method="GET",
    path=SERVICE_PATH,
    summary="What is served: the version, the embedder, the lanes, the pipelines, the limit.",
    answers={200: ("What is served.", {"application/json": ServerFacts})},
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

    made: list[bytes] = []  # once: it costs much, and needs no key

    async def openapi(request: Request) -> Response:
        if not made:
            made.append(encoded(document(server, request.app.routes)))
        headers = {"ETag": etag(made[0])}
        if is_unchanged(request, headers["ETag"]):
            return Response(status_code=304, headers={**headers, "Vary": "Accept"})
        return json_response(made[0], headers=headers)

    async def about(request: Request) -> Response:
        service = await server.service_of(request)
        embedder = service.options.embedder
        facts = ServerFacts(
            version=triptych.__version__,
            write=server.write,
            embedder=None if embedder is None else embedder.signature,
            dimension=None if embedder is None else embedder.dimension,
            lanes=tuple(service.lanes),
            pipelines=tuple(sorted(service.pipelines)),
            max_body=server.limits.body,
            idempotency=server.service.capabilities.settings is not None,
        )
        return json_response(answer_of(facts))

    yield DocumentedRoute(SERVICE, about)
    yield DocumentedRoute(LIVE, live)
    yield DocumentedRoute(OPENAPI, openapi)
