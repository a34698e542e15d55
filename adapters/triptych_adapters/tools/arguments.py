"""Arguments that a model wrote, judged by the tool's own JSON Schema.

The schema is draft 2020-12 of JSON Schema, as much of it as tools here need: an object whose
properties are strings, numbers, integers or booleans, with enum, minimum, maximum and default.
A keyword that would not be honoured is refused when a tool is made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final

from triptych.errors import ValidationError
from triptych.records import check_text

__all__ = ["check_schema", "read_arguments"]

_TYPES: Final = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_KEYWORDS: Final = {"type", "description", "enum", "default", "minimum", "maximum"}
_OBJECT_KEYWORDS: Final = {"type", "properties", "required", "additionalProperties"}


def check_schema(parameters: Mapping[str, Any]) -> None:
    """Refuse a schema that `read_arguments` would not honour in full.

    Raises:
        ValidationError: it is no object schema that forbids additional properties, or a
            property lacks a description, or has an unknown keyword or type.
    """
    unknown = set(parameters) - _OBJECT_KEYWORDS
    properties = parameters.get("properties")
    if (
        unknown
        or parameters.get("type") != "object"
        or parameters.get("additionalProperties") is not False
        or not isinstance(properties, Mapping)
    ):
        raise ValidationError(
            "a tool's parameters are {'type': 'object', 'properties': {…}, 'required': […], "
            f"'additionalProperties': False}}{f', without {sorted(unknown)}' if unknown else ''}"
        )
    for name in parameters.get("required", ()):
        if name not in properties:
            raise ValidationError(f"the required argument {name!r} is none of the properties")
    for name, schema in properties.items():
        if unknown := set(schema) - _KEYWORDS:
            raise ValidationError(f"the argument {name!r} has keywords unknown here: {unknown}")
        if schema.get("type") not in _TYPES:
            raise ValidationError(f"the argument {name!r} must be one of {', '.join(_TYPES)}")
        if not schema.get("description"):
            raise ValidationError(f"the argument {name!r} needs a description for the model")


def read_arguments(
    tool: str, parameters: Mapping[str, Any], arguments: Mapping[str, Any] | str
) -> dict[str, Any]:
    """The arguments in their types, with the schema's defaults filled in.

    ``arguments`` is a mapping or its JSON text. As in JSON Schema 5.0 is a whole number (and
    becomes 5), true is no number, and null is no string.

    Raises:
        ValidationError: names every argument that is missing, unknown or not as expected.
    """
    given = _mapping(tool, arguments)
    properties: Mapping[str, Mapping[str, Any]] = parameters["properties"]
    faults = [
        f"the argument {name!r} is missing: {properties[name]['description']}"
        for name in parameters.get("required", ())
        if name not in given
    ]
    values = {name: schema["default"] for name, schema in properties.items() if "default" in schema}
    for name, value in given.items():
        if name not in properties:
            known = ", ".join(properties)
            faults.append(f"there is no argument {_shown(name)}, the arguments are {known}")
            continue
        try:
            values[name] = _value(name, properties[name], value)
        except ValidationError as error:
            faults.append(str(error))
    if faults:
        raise ValidationError(f"{tool}: {'; '.join(faults)}")
    return values


def _mapping(tool: str, arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
    value: Any = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise ValidationError(
                f"the arguments of {tool} are no JSON ({error}): give one JSON object"
            ) from error
    if not isinstance(value, Mapping):
        raise ValidationError(
            f"the arguments of {tool} must be one JSON object, not {_shown(value)}"
        )
    return value


def _value(name: str, schema: Mapping[str, Any], value: Any) -> Any:
    """One argument in its type."""
    kind = schema["type"]
    read: Any = None
    if kind == "string" and isinstance(value, str):
        read = check_text(value, f"the argument {name!r}")
    elif kind == "boolean" and isinstance(value, bool):
        read = value
    elif kind in ("integer", "number") and _is_number(value):
        if kind == "number":
            read = value
        elif isinstance(value, int) or value.is_integer():
            read = int(value)
    if read is None or not _is_allowed(schema, read):
        hint = ", or be left out" if value is None else ""
        raise ValidationError(
            f"the argument {name!r} must be {_expected(schema)}{hint}, not {_shown(value)}"
        )
    return read


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _is_allowed(schema: Mapping[str, Any], value: Any) -> bool:
    if "enum" in schema and value not in schema["enum"]:
        return False
    return not (
        ("minimum" in schema and value < schema["minimum"])
        or ("maximum" in schema and value > schema["maximum"])
    )


def _expected(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(json.dumps(choice) for choice in schema['enum'])}"
    words = _TYPES[schema["type"]]
    if "minimum" in schema:
        words += f" from {schema['minimum']}"
    if "maximum" in schema:
        words += f" to {schema['maximum']}"
    return words


def _shown(value: Any) -> str:
    """``value`` for a message: as JSON writes it where it can, and short."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"
