"""Calls of a Service as requests of HTTP, and answers as records: everything but the sending."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from triptych.errors import (
    AccessDeniedError,
    AuthenticationError,
    CancelledError,
    ConflictError,
    NotAvailableError,
    RateLimitedError,
    StoreError,
    TooManyRequestsError,
    TriptychError,
    ValidationError,
)
from triptych.records.serialization import from_dict
from triptych_adapters.client.answers import stranger
from triptych_adapters.wire.errors import error_kind
from triptych_adapters.wire.operations import Operation
from triptych_adapters.wire.routes import PIPELINE_ROUTES, ROUTES, Route, query_pairs
from triptych_backends.providers.timeouts import retry_after_seconds

_KEY: Final = (
    "set TRIPTYCH_API_KEY to a key of that server, or give open(…, api_key=…); `triptych admin "
    "keys add` makes one where the server's store is"
)
_DENIED: Final = (
    "`triptych admin keys list`, where the server's store is, shows what each key may do"
)


@attrs.frozen(kw_only=True)
class Prepared:
    """A request, ready to be sent.

    Attributes:
        method: of HTTP.
        path: below the server's address, percent-encoded.
        query: of the URL.
        body: None for none.
        operation: what it asks for.
    """

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes | None
    operation: Operation

    @property
    def headers(self) -> dict[str, str]:
        """What the request says of itself."""
        kinds = {} if self.body is None else {"content-type": "application/json"}
        return {"accept": "application/json", **kinds}


def prepare(operation: str, arguments: Mapping[str, Any], pipeline: str = "") -> Prepared:
    """The request for an operation with these arguments, which are JSON's types already.

    ``pipeline`` is the name of one that it runs by.
    """
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
        from triptych_adapters.wire.build_layers import BUILD_LAYERS_ROUTE

        return BUILD_LAYERS_ROUTE
    return ROUTES[operation]


def answer_of(name: str, kind: Any, body: bytes) -> Any:
    """The record, or records, of this kind that the body of an answer to ``name`` holds.

    Raises:
        StoreError: it is something else: there is no such server at the address.
    """
    try:
        return from_dict(kind, json.loads(body))
    except (ValueError, RecursionError, ValidationError) as error:
        raise StoreError(
            f"the server answered {name} with what cannot be read "
            f"({error!s:.200}): is it a server of Triptych, of this version?"
        ) from error


def failure_of(
    status: int, body: bytes, what: str, headers: Mapping[str, str] | None = None
) -> TriptychError:
    """The error that an answer of this status tells of; ``what`` was asked for."""
    code, message, hint, details = shown_problem(body)
    headers = headers or {}
    if not code:
        said = f"{what}: the server answered with status {status}, and not as Triptych does"
        if 300 <= status < 400 and (target := headers.get("location")):
            return StoreError(
                f"{said}: it redirects to {target!r:.200}, which is not followed"
            ).hinted("if that is the server's address, give it in place of this one")
        said += f": {message}" if message else ""
        return StoreError(said).hinted("is the address that of a `triptych serve`?")
    kind = error_kind(code)
    if kind is ConflictError:
        made: TriptychError = ConflictError(
            message, expected=details.get("expected"), actual=details.get("actual")
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
    """The counts of the report of a call that was cut off."""
    given = report.items() if isinstance(report, dict) else ()
    return {name: each for name, each in given if type(each) is int and each > 0}


def shown_problem(body: bytes) -> tuple[str, str, str, Mapping[str, Any]]:
    """Code, message, hint and details of a failure's body; no code where it is a stranger's."""
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
