"""The routes of the operations, made from their table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from triptych.errors import ValidationError
from triptych_adapters.http.answers import encoded, form_of, json_response, public
from triptych_adapters.http.reading import json_body, media_types, query_of
from triptych_adapters.http.routing import RawRoute
from triptych_adapters.http.server import Server
from triptych_adapters.wire.arguments import read_object
from triptych_adapters.wire.operations import OPERATIONS
from triptych_adapters.wire.query_string import query_arguments
from triptych_adapters.wire.routes import ROUTES, Route

__all__ = ["LONG", "operation_routes"]

LONG: Final = frozenset({"ask", "replay", "rebuild", "embed_pending", "doctor", "purge", "health"})
"""Operations that ask a model, or go through a whole store."""


def operation_routes(server: Server) -> Iterator[RawRoute]:
    """A route for each operation of a Service."""
    for route in ROUTES.values():
        handler = _Handler(server, route)
        yield RawRoute(route.path, handler.answer, methods=[route.method], name=route.operation)


class _Handler:
    """Answers the requests for one operation."""

    def __init__(self, server: Server, route: Route) -> None:
        self._server = server
        self._route = route
        self._operation = OPERATIONS[route.operation]

    async def answer(self, request: Request) -> Response:
        server, operation = self._server, self._operation
        service = await server.service_of(request)
        server.check_effect(operation.effect)
        arguments = operation.read(await self._arguments(request))
        media_type, form = form_of(media_types(request))

        def call() -> bytes:
            return encoded(form(public(operation.run(service, **arguments))))

        async with server.calls.caller(request, long=operation.name in LONG) as caller:
            body = await caller.run(call)
        return json_response(body, media_type=media_type)

    async def _arguments(self, request: Request) -> dict[str, Any]:
        """The arguments of path, query and body together."""
        route, name, schema = self._route, self._operation.name, self._operation.parameters
        in_path = dict(request.path_params)
        queried = query_of(request)
        if route.has_body:
            if queried:
                raise ValidationError(
                    f"{name}: arguments stand in the body, not in the URL's query"
                )
            text = await json_body(request, self._server.limits)
            others = dict(read_object(name, text))
        else:
            others = query_arguments(name, schema, queried)
        for each in route.in_path:
            if each in others:
                raise ValidationError(f"{name}: the argument {each!r} stands in the path only")
        return in_path | others
