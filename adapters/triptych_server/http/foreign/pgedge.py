"""`/v1/pipelines`, `/v1/pipelines/{name}`: the API of pgEdge's RAG server, over named pipelines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import attrs
from starlette.requests import Request
from starlette.responses import Response

from triptych.answers import Answer, AnswerStream, Piece
from triptych.contracts import public_warning
from triptych.errors import NotFoundError, TriptychError, ValidationError
from triptych.records import Message, Metadata
from triptych.records.serialization import from_dict
from triptych_adapters.wire import json_schema, object_schema
from triptych_server.http.responses import (
    INTERNAL,
    Problem,
    ProblemError,
    encoded,
    json_response,
    problem_of,
)
from triptych_server.http.routes import (
    DocumentedRoute,
    RouteDescription,
    answer,
    body_of,
    media_types,
)
from triptych_server.http.server import Server
from triptych_server.http.streams import EVENTS_TYPE, event, streamed_answer

_TEXT: Final = {"type": "string"}
_ORDERS: Final = {"=": "$eq", "!=": "$ne", "<": "$lt", ">": "$gt", "<=": "$lte", ">=": "$gte"}
_OPERATORS: Final = {**_ORDERS, "LIKE": "$contains", "IN": "$in", "NOT IN": "$nin"}
_NULLS: Final = {"IS NULL": False, "IS NOT NULL": True}
_WORDS: Final = (*_OPERATORS, *_NULLS)
_CONDITION: Final = object_schema(
    *("column", "operator"),
    column=_TEXT,
    operator={**_TEXT, "enum": list(dict.fromkeys((*_WORDS, *map(str.lower, _WORDS))))},
    value=json_schema(Metadata)["additionalProperties"],
)
_PART: Final = re.compile(r"%([^%_\\]+)%")
"""The pattern of LIKE that a ``where`` can say."""

LIST: Final = RouteDescription(
    name="list_pipelines",
    method="GET",
    path="/v1/pipelines",
    summary="List the pipelines with their descriptions.",
    answers={
        200: answer(
            "The pipelines.",
            "pipelines",
            pipelines={
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": _TEXT, "description": _TEXT},
                    "required": ["name", "description"],
                },
            },
        )
    },
)
RUN: Final = RouteDescription(
    name="run_pipeline",
    method="POST",
    path="/v1/pipelines/{name}",
    summary="Answer a question with a pipeline, at once or as server-sent events.",
    body=object_schema(
        "query",
        query={**_TEXT, "description": "The full question."},
        stream={"type": "boolean", "description": "Whether to answer as server-sent events."},
        top_n={"type": "integer", "minimum": 0, "description": "Most sources; 0 is no limit."},
        include_sources={"type": "boolean", "description": "Whether to answer with the sources."},
        filter={
            "description": "Conditions on metadata, beside those of the pipeline.",
            **object_schema(
                conditions={"type": "array", "items": _CONDITION},
                logic={**_TEXT, "enum": ["AND", "OR", "and", "or"]},
            ),
        },
        messages={
            "type": "array",
            "items": json_schema(Message),
            "description": "The earlier messages, oldest first.",
        },
    ),
    answers={
        200: answer(
            "The answer.",
            *("answer", "tokens_used"),
            answer=_TEXT,
            abstained={"type": "boolean"},
            sources={"type": "array"},
            tokens_used={"type": "integer"},
            others={EVENTS_TYPE: {}},
        )
    },
    problems=(404, 415, 500, 501, 502, 504),
)


def pgedge_routes(server: Server) -> Iterator[DocumentedRoute]:
    """The two routes."""

    async def listed(request: Request) -> Response:
        service = await server.service_of(request)
        pipelines = [
            {"name": name, "description": each.description}
            for name, each in service.pipelines.items()
        ]
        return json_response(encoded({"pipelines": pipelines}))

    async def run(request: Request) -> Response:
        service = await server.service_of(request)
        body = await body_of(request, RUN, server.limits)
        try:
            view = service.pipeline(request.path_params["name"])
        except NotFoundError as error:
            raise ProblemError(404, "PIPELINE_NOT_FOUND", str(error)) from None
        options = _options(body)
        streams = body.get("stream", EVENTS_TYPE in media_types(request))
        sources = body.get("include_sources", True)
        try:
            if streams:
                begin = partial(view.ask_stream, body["query"], **options)
                return await _streamed(server, request, begin, sources)
            return await server.answer(
                request, lambda: _answer(view.ask(body["query"], **options), sources), long=True
            )
        except TriptychError as error:
            raise PipelineError(_executed(error)) from error

    yield DocumentedRoute(LIST, listed)
    yield DocumentedRoute(RUN, run)


class PipelineError(ProblemError):
    """A pipeline failed; its cause is logged."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.status, problem.code, problem.message)
        self.problem = problem


def _options(body: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if body.get("top_n"):
        options["max_pieces"] = body["top_n"]
    given = body.get("filter", {})
    if conditions := list(map(_condition, given.get("conditions", ()))):
        options["where"] = {f"${given.get('logic', 'and').lower()}": conditions}
    if "messages" in body:
        options["conversation"] = from_dict(tuple[Message, ...], body["messages"])
    return options


def _condition(given: dict[str, Any]) -> dict[str, Any]:
    """One condition of SQL as a ``where``: comparisons do not hold for NULL."""
    column, operator, value = given["column"], given["operator"].upper(), given.get("value")
    if operator in _NULLS:
        return {column: {"$exists": _NULLS[operator]}}
    if operator == "LIKE":
        part = _PART.fullmatch(str(value))
        if part is None:
            raise ValidationError("run_pipeline: LIKE takes '%text%', without other wildcards")
        value = part[1]
    return {column: {_OPERATORS[operator]: value, "$exists": True}}


def _executed(error: TriptychError) -> Problem:
    """A failure of the pipeline itself has the reference's code."""
    problem = problem_of(error)
    if problem.status < 500:
        return problem
    code = INTERNAL.code if problem is INTERNAL else "EXECUTION_ERROR"
    return attrs.evolve(problem, code=code)


def _answer(answer: Answer, sources: bool) -> dict[str, Any]:
    usage = [answer.usage, *answer.search_usage]
    return {
        "answer": answer.text,
        "abstained": answer.abstained,
        **({"sources": list(map(_source, answer.pack.pieces))} if sources else {}),
        "tokens_used": sum(each.input_tokens + each.output_tokens for each in usage),
        "warnings": list(map(public_warning, answer.warnings)),
    }


def _source(piece: Piece) -> dict[str, Any]:
    citation = piece.citation
    return {
        "number": piece.number,
        "id": f"{citation.dataset_id}/{citation.doc_name}",
        "content": citation.text,
        "score": piece.score,
        "lines": None if citation.lines is None else list(citation.lines),
    }


async def _streamed(
    server: Server, request: Request, begin: Callable[[], AnswerStream], sources: bool
) -> Response:
    def last(stream: AnswerStream) -> Iterator[bytes]:
        whole = _answer(stream.answer, sources)
        if sources:
            yield event("", {"type": "sources", "sources": whole.pop("sources")})
        yield event("", {"type": "done", **whole})

    def failed(error: BaseException) -> bytes:
        problem = attrs.evolve(problem_of(error), code="STREAMING_ERROR")
        return event("", {"type": "error", **problem.json()})

    return await streamed_answer(
        server,
        request,
        begin,
        lambda piece: event("", {"type": "chunk", "content": piece}),
        last=last,
        failed=failed,
    )
