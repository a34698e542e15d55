"""Arguments in the query of a URL, and back.

A text stands there as it is, another value as its JSON: ``?limit=10&where={"lang":"en"}``, all of
it percent-encoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from triptych.errors import ValidationError
from triptych_adapters.wire.arguments import strict_json

__all__ = ["query_arguments", "query_pairs"]


def query_pairs(parameters: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """What to write into a query for ``arguments``, whose JSON Schema is ``parameters``."""
    properties = parameters["properties"]
    return {
        name: value if _is_text(properties[name]) else json.dumps(value)
        for name, value in arguments.items()
    }


def query_arguments(
    tool: str, parameters: Mapping[str, Any], pairs: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """The arguments of a query; `read_arguments` checks them.

    Raises:
        ValidationError: one is given twice, or is not the JSON of a value.
    """
    properties = parameters["properties"]
    arguments: dict[str, Any] = {}
    for name, text in pairs:
        if name in arguments:
            raise ValidationError(
                f"{tool}: the argument {name[:60]!r} is given twice: give it once"
            )
        if name not in properties or _is_text(properties[name]):
            arguments[name] = text
            continue
        try:
            arguments[name] = strict_json(text)
        except (ValueError, RecursionError) as error:
            reason = "" if isinstance(error, json.JSONDecodeError) else f" ({error})"
            raise ValidationError(
                f"{tool}: the argument {name!r} is not JSON: {text[:60]!r}{reason}; "
                'write 10, true or {"lang":"en"}'
            ) from None
    return arguments


def _is_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string"
