"""The bodies of answers: JSON without what concerns only the server, and their headers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs
from starlette.responses import Response

from triptych.records import Failure, HealthCheck, Hit, QuarantinedLayer
from triptych.records.reports import public_warning
from triptych.records.serialization import to_json
from triptych_adapters.http.problems import Problem
from triptych_adapters.wire.errors import public_error, public_message

JSON_TYPE: Final = "application/json"
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def answer_of(value: Any) -> bytes:
    """The body of an answer of a Service."""
    return encoded(to_json(value, public))


def encoded(value: Any) -> bytes:
    """``value`` as the bytes of its JSON, whatever names of files it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def public(record: Any) -> Any:
    """``record`` without what concerns only the server: its files, its drivers' messages."""
    if isinstance(record, Hit) and record.file is not None:
        return attrs.evolve(record, file=None)
    if isinstance(record, Failure):
        return attrs.evolve(record, error=public_error(record.error))
    if isinstance(record, HealthCheck) and (error := record.error) is not None:
        return attrs.evolve(record, error=public_error(error), detail=public_message(error))
    if isinstance(record, QuarantinedLayer):
        # What a model answered is of the documents; what its provider said is not for callers.
        return attrs.evolve(record, message="")
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
