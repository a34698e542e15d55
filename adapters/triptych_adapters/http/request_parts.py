"""What a request says: its body, its query, its headers."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from triptych.errors import ValidationError
from triptych_adapters.http.limits import Limits
from triptych_adapters.http.problems import ProblemError

# A text that never ends is one, too: else each quote in it would be tried as a beginning.
_TEXTS: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS: Final = re.compile(rb"[\[\]{}]")
_WAIT: Final = re.compile(r"\bwait\s*=\s*\"?(\d{1,6})\b", re.IGNORECASE)
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
    try:
        return parse_qsl(
            request.scope["query_string"].decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_PAIRS,
        )
    except ValueError:
        raise ValidationError(
            f"the query of the URL is not UTF-8, percent-encoded, of at most {_MOST_PAIRS} pairs"
        ) from None


def wanted_seconds(request: Request, limits: Limits) -> float:
    """How long the request may take: the server's limit, or less where ``Prefer: wait=`` asks."""
    found = _WAIT.search(request.headers.get("prefer", ""))
    return min(limits.seconds, float(found[1])) if found else limits.seconds


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
