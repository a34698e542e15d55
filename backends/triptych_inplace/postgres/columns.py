"""Columns of any type: what a value is as metadata, and the expression that reads it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

import attrs
from psycopg import sql

from triptych.records import MetadataValue

# fmt: off
Kind: TypeAlias = Literal[
    "int", "float", "numeric", "bool", "text", "uuid", "other",
    "date", "timestamp", "timestamptz", "ints", "texts", "bools",
    "json", "vector", "halfvec", "floats", "tsvector", "none",
]
# fmt: on
"""What a column's values are. "other" is read as text; "json" and "none" cannot be metadata."""

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("int2", "int4", "int8"), "int"),
    **dict.fromkeys(("float4", "float8"), "float"),
    "numeric": "numeric",
    "bool": "bool",
    **dict.fromkeys(("text", "varchar"), "text"),
    "uuid": "uuid",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "timestamptz",
    **dict.fromkeys(("_int2", "_int4", "_int8"), "ints"),
    **dict.fromkeys(("_text", "_varchar", "_uuid"), "texts"),
    "_bool": "bools",
    **dict.fromkeys(("_float4", "_float8", "_numeric"), "floats"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    "vector": "vector",
    "halfvec": "halfvec",
    "tsvector": "tsvector",
    **dict.fromkeys(("bytea", "sparsevec", "bit", "varbit"), "none"),
}

_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31 23:59:59.999999"


@attrs.frozen(kw_only=True)
class Column:
    """A column of a table. ``dimension`` is the width of its vectors, 0 where any will do.

    ``plain`` is whether texts are equal only if their characters are.
    """

    name: str
    type: str
    kind: Kind
    dimension: int = 0
    plain: bool = True


def kind_of(type_name: str) -> Kind:
    """The kind of a type of the catalog, domains resolved."""
    return _KINDS.get(type_name, "none" if type_name.startswith("_") else "other")


def identifier(*parts: str) -> sql.Identifier:
    """A quoted name. The driver reads "%" as a parameter, in names too."""
    return sql.Identifier(*(part.replace("%", "%%") for part in parts))


def select(column: Column) -> sql.Composable:
    """The expression that reads a column's value for `read_value`."""
    name = identifier(column.name)
    if column.kind in ("int", "bool"):
        return name
    if column.kind == "float":
        return sql.SQL("{}::float8").format(name)
    if column.kind in ("date", "timestamp", "timestamptz"):
        # Infinity, and years that Python has no dates for.
        return sql.SQL("CASE WHEN {} THEN {} END").format(in_calendar(column), name)
    if column.kind in ("ints", "texts", "bools"):
        kept = {"ints": "int8[]", "texts": "text[]", "bools": "bool[]"}[column.kind]
        return sql.SQL("CASE WHEN {} THEN {}::" + kept + " END").format(is_flat(column), name)
    return sql.SQL("{}::text").format(name)


def in_calendar(column: Column) -> sql.Composable:
    """Whether a time is one that metadata can have."""
    name, type_ = identifier(column.name), sql.SQL(column.kind)
    zone = "+00" if column.kind == "timestamptz" else ""
    return sql.SQL("{} BETWEEN {}::{} AND {}::{}").format(
        name,
        sql.Literal(FIRST_DAY + (f" 00:00:00{zone}" if zone else "")),
        type_,
        sql.Literal(LAST_DAY[:10] if column.kind == "date" else LAST_DAY + zone),
        type_,
    )


def is_flat(column: Column) -> sql.Composable:
    """Whether an array is a plain list."""
    return sql.SQL("coalesce(array_ndims({}), 1) = 1").format(identifier(column.name))


def read_value(column: Column, value: Any) -> MetadataValue | None:
    """What was read by `select` as metadata; None where there is no value."""
    if value is None:
        return None
    if column.kind == "float":
        return float(value) if math.isfinite(value) else None
    if column.kind == "numeric":
        return _number(Decimal(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [each for each in value if each is not None]
    return value  # type: ignore[no-any-return]  # the driver's own types: int, bool, str, date


def _number(value: Decimal) -> int | float | None:
    if not value.is_finite():
        return None
    if value == value.to_integral_value() and _LEAST <= value <= _MOST:
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else None
