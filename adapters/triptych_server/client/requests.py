"""HTTP requests for operations, and reading responses with size limits."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import attrs

from triptych.errors import (
    AccessDeniedError,
    AuthenticationError,
    CancelledError,
    ConflictError,
    NotAvailableError,
    PendingReviewError,
    RateLimitedError,
    StoreError,
    TooManyRequestsError,
    TriptychError,
    ValidationError,
)
from triptych.records.serialization import from_dict
from triptych_adapters.wire import PIPELINE_ROUTES, ROUTES, Operation, Route, query_pairs
from triptych_adapters.wire.errors import error_kind
from triptych_providers.arguments import httpx
from triptych_providers.connection import CallClock, retry_after_seconds

MOST: Final = 256 << 20
"""The maximum bytes of one response."""
_MOST_OF_A_FAILURE: Final = 1 << 16
_MOST_OF_A_LINE: Final = 64 << 20
_SHOWN: Final = 200
_HIDDEN: Final = re.compile(
    r"<(style|script)\b(?:[^<]|<(?!/\1))*+(?:</\1\s*>|\Z)|<[^<>]*+>", re.IGNORECASE
)


async def read_body(answer: httpx.Response, url: str, clock: CallClock) -> bytes:
    """Read the body of a response; of an error, only its beginning.

    Raises:
        StoreError: it is longer than `MOST`, or compressed, which was not requested.
    """
    _check_plain(answer, url)
    most = MOST if answer.is_success else _MOST_OF_A_FAILURE
    parts, size, pieces = [], 0, answer.aiter_raw()
    while (part := await clock.piece(pieces)) is not None:
        parts.append(part)
        size += len(part)
        if size > most:
            if not answer.is_success:
                break
            raise _too_long(url)
    return b"".join(parts)


async def lines_of(answer: httpx.Response, url: str, clock: CallClock) -> AsyncGenerator[str, None]:
    """Yield the lines of a response as they arrive.

    Raises:
        StoreError: a line or the whole is too long, or it is compressed.
    """
    _check_plain(answer, url)
    size, line, pieces = 0, bytearray(), answer.aiter_raw()
    while (part := await clock.piece(pieces)) is not None:
        size += len(part)
        *ended, rest = part.split(b"\n")
        for each in ended:
            yield (line + each).removesuffix(b"\r").decode("utf-8", "replace")
            line.clear()
        line += rest
        if size > MOST or len(line) > _MOST_OF_A_LINE:
            raise _too_long(url)
    if line:
        yield line.decode("utf-8", "replace")


def stranger(body: bytes) -> str:
    """Return the beginning of an error of another server, such as a proxy, without HTML tags."""
    text = body[:_MOST_OF_A_FAILURE].decode("utf-8", "replace")
    if text.lstrip()[:1] == "<":
        text = _HIDDEN.sub(" ", text)
    words = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"


def _check_plain(answer: httpx.Response, url: str) -> None:
    # A few bytes may be decompressed to gigabytes at once: it is asked for plain.
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise StoreError(
            f"the answer of {url} is compressed ({encoding!r:.40}), although plain text was "
            "requested: is there a proxy in front of the server?"
        )


def _too_long(url: str) -> StoreError:
    return StoreError(
        f"the answer of the server at {url} is longer than {MOST >> 20} MiB, and was not read "
        "completely: request less at a time"
    )


# Requests, and what their answers say

_KEY: Final = (
    "set TRIPTYCH_API_KEY to a key of that server, or give open(…, api_key=…); `triptych admin "
    "keys add` makes one where the server's store is"
)
_DENIED: Final = (
    "`triptych admin keys list`, where the server's store is, shows what each key may do"
)


@attrs.frozen(kw_only=True)
class Prepared:
    """A prepared request.

    Attributes:
        method: the HTTP method.
        path: the path below the server's address, percent-encoded.
        query: the query of the URL.
        body: the body, or None.
        operation: the name of the operation.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None
    operation: Operation

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the request."""
        kinds = {} if self.body is None else {"content-type": "application/json"}
        return {"accept": "application/json", **kinds}


def prepare(operation: str, arguments: Mapping[str, Any], pipeline: str = "") -> Prepared:
    """Prepare the request for an operation with arguments as plain data for JSON.

    ``pipeline`` is the name of the pipeline to use. Defaults are left out: None is none of them.
    """
    if wrong := [name for name, value in arguments.items() if value is None]:
        raise ValidationError(f"{operation}: {wrong[0]} cannot be None: leave it out")
    route = _route_of(operation)
    if pipeline:
        route, arguments = PIPELINE_ROUTES[operation], {**arguments, "pipeline": pipeline}
    others = {name: value for name, value in arguments.items() if name not in route.in_path}
    body, query = None, {}
    if route.has_body:
        text = json.dumps(others, ensure_ascii=False, separators=(",", ":"))
        try:
            body = text.encode("utf-8")
        except UnicodeEncodeError:
            # Half a character: the server refuses it by name, as the Service would.
            body = json.dumps(others).encode("ascii")
    else:
        query = query_pairs(route.called.parameters, others)
    return Prepared(
        method=route.method,
        path=route.url(arguments),
        query=query,
        body=body,
        operation=route.called,
    )


def _route_of(operation: str) -> Route:
    if operation == "build_layers":
        from triptych_adapters.wire import BUILD_LAYERS_ROUTE

        return BUILD_LAYERS_ROUTE
    return ROUTES[operation]


def answer_of(name: str, kind: Any, body: bytes) -> Any:
    """Read the record or records of this type from the body of a response to ``name``.

    Raises:
        StoreError: the body has another form: the address is not of a Triptych server.
    """
    try:
        return from_dict(kind, json.loads(body))
    except (ValueError, RecursionError, ValidationError) as error:
        raise StoreError(
            f"the server's response to {name} cannot be read "
            f"({error!s:.200}): is it a server of Triptych, of this version?"
        ) from error


def failure_of(
    status: int, body: bytes, what: str, headers: Mapping[str, str] | None = None
) -> TriptychError:
    """Return the error of a response with this status; ``what`` is the requested operation."""
    code, message, hint, details = shown_problem(body)
    headers = headers or {}
    if not code:
        said = f"{what}: the server answered with status {status}, and not as Triptych does"
        if 300 <= status < 400 and (target := headers.get("location")):
            return StoreError(
                f"{said}: it redirects to {target!r:.200}, which is not followed"
            ).hinted("if that is the server's address, use it instead")
        said += f": {message}" if message else ""
        return StoreError(said).hinted("is the address that of a `triptych serve`?")
    kind = error_kind(code)
    if kind is ConflictError:
        made: TriptychError = ConflictError(
            message, expected=details.get("expected"), actual=details.get("actual")
        )
    elif kind is PendingReviewError:
        proposals = details.get("proposals")
        made = PendingReviewError(
            message, proposals=proposals if isinstance(proposals, dict) else None
        )
    elif kind is TooManyRequestsError:
        wait = retry_after_seconds(headers.get("retry-after"))
        made = TooManyRequestsError(message, retry_after=1.0 if wait is None else wait)
    elif kind is RateLimitedError:
        made = RateLimitedError(
            message, retry_after=retry_after_seconds(headers.get("retry-after"))
        )
    elif kind is CancelledError:
        made = CancelledError(message, report=_counts(details.get("report")))
    elif kind is AuthenticationError:
        made, hint = AuthenticationError(f"{what}: {message}"), hint or _KEY
    elif kind is AccessDeniedError:
        made, hint = AccessDeniedError(message), hint or _DENIED
    elif kind is not None:
        made = kind(message)
    elif status in (400, 404, 405, 411, 413, 415, 422, 431):
        made = ValidationError(message)
    elif status in (401, 403, 501):
        made = NotAvailableError(message)
    elif status in (408, 499, 504):
        made = CancelledError(message)
    else:
        made = StoreError(f"{what}: {message}")
    return made.hinted(hint) if hint else made


def _counts(report: object) -> dict[str, int]:
    """Return the counts in the report of a call that was cut off."""
    given = report.items() if isinstance(report, dict) else ()
    return {name: each for name, each in given if type(each) is int and each > 0}


def shown_problem(body: bytes) -> tuple[str, str, str, Mapping[str, Any]]:
    """Return code, message, hint and details of an error's body; no code for another server's."""
    try:
        error = json.loads(body)["error"]
        code, message = error["code"], error["message"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return "", stranger(body), "", {}
    if not isinstance(code, str) or not isinstance(message, str):
        return "", "", "", {}
    hint, details = error.get("hint", ""), error.get("details", {})
    return (
        code,
        message,
        hint if isinstance(hint, str) else "",
        details if isinstance(details, dict) else {},
    )
