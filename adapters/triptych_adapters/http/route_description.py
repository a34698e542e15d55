"""Routes beside the operations: each with what the OpenAPI document says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from starlette.requests import Request

from triptych_adapters.http.limits import Limits
from triptych_adapters.http.request_parts import json_body
from triptych_adapters.http.routes import Endpoint, RawRoute
from triptych_adapters.wire.arguments import read_arguments


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


def parameters(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an object of these arguments."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


async def body_of(request: Request, described: RouteDescription, limits: Limits) -> dict[str, Any]:
    """The arguments of a body, checked.

    Raises:
        ValidationError: they are not as the schema has them.
        ProblemError: the body is not JSON.
    """
    assert described.body is not None
    text = await json_body(request, limits, required=True)
    return read_arguments(described.name, described.body, text)
