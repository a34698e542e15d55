"""`create_app`: a Service as an ASGI app, with routes for liveness, server properties and
metrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

import triptych
from triptych.errors import AccessDeniedError, ValidationError
from triptych.records.serialization import to_json
from triptych.service import KnowledgeBase
from triptych.sync import RememberedRoot
from triptych_adapters import check_service
from triptych_adapters.wire import ROUTES, SERVICE_PATH, ServerFacts
from triptych_server.http.foreign.gofastr import gofastr_routes
from triptych_server.http.foreign.nadir import nadir_routes
from triptych_server.http.foreign.pgedge import pgedge_routes
from triptych_server.http.guard import (
    LIVE_PATH,
    Guard,
    ShowProblem,
    check_origins,
    cors_options,
    no_page,
)
from triptych_server.http.limits import LOOPBACK_NAMES, Limits
from triptych_server.http.openapi import document
from triptych_server.http.operations import operation_routes
from triptych_server.http.preconditions import etag, is_unchanged
from triptych_server.http.responses import (
    JSON_TYPE,
    Problem,
    ProblemError,
    encoded,
    json_response,
    note_failure,
    problem_of,
    problem_response,
)
from triptych_server.http.routes import (
    DocumentedRoute,
    RawRoute,
    RouteDescription,
    answer,
    media_types,
)
from triptych_server.http.server import AddFolder, Calls, Server, SyncFolders, is_loopback
from triptych_server.keys.authenticator import Authenticator
from triptych_sources import RememberedSource


def create_app(
    service: KnowledgeBase,
    *,
    authenticate: Authenticator | None = None,
    write: bool = False,
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    dataset: str | None = None,
    sync: SyncFolders | None = None,
    roots: Callable[[KnowledgeBase], Sequence[RememberedRoot | RememberedSource]] | None = None,
    add_folder: AddFolder | None = None,
    folder_code: str = "",
    metrics: Metrics | None = None,
    console: bool = False,
) -> Starlette:
    """Return an ASGI app that serves ``service``; mount it, or run it in an ASGI server.

    It does not close the Service.

    Args:
        authenticate: identifies the caller by the Authorization header; None serves everybody, but
            only under host names of this machine.
        write: whether to serve operations that write and destroy.
        hosts: the accepted values of ``Host``, with or without a port; ``"*"`` is any. None is
            ``localhost``, ``127.0.0.1`` and ``::1``, and with ``authenticate`` any.
        origins: the origins of web pages that may send requests (CORS), such as
            ``"https://app.example"``, besides the same host. With ``authenticate``, ``"*"`` is any.
        limits: None is `Limits()`.
        dataset: the dataset of routes that do not name one; None is ``default`` where it is there
            or there is none, else the only one.
        sync: syncs folders and sources into ``service``, for ``/ingest`` and the console by
            unrestricted keys, and tells the callback, if there is one, how far it is.
        roots: lists these folders and sources, for the console of unrestricted keys.
        add_folder: adds a folder of this machine, at a path, to a dataset and syncs it, as ``sync``
            does: what the console then lets whoever knows ``folder_code`` do. Not with
            ``authenticate``.
        folder_code: what is typed with a folder, since without keys anyone who can log in to this
            machine can open the console.
        metrics: the metrics of ``/metrics``, such as a `PrometheusObserver` that is also passed to
            `triptych.telemetry.observe`; None omits the route.
        console: whether to serve pages for people at ``/``; needs Jinja2.

    Raises:
        ValidationError: ``service`` is not a Service, an origin is invalid, or ``add_folder`` is
            given with ``authenticate``, or without ``write`` or ``folder_code``.
    """
    if add_folder is not None and (authenticate is not None or not write or not folder_code):
        raise ValidationError(
            "add_folder reads any folder of this machine: only a console without keys, that "
            "writes and asks for a folder_code, may have it"
        )
    check_service(service, "create_app", "search", "put_document", "get_document")
    check_origins(origins, keys=authenticate is not None)
    limits = limits or Limits()
    server = Server(
        service=service,
        authenticate=authenticate,
        write=write,
        limits=limits,
        calls=Calls(limits),
        dataset=dataset,
        sync=sync,
        roots=roots,
        add_folder=add_folder,
        folder_code=folder_code,
    )

    routes, shown = _served(server, metrics, console)
    app = _application(server, routes, shown)
    if hosts is None:
        hosts = LOOPBACK_NAMES if authenticate is None else ("*",)
    app.add_middleware(
        Guard,
        limits=limits,
        calls=server.calls,
        hosts=tuple(hosts),
        origins=tuple(origins),
        keyed=authenticate is not None,
        shown=shown,
    )
    if origins:
        # Around the guard: what it refuses is read by the page, too.
        app.add_middleware(CORSMiddleware, **cors_options(origins))
    return app


def _served(
    server: Server, metrics: Metrics | None, console: bool
) -> tuple[list[RawRoute], ShowProblem]:
    """The routes, and what shows a problem to a person."""
    routes: list[RawRoute] = [
        *operation_routes(server),
        *service_routes(server),
        *gofastr_routes(server),
        *pgedge_routes(server),
        *nadir_routes(server),
        *metrics_routes(server, metrics),
    ]
    if not console:
        return routes, no_page
    from triptych_server.console.pages import console_routes
    from triptych_server.console.site import problem_page

    return [*routes, *console_routes(server)], problem_page


def _application(server: Server, routes: Sequence[RawRoute], shown: ShowProblem) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        server.calls.close()

    _allow_together(routes)
    # Starlette asks one route after another: the one that is wanted most stands first.
    in_turn = sorted(routes, key=lambda each: each.path != ROUTES["search"].path)
    app = Starlette(
        routes=in_turn,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: partial(_http_exception, shown),
            ProblemError: partial(_failed, shown),
            Exception: partial(_failed, shown),
        },
    )
    app.router.redirect_slashes = False
    app.state.triptych = server
    return app


def _allow_together(routes: Sequence[RawRoute]) -> None:
    """Set for each route all methods of its path."""
    methods: dict[str, set[str]] = defaultdict(set)
    for route in routes:
        methods[route.path] |= route.methods or set()
    for route in routes:
        route.allowed = tuple(sorted(methods[route.path]))


async def _failed(shown: ShowProblem, request: Request, error: Exception) -> Response:
    note_failure(request.scope, error)
    problem = problem_of(error)
    return shown(request, problem) or problem_response(problem)


_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


async def _http_exception(shown: ShowProblem, request: Request, error: Any) -> Response:
    code = _CODES.get(error.status_code, "INVALID_REQUEST")
    message = _missing(request) if error.status_code == 404 else str(error.detail)
    headers = error.headers or {}
    problem = Problem(status=error.status_code, code=code, message=message, headers=headers)
    return shown(request, problem) or problem_response(problem)


_USUAL: Final = {
    **dict.fromkeys(
        ("docs", "redoc", "swagger", "swagger-ui", "swagger.json", "api-docs", "openapi"),
        "/v1/openapi.json describes all routes",
    ),
    **dict.fromkeys(("openapi.json", "openapi.yaml"), "/v1/openapi.json is this document"),
    **dict.fromkeys(
        ("health", "healthz", "ready", "readyz", "readiness"),
        "/healthz says whether the store answers",
    ),
    **dict.fromkeys(("live", "livez", "liveness"), f"{LIVE_PATH} says whether the process answers"),
    "metrics": "/metrics is there with `triptych serve --metrics`",
}
"""What other servers have under these names."""


def _missing(request: Request) -> str:
    """The message of a path that is not there; it names the one that is meant."""
    root = request.scope.get("root_path", "").rstrip("/")
    name = request.scope["path"].removeprefix(root).strip("/").removeprefix("v1/")
    meant = _USUAL.get(name.lower())
    return f"this path does not exist: {root}{meant}" if meant else "this path does not exist"


# Routes beside the operations


LIVE: Final = RouteDescription(
    name="live",
    method="GET",
    path=LIVE_PATH,
    summary="Check that the process responds; nothing else is checked.",
    answers={200: answer("It responds.")},
    secured=False,
)
SERVICE: Final = RouteDescription(
    name="service",
    method="GET",
    path=SERVICE_PATH,
    summary="The server's version, embedder, lanes, pipelines and limit.",
    answers={200: ("The properties of the server.", {"application/json": ServerFacts})},
)
OPENAPI: Final = RouteDescription(
    name="openapi",
    method="GET",
    path="/v1/openapi.json",
    summary="This document.",
    answers={200: answer("OpenAPI 3.1.")},
    secured=False,
)


def service_routes(server: Server) -> Iterator[DocumentedRoute]:
    """Return the routes ``/v1/service``, and ``/v1/live`` and ``/v1/openapi.json``, without
    keys."""

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
        return json_response(encoded(to_json(facts)))

    yield DocumentedRoute(SERVICE, about)
    yield DocumentedRoute(LIVE, live)
    yield DocumentedRoute(OPENAPI, openapi)


class Metrics(Protocol):
    """Metrics and their exposition, such as `PrometheusObserver`."""

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
    summary="Metrics for Prometheus, of all processes and the whole store. Without keys only for "
    "this machine, with keys only for unrestricted ones.",
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
    """Return the route ``/metrics``, if there are metrics."""
    if metrics is None:
        return

    async def shown(request: Request) -> Response:
        service = await server.service_of(request)
        _check(server, request, service)
        if JSON_TYPE in media_types(request):
            return json_response(encoded(await server.calls.apart(metrics.samples)))
        body = await server.calls.apart(metrics.exposition)
        headers = {"Vary": "Accept", "Content-Type": metrics.content_type}
        return Response(body, headers=headers)

    yield DocumentedRoute(METRICS, shown)


def _check(server: Server, request: Request, service: KnowledgeBase) -> None:
    """Raise AccessDeniedError for restricted callers: metrics are about the whole store."""
    if server.authenticate is None:
        if not is_loopback(request):
            raise AccessDeniedError("without keys, metrics are for this machine only")
        return
    server.check_sees_all(service, "metrics are")
