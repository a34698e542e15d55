"""Calls of a Service as requests of HTTP, and answers as records: everything but the sending."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from triptych.errors import (
    CancelledError,
    ConflictError,
    NotAvailableError,
    StoreError,
    TriptychError,
    ValidationError,
)
from triptych_adapters.wire.errors import error_kind
from triptych_adapters.wire.operations import Operation
from triptych_adapters.wire.query_string import query_pairs
from triptych_adapters.wire.records import RECORD_TYPE, from_record
from triptych_adapters.wire.routes import PIPELINE_ROUTES, ROUTES, Route

__all__ = ["Prepared", "answer_of", "failure_of", "prepare", "shown_problem"]

_SHOWN: Final = 500


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
        return {"accept": RECORD_TYPE, **kinds}


def prepare(operation: str, arguments: Mapping[str, Any], pipeline: str = "") -> Prepared:
    """The request for an operation with these arguments, which are JSON's types already.

    ``pipeline`` is the name of one that it runs by.
    """
    route: Route = ROUTES[operation]
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


def answer_of(prepared: Prepared, body: bytes) -> Any:
    """The record, or records, that the body of an answer holds.

    Raises:
        StoreError: it is something else: there is no such server at the address.
    """
    try:
        return from_record(prepared.operation.result, json.loads(body))
    except (ValueError, RecursionError, ValidationError) as error:
        raise StoreError(
            f"the server answered {prepared.operation.name} with what cannot be read "
            f"({error!s:.200}): is it a server of Triptych, of this version?"
        ) from error


def failure_of(status: int, body: bytes, what: str) -> TriptychError:
    """The error that an answer of this status tells of; ``what`` was asked for."""
    code, message, hint, details = shown_problem(body)
    if not code:
        return StoreError(
            f"{what}: the server answered with status {status}, and not as Triptych does"
            + (f": {message}" if message else "; is the address right?")
        )
    kind = error_kind(code)
    if kind is ConflictError:
        made: TriptychError = ConflictError(
            message, expected=details.get("expected"), actual=details.get("actual")
        )
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


def shown_problem(body: bytes) -> tuple[str, str, str, Mapping[str, Any]]:
    """Code, message, hint and details of a failure's body; no code where it is a stranger's."""
    try:
        error = json.loads(body)["error"]
        code, message = error["code"], error["message"]
    except (ValueError, RecursionError, TypeError, KeyError):
        return "", body[:_SHOWN].decode("utf-8", "replace").strip(), "", {}
    if not isinstance(code, str) or not isinstance(message, str):
        return "", "", "", {}
    hint, details = error.get("hint", ""), error.get("details", {})
    return (
        code,
        message,
        hint if isinstance(hint, str) else "",
        details if isinstance(details, dict) else {},
    )
