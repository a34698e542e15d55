"""Before every route: hosts, origins, the limits of bodies. After it: headers, the log."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import random
import re
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from itertools import chain
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from triptych import telemetry
from triptych.errors import AccessDeniedError, AuthenticationError, ValidationError
from triptych_adapters.wire.errors import is_failure
from triptych_server.http.limits import Limits
from triptych_server.http.responses import (
    Problem,
    ProblemError,
    note_failure,
    problem_of,
    problem_response,
)
from triptych_server.http.server import Calls, ClientGoneError, Sender
from triptych_server.http.streams import EVENTS_TYPE, event
from triptych_server.keys.authenticator import key_id

LOGGER: Final = "triptych.http"
"""The logger of requests; `triptych serve` writes it to stderr as JSON."""

LIVE_PATH: Final = "/v1/live"
_ID: Final = re.compile(r"(?!.*tk_)[A-Za-z0-9._-]{1,64}", re.IGNORECASE)
"""An id of the client that may be logged: one with a key in it is not."""
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_PORTS: Final = {"http": ":80", "https": ":443"}
"""What a browser leaves out of an origin."""
_LAST_WORD: Final = 1.0
"""Seconds to say why a stream ends."""
_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"private, no-cache"),
)

ShowProblem = Callable[[Request, Problem], Response | None]
"""Makes the page of a failure; None where it is answered as JSON."""


def no_page(request: Request, problem: Problem) -> None:
    """Show no failure as a page."""


class Guard:
    """ASGI middleware around the whole app."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        calls: Calls,
        hosts: Sequence[str],
        origins: Sequence[str] | None,
        described: bool = True,
        keyed: bool = True,
        shown: ShowProblem = no_page,
    ) -> None:
        """Guard ``app``, which is ``described`` by an OpenAPI document or not.

        With ``origins`` None it judges them itself. Unless it is ``keyed``, no keys are checked,
        and a request that sends one is refused: it would be let do everything. ``shown`` makes the
        page of a failure.
        """
        self._app = app
        self._shares: dict[str, Any] = {}
        self._described = described
        self._keyed = keyed
        self._shown = shown
        self._limits = limits
        self._calls = calls
        self._hosts = frozenset(map(str.lower, hosts))
        self._origins = None if origins is None else frozenset(map(str.lower, origins))
        self._log = logging.getLogger(LOGGER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        answer = _Answer(
            send,
            request_id=given if _ID.fullmatch(given) else f"{random.getrandbits(128):032x}",
            link=f"{scope.get('root_path', '').rstrip('/')}/v1/openapi.json",
            described=self._described,
        )
        sender = Sender(self._limits, self._shares)
        scope.setdefault("state", {}).update(request_id=answer.request_id, sender=sender)
        began = time.perf_counter()
        error: BaseException | None = None
        operation = telemetry.operation("request", carrier=headers)
        try:
            with operation.current():
                self._check(scope, headers)
                body = _Body(receive, self._limits)
                # A probe that finds a busy process alive keeps it from being ended.
                is_probe = scope["path"].removeprefix(scope.get("root_path", "")) == LIVE_PATH
                with nullcontext() if is_probe else self._calls.counted():
                    await sender.answered(self._app(scope, body.receive, answer.send))
        except ClientGoneError:
            answer.status = answer.status or 499
        except ProblemError as problem:
            error = problem
            await self._fail(scope, receive, answer, problem)
        except Exception as failure:
            error = failure
            if not answer.status:
                await self._fail(scope, receive, answer, failure)
            elif not await answer.ended(failure):
                note_failure(scope, failure)
                raise  # the server closes the connection: what was sent is not whole
        finally:
            broke = self._note(scope, answer, time.perf_counter() - began, error)
            method = scope["method"]
            operation.note(
                method=method if method in _METHODS else "_OTHER",
                route=getattr(scope.get("route"), "path", ""),
                status=answer.status,
            )
            operation.end(broke)

    async def _fail(
        self, scope: Scope, receive: Receive, answer: _Answer, error: Exception
    ) -> None:
        """Answer with a failure, where nothing was sent."""
        if not answer.status:
            problem = problem_of(error)
            made = self._shown(Request(scope), problem) or problem_response(problem)
            await made(scope, receive, answer.send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        if "transfer-encoding" in headers and "content-length" in headers:
            raise ProblemError(
                400,
                "INVALID_REQUEST",
                "this body has both a Content-Length and a Transfer-Encoding",
                headers={"Connection": "close"},
            )
        line = (scope["method"], scope.get("raw_path") or b"", scope["query_string"])
        if sum(map(len, chain(line, *scope["headers"]))) > self._limits.header_bytes:
            raise ProblemError(
                431,
                "HEADERS_TOO_LARGE",
                f"the head is larger than {self._limits.header_bytes} bytes",
            )
        host = headers.get("host", "").lower()
        if "*" not in self._hosts and host not in self._hosts and _name(host) not in self._hosts:
            raise ProblemError(
                421,
                "MISDIRECTED_REQUEST",
                "this server does not accept this Host",
                hint="name it with `triptych serve --allow-host`, or create_app(…, hosts=…)",
            )
        if not self._keyed and key_id(headers.get("authorization")):
            raise ProblemError(
                401,
                "UNAUTHORIZED",
                "this server checks no keys, and would let this one do everything",
                hint="if it was started before the first key was made, start the server again",
            )
        origin = headers.get("origin")
        if origin is not None and self._origins is not None:
            own = f"{scope.get('scheme', 'http')}://{host}"
            if origin.lower() != own and self._origins.isdisjoint({origin.lower(), "*"}):
                raise ProblemError(403, "FORBIDDEN", "this server does not accept this Origin")
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise ProblemError(
                415,
                "UNSUPPORTED_MEDIA_TYPE",
                "bodies are not decompressed: send them uncompressed",
                headers={"Accept-Encoding": "identity"},
            )
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise ProblemError(400, "INVALID_REQUEST", "Content-Length is not a number")
        if len(length) > 18 or int(length) > self._limits.body:
            raise _too_large(self._limits)

    def _note(
        self, scope: Scope, answer: _Answer, seconds: float, error: BaseException | None
    ) -> BaseException | None:
        """Log the request; what it failed with, where that was the server's failure."""
        route = scope.get("route")
        fields: dict[str, Any] = {
            "request_id": answer.request_id,
            "key": scope["state"]["sender"].key or "-",
            "client": (scope.get("client") or ("-",))[0],
            "method": scope["method"],
            "path": scope["path"][:500],
            "route": getattr(route, "name", None),
            "status": answer.status,
            "ms": round(seconds * 1000, 1),
            "bytes": answer.bytes,
        }
        if isinstance(error, ProblemError):
            error = error.__cause__ or error
        error = scope["state"].get("failure", error)
        failed = (
            error is not None
            and (answer.status >= 500 or not answer.status or "failure" in scope["state"])
            and (isinstance(error, ProblemError) or is_failure(error))
        )
        level = logging.ERROR if failed else logging.INFO
        failure = error if failed else None
        self._log.log(level, "request", extra={"fields": fields}, exc_info=failure)
        return failure


def check_origins(origins: Sequence[str], *, keys: bool) -> None:
    """Refuse what is the origin of no web page; ``"*"``, which is every page, without keys.

    A page has a key only from its reader: no cookie of the browser goes along.

    Raises:
        ValidationError: it says what to type.
    """
    for origin in origins:
        if origin == "*" and keys:
            continue
        typed = "each origin, such as https://app.example"
        with suppress(ValueError):
            parts = urlsplit(origin.lower() if "://" in origin else f"https://{origin.lower()}")
            host = parts.netloc.removesuffix(_PORTS.get(parts.scheme, "/"))
            if host and "*" not in host:
                typed = f"{parts.scheme}://{host.encode('idna').decode('ascii')}"
        if origin.lower() in (typed, "null"):
            continue
        why = "every web page, which only `triptych serve` with keys answers"
        raise ValidationError(
            f"{origin!r} is {why if origin == '*' else 'the origin of no web page'}: name {typed}"
        )


def check_proxies(proxies: Sequence[str]) -> None:
    """Raise ValidationError for what is neither an IP address nor a network."""
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            said = "the address of no proxy: name an IP address or a network"
            raise ValidationError(f"{proxy!r} is {said}") from None


def cors_options(origins: Sequence[str]) -> dict[str, Any]:
    """The options of Starlette's CORSMiddleware by which pages of ``origins`` may ask.

    A key is a header that a page sets itself: no credentials of the browser are allowed.
    """
    return {
        "allow_origins": [origin.lower() for origin in origins],
        "allow_methods": sorted(_METHODS),
        "allow_headers": ["*"],
        "expose_headers": ["*"],
    }


def _name(host: str) -> str:
    """A Host without its port."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isascii() and port.isdigit() else host


def _too_large(limits: Limits) -> ProblemError:
    return ProblemError(
        413,
        "CONTENT_TOO_LARGE",
        f"the body is larger than {limits.body} bytes",
        hint="send several requests, or start the server with a larger --max-body",
        headers={"Connection": "close"},
    )


class _Body:
    """The body as it comes in: its bytes are counted, its time is limited."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self._receive = receive
        self._limits = limits
        self._left = limits.body
        self._until = asyncio.get_running_loop().time() + limits.body_seconds
        self._whole = False

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            raise ProblemError(
                408,
                "REQUEST_TIMEOUT",
                f"the body took longer than {self._limits.body_seconds:g} seconds",
                headers={"Connection": "close"},
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise _too_large(self._limits)
            self._whole = not message.get("more_body", False)
        return message


class _Answer:
    """The answer as it goes out, with the headers of every answer."""

    def __init__(self, send: Send, *, request_id: str, link: str, described: bool) -> None:
        self._send = send
        self._link = link
        self._described = described
        self._is_events = False
        self.request_id = request_id
        self.status = 0
        self.bytes = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            given = dict(headers)
            headers += (each for each in _ALWAYS if each[0] not in given)
            headers.append((b"x-request-id", self.request_id.encode()))
            kind = given.get(b"content-type", b"").decode("latin-1")
            if self._described and "json" in kind:
                link = f'<{self._link}>; rel="service-desc"'
                headers.append((b"link", link.encode("latin-1")))
            self._is_events = kind.startswith(EVENTS_TYPE)
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)

    async def ended(self, error: Exception) -> bool:
        """End a stream of events whose sender is refused meanwhile; whether it was one.

        A client that does not read, so that nothing can be sent, is cut off.
        """
        if not (self._is_events and isinstance(error, AuthenticationError | AccessDeniedError)):
            return False
        body = event("error", problem_of(error).json())
        try:
            async with asyncio.timeout(_LAST_WORD):
                await self.send({"type": "http.response.body", "body": body})
        except TimeoutError:
            return False
        return True
