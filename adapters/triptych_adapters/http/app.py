"""`create_app`: a Service as an ASGI app."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response

from triptych.service import Service
from triptych.sync import SyncReport
from triptych_adapters.http.calls import Calls
from triptych_adapters.http.foreign.gofastr import gofastr_routes
from triptych_adapters.http.foreign.nadir import nadir_routes
from triptych_adapters.http.foreign.pgedge import pgedge_routes
from triptych_adapters.http.guard import Guard, check_origins, cors_options
from triptych_adapters.http.limits import Limits
from triptych_adapters.http.metrics_route import Metrics, metrics_routes
from triptych_adapters.http.operations import operation_routes
from triptych_adapters.http.problems import Problem, ProblemError, problem_of
from triptych_adapters.http.responses import problem_response
from triptych_adapters.http.routes import RawRoute
from triptych_adapters.http.server import Server
from triptych_adapters.http.service_routes import service_routes
from triptych_adapters.keys.authenticator import Authenticator
from triptych_adapters.keys.loopback import LOOPBACK_NAMES
from triptych_adapters.services import check_service


def create_app(
    service: Service,
    *,
    authenticate: Authenticator | None = None,
    write: bool = False,
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
    limits: Limits | None = None,
    dataset: str = "default",
    sync: Callable[[Service], SyncReport] | None = None,
    metrics: Metrics | None = None,
) -> Starlette:
    """An app that serves ``service``; mount it, or give it to an ASGI server.

    It does not close the Service.

    Args:
        authenticate: what says who asks, by the Authorization header; None serves everybody, and
            answers to names of this machine only.
        write: whether what writes and destroys is served.
        hosts: the values of ``Host`` that are answered, with or without a port; ``"*"`` is any.
            None is ``localhost``, ``127.0.0.1`` and ``::1``, and with ``authenticate`` any.
        origins: the web pages that may ask, such as ``"https://app.example"``, beside those of
            the same host; they get the headers of CORS. With ``authenticate``, ``"*"`` is any.
        limits: None is `Limits()`.
        dataset: what the routes serve that name none.
        sync: syncs folders into ``service``, for ``/ingest`` of keys to everything.
        metrics: what ``/metrics`` shows, such as a `PrometheusObserver` that was given to
            `triptych.telemetry.observe`; None leaves the route out.

    Raises:
        ValidationError: ``service`` is none, or one of ``origins`` can be no page's.
    """
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
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        server.calls.close()

    routes: list[RawRoute] = [
        *operation_routes(server),
        *service_routes(server),
        *gofastr_routes(server),
        *pgedge_routes(server),
        *nadir_routes(server),
        *metrics_routes(server, metrics),
    ]
    _allow_together(routes)
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _http_exception,
            ProblemError: _failed,
            Exception: _failed,
        },
    )
    app.router.redirect_slashes = False
    app.state.triptych = server
    if hosts is None:
        hosts = LOOPBACK_NAMES if authenticate is None else ("*",)
    app.add_middleware(
        Guard, limits=limits, calls=server.calls, hosts=tuple(hosts), origins=tuple(origins)
    )
    if origins:
        # Around the guard: what it refuses is read by the page, too.
        app.add_middleware(CORSMiddleware, **cors_options(origins))
    return app


def _allow_together(routes: Sequence[RawRoute]) -> None:
    """Tell each route what methods its path takes altogether."""
    methods: dict[str, set[str]] = defaultdict(set)
    for route in routes:
        methods[route.path] |= route.methods or set()
    for route in routes:
        route.allowed = tuple(sorted(methods[route.path]))


async def _failed(request: Request, error: Exception) -> Response:
    return problem_response(problem_of(error))


_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


async def _http_exception(request: Request, error: Any) -> Response:
    code = _CODES.get(error.status_code, "INVALID_REQUEST")
    message = "there is no such path" if error.status_code == 404 else str(error.detail)
    return problem_response(
        Problem(status=error.status_code, code=code, message=message, headers=error.headers or {})
    )
