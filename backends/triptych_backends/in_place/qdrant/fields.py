"""Fields of a payload: their paths, and what their values are as metadata."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import attrs

from triptych.errors import ValidationError
from triptych.records.metadata import MetadataValue, check_metadata
from triptych_backends.in_place.spec import split_name

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")


def _parts(name: str) -> tuple[str, ...]:
    parts = split_name(name)
    if parts is None or any('"' in part or "\0" in part for part in parts):
        raise ValidationError(
            f"{name!r:.80} names no field of a payload: write field, or field.inner, and put a "
            'name with a dot into double quotes, as in metadata."page.label"'
        )
    return parts


@attrs.frozen
class Path:
    """A field of a payload, such as ``metadata.source``."""

    parts: tuple[str, ...] = attrs.field(converter=_parts)

    @property
    def key(self) -> str:
        """The path as Qdrant reads it; whatever is not a plain name is quoted."""
        return ".".join(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in self.parts)

    def read(self, payload: Mapping[str, Any]) -> Any:
        """The value of the field, None where it is missing."""
        found: Any = payload
        for part in self.parts:
            if not isinstance(found, Mapping):
                return None
            found = found.get(part)
        return found


def read_value(value: Any) -> MetadataValue | None:
    """A value of a payload as metadata; None where metadata cannot have it, such as an object."""
    if isinstance(value, list):
        value = [each for each in value if each is not None]
        if any(isinstance(each, Mapping | list) for each in value):
            return None
    elif value is None or isinstance(value, Mapping):
        return None
    try:
        return check_metadata({"value": value})["value"]
    except ValidationError:
        return None


def name_of(value: Any) -> str | None:
    """A value of a payload as a name: a text or a whole number."""
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return None
    return str(value)


def read_moment(value: Any) -> datetime | None:
    """A time in a payload, which is a text as RFC 3339 has it; without a zone it is UTC."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
