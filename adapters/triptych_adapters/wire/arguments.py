"""Validating external JSON arguments with a JSON Schema.

Models, requests and callers of tools supply them: messages name what is wrong with each argument,
and what it accepts. The schemas use a subset of JSON Schema draft 2020-12: an object of strings,
numbers, integers, booleans, and arrays and objects of these, with enum, minimum, maximum, default
and anyOf. Other keywords are refused.
"""

from __future__ import annotations

import json
import math
import types
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from triptych.errors import ValidationError
from triptych.records import Metadata, Vector, check_text

_TYPES: Final = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_ATOMS: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}
_SCALARS: Final = [
    {"type": "string"},
    {"type": "boolean"},
    {"type": "number"},
    {
        "type": "object",
        "description": "A day or a moment, in ISO 8601.",
        "properties": {"$date": {"type": "string"}},
        "required": ["$date"],
        "additionalProperties": False,
    },
]
_METADATA_VALUE: Final = {
    "anyOf": [*_SCALARS, {"type": "array", "items": {"anyOf": _SCALARS}}],
}
_ERROR: Final = {
    "type": "object",
    "description": "An error: its class and message, and what the class adds.",
    "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
    "required": ["type", "message"],
}
_KEYWORDS: Final = {"type", "description", "enum", "default", "minimum", "maximum"}
_OBJECT_KEYWORDS: Final = {"type", "properties", "required", "additionalProperties"}
_NESTED_KEYWORDS: Final = {
    "array": {"type", "description", "default", "items"},
    "object": {"description", *_OBJECT_KEYWORDS},
}


def object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def json_schema(
    hint: Any, refer: Callable[[type[Any]], dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Return the JSON Schema of the type ``hint`` for `from_dict`: a record or a field's type.

    ``refer`` returns the schema of a record; None expands its fields.

    Raises:
        TypeError: JSON cannot represent the type.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _ATOMS:
        return {"type": _ATOMS[hint]}
    if hint is datetime or hint == Vector:
        return {"type": "string"}
    if hint is types.NoneType:
        return {"type": "null"}
    if hint is Exception:
        return dict(_ERROR)
    if origin is Literal:
        return {"type": "string", "enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [json_schema(each, refer) for each in inner]}
    if hint == Metadata:
        return {"type": "object", "additionalProperties": _METADATA_VALUE}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        values = True if inner[1] is Any else json_schema(inner[1], refer)
        return {"type": "object", "additionalProperties": values}
    if isinstance(origin, type) and issubclass(origin, Sequence):  # a pair, too: of one kind
        return {"type": "array", "items": json_schema(inner[0], refer)}
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return {"type": "string", "enum": [str(member) for member in hint]}
    if isinstance(hint, type) and attrs.has(hint):
        if refer is not None:
            return refer(hint)
        hints, fields = get_type_hints(hint), attrs.fields(hint)
        required = [field.name for field in fields if field.default is attrs.NOTHING]
        each = {field.name: json_schema(hints[field.name]) for field in fields}
        return object_schema(*required, **each)
    raise TypeError(f"{hint} has no JSON Schema")


def check_schema(parameters: Mapping[str, Any]) -> None:
    """Check that `read_arguments` supports the whole schema.

    Raises:
        ValidationError: it is not an object schema that forbids additional properties, or a
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
            raise ValidationError(f"the required argument {name!r} is not one of the properties")
    for name, schema in properties.items():
        _check(f"the argument {name!r}", schema)
        if not schema.get("description"):
            raise ValidationError(f"the argument {name!r} needs a description for the model")


def _check(what: str, schema: Mapping[str, Any]) -> None:
    """Check that `_value` supports the schema of a value."""
    choices = schema.get("anyOf")
    kind = schema.get("type")
    known = {"anyOf", "description"} if choices else _NESTED_KEYWORDS.get(kind or "", _KEYWORDS)
    if unknown := set(schema) - known:
        raise ValidationError(f"{what} has keywords unknown here: {unknown}")
    if not choices and kind not in _TYPES:
        raise ValidationError(f"{what} must be one of {', '.join(_TYPES)}")
    below = list(choices or ())
    if kind == "array":
        below.append(schema.get("items", {}))
    elif kind == "object":
        below += schema.get("properties", {}).values()
        if not isinstance(schema.get("additionalProperties"), bool):
            below.append(schema.get("additionalProperties", {}))
    for each in below:
        _check(what, each)


def read_arguments(
    tool: str, parameters: Mapping[str, Any], arguments: Mapping[str, Any] | str
) -> dict[str, Any]:
    """Validate and convert the arguments, with the schema's defaults filled in.

    ``arguments`` is a mapping or its JSON text. As in JSON Schema, 5.0 is an integer (and becomes
    5), and true is not a number. Null is as if the argument was left out, also of a nested object,
    unless the schema has null.

    Raises:
        ValidationError: the message names every missing, unknown or invalid argument.
    """
    properties: Mapping[str, Mapping[str, Any]] = parameters["properties"]
    given = _without_nulls(read_object(tool, arguments), properties)
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
            values[name] = _value(f"the argument {name!r}", properties[name], value)
        except ValidationError as error:
            faults.append(str(error))
    if faults:
        raise ValidationError(f"{tool}: {'; '.join(faults)}")
    return values


def read_object(tool: str, arguments: Mapping[str, Any] | str) -> Mapping[str, Any]:
    """Return the given arguments; parse JSON text.

    Raises:
        ValidationError: the text is not JSON, has a duplicate key, or is not an object.
    """
    value: Any = arguments
    if isinstance(arguments, str):
        try:
            value = strict_json(arguments)
        except (ValueError, RecursionError) as error:
            raise ValidationError(
                f"the arguments of {tool} are not JSON ({error}): give one JSON object"
            ) from error
    if not isinstance(value, Mapping):
        raise ValidationError(
            f"the arguments of {tool} must be one JSON object, not {_shown(value)}"
        )
    return value


def strict_json(text: str) -> Any:
    """Parse JSON without duplicate keys and without NaN or infinite numbers.

    Raises:
        ValueError: it is anything else.
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_not_a_number)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object; raise for a duplicate key."""
    held = dict(pairs)
    if len(held) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise ValueError(f"an object has the key {twice!r} twice")
    return held


def _not_a_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _without_nulls(given: Mapping[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the nulls of properties that do not take null."""
    return {
        name: value
        for name, value in given.items()
        if value is not None or name not in properties or _takes_null(properties[name])
    }


def _takes_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "null" or any(map(_takes_null, schema.get("anyOf", ())))


def _value(what: str, schema: Mapping[str, Any], value: Any) -> Any:
    """Convert one argument or nested value to its type."""
    if "anyOf" in schema:
        return _any_of(what, schema, value)
    kind = schema["type"]
    if kind == "null" and value is None:
        return None
    if kind == "array" and isinstance(value, list | tuple):
        return [_value(f"{what}[{at}]", schema["items"], each) for at, each in enumerate(value)]
    if kind == "object" and isinstance(value, Mapping):
        return _object(what, schema, value)
    read: Any = None
    if kind == "string" and isinstance(value, str):
        read = check_text(value, what)
    elif kind == "boolean" and isinstance(value, bool):
        read = value
    elif kind in ("integer", "number") and _is_number(value):
        if kind == "number":
            read = value
        elif isinstance(value, int) or value.is_integer():
            read = int(value)
    if read is None or not _is_allowed(schema, read):
        raise _fault(what, schema, value)
    return read


def _any_of(what: str, schema: Mapping[str, Any], value: Any) -> Any:
    """Convert a value that matches one of several schemas, often including null."""
    choices = [each for each in schema["anyOf"] if (each.get("type") == "null") is (value is None)]
    if len(choices) == 1:
        return _value(what, choices[0], value)
    for choice in choices:
        with suppress(ValidationError):
            return _value(what, choice, value)
    raise _fault(what, schema, value)


def _object(what: str, schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """Convert an object and its values."""
    properties = schema.get("properties", {})
    value = _without_nulls(value, properties)
    for name in schema.get("required", ()):
        if name not in value:
            raise ValidationError(f"{what} lacks {name!r}")
    read: dict[str, Any] = {}
    for name, each in value.items():
        below = properties.get(name, schema.get("additionalProperties"))
        if not isinstance(name, str) or below is None or below is False:
            known = ", ".join(properties)
            raise ValidationError(f"{what} has no {_shown(name)}, its fields are {known}")
        check_text(name, f"a key of {what}")
        read[name] = each if below is True else _value(f"{what}[{name!r}]", below, each)
    return read


def _fault(what: str, schema: Mapping[str, Any], value: Any) -> ValidationError:
    hint = ", or be left out" if value is None else ""
    return ValidationError(f"{what} must be {_expected(schema)}{hint}, not {_shown(value)}")


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
    if "anyOf" in schema:
        return " or ".join(map(_expected, schema["anyOf"]))
    if "enum" in schema:
        return f"one of {', '.join(json.dumps(choice) for choice in schema['enum'])}"
    words = _TYPES[schema["type"]]
    if keys := schema.get("properties"):
        words += f" with {', '.join(keys)}"
    if "minimum" in schema:
        words += f" from {schema['minimum']}"
    if "maximum" in schema:
        words += f" to {schema['maximum']}"
    return words


def _shown(value: Any) -> str:
    """Return a short form of ``value`` for messages, as JSON if possible."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (TypeError, ValueError, RecursionError):
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:59]}…"
