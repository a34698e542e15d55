"""Routes over the path as it was sent: what is percent-encoded separates nothing.

A dataset's id may hold a slash, which a client writes ``%2F``; the path that servers hand on is
decoded, and would be read as two segments.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from triptych_adapters.http.problems import ProblemError

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

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether the path is this route's, and the method, too."""
        if scope["type"] != "http":
            return Match.NONE, {}
        segments = _segments(scope)
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
        await self.app(scope, receive, send)


def _segments(scope: Scope) -> list[str]:
    """The path's segments as they were sent. Each route asks for them."""
    known = scope.get(_KNOWN)
    if known is None or known[0] != scope.get("root_path", ""):
        known = scope[_KNOWN] = (scope.get("root_path", ""), _split(scope))
    found: list[str] = known[1]
    return found


def _split(scope: Scope) -> list[str]:
    raw = scope.get("raw_path")
    path = quote(scope["path"], safe="/%") if raw is None else raw.decode("latin-1")
    root = scope.get("root_path", "").rstrip("/")
    return path.split("/")[1 + root.count("/") :]


def _texts(values: dict[str, bytes]) -> dict[str, str]:
    try:
        return {name: value.decode("utf-8") for name, value in values.items()}
    except UnicodeDecodeError:
        raise ProblemError(
            400, "INVALID_REQUEST", "the path is not UTF-8, percent-encoded"
        ) from None
