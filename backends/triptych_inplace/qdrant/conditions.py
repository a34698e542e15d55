"""Filters as Qdrant's: conditions that every point which passes a `FilterTree` fulfils.

Qdrant compares otherwise than metadata are compared: a list is met by any of its items, texts have
no order, a condition on a missing field is no error. So what is sent to Qdrant only narrows the
points down, by values and never by text that is interpreted, and each point that comes back is
judged by `FilterTree.admits` itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, assert_never
from uuid import UUID

import attrs
from qdrant_client import models
from qdrant_client.models import FieldCondition, HasIdCondition, MatchAny, MatchValue

from triptych.errors import ValidationError
from triptych.records import (
    EXPIRES_AT,
    HEADING,
    NAME,
    UPDATED_AT,
    VERSION,
    And,
    ComparisonKey,
    Condition,
    FilterTree,
    MetadataValue,
    Not,
    Or,
    OrderOperator,
    check_metadata,
    comparison_key,
    guard_of,
)
from triptych_inplace.qdrant.connection import PointId
from triptych_inplace.spec import split_name
from triptych_inplace.table import EPOCH, ROW_VERSION

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


Narrowing: TypeAlias = models.Condition | bool
"""A condition; True where every point may pass, False where none does."""

NameCondition: TypeAlias = Callable[[Sequence[str]], Narrowing]

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_EXACT: Final = 2.0**53
"""Whole numbers below it are floats without loss."""
_RANGES: Final[dict[OrderOperator, str]] = {"lt": "lte", "lte": "lte", "gt": "gte", "gte": "gte"}


def narrowed(
    tree: FilterTree | None, fields: Mapping[str, Path], named: NameCondition, *, has_times: bool
) -> Narrowing:
    """What points that pass ``tree`` fulfil.

    ``fields`` are those that the tree may name, others are missing; ``named`` is the condition
    that a point has one of several names; ``has_times`` is whether points have an update time.
    """
    if tree is None:
        return True
    constant = _constant(tree, fields, has_times)
    if constant is not None:
        return constant
    guard, rest = guard_of(tree)
    if guard is not None and rest is not None:
        # Qdrant may choose the order of conditions: the others are for what passes the first.
        return narrowed(guard, fields, named, has_times=has_times)
    if isinstance(tree, Not):
        if isinstance(tree.part, Not):
            return narrowed(tree.part.part, fields, named, has_times=has_times)
        return True  # what narrows a condition down does not widen its opposite
    if isinstance(tree, And | Or):
        parts = [narrowed(each, fields, named, has_times=has_times) for each in tree.parts]
        conditions = [each for each in parts if not isinstance(each, bool)]
        if isinstance(tree, And):
            if False in parts:
                return False
            return models.Filter(must=conditions) if conditions else True
        return _any(parts)
    if tree.field == NAME:
        if tree.operator != "in":
            return True
        return named([text for _, text in tree.values])
    if tree.field == UPDATED_AT:
        return True
    return _on_field(tree, fields[tree.field].key)


def _constant(tree: FilterTree, fields: Mapping[str, Path], has_times: bool) -> bool | None:
    """What the tree is for every point; None where it depends on the point."""
    if isinstance(tree, Not):
        part = _constant(tree.part, fields, has_times)
        return None if part is None else not part
    if isinstance(tree, And | Or):
        parts = [_constant(each, fields, has_times) for each in tree.parts]
        decisive = isinstance(tree, Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if tree.field in (HEADING, EXPIRES_AT):
        return False
    if tree.field == VERSION:
        return tree.holds(comparison_key(ROW_VERSION))
    if tree.field == UPDATED_AT:
        return None if has_times else tree.holds(comparison_key(EPOCH))
    if tree.field == NAME:
        return None
    return None if tree.field in fields else False


def _on_field(wanted: Condition, key: str) -> Narrowing:
    match wanted.operator:
        case "exists" | "starts":
            return True
        case "in":
            return _any(_equal(wanted.values, key))
        case "contains":
            ((kind, _),) = wanted.values
            return True if kind == "text" else _any(_equal(wanted.values, key))
        case "lt" | "lte" | "gt" | "gte" as order:
            ((kind, bound),) = wanted.values
            around = _around(bound) if kind == "number" else None
            if around is None:
                return True
            edge = _RANGES[order]
            limit = around[1] if edge == "lte" else around[0]
            return FieldCondition(key=key, range=models.Range(**{edge: limit}))
        case _:
            assert_never(wanted.operator)


def _equal(values: Sequence[ComparisonKey], key: str) -> list[Narrowing]:
    texts = [value for kind, value in values if kind == "text"]
    found: list[Narrowing] = []
    if texts:
        found.append(FieldCondition(key=key, match=MatchAny(any=texts)))
    for kind, value in values:
        if kind == "bool":
            found.append(FieldCondition(key=key, match=MatchValue(value=bool(value))))
        elif kind == "number":
            around = _around(value)
            # 1 and 1.0 are equal here; by match they are not.
            if around is None:
                found.append(True)
            else:
                bounds = models.Range(gte=around[0], lte=around[1])
                found.append(FieldCondition(key=key, range=bounds))
        elif kind == "list":
            found.append(True)
    return found  # a time equals nothing in a payload


def _any(parts: Sequence[Narrowing]) -> Narrowing:
    if True in parts:
        return True
    conditions = [each for each in parts if not isinstance(each, bool)]
    if len(conditions) == 1:
        return conditions[0]
    return models.Filter(should=conditions) if conditions else False


def _around(value: Any) -> tuple[float, float] | None:
    """The narrowest bounds of 64-bit floats that have ``value`` between them."""
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    if abs(number) < _EXACT:
        return number, number
    # Qdrant may compare a whole number with the float, or round the number to a float first.
    least, most = math.nextafter(number, -math.inf), math.nextafter(number, math.inf)
    return (least, most) if math.isfinite(least) and math.isfinite(most) else None


def point_id(name: str) -> PointId | None:
    """The id of a point whose name is ``name``; None if no point can have it."""
    if name.isascii() and name.isdigit() and len(name) <= 20:
        number = int(name)
        return number if str(number) == name and number < 1 << 64 else None
    try:
        return name if str(UUID(name)) == name else None
    except ValueError:
        return None


def has_id(names: Sequence[str]) -> Narrowing:
    """The condition that a point's id is one of ``names``."""
    ids: list[int | str | UUID] = [found for name in names if (found := point_id(name)) is not None]
    return HasIdCondition(has_id=ids) if ids else False


def has_value(key: str, names: Sequence[str]) -> Narrowing:
    """The condition that a field is one of ``names``, as a text or as a whole number."""
    if not names:
        return False
    numbers = [int(name) for name in names if _is_whole(name) and _LEAST <= int(name) <= _MOST]
    parts: list[Narrowing] = [FieldCondition(key=key, match=MatchAny(any=list(names)))]
    if numbers:
        parts.append(FieldCondition(key=key, match=MatchAny(any=numbers)))
    return _any(parts)


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 20
