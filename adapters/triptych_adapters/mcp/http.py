"""The server over streamable HTTP: hosts, origins and keys are checked before a message is read."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import logging
import math
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

import anyio
import anyio.to_thread
import uvicorn
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from triptych.errors import TriptychError, ValidationError
from triptych_adapters.access.loopback import LOOPBACK_NAMES, check_loopback
from triptych_adapters.http.authentication import Authenticator
from triptych_adapters.mcp.server import LOGGER, SERVICE
from triptych_adapters.wire.errors import error_form

__all__ = ["PATH", "check_binding", "make_app", "serve_http"]

PATH: Final = "/mcp"
_MOST_BODY: Final = 4 << 20
_MOST_SESSIONS: Final = 1000
_THREADS: Final = 8
_log = logging.getLogger(LOGGER)


def check_binding(host: str, hosts: Sequence[str], *, keys: bool) -> None:
    """Refuse to serve others than this machine without keys, or under names nobody gave.

    Raises:
        ValidationError: it is not safe to bind there.
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
) -> ASGIApp:
    """The ASGI app that serves ``server`` at `PATH`.

    ``hosts`` are the values of Host that it answers to, beside ``host`` and the loopback; with
    any port, or a port of their own. ``origins`` are the pages that may ask; none by default.
    With ``authenticate`` each request needs a key.
    """
    names = dict.fromkeys((*LOOPBACK_NAMES, host, *hosts))
    settings = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[each for name in names for each in (name, f"{name}:*")],
        allowed_origins=[
            *(f"http://{name}{port}" for name in LOOPBACK_NAMES for port in ("", ":*")),
            *origins,
        ],
    )
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        transport_security=settings,
        max_request_body_size=_MOST_BODY,
        max_sessions=_MOST_SESSIONS,
    )
    return app if authenticate is None else _Keys(app, authenticate)


class _Keys:
    """ASGI middleware: who asks, before anything of what they ask is read."""

    def __init__(self, app: ASGIApp, authenticate: Authenticator) -> None:
        self._app = app
        self._authenticate = authenticate
        self._limiter: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        authorization = Headers(scope=scope).get("authorization")
        if self._limiter is None:  # made in the event loop that it belongs to
            self._limiter = anyio.CapacityLimiter(_THREADS)
        try:
            service = await anyio.to_thread.run_sync(
                self._authenticate, authorization, limiter=self._limiter
            )
        except TriptychError as error:
            form = error_form(error)
            status = 500 if form is None else form.status
            if status >= 500:
                _log.error("a key could not be checked: %s", error)
            said = "the key could not be checked" if status >= 500 else str(error)
            await _refuse(send, status, said, getattr(error, "retry_after", None))
            return
        scope.setdefault("state", {})[SERVICE] = service
        # A session of the protocol belongs to the key that began it: the SDK compares these.
        digest = hashlib.sha256((authorization or "").encode()).hexdigest()
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=digest, scopes=[]))
        await self._app(scope, receive, send)


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


def serve_http(app: ASGIApp, sock: socket.socket, on_ready: Callable[[str, int], None]) -> None:
    """Serve until SIGINT or SIGTERM. What is under way then has two seconds to end."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    server = uvicorn.Server(config)
    host, port = sock.getsockname()[:2]
    on_ready(f"[{host}]" if ":" in host else host, port)
    # The server raises again what ended it, when all is closed.
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        server.run(sockets=[sock])
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        sock.close()
