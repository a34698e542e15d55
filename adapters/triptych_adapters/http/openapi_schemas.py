"""Schemas that the OpenAPI document says more exactly than the arguments' own.

The Service checks what these say; here clients see it before they ask. A narrower schema is no
second check: nothing reads it but the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from triptych.context.rendering import FORMATS

__all__ = ["COMPONENTS", "narrowed"]

_Schema = Mapping[str, Any]

_DATE: Final = {
    "type": "object",
    "properties": {
        "$date": {
            "anyOf": [
                {"type": "string", "format": "date"},
                {"type": "string", "format": "date-time"},
            ]
        }
    },
    "required": ["$date"],
    "additionalProperties": False,
}
_SCALAR: Final = {
    "anyOf": [
        {"type": "string", "pattern": "^[^\\u0000]*$"},
        {"type": "boolean"},
        {"type": "number", "minimum": -1e15, "maximum": 1e15},
        {"$ref": "#/components/schemas/Date"},
    ]
}
_KEY: Final = "^[A-Za-z_][A-Za-z0-9_]{0,60}$"
_ORDERED: Final = {"$ref": "#/components/schemas/Ordered"}
_REF: Final = {"$ref": "#/components/schemas/Scalar"}
_LIST: Final = {"type": "array", "items": _REF, "minItems": 1}
_TEXT: Final = {"type": "string", "minLength": 1, "pattern": "^[ -~]*[!-.0-~]$"}
_WHERES: Final = {"type": "array", "items": {"$ref": "#/components/schemas/Where"}, "minItems": 1}

COMPONENTS: Final[Mapping[str, _Schema]] = {
    "Date": _DATE,
    "Scalar": _SCALAR,
    "Ordered": {
        "anyOf": [
            {"type": "string", "pattern": "^[^\\u0000]*$"},
            {"type": "number", "minimum": -1e15, "maximum": 1e15},
            {"$ref": "#/components/schemas/Date"},
        ]
    },
    "Comparison": {
        "type": "object",
        "properties": {
            **dict.fromkeys(("$eq", "$ne"), _REF),
            **dict.fromkeys(("$in", "$nin"), _LIST),
            **dict.fromkeys(("$lt", "$lte", "$gt", "$gte"), _ORDERED),
            "$contains": _TEXT,
            "$exists": {"type": "boolean"},
        },
        "minProperties": 1,
        "additionalProperties": False,
    },
    "Where": {
        "type": "object",
        "description": (
            "Conditions on metadata, all of which must hold: a value, a list of values of which "
            "any may hold, or comparisons. doc_name, doc_prefix and heading stand for the name, "
            "its beginning and a section, $name, $version, $updated_at and $expires_at for the "
            "document's own fields."
        ),
        "properties": {
            "doc_name": _TEXT,
            "doc_prefix": _TEXT,
            "heading": _TEXT,
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

_WHERE: Final = {"$ref": "#/components/schemas/Where"}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_NARROWER: Final[Mapping[str, _Schema]] = {
    "where": _WHERE,
    "version": {"minimum": 1},
    "old": {"minimum": 1},
    "new": {"minimum": 1},
    "query": {"minLength": 1, "pattern": "[A-Za-z0-9]"},
    "question": {"minLength": 1, "pattern": "[A-Za-z0-9]"},
    "dataset_id": {"minLength": 1, "maxLength": 256, "pattern": "^[!-~][ -~]*$"},
    "name": {"minLength": 1, "maxLength": 256, "pattern": "^[!-~]([ -~]*[!-.0-~])?$"},
    "folder": {"pattern": "^[!-~][ -.0-~]*/$"},
    "format": {"enum": sorted(FORMATS)},
}
_OF_OPERATIONS: Final[Mapping[tuple[str, str], _Schema]] = {
    **{
        (operation, "layer"): {"enum": ["L0", "L1"]}
        for operation in (
            *("layer", "dataset_layer", "layers"),
            *("put_document_layer", "put_dataset_layer", "put_folder_layer"),
        )
    },
    **{
        (operation, "as_of"): {"anyOf": [{"type": "integer", "minimum": 1}, _MOMENT]}
        for operation in ("search", "search_documents", "search_many", "context", "ask")
    },
    ("put_document", "expires_at"): {"anyOf": [_MOMENT, {"type": "string", "enum": ["never"]}]},
}


def narrowed(operation: str, name: str, schema: _Schema) -> _Schema:
    """``schema`` of an argument, as the document says it."""
    more = _OF_OPERATIONS.get((operation, name)) or _NARROWER.get(name)
    if more is None:
        return schema
    if "anyOf" in more or "$ref" in more:
        kept = {"description": schema["description"]} if "description" in schema else {}
        return {**kept, **more}
    return {**schema, **more}
