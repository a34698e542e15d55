"""A tool's JSON Schema as a signature and a docstring of Python, for frameworks that read these."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

_TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
    "null": None,
}


def signature(parameters: Mapping[str, Any]) -> inspect.Signature:
    """The arguments as keywords, those that are required first; the answer is a string.

    An argument that is neither required nor has a default is None where it is left out.
    """
    required = parameters.get("required", ())
    properties: Mapping[str, Mapping[str, Any]] = parameters["properties"]
    names = sorted(properties, key=lambda name: name not in required)
    return inspect.Signature(
        [_parameter(name, properties[name], name in required) for name in names],
        return_annotation=str,
    )


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> inspect.Parameter:
    kind = _python_type(schema)
    default: Any = inspect.Parameter.empty if required else schema.get("default")
    if default is None:
        kind = kind | None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, schema["description"]],
    )


def _python_type(schema: Mapping[str, Any]) -> Any:
    if "anyOf" in schema:
        first, *others = map(_python_type, schema["anyOf"])
        for other in others:
            first = first | other
        return first
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if schema["type"] == "array" and schema.get("items"):
        return list[_python_type(schema["items"])]  # type: ignore[misc]  # known when run
    return _TYPES[schema["type"]]


def docstring(description: str, parameters: Mapping[str, Any]) -> str:
    """The description, and each argument's, in the form that docstring readers know."""
    properties: Mapping[str, Mapping[str, Any]] = parameters["properties"]
    arguments = [f"    {name}: {schema['description']}" for name, schema in properties.items()]
    parts = [description, "\n".join(["Args:", *arguments])] if arguments else [description]
    return "\n\n".join([*parts, "Returns:\n    The answer as text."])
