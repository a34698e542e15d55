"""Failures as answers: ``{"error": {"code", "message", "hint"?}}``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import attrs

from triptych.errors import CancelledError, ConflictError, TriptychError
from triptych.records.serialization import to_dict
from triptych_adapters.wire.errors import (
    INTERNAL_MESSAGE,
    error_code,
    error_form,
    is_failure,
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
