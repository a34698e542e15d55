"""Answers: JSON without what concerns only the server; failures as ``{"error": {…}}``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs
import msgspec
from starlette.responses import Response
from starlette.types import Scope

from triptych.contracts import public_warning
from triptych.errors import CancelledError, ConflictError, PendingReviewError, TriptychError
from triptych.records import DerivedSig, DoctorReport, Failure, HealthCheck, Hit, QuarantinedLayer
from triptych.records.serialization import to_dict, to_json
from triptych.runtime import SEARCHES
from triptych_adapters.wire.errors import (
    INTERNAL_MESSAGE,
    error_code,
    error_form,
    is_failure,
    public_error,
    public_message,
)


@attrs.frozen(kw_only=True)
class Problem:
    """A failure as it is answered.

    Attributes:
        status: of HTTP.
        code: for programs.
        message: for people.
        hint: what to do about it, "" where the message says it all.
        details: what a program may want to know.
        headers: of the answer.
    """

    status: int
    code: str
    message: str
    hint: str = ""
    details: Mapping[str, Any] = attrs.field(factory=dict)
    headers: Mapping[str, str] = attrs.field(factory=dict)

    def json(self) -> dict[str, Any]:
        """The body of the answer."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.hint:
            error["hint"] = self.hint
        if self.details:
            error["details"] = dict(self.details)
        return {"error": error}


class ProblemError(Exception):
    """Ends a request with a `Problem`."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.problem = Problem(
            status=status, code=code, message=message, hint=hint, headers=headers or {}
        )


INTERNAL: Final = Problem(
    status=500,
    code="INTERNAL_ERROR",
    message=INTERNAL_MESSAGE,
    hint="the server's log has it under the id of this request, X-Request-Id",
)

_LOG: Final = "the server's log has the reason under the id of this request, X-Request-Id"


def problem_of(error: BaseException) -> Problem:
    """What is answered when ``error`` ends a request; nothing of the inside is in it."""
    if isinstance(error, ProblemError):
        return error.problem
    form = error_form(error)
    if form is None or not isinstance(error, TriptychError):
        return INTERNAL
    code = error_code(error)
    if code == INTERNAL.code:
        return INTERNAL
    details: dict[str, Any] = {}
    headers: dict[str, str] = {}
    if isinstance(error, ConflictError):
        given = {"expected": error.expected, "actual": error.actual}
        details = {name: value for name, value in given.items() if value is not None}
    elif isinstance(error, PendingReviewError):
        details = {"proposals": error.proposals}
    elif isinstance(error, CancelledError) and error.report is not None:
        # Counts alone: what failed is tried again by whoever goes on.
        report = to_dict(error.report)
        details = {"report": {name: each for name, each in report.items() if type(each) is int}}
    if form.status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="triptych"'
    if form.status in (429, 503) and not isinstance(error, CancelledError):
        headers["Retry-After"] = str(max(1, math.ceil(getattr(error, "retry_after", None) or 1)))
    return Problem(
        status=form.status,
        code=code,
        message=public_message(error),
        hint=_LOG if is_failure(error) else "",
        details=details,
        headers=headers,
    )


def note_failure(scope: Scope, error: BaseException) -> None:
    """Note what a request failed with, for the log, where `Guard` does not see it raised."""
    cause = error.__cause__ if isinstance(error, ProblemError) else error
    if cause is not None and problem_of(error).status >= 500:
        scope.setdefault("state", {})["failure"] = cause


# JSON

JSON_TYPE: Final = "application/json"
_ENCODER: Final = msgspec.json.Encoder()
_PLAIN_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def encoded(value: Any) -> bytes:
    """``value`` as the bytes of its JSON, whatever names of files it holds."""
    text = _PLAIN_ENCODER.encode(value)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def encoded_result(result: Any) -> bytes:
    """What was read as the bytes of its JSON, made in turn with searches.

    Raises:
        ValueError: a number in it is not finite.
    """

    def shown(record: Any) -> Any:
        if type(record) is DerivedSig:  # each hit has one
            return record
        if type(record) is float:
            raise ValueError(f"{record} is no number of JSON")
        SEARCHES.pass_on("the answer")
        return public(record)

    several = result if isinstance(result, list) else [result]
    with SEARCHES.taken():  # one at a time: the plain form takes more memory
        parts = b",".join(_written(to_json(each, shown)) for each in several)
    return b"[%s]" % parts if several is result else parts


def _written(plain: Any) -> bytes:
    """`encoded` of what `to_json` made, ten times as fast."""
    try:
        return _ENCODER.encode(plain)
    except (UnicodeEncodeError, OverflowError):  # half a character, more than 64 bits
        return encoded(plain)


def public(record: Any) -> Any:
    """``record`` without what concerns only the server: its files, its drivers' messages."""
    if isinstance(record, Hit) and record.file is not None:
        return attrs.evolve(record, file=None)
    if isinstance(record, Failure):
        return attrs.evolve(record, error=public_error(record.error))
    if isinstance(record, HealthCheck) and (error := record.error) is not None:
        said = public_message(error)
        if record.status == "warning":
            said = record.detail.replace(str(error), said)
        return attrs.evolve(record, error=public_error(error), detail=said)
    if isinstance(record, QuarantinedLayer):
        # What a model answered is of the documents; what its provider said is not for callers.
        return attrs.evolve(record, message="")
    if isinstance(record, DoctorReport):
        return attrs.evolve(
            record,
            actions=tuple(map(public_warning, record.actions)),
            skipped=tuple(map(public_warning, record.skipped)),
            left_out=tuple(map(public_warning, record.left_out)),
        )
    if warnings := getattr(record, "warnings", ()):
        return attrs.evolve(record, warnings=tuple(map(public_warning, warnings)))
    return record


def json_response(
    body: bytes,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer of JSON."""
    return Response(body, status, {"Vary": "Accept", **(headers or {})}, JSON_TYPE)


def problem_response(problem: Problem) -> Response:
    """A failure's answer."""
    return json_response(
        encoded(problem.json()), status=problem.status, headers=dict(problem.headers)
    )
