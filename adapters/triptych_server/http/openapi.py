"""The OpenAPI document, generated from the tables of operations and routes.

The schemas only document the checks of the Service for clients; the server does not use them. Rules
that JSON Schema cannot express are in descriptions, such as that a query has a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import triptych
from triptych.answers import FORMATS
from triptych.records import MAX_NAME_BYTES
from triptych.records.serialization import plain_hints
from triptych.search import Rerank
from triptych.service import Effect
from triptych.text import Sign, languages
from triptych_adapters.wire import (
    BUILD_LAYERS_ROUTE,
    PIPELINE_ROUTES,
    ROUTES,
    Route,
    argument_in,
    json_schema,
    mode_schema,
    object_schema,
)
from triptych_server.http.preconditions import CONDITIONAL
from triptych_server.http.routes import DocumentedRoute
from triptych_server.http.server import Server
from triptych_server.http.streams import EVENTS_TYPE

_Schema = Mapping[str, Any]

_JSON: Final = "application/json"
_ALWAYS: Final = (400, 404, 405, 413, 415, 421, 431, 500, 501, 503, 507)
_MODELS: Final = (502, 504)
_WRITES: Final = (403, 409, 422)
_CREATE: Final = frozenset({"put_document", "create_dataset"})
_ASK_A_MODEL: Final = frozenset(
    {"ask", "search", "search_documents", "search_many", "explain", "context"}
)

_CONDITIONS: Final = (
    "With If-Match and the ETag of the document, or its version in quotes, the write succeeds only "
    "if that version is stored, with `If-None-Match: *` only if the document does not exist; else "
    "the status is 412."
)
_KEYS: Final = (
    "A repeated request with the same Idempotency-Key (1 to 255 characters) runs only once and "
    "gets the same response; the same key with another request gets 422."
)

_ERROR: Final = object_schema(
    "error",
    error=object_schema(
        *("code", "message"),
        code={"type": "string", "description": "For programs."},
        message={"type": "string", "description": "What was wrong, for people."},
        hint={"type": "string", "description": "What to do about it."},
        details={"type": "object"},
    ),
)


def document(server: Server, routes: Iterable[Any]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of this server."""
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


def _operation(server: Server, route: Route, schemas: AnswerSchemas) -> dict[str, Any]:
    operation = route.called
    properties = {
        name: _narrowed(server, route, name, schema)
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
        answers["304"] = {"description": "The client's copy (If-None-Match) is current."}
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": operation.summary,
        "tags": [str(operation.effect)],
        **({"description": " ".join(notes)} if notes else {}),
    }
    if route.has_body:
        statuses |= {408}
        body = object_schema(
            *(name for name in others if name in required),
            **{name: properties[name] for name in others},
        )
        found["requestBody"] = {
            "required": bool(body["required"]),
            "content": {_JSON: {"schema": body}},
        }
    else:
        parameters += [_in_query(n, properties[n], n in required) for n in others]
    return _whole(server, found, parameters, answers, statuses, True)


def _described(server: Server, route: DocumentedRoute, schemas: AnswerSchemas) -> dict[str, Any]:
    described = route.described
    names = filter(None, map(argument_in, described.path.split("/")))
    parameters = [_in_path(name, {"type": "string"}) for name in names]
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
    keyed = secured and server.authenticate is not None
    if keyed:
        statuses = statuses | {401, 403, 429}
    found["security"] = [{"bearer": []}] if keyed else []
    if parameters:
        found["parameters"] = list(parameters)
    others = sorted(statuses - {int(status) for status in answers})
    problems = {str(each): {"$ref": f"#/components/responses/{each}"} for each in others}
    found["responses"] = {**answers, **problems}
    return found


def _in_path(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(name: str, schema: Mapping[str, Any], required: bool = False) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "in": "query", "required": required}
    if schema.get("type") in ("string", "integer", "number", "boolean"):
        return made | {"schema": schema}
    return made | {"content": {_JSON: {"schema": schema}}}


# Schemas of arguments and answers

_REF: Final = {"$ref": "#/components/schemas/Scalar"}
_ORDERED: Final = {"$ref": "#/components/schemas/Ordered"}
_LIST: Final = {"type": "array", "items": _REF, "minItems": 1}
_WHERES: Final = {"type": "array", "items": {"$ref": "#/components/schemas/Where"}, "minItems": 1}
_DATE: Final = {"$ref": "#/components/schemas/Date"}

COMPONENTS: Final[Mapping[str, _Schema]] = {
    "Date": object_schema("$date", **{"$date": {"type": "string", "description": "ISO 8601."}}),
    "Scalar": {"anyOf": [{"type": "string"}, {"type": "boolean"}, {"type": "number"}, _DATE]},
    "Ordered": {"anyOf": [{"type": "string"}, {"type": "number"}, _DATE]},
    "Comparison": {
        "type": "object",
        "properties": {
            **dict.fromkeys(("$eq", "$ne"), _REF),
            **dict.fromkeys(("$in", "$nin"), _LIST),
            **dict.fromkeys(("$lt", "$lte", "$gt", "$gte"), _ORDERED),
            "$contains": _REF,
            "$exists": {"type": "boolean"},
        },
        "minProperties": 1,
        "additionalProperties": False,
    },
    "Where": {
        "type": "object",
        "description": (
            "Conditions on metadata, all of which must hold: a value, a list of allowed values, or "
            "comparisons. doc_name, doc_prefix and heading match the name, its prefix and a "
            "section; $name, $version, $updated_at and $expires_at are fields of the document."
        ),
        "properties": {
            "$and": _WHERES,
            "$or": _WHERES,
            "$not": {"$ref": "#/components/schemas/Where"},
        },
        "additionalProperties": {
            "anyOf": [_REF, _LIST, {"$ref": "#/components/schemas/Comparison"}]
        },
    },
}
"""Schemas by their name in the document."""

_NAME: Final = {
    "minLength": 1,
    "maxLength": MAX_NAME_BYTES,
    "pattern": "^[^\\u0000-\\u001f\\u007f]*$",
}
_NAMED: Final = frozenset({"put_document", "create_dataset"})
"""Operations that always check the names in their path."""

_IN_PATHS: Final = frozenset({"dataset_id", "name"})
_NARROWER: Final[Mapping[str, _Schema]] = {
    "where": {"$ref": "#/components/schemas/Where"},
    "version": {"minimum": 1},
    "old": {"minimum": 1},
    "new": {"minimum": 1},
    "query": {"minLength": 1},
    "question": {"minLength": 1},
    "format": {"enum": sorted(FORMATS)},
    "language": {"enum": list(languages())},
}
_LAYERS: Final = frozenset(
    (
        *("layer", "dataset_layer", "layers"),
        *("put_document_layer", "put_dataset_layer", "put_folder_layer"),
    )
)
"""Operations on the layers that are texts."""


def _narrowed(server: Server, route: Route, name: str, schema: _Schema) -> _Schema:
    """``schema`` of an argument, as the document says it."""
    operation = route.operation
    if operation == "search_many" and name in ("mode", "where"):
        return schema  # of no queries nothing is checked
    if name == "mode":
        return {**mode_schema(server.service.lanes)}
    if operation == "list_documents" and name == "limit":
        return {**schema, "maximum": server.limits.listed}
    if operation in _LAYERS and name == "layer":
        return {**schema, "enum": ["L0", "L1"]}
    if name in route.in_path and name in _IN_PATHS:
        return {**schema, **(_NAME if operation in _NAMED else {"minLength": 1})}
    more = _NARROWER.get(name)
    if more is None:
        return schema
    if "$ref" in more:
        return {"description": schema["description"], **more}
    return {**schema, **more}


class AnswerSchemas:
    """The schemas of what `triptych.records.serialization.to_json` makes of answers.

    ``records`` are those of the records in them, by name.
    """

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}

    def of(self, hint: Any) -> dict[str, Any]:
        """The schema of an answer of this type."""
        return json_schema(hint, self._record)

    def _record(self, kind: type[Any]) -> dict[str, Any]:
        name = kind.__name__
        if name not in self.records:
            hints = plain_hints(kind, {"Sign": Sign})
            about = (kind.__doc__ or "").split("\n\n")[0]
            self.records[name] = {
                "type": "object",
                "description": " ".join(about.split()),
                "properties": {each: self.of(hint) for each, hint in hints.items()},
                "required": list(hints),
            }
        return {"$ref": f"#/components/schemas/{name}"}
