"""`serve`: the app of each process, what it observes of itself, its log."""

from __future__ import annotations

import functools
import ipaddress
import json
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import attrs
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

import triptych
from triptych import ProgressCallback, telemetry
from triptych.errors import ValidationError
from triptych.service import KnowledgeBase, service_of
from triptych.sync import RememberedRoot, SyncReport
from triptych_factory import (
    Settings,
    parse_location,
    remembered_roots,
    remembered_sources,
    sync_remembered,
    wire,
)
from triptych_server.http.app import Metrics, create_app
from triptych_server.http.guard import LOGGER, check_origins, check_proxies
from triptych_server.http.limits import LOOPBACK_NAMES, Limits, check_loopback, listen
from triptych_server.http.processes import (
    check_shared,
    counting_in,
    end_with_parent,
    run,
    shared_folder,
)
from triptych_server.http.protocol import HeadProtocol, connections_of, limited_config
from triptych_server.keys import authenticator
from triptych_server.keys.authenticator import Authenticator, KeyAuthenticator
from triptych_server.keys.key_store import KeyStore
from triptych_sources import RememberedSource

_FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_log = logging.getLogger(__name__)


@contextmanager
def shared_counters() -> Iterator[None]:
    """Have the processes that are started in the block count in one folder.

    A worker that ends leaves its counts there, and the one that takes its place adds to them.
    """
    before = os.environ.get(_FOLDER_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="triptych-metrics-") as folder:
        os.environ[_FOLDER_VARIABLE] = folder
        try:
            yield
        finally:
            del os.environ[_FOLDER_VARIABLE]
            if before is not None:
                os.environ[_FOLDER_VARIABLE] = before


def observe_serving(
    service: KnowledgeBase, held: ExitStack, *, metrics: bool, otel: bool
) -> Metrics | None:
    """Observe this process for Prometheus, for OpenTelemetry, for both or for nobody.

    What ``/metrics`` shows, None where it is not served. ``held`` ends observing.
    """
    from triptych_server.telemetry.metrics import StoreFigures

    shown: Metrics | None = None
    figures = StoreFigures(service)
    if metrics:
        from triptych_server.telemetry.prometheus import PrometheusObserver

        counting = PrometheusObserver(figures=figures)
        held.callback(telemetry.observe(counting))
        shown = counting
    if otel:
        from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

        from triptych_server.telemetry.open_telemetry import OpenTelemetryObserver

        if isinstance(get_tracer_provider(), ProxyTracerProvider):
            _log.warning(
                "no OpenTelemetry SDK is configured, so that spans are lost: run this with "
                "opentelemetry-instrument"
            )
        held.callback(telemetry.observe(OpenTelemetryObserver(figures=figures)))
    return shown


_AddFolder = Callable[[Settings, KnowledgeBase, Path, str, ProgressCallback | None], SyncReport]


@attrs.frozen(kw_only=True)
class ServeOptions:
    """How `serve` serves.

    Attributes:
        settings: of the store and the models.
        host, port: where it listens; port 0 is any that is free.
        workers: processes.
        write: whether what writes and destroys is served.
        hosts: further values of ``Host`` that are answered.
        origins: web pages that may ask.
        proxies: addresses and networks whose X-Forwarded-For and X-Forwarded-Proto are read.
        limits: of requests.
        dataset: what the routes serve that name no dataset.
        metrics: whether ``/metrics`` is served, with the numbers of all workers.
        console: whether the pages for people are served.
        otel: whether spans and metrics go to the OpenTelemetry SDK of the process.
        drain_seconds: how long a stop waits for requests under way.
        authenticator: makes of the opened Service what says who asks; None of it serves everybody
            on this machine. By default the keys of the store; a function of a module, as workers
            import it.
        add_folder: adds and syncs a folder of this machine that is named in the console, where the
            store has no keys and only this machine is answered; None refuses that.
        folder_code: what is typed with it.
        log_requests: whether a request that succeeds has a line in the log.
    """

    settings: Settings
    host: str = "127.0.0.1"
    port: int = 8400
    workers: int = 1
    write: bool = False
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    proxies: Sequence[str] = ()
    limits: Limits = attrs.field(factory=Limits)
    dataset: str | None = None
    metrics: bool = False
    console: bool = True
    otel: bool = False
    drain_seconds: float = 30.0
    authenticator: Callable[[KnowledgeBase], Authenticator | None] = authenticator
    add_folder: _AddFolder | None = None
    folder_code: str = attrs.field(default="", repr=False)
    log_requests: bool = True


def serve(options: ServeOptions, started: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; requests under way are answered first.

    ``started`` is called once with the URL, when it takes connections.

    Raises:
        ValidationError: without keys, ``host`` is an address that other machines reach; several
            workers are to share a store in memory; one of ``origins`` can be no page's, or one of
            ``proxies`` is no address; or the process may open too few files.
        TriptychError: the store or a model cannot be opened.
    """
    if options.workers < 1:
        raise ValidationError("a server has at least one worker")
    check_shared(options.settings, options.workers)
    # Whatever is wrong with the store is seen here, not in workers that are started in vain.
    with _opened(options) as service:
        authenticate = options.authenticator(service)
        facts = _facts(options, service, authenticate)
    check_origins(options.origins, keys=authenticate is not None)
    check_proxies(options.proxies)
    connections_of(options.limits)
    if authenticate is None:
        check_loopback(options.host)
    listening = listen(options.host, options.port)
    log_to_stderr(requests=options.log_requests)
    with ExitStack() as held:
        held.enter_context(listening)
        shared = None
        if options.workers > 1:
            shared = held.enter_context(shared_folder())
            if options.metrics:
                held.enter_context(shared_counters())
        config = limited_config(
            functools.partial(_app, options, shared),
            options.limits,
            factory=True,
            workers=options.workers,
            timeout_graceful_shutdown=max(1, round(options.drain_seconds)),
            timeout_worker_healthcheck=60,
        )
        facts["address"] = url_of(listening)
        logging.getLogger(LOGGER).info("start", extra={"fields": facts})
        started(facts["address"])
        run(config, listening)


def _facts(
    options: ServeOptions, service: KnowledgeBase, asks: Authenticator | None
) -> dict[str, Any]:
    """What the first line of the log says; models with their hosts."""
    wired = service.options
    names = (*(lane.option for lane in wired.models.kept), "llm")
    models: dict[str, Any] = {name: getattr(wired, name) for name in names}
    for step in wired.postprocessors:
        models["reranker"] = getattr(step, "reranker", models.get("reranker"))
    keys = KeyStore.of(service).list() if isinstance(asks, KeyAuthenticator) else ()
    return {
        "version": triptych.__version__,
        "store": str(parse_location(options.settings.url)),
        "datasets": len(service.list_datasets()),
        "keys": sum(each.state() == "valid" for each in keys),
        "workers": options.workers,
        "write": options.write,
        **{
            name: " at ".join(filter(None, (each.signature, getattr(each, "host", ""))))
            for name, each in models.items()
            if each is not None
        },
    }


def _app(options: ServeOptions, shared: Path | None) -> ASGIApp:
    """The app of one process, with a Service of its own."""
    log_to_stderr(requests=options.log_requests)
    HeadProtocol.limit(options.limits)
    if options.workers > 1:
        end_with_parent()
    held, service = ExitStack(), _opened(options)
    held.callback(service.close)
    authenticate = counting_in(shared, options.authenticator(service))
    shown = observe_serving(service, held, metrics=options.metrics, otel=options.otel)
    own = (*LOOPBACK_NAMES, options.host, *options.hosts)
    hosts = None if authenticate is not None and not options.hosts else own
    app: Any = create_app(
        service,
        authenticate=authenticate,
        write=options.write,
        hosts=hosts,
        origins=options.origins,
        limits=options.limits,
        dataset=options.dataset,
        sync=functools.partial(sync_remembered, options.settings),
        roots=functools.partial(_roots, options.settings),
        add_folder=None
        if options.add_folder is None or authenticate is not None
        else functools.partial(options.add_folder, options.settings),
        folder_code=options.folder_code,
        metrics=shown,
        console=options.console,
    )
    return ClosingApp(forwarded(app, options.proxies), held)


def forwarded(app: ASGIApp, proxies: Sequence[str]) -> ASGIApp:
    """``app``, to which a client is what one of ``proxies`` says: an IP address, else the proxy."""

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        host = (scope.get("client") or ("",))[0]
        with suppress(ValueError):
            ipaddress.ip_address(host)
            if "%" not in host:  # what follows it may be any text
                scope["peer"] = scope["client"]
        scope["client"] = scope.pop("peer", None)
        await app(scope, receive, send)

    inner: Any = ProxyHeadersMiddleware(cast("Any", checked), [*proxies])

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        scope["peer"] = scope.get("client")
        await inner(scope, receive, send)

    return outer if proxies else app


class ClosingApp:
    """An app that lets go of its Service and its observers after its last request."""

    def __init__(self, app: ASGIApp, held: ExitStack) -> None:
        self._app = app
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if scope["type"] == "lifespan":
                self._held.close()


def _opened(options: ServeOptions) -> KnowledgeBase:
    return service_of(wire(options.settings, create=options.write, named=None), "serving")


def _roots(
    settings: Settings, service: KnowledgeBase
) -> Sequence[RememberedRoot | RememberedSource]:
    return [*remembered_roots(service, settings).all(), *remembered_sources(service).all()]


def url_of(listening: socket.socket) -> str:
    """The URL of a server on a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


_ENCODER: Final = json.JSONEncoder(default=str)


class JsonFormatter(logging.Formatter):
    """One object a record: time, level, event, and what the record adds as ``fields``."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "pid": record.process,
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            line["traceback"] = self.formatException(record.exc_info)
        return _ENCODER.encode(line)


def log_to_stderr(*, requests: bool = True) -> None:
    """Write what happens to the server, and what everything else warns of, to stderr; with
    ``requests`` also those that succeed."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    if not requests:
        handler.addFilter(lambda each: each.levelno > logging.INFO or each.msg != "request")
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    logging.captureWarnings(True)
