"""``/metrics``: what Prometheus scrapes, only for those who may see everything."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response

from triptych.errors import AccessDeniedError
from triptych.service import Service
from triptych_adapters.http.request_parts import media_types
from triptych_adapters.http.responses import JSON_TYPE, encoded, json_response
from triptych_adapters.http.route_description import DocumentedRoute, RouteDescription
from triptych_adapters.http.server import Server


class Metrics(Protocol):
    """Counts, and what they are exposed as; `PrometheusObserver` is one."""

    @property
    def content_type(self) -> str:
        """The media type of `exposition`."""
        ...

    def exposition(self) -> bytes:
        """Every metric, as text that Prometheus reads."""
        ...

    def samples(self) -> Sequence[dict[str, Any]]:
        """Every metric as a name, labels and a value; no buckets."""
        ...


METRICS: Final = RouteDescription(
    name="metrics",
    method="GET",
    path="/metrics",
    summary="Metrics for Prometheus: of all processes, and of the whole store. Without keys it "
    "answers this machine, with keys those whose access is unrestricted.",
    answers={
        200: (
            "The metrics.",
            {
                "text/plain": {"type": "string"},
                JSON_TYPE: {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "labels": {
                                "type": "object",
                                "additionalProperties": {"type": "string"},
                            },
                            "value": {"type": "number"},
                        },
                        "required": ["name", "labels", "value"],
                    },
                },
            },
        )
    },
    problems=(403,),
)


def metrics_routes(server: Server, metrics: Metrics | None) -> Iterator[DocumentedRoute]:
    """The route, where there are metrics."""
    if metrics is None:
        return

    async def answer(request: Request) -> Response:
        service = await server.service_of(request)
        _check(server, request, service)
        if JSON_TYPE in media_types(request):
            return json_response(encoded(await server.calls.apart(metrics.samples)))
        body = await server.calls.apart(metrics.exposition)
        headers = {"Vary": "Accept", "Content-Type": metrics.content_type}
        return Response(body, headers=headers)

    yield DocumentedRoute(METRICS, answer)


def _check(server: Server, request: Request, service: Service) -> None:
    """Refuse whoever may not see everything: the numbers are of all that is stored and asked."""
    if server.authenticate is None:
        if not _is_loopback(request):
            raise AccessDeniedError("without keys, metrics are for this machine only")
        return
    server.check_sees_all(service, "metrics are")


def _is_loopback(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
