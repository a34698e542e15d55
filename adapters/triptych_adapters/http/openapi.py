"""The OpenAPI document, made from the tables of operations and routes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import triptych
from triptych.search.reranking import Rerank
from triptych.service.operations import Effect
from triptych_adapters.http.openapi_schemas import COMPONENTS, AnswerSchemas, narrowed
from triptych_adapters.http.preconditions import CONDITIONAL
from triptych_adapters.http.route_description import DocumentedRoute
from triptych_adapters.http.server import Server
from triptych_adapters.http.streams import EVENTS_TYPE
from triptych_adapters.wire.build_layers import BUILD_LAYERS_ROUTE
from triptych_adapters.wire.routes import PIPELINE_ROUTES, ROUTES, Route

_JSON: Final = "application/json"
_ALWAYS: Final = (400, 404, 405, 413, 415, 421, 431, 500, 501, 503)
_MODELS: Final = (502, 504)
_WRITES: Final = (403, 409, 422)
_CREATE: Final = frozenset({"put_document", "create_dataset"})
_ASK_A_MODEL: Final = frozenset({"ask", "search", "search_documents", "search_many", "context"})

_CONDITIONS: Final = (
    "If-Match with the ETag of the document writes only over that version, `If-None-Match: *` only "
    "where there is none; else the answer is 412."
)
_KEYS: Final = (
    "A request with an Idempotency-Key (1 to 255 characters) that is sent again is done once and "
    "answered as before; the key with another request is answered with 422."
)

_ERROR: Final = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "For programs."},
                "message": {"type": "string", "description": "What was wrong, for people."},
                "hint": {"type": "string", "description": "What to do about it."},
                "details": {"type": "object"},
            },
            "required": ["code", "message"],
            "additionalProperties": False,
        }
    },
    "required": ["error"],
    "additionalProperties": False,
}


def document(server: Server, routes: Iterable[Any]) -> dict[str, Any]:
    """OpenAPI 3.1 of what this server serves."""
    paths: dict[str, Any] = {}
    schemas = AnswerSchemas()
    for route in (*ROUTES.values(), *PIPELINE_ROUTES.values(), BUILD_LAYERS_ROUTE):
        _at(paths, route.path)[route.method.lower()] = _operation(server, route, schemas)
    for each in routes:
        if isinstance(each, DocumentedRoute):
            described = each.described
            _at(paths, described.path)[described.method.lower()] = _described(server, each, schemas)
    statuses = sorted(
        {
            status
            for item in paths.values()
            for operation in item.values()
            for status, response in operation["responses"].items()
            if "$ref" in response
        }
    )
    keyed = server.authenticate is not None
    schemes = {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}}
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Triptych",
            "version": triptych.__version__,
            "description": "A layered knowledge base: versioned documents, hybrid search, answers.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {"Error": _ERROR, **COMPONENTS, **dict(sorted(schemas.records.items()))},
            "responses": {status: _problem(int(status)) for status in statuses},
            **(schemes if keyed else {}),
        },
    }
    return made


def _at(paths: dict[str, Any], path: str) -> dict[str, Any]:
    found: dict[str, Any] = paths.setdefault(path.replace(":path}", "}"), {})
    return found


def _problem(status: int) -> dict[str, Any]:
    return {
        "description": HTTPStatus(status).phrase,
        "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }


def _problems(statuses: Iterable[int]) -> dict[str, Any]:
    return {
        str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(statuses)
    }


def _operation(server: Server, route: Route, schemas: AnswerSchemas) -> dict[str, Any]:
    operation = route.called
    properties = {
        name: narrowed(
            operation.name,
            name,
            schema,
            in_path=name in route.in_path,
            lanes=server.service.lanes,
            listed=server.limits.listed,
        )
        for name, schema in operation.parameters["properties"].items()
    }
    required = operation.parameters["required"]
    others = [name for name in properties if name not in route.in_path]
    parameters = [_in_path(name, properties[name]) for name in route.in_path]
    writes = operation.effect is not Effect.READS
    notes: list[str] = []
    contents: dict[str, Any] = {_JSON: {"schema": schemas.of(operation.result)}}
    answer = {"description": "The answer.", "content": contents}
    if operation.name in ("ask", "changes"):
        contents[EVENTS_TYPE] = {}
    answers = {"200": answer} | ({"201": answer} if operation.name in _CREATE else {})
    statuses = {*_ALWAYS, *(_WRITES if writes else ())}
    if writes or operation.name in _ASK_A_MODEL:
        statuses |= {*_MODELS, 409, 422}
    if operation.name == "list_documents":
        statuses |= {409}
    if operation.name in CONDITIONAL:
        statuses |= {412}
        notes.append(_CONDITIONS)
    if writes:
        notes.append(_KEYS)
    if route.method == "GET":
        answers["304"] = {"description": "What the client has, by If-None-Match."}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": operation.summary,
        "tags": [str(operation.effect)],
        **({"description": " ".join(notes)} if notes else {}),
    }
    if route.has_body:
        statuses |= {408}
        body = {
            "type": "object",
            "properties": {name: properties[name] for name in others},
            "required": [name for name in others if name in required],
            "additionalProperties": False,
        }
        found["requestBody"] = {
            "required": bool(body["required"]),
            "content": {_JSON: {"schema": body}},
        }
    else:
        parameters += [_in_query(n, properties[n], n in required) for n in others]
    return _whole(server, found, parameters, answers, statuses, True)


def _described(server: Server, route: DocumentedRoute, schemas: AnswerSchemas) -> dict[str, Any]:
    described = route.described
    names = [part.strip("{}") for part in described.path.split("/") if part.startswith("{")]
    parameters = [_in_path(name.partition(":")[0], {"type": "string"}) for name in names]
    parameters += [_in_query(name, schema) for name, schema in described.query.items()]
    answers: dict[str, Any] = {}
    for status, (description, contents) in described.answers.items():
        answers[str(status)] = {"description": description}
        if contents:
            answers[str(status)]["content"] = {
                kind: {"schema": schemas.of(schema) if isinstance(schema, type) else schema}
                if schema
                else {}
                for kind, schema in contents.items()
            }
    found: dict[str, Any] = {
        "operationId": described.name,
        "summary": described.summary,
        "tags": ["compatible"],
    }
    statuses = {*_ALWAYS, *described.problems}
    if described.body is not None:
        statuses |= {408}
        body = _without_reranker(server, described.body)
        found["requestBody"] = {"required": True, "content": {_JSON: {"schema": body}}}
    if described.named:
        statuses |= {401}
    return _whole(server, found, parameters, answers, statuses, described.secured)


def _without_reranker(server: Server, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A body whose ``rerank`` is only false where the server has no reranker."""
    properties = body["properties"]
    steps = server.service.options.postprocessors
    if "rerank" not in properties or any(isinstance(each, Rerank) for each in steps):
        return body
    return {
        **body,
        "properties": {**properties, "rerank": {**properties["rerank"], "enum": [False]}},
    }


def _whole(
    server: Server,
    found: dict[str, Any],
    parameters: Sequence[Any],
    answers: Mapping[str, Any],
    statuses: set[int],
    secured: bool,
) -> dict[str, Any]:
    if secured and server.authenticate is not None:
        statuses = statuses | {401, 403, 429}
    keyed = secured and server.authenticate is not None
    found["security"] = [{"bearer": []}] if keyed else []
    if parameters:
        found["parameters"] = list(parameters)
    answered = {int(status) for status in answers}
    found["responses"] = {**answers, **_problems(statuses - answered)}
    return found


def _in_path(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(name: str, schema: Mapping[str, Any], required: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "in": "query", "required": required}
    if schema.get("type") in ("string", "integer", "number", "boolean"):
        return made | {"schema": schema}
    return made | {"content": {_JSON: {"schema": schema}}}
