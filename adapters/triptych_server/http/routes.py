"""Routes over the path as it was sent, and what a request says in its body, query and headers.

What is percent-encoded separates nothing: a dataset's id may hold a slash, which a client writes
``%2F``; the path that servers hand on is decoded, and would be read as two segments.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import attrs
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from triptych.errors import ValidationError
from triptych_adapters.wire import read_arguments
from triptych_server.http.limits import Limits
from triptych_server.http.responses import ProblemError

# A text that never ends is one, too: else each quote in it would be tried as a beginning.
_TEXTS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_WEIGHT: Final = re.compile(r"q=([01](?:\.\d{0,3})?)")
_MOST_PAIRS: Final = 50


async def json_body(request: Request, limits: Limits, *, required: bool = False) -> str:
    """The text of a JSON body, ``{}`` where there is none.

    Raises:
        ProblemError: it is of another type, not UTF-8, or nested too deeply.
    """
    typed = "content-type" in request.headers
    if typed or required:
        check_json_type(request)
    body = await request.body()
    if not body and not required:
        return "{}"
    if not typed:
        check_json_type(request)
    if _depth_exceeds(body, limits.depth):
        raise ProblemError(
            400, "INVALID_REQUEST", f"the body is nested deeper than {limits.depth} levels"
        )
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProblemError(
            400, "INVALID_REQUEST", f"the body is not UTF-8, from byte {error.start} on"
        ) from None


def check_json_type(request: Request) -> None:
    """Refuse a body that does not say that it is JSON.

    Raises:
        ProblemError: 415.
    """
    kind, _, parameters = request.headers.get("content-type", "").partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    if kind.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8"):
        raise ProblemError(
            415,
            "UNSUPPORTED_MEDIA_TYPE",
            "the body must be JSON in UTF-8",
            hint="send Content-Type: application/json",
            headers={"Accept": "application/json"},
        )


def _depth_exceeds(body: bytes, most: int) -> bool:
    """Whether brackets outside of strings are nested deeper than ``most``."""
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    depth = 0
    for found in _BRACKETS.finditer(_TEXTS.sub(b"", body)):
        if found[0] in b"[{":
            depth += 1
            if depth > most:
                return True
        else:
            depth -= 1
    return False


def query_of(request: Request) -> list[tuple[str, str]]:
    """The pairs of the URL's query.

    Raises:
        ValidationError: they are not UTF-8, or too many.
    """
    if not (query := request.scope["query_string"]):
        return []
    try:
        return parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PAIRS,
        )
    except ValueError:
        raise ValidationError(
            f"the query of the URL is not UTF-8, percent-encoded, of at most {_MOST_PAIRS} pairs"
        ) from None


def media_types(request: Request) -> list[str]:
    """What the Accept header names, the heaviest first, without what it weighs with 0."""
    weighed: list[tuple[float, str]] = []
    for part in request.headers.get("accept", "").split(","):
        kind, *parameters = (each.strip().lower() for each in part.split(";"))
        found = (_WEIGHT.fullmatch(each) for each in parameters)
        weight = next((float(each[1]) for each in found if each), 1.0)
        if kind and weight:
            weighed.append((weight, kind))
    return [kind for _, kind in sorted(weighed, key=lambda each: -each[0])]


# Routes

_KNOWN: Final = "triptych.segments"

Endpoint = Callable[[Request], Awaitable[Response]]


class RawRoute(Route):
    """A route whose ``{argument}`` is one segment, and ``{argument:path}`` all the rest."""

    def __init__(
        self, path: str, endpoint: Endpoint, *, methods: Collection[str], name: str
    ) -> None:
        super().__init__(path, endpoint, methods=methods, name=name, include_in_schema=False)
        self.allowed: tuple[str, ...] = tuple(sorted(self.methods or ()))
        """The methods of every route of this path."""
        self._parts = path.strip("/").split("/")
        self._rest = self._parts[-1].endswith(":path}")
        self._is_fixed = "{" not in path

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the path is this route's, and the method, too."""
        if scope["type"] != "http":
            return Match.NONE, {}
        segments = _segments(scope)
        if self._is_fixed and segments != self._parts:
            return Match.NONE, {}
        fixed = len(self._parts) - self._rest
        if len(segments) < len(self._parts) or (not self._rest and len(segments) > fixed):
            return Match.NONE, {}
        if self._rest:
            segments = [*segments[:fixed], "/".join(segments[fixed:])]
        values: dict[str, bytes] = {}
        for part, segment in zip(self._parts, segments, strict=True):
            if part.startswith("{"):
                values[part.strip("{}").partition(":")[0]] = unquote_to_bytes(segment)
            elif part != segment:
                return Match.NONE, {}
        child = {"endpoint": self.endpoint, "path_params": _texts(values), "route": self}
        found = scope["method"] in (self.methods or ())
        return (Match.FULL if found else Match.PARTIAL), child

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse the method."""
        if scope["method"] not in self.allowed:
            raise ProblemError(
                405,
                "METHOD_NOT_ALLOWED",
                f"this path takes {', '.join(self.allowed)}",
                headers={"Allow": ", ".join(self.allowed)},
            )
        # Not by Starlette's own layers, which are around the app already.
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


def _segments(scope: Scope) -> list[str]:
    """The path's segments as they were sent. Each route asks for them."""
    known, root = scope.get(_KNOWN), scope.get("root_path", "")
    if known is None or known[0] != root:
        raw = scope.get("raw_path")
        path = quote(scope["path"], safe="/%") if raw is None else raw.decode("latin-1")
        known = scope[_KNOWN] = (root, path.split("/")[1 + root.rstrip("/").count("/") :])
    found: list[str] = known[1]
    return found


def _texts(values: dict[str, bytes]) -> dict[str, str]:
    try:
        return {name: value.decode("utf-8") for name, value in values.items()}
    except UnicodeDecodeError:
        raise ProblemError(
            400, "INVALID_REQUEST", "the path is not UTF-8, percent-encoded"
        ) from None


@attrs.frozen(kw_only=True)
class RouteDescription:
    """What a route is.

    Attributes:
        name: what it is called in the document, and in the log.
        method, path: where it is served.
        summary: what it does.
        body: the JSON Schema of its arguments, None where it takes none.
        query: the schemas of what may stand in the URL's query.
        answers: by status, what comes back: a description, and by media type the JSON Schema, or
            the class of a record.
        problems: the statuses of failures, beside those that every route has.
        secured: whether it needs a key, where keys are checked.
        named: whether it needs an Authorization header also where none is checked.
    """

    name: str
    method: str
    path: str
    summary: str
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    answers: Mapping[int, tuple[str, Mapping[str, Any]]]
    problems: Sequence[int] = ()
    secured: bool = True
    named: bool = False


class DocumentedRoute(RawRoute):
    """A route and its description."""

    def __init__(self, described: RouteDescription, endpoint: Endpoint) -> None:
        super().__init__(described.path, endpoint, methods=[described.method], name=described.name)
        self.described = described


def answer(
    description: str,
    *required: str,
    others: Mapping[str, Any] | None = None,
    **properties: Mapping[str, Any],
) -> tuple[str, Mapping[str, Any]]:
    """One of `RouteDescription.answers`: an object of JSON, and ``others`` by media type."""
    fields = {"properties": properties, "required": list(required)} if properties else {}
    return description, {"application/json": {"type": "object", **fields}, **(others or {})}


async def body_of(request: Request, described: RouteDescription, limits: Limits) -> dict[str, Any]:
    """The arguments of a body, checked.

    Raises:
        ValidationError: they are not as the schema has them.
        ProblemError: the body is not JSON.
    """
    assert described.body is not None
    text = await json_body(request, limits, required=True)
    return read_arguments(described.name, described.body, text)
