"""Schemas of answers, and of arguments those that the OpenAPI document says more exactly.

The Service checks what these say; here clients see it before they ask. A narrower schema is no
second check: nothing reads it but the document. What JSON Schema cannot say stays in words, such
as that a query has a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from triptych.answers.pieces import FORMATS
from triptych.records.serialization import plain_hints
from triptych.records.values import MAX_NAME_BYTES
from triptych.text import languages
from triptych.text.injection import Sign
from triptych_adapters.wire.arguments import json_schema
from triptych_adapters.wire.operations import mode_schema

_Schema = Mapping[str, Any]

_REF: Final = {"$ref": "#/components/schemas/Scalar"}
_ORDERED: Final = {"$ref": "#/components/schemas/Ordered"}
_LIST: Final = {"type": "array", "items": _REF, "minItems": 1}
_WHERES: Final = {"type": "array", "items": {"$ref": "#/components/schemas/Where"}, "minItems": 1}
_DATE: Final = {"$ref": "#/components/schemas/Date"}

COMPONENTS: Final[Mapping[str, _Schema]] = {
    "Date": {
        "type": "object",
        "properties": {"$date": {"type": "string", "description": "ISO 8601."}},
        "required": ["$date"],
        "additionalProperties": False,
    },
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
            "Conditions on metadata, all of which must hold: a value, a list of values of which "
            "any may hold, or comparisons. doc_name, doc_prefix and heading stand for the name, "
            "its beginning and a section, $name, $version, $updated_at and $expires_at for the "
            "document's own fields."
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
"""Operations that check the names in their path however little else they are asked."""

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


def narrowed(
    operation: str, name: str, schema: _Schema, *, in_path: bool, lanes: Sequence[str], listed: int
) -> _Schema:
    """``schema`` of an argument, as the document says it.

    ``lanes`` are those of the Service that is served, ``listed`` is the limit of a list.
    """
    if operation == "search_many" and name in ("mode", "where"):
        return schema  # of no queries nothing is checked
    if name == "mode":
        return {**mode_schema(lanes)}
    if operation == "list_documents" and name == "limit":
        return {**schema, "maximum": listed}
    if operation in _LAYERS and name == "layer":
        return {**schema, "enum": ["L0", "L1"]}
    if in_path and name in _IN_PATHS:
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
