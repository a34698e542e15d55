"""The bodies of answers: JSON without what concerns only the server, and their headers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import attrs
from starlette.responses import Response

from triptych.answering import Answer
from triptych.context import ContextPack
from triptych.records import Failure, Health, HealthCheck, Hit, Result
from triptych.records.failure_warning import public_warning
from triptych.records.serialization import to_json
from triptych_adapters.http.problems import Problem
from triptych_adapters.wire.layer_build import LayerBuild
from triptych_adapters.wire.public_errors import public_error, public_message

__all__ = ["JSON_TYPE", "answer_of", "encoded", "json_response", "problem_response", "public"]

JSON_TYPE: Final = "application/json"
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")


def answer_of(value: Any) -> bytes:
    """The body of an answer of a Service."""
    return encoded(to_json(public(value)))


def encoded(value: Any) -> bytes:
    """``value`` as the bytes of its JSON, whatever names of files it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8")


def public(value: Any) -> Any:
    """``value`` without what concerns only the server: its files, its drivers' messages."""
    if isinstance(value, Result):
        hits = tuple(map(_public_hit, value.hits))
        return attrs.evolve(value, hits=hits, warnings=_public_warnings(value))
    if isinstance(value, Answer):
        return attrs.evolve(value, pack=public(value.pack), warnings=_public_warnings(value))
    if isinstance(value, ContextPack):
        return attrs.evolve(value, warnings=_public_warnings(value))
    if isinstance(value, Health):
        return attrs.evolve(value, checks=tuple(map(_public_check, value.checks)))
    if isinstance(value, LayerBuild):
        # What a model answered is of the documents; what its provider said is not for callers.
        quarantined = tuple(attrs.evolve(each, message="") for each in value.report.quarantined)
        report = attrs.evolve(public(value.report), quarantined=quarantined)
        return attrs.evolve(value, report=report)
    if isinstance(value, list):
        return [public(each) for each in value]
    failed = getattr(value, "failed", None)
    if attrs.has(type(value)) and isinstance(failed, tuple) and failed:
        return attrs.evolve(value, failed=tuple(map(_public_failure, failed)))
    return value


def _public_warnings(value: Result | ContextPack | Answer) -> tuple[str, ...]:
    return tuple(map(public_warning, value.warnings))


def _public_hit(hit: Hit) -> Hit:
    return hit if hit.file is None else attrs.evolve(hit, file=None)


def _public_failure(failure: Failure) -> Failure:
    return attrs.evolve(failure, error=_error(failure.error))


def _public_check(check: HealthCheck) -> HealthCheck:
    if check.error is None:
        return check
    return attrs.evolve(check, error=_error(check.error), detail=public_message(check.error))


def _error(error: Any) -> Any:
    return None if error is None else public_error(error)


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
