"""The server over streamable HTTP: hosts, origins and keys are checked before a message is read."""

from __future__ import annotations

import functools
import ipaddress
import json
import logging
import math
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import attrs
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triptych.errors import TooManyRequestsError, TriptychError, ValidationError
from triptych_adapters.wire.errors import error_form
from triptych_factory import Settings, wire
from triptych_server.http.guard import Guard, check_origins, cors_options
from triptych_server.http.limits import LOOPBACK_NAMES, Limits, check_loopback
from triptych_server.http.processes import counting_in, end_with_parent, run, shared_folder
from triptych_server.http.protocol import HeadProtocol, limited_config
from triptych_server.http.server import Calls, sender_of
from triptych_server.http.workers import ClosingApp, url_of
from triptych_server.keys.authenticator import Authenticator, authenticator
from triptych_server.mcp.server import LOGGER, SERVICE, ServerOptions, log_to_stderr, make_server

PATH: Final = "/mcp"
LIMITS: Final = Limits(body=4 << 20)
"""Those of ``triptych serve``, with larger bodies."""
_IDLE: Final = 1800.0
"""Seconds without a request after which a session is ended."""
_log = logging.getLogger(LOGGER)


def check_binding(host: str, hosts: Sequence[str], *, keys: bool) -> None:
    """Check that a server without keys is only for this machine, and that host names are given.

    Raises:
        ValidationError: it is not safe to bind to this address.
    """
    if not keys:
        check_loopback(host)
        return
    try:
        anywhere = ipaddress.ip_address(host).is_unspecified
    except ValueError:
        anywhere = False
    if anywhere and not hosts:
        raise ValidationError(
            f"{host} is every address of this machine: name those that clients use with "
            "--allow-host"
        )


def make_app(
    server: Server[Any],
    *,
    host: str = "127.0.0.1",
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    authenticate: Authenticator | None = None,
    limits: Limits = LIMITS,
    sessions: bool = True,
) -> ASGIApp:
    """Return the ASGI app that serves ``server`` at `PATH`.

    ``hosts`` are further accepted values of Host, besides ``host`` and the loopback, with or
    without a port. ``origins`` are the origins of web pages that may send requests; default none.
    With ``authenticate`` each request needs a key, and each key has its share of ``limits``.
    ``sessions`` enables the sessions of older protocol versions; without them any of several
    processes can answer a request.
    """
    check_origins(origins, keys=False)
    names = dict.fromkeys((*LOOPBACK_NAMES, host, *hosts))
    settings = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[each for name in names for each in (name, f"{name}:*")],
        allowed_origins=[
            *(f"http://{name}{port}" for name in LOOPBACK_NAMES for port in ("", ":*")),
            *origins,
        ],
    )
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=not sessions,
        transport_security=settings,
        max_request_body_size=limits.body,
        max_sessions=limits.sessions,
        session_idle_timeout=_IDLE,
    )
    calls = Calls(limits)
    if authenticate is not None:
        counted = _Sessions(app, limits.share_of(limits.sessions))
        app = _Keys(counted, authenticate, calls, limits.seconds)
    # Hosts and origins are judged by the SDK, which takes any port.
    app = Guard(
        app,
        limits=limits,
        calls=calls,
        hosts=["*"],
        origins=None,
        described=False,
        keyed=authenticate is not None,
    )
    return CORSMiddleware(app, **cors_options(origins)) if origins else app


@attrs.frozen
class _Keys:
    """ASGI middleware that authenticates a request before its body is read."""

    _app: _Sessions
    _authenticate: Authenticator
    _calls: Calls
    _seconds: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sender = sender_of(scope)
        try:
            header = Headers(scope=scope).get("authorization")
            scope["state"][SERVICE] = await sender.admit(
                self._authenticate, header, self._calls.apart, self._seconds
            )
            # A session of the protocol belongs to the key that began it: the SDK compares these.
            scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=sender.id, scopes=[]))
            await self._app(scope, receive, send)
        except TriptychError as error:
            form = error_form(error)
            status = 500 if form is None else form.status
            if status >= 500:
                _log.error("a key could not be checked: %s", error)
            said = "the key could not be checked" if status >= 500 else str(error)
            waits = getattr(error, "retry_after", None) or (1 if status == 503 else None)
            await _refuse(send, status, said, waits)


class _Sessions:
    """ASGI middleware, below `_Keys`: limits the open sessions of each key to ``most``.

    The SDK ends sessions: by DELETE, or after `_IDLE` seconds without a request.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        self._app = app
        self._most = most
        self._open: dict[str, dict[str, _Session]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request.

        Raises:
            TooManyRequestsError: it may open a session, but the key has the maximum number.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own, now = self._open.setdefault(sender_of(scope).id, {}), time.monotonic()
        for each in [each for each in own.values() if each.has_ended(now)]:
            del own[each.name]
        given = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        session = own.get(given or "") or _Session(given or uuid.uuid4().hex)
        if given is None:
            if len(own) >= self._most:
                raise TooManyRequestsError(
                    f"this key has {len(own)} sessions open: end some by DELETE", retry_after=60
                )
            own[session.name] = session  # its place, until the answer says whether it was opened
        began: Message = {"status": 500, "headers": []}

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                began.update(message)
            await send(message)

        session.requests += 1
        try:
            await self._app(scope, receive, noted)
        finally:
            session.requests, session.used = session.requests - 1, time.monotonic()
            is_done = began["status"] < 400
            if given is None or began["status"] == 404 or (is_done and scope["method"] == "DELETE"):
                own.pop(session.name, None)
            name = Headers(raw=began["headers"]).get(MCP_SESSION_ID_HEADER)
            if given is None and name is not None and is_done:
                session.name, own[name] = name, session


@attrs.define
class _Session:
    name: str
    requests: int = 0
    used: float = 0.0

    def has_ended(self, now: float) -> bool:
        return not self.requests and now - self.used > _IDLE


async def _refuse(send: Send, status: int, said: str, retry_after: float | None) -> None:
    code = {401: "invalid_token", 403: "insufficient_scope"}.get(status, "refused")
    body = json.dumps({"error": code, "error_description": said}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status in (401, 403):
        headers.append((b"www-authenticate", f'Bearer realm="triptych", error="{code}"'.encode()))
    if retry_after is not None:
        headers.append((b"retry-after", b"%d" % max(1, math.ceil(retry_after))))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def serve_http(
    app: ASGIApp,
    sock: socket.socket,
    on_ready: Callable[[str], None],
    limits: Limits = LIMITS,
) -> None:
    """Serve until SIGINT or SIGTERM. Running requests then have two seconds to end."""
    HeadProtocol.limit(limits)
    on_ready(url_of(sock) + PATH)
    with sock:
        run(limited_config(app, limits, timeout_graceful_shutdown=2), sock)


def serve_processes(
    settings: Settings,
    options: ServerOptions,
    sock: socket.socket,
    on_ready: Callable[[str], None],
    *,
    workers: int,
    limits: Limits = LIMITS,
    **names: Any,
) -> None:
    """As `serve_http`, in several processes without sessions.

    ``names`` are further arguments of `make_app`.

    Raises:
        StoreError: a process could not start.
    """
    with sock, shared_folder() as shared:
        config = limited_config(
            functools.partial(_app, settings, options, limits, names, shared),
            limits,
            factory=True,
            workers=workers,
            timeout_graceful_shutdown=2,
            timeout_worker_healthcheck=60,
        )
        on_ready(url_of(sock) + PATH)
        run(config, sock)


def _app(
    settings: Settings,
    options: ServerOptions,
    limits: Limits,
    names: dict[str, Any],
    shared: Path | None,
) -> ASGIApp:
    """Return the app of one of several processes, with its own Service."""
    log_to_stderr()
    HeadProtocol.limit(limits)
    end_with_parent()
    held, dataset = ExitStack(), options.dataset_id or ""
    service = wire(settings, create=options.write, dataset_id=dataset, preload=True)
    held.callback(service.close)
    authenticate = counting_in(shared, authenticator(service))
    server = make_server(service if authenticate is None else None, options)
    app = make_app(server, authenticate=authenticate, limits=limits, sessions=False, **names)
    return ClosingApp(app, held)
