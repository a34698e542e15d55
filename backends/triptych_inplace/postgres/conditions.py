"""Filters as SQL: a `FilterTree` over columns of any type, its values as parameters.

A condition selects exactly the rows whose metadata `FilterTree.admits`. Where it can, it leaves the
column bare, so that the table's own indexes serve it.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, assert_never

import attrs
from psycopg import sql

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
    Not,
    Or,
    OrderOperator,
    guard_of,
)
from triptych_inplace.postgres.columns import Column, identifier, in_calendar, is_flat
from triptych_inplace.table import ROW_VERSION, moment_of

_TRUE, _FALSE = sql.SQL("true"), sql.SQL("false")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_SQL: Final = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


class Parameters(dict[str, Any]):
    """The values of a statement, under names that are made here."""

    def add(self, value: Any, type_: str) -> sql.Composable:
        """A placeholder for ``value`` of this type of the server."""
        name = f"p{len(self)}"
        self[name] = value
        return sql.SQL("{}::" + type_).format(sql.Placeholder(name))


@attrs.frozen(kw_only=True)
class Columns:
    """The columns that a filter may name: the id, those of metadata, and the time of a change."""

    id: Column
    fields: Mapping[str, Column]
    updated_at: Column | None = None


def condition(tree: FilterTree | None, columns: Columns, values: Parameters) -> sql.Composable:
    """The condition that a row passes ``tree``; its values are added to ``values``."""
    if tree is None:
        return _TRUE
    if isinstance(tree, Not):
        return sql.SQL("({}) IS NOT TRUE").format(condition(tree.part, columns, values))
    guard, rest = guard_of(tree)
    if guard is not None and rest is not None:
        # The server may choose the order of conditions, but not that in a CASE.
        first = condition(guard, columns, values)
        return sql.SQL("({0} AND CASE WHEN {0} THEN {1} ELSE false END)").format(
            first, condition(rest, columns, values)
        )
    if isinstance(tree, And | Or):
        joint = sql.SQL(" AND " if isinstance(tree, And) else " OR ")
        parts = [condition(part, columns, values) for part in tree.parts]
        return sql.SQL("({})").format(joint.join(parts))
    return sql.SQL("({})").format(_one(tree, columns, values))


def _one(wanted: Condition, columns: Columns, values: Parameters) -> sql.Composable:
    if wanted.field == HEADING or wanted.field == EXPIRES_AT:
        return _FALSE
    if wanted.field == VERSION:
        return _TRUE if wanted.holds(("number", ROW_VERSION)) else _FALSE
    if wanted.field == NAME:
        return _on_name(wanted, columns.id, values)
    if wanted.field == UPDATED_AT:
        return _on_update(wanted, columns.updated_at, values)
    column = columns.fields.get(wanted.field)
    return _FALSE if column is None else _on_column(wanted, column, values)


def _on_column(wanted: Condition, column: Column, values: Parameters) -> sql.Composable:
    name, kind = identifier(column.name), column.kind
    if kind in ("ints", "texts", "bools"):
        return _on_list(wanted, column, values)
    match wanted.operator:
        case "exists":
            return _exists(column)
        case "in":
            fitting = [value for kind, value in wanted.values if kind == _ACCEPTS.get(column.kind)]
            return _equals(column, fitting, values) if fitting else _FALSE
        case "contains":
            ((wanted_kind, bound),) = wanted.values
            if wanted_kind != "text" or kind not in ("text", "uuid", "other") or "\0" in bound:
                return _FALSE
            return sql.SQL('strpos({}::text COLLATE "C", {}) > 0').format(
                name, values.add(bound, "text")
            )
        case "lt" | "lte" | "gt" | "gte" as order:
            return _ordered(wanted, order, column, values)
        case "starts":
            raise AssertionError("only a name is asked how it begins")
        case _:
            assert_never(wanted.operator)


def _ordered(
    wanted: Condition, operator: OrderOperator, column: Column, values: Parameters
) -> sql.Composable:
    name, kind = identifier(column.name), column.kind
    ((wanted_kind, bound),) = wanted.values
    if wanted_kind == "text" and kind in ("text", "uuid", "other"):
        return _ordered_text(sql.SQL("{}::text").format(name), operator, bound, values)
    if wanted_kind == "number" and kind == "int":
        return _ordered_int(name, operator, bound, values)
    if wanted_kind == "number" and kind == "float":
        return _ordered_float(sql.SQL("{}::float8").format(name), operator, bound, values)
    if wanted_kind == "number" and kind == "numeric":
        return _ordered_numeric(name, operator, bound, values)
    if wanted_kind == "time" and kind in ("date", "timestamp", "timestamptz"):
        return sql.SQL("{} AND {} {} {}").format(
            in_calendar(column), name, sql.SQL(_SQL[operator]), _moment(column, bound, values)
        )
    return _FALSE


def _exists(column: Column) -> sql.Composable:
    name = identifier(column.name)
    if column.kind == "float":
        return _finite(sql.SQL("{}::float8").format(name))
    if column.kind == "numeric":
        # Beyond 64 bits a number is read as a float, which may be too small for it.
        return sql.SQL("abs({}) < 1.7976931348623158e308::numeric").format(name)
    if column.kind in ("date", "timestamp", "timestamptz"):
        return in_calendar(column)
    if column.kind in ("ints", "texts", "bools"):
        return sql.SQL("{} IS NOT NULL AND {}").format(name, is_flat(column))
    return sql.SQL("{} IS NOT NULL").format(name)


def _finite(expression: sql.Composable) -> sql.Composable:
    return sql.SQL("{0} > '-Infinity' AND {0} < 'Infinity'").format(expression)


def _any(parts: Sequence[sql.Composable]) -> sql.Composable:
    return sql.SQL(" OR ").join(parts) if parts else _FALSE


# The kind of the values that a column of each kind may equal.
_ACCEPTS: Final = {
    "text": "text",
    "uuid": "text",
    "other": "text",
    "bool": "bool",
    "int": "number",
    "float": "number",
    "numeric": "number",
    "date": "time",
    "timestamp": "time",
    "timestamptz": "time",
}


def _equals(column: Column, wanted: list[Any], values: Parameters) -> sql.Composable:
    """Whether a column equals any of ``wanted``, which are of its kind."""
    name, kind = identifier(column.name), column.kind
    if kind == "bool":
        return sql.SQL("{} = ANY({})").format(name, values.add(wanted, "bool[]"))
    if kind == "int":
        whole = [int(each) for each in wanted if each == int(each) and _LEAST <= each <= _MOST]
        return sql.SQL("{} = ANY({})").format(name, values.add(whole, "int8[]"))
    if kind == "float":
        exact = [float(each) for each in wanted if _is_double(each)]
        return sql.SQL("{}::float8 = ANY({})").format(name, values.add(exact, "float8[]"))
    if kind == "numeric":
        return _any([_ordered_numeric(name, "eq", each, values) for each in wanted])
    if kind == "uuid":
        return sql.SQL("{} = ANY({})").format(name, values.add(_uuids(wanted), "uuid[]"))
    if kind in ("date", "timestamp", "timestamptz"):
        same = [sql.SQL("{} = {}").format(name, _moment(column, each, values)) for each in wanted]
        return sql.SQL("{} AND ({})").format(in_calendar(column), _any(same))
    texts = [each for each in wanted if "\0" not in each]
    expression = name if kind == "text" and column.plain else sql.SQL("{}::text").format(name)
    if not column.plain:
        expression = sql.SQL('{} COLLATE "C"').format(expression)
    return sql.SQL("{} = ANY({})").format(expression, values.add(texts, "text[]"))


def _uuids(texts: list[str]) -> list[uuid.UUID]:
    """Those of ``texts`` that the server would write in the same way."""
    found = []
    for text in texts:
        try:
            made = uuid.UUID(text)
        except ValueError:
            continue
        if str(made) == text:
            found.append(made)
    return found


def _ordered_text(
    expression: sql.Composable, operator: OrderOperator, bound: str, values: Parameters
) -> sql.Composable:
    cut, _, beyond = bound.partition("\0")
    if beyond or cut != bound:
        # No text of the server has the character 0: it ends before.
        operator = "lte" if operator in ("lt", "lte") else "gt"
    return sql.SQL('{} COLLATE "C" {} {}').format(
        expression, sql.SQL(_SQL[operator]), values.add(cut, "text")
    )


def _ordered_int(
    name: sql.Composable, operator: OrderOperator, bound: float, values: Parameters
) -> sql.Composable:
    bound = math.ceil(bound) if operator in ("lt", "gte") else math.floor(bound)
    if bound > _MOST or bound < _LEAST:
        holds = (bound > 0) == (operator in ("lt", "lte"))
        return sql.SQL("{} IS NOT NULL").format(name) if holds else _FALSE
    return sql.SQL("{} {} {}").format(name, sql.SQL(_SQL[operator]), values.add(bound, "int8"))


def _ordered_float(
    expression: sql.Composable, operator: OrderOperator, bound: float, values: Parameters
) -> sql.Composable:
    nearest = float(bound)
    if nearest < bound:  # a whole number beyond 53 bits: nothing lies between the two
        operator = "lte" if operator in ("lt", "lte") else "gt"
    elif nearest > bound:
        operator = "lt" if operator in ("lt", "lte") else "gte"
    return sql.SQL("{} AND {} {} {}").format(
        _finite(expression), expression, sql.SQL(_SQL[operator]), values.add(nearest, "float8")
    )


def _ordered_numeric(
    name: sql.Composable, operator: OrderOperator | Literal["eq"], bound: float, values: Parameters
) -> sql.Composable:
    """Whole numbers of 64 bits are compared exactly, others as the float that metadata has."""
    sign = sql.SQL({**_SQL, "eq": "="}[operator])
    whole = sql.SQL("({0} = trunc({0}) AND {0} BETWEEN {1}::numeric AND {2}::numeric)").format(
        name, sql.Literal(_LEAST), sql.Literal(_MOST)
    )
    exact = sql.SQL("{} {} {}").format(name, sign, values.add(Decimal(bound), "numeric"))
    fits = sql.SQL("abs({}) < 1.7976931348623158e308::numeric").format(name)
    rounded = sql.SQL("{}::float8").format(name)
    if operator == "eq":
        near: sql.Composable = _FALSE
        if _is_double(bound):
            near = sql.SQL("{} = {}").format(rounded, values.add(float(bound), "float8"))
    else:
        near = _ordered_float(rounded, operator, bound, values)
    return sql.SQL("CASE WHEN {} THEN {} WHEN {} THEN {} ELSE false END").format(
        whole, exact, fits, near
    )


def _is_double(value: float) -> bool:
    return math.isfinite(value) and float(value) == value


def _moment(column: Column, microseconds: int, values: Parameters) -> sql.Composable:
    moment = moment_of(microseconds)
    if column.kind == "timestamptz":
        return values.add(moment, "timestamptz")
    return values.add(moment.replace(tzinfo=None), "timestamp")


def _on_list(wanted: Condition, column: Column, values: Parameters) -> sql.Composable:
    name = identifier(column.name)
    item, type_ = {
        "ints": ("number", "int8[]"),
        "texts": ("text", "text[]"),
        "bools": ("bool", "bool[]"),
    }[column.kind]
    match wanted.operator:
        case "exists":
            return _exists(column)
        case "contains":
            found = _items(wanted.values, item)
            if found is None:
                return _FALSE
            return sql.SQL("{} AND {}::" + type_ + " @> {}").format(
                is_flat(column), name, values.add(found, type_)
            )
        case "starts" | "lt" | "lte" | "gt" | "gte":
            return _FALSE
        case "in":
            return _is_list(wanted, column, item, type_, values)
        case _:
            assert_never(wanted.operator)


def _is_list(
    wanted: Condition, column: Column, item: str, type_: str, values: Parameters
) -> sql.Composable:
    name = identifier(column.name)
    same = []
    for kind, keys in wanted.values:
        found = _items(keys, item) if kind == "list" else None
        if found is not None:
            same.append(
                sql.SQL("array_remove({}::" + type_ + ", NULL) = {}").format(
                    name, values.add(found, type_)
                )
            )
    return sql.SQL("{} AND ({})").format(is_flat(column), _any(same))


def _items(keys: tuple[ComparisonKey, ...], item: str) -> list[Any] | None:
    """The values of ``keys``; None where a list of this kind cannot hold one of them."""
    found: list[Any] = []
    for kind, value in keys:
        if kind != item:
            return None
        if kind == "number":
            if value != int(value) or not _LEAST <= value <= _MOST:
                return None
            value = int(value)
        if kind == "text" and "\0" in value:
            return None
        found.append(value)
    return found


def _on_name(wanted: Condition, column: Column, values: Parameters) -> sql.Composable:
    match wanted.operator:
        case "in":
            return name_condition(column, [str(value) for _, value in wanted.values], values)
        case "starts":
            text = sql.SQL("{}::text").format(identifier(column.name))
            begins = [
                sql.SQL("starts_with({}, {})").format(text, values.add(prefix, "text"))
                for _, prefix in wanted.values
                if "\0" not in prefix
            ]
            return _any(begins)
        case "exists" | "contains" | "lt" | "lte" | "gt" | "gte":
            return _on_column(wanted, attrs.evolve(column, kind="other"), values)
        case _:
            assert_never(wanted.operator)


def name_condition(column: Column, names: list[str], values: Parameters) -> sql.Composable:
    """Whether a row's id is one of ``names``, by the index on the column where there is one."""
    if column.kind == "int":
        whole = [int(each) for each in names if _is_whole(each)]
        return sql.SQL("{} = ANY({})").format(identifier(column.name), values.add(whole, "int8[]"))
    if column.kind == "numeric":
        column = attrs.evolve(column, kind="other")
    return _equals(column, names, values)


def _is_whole(text: str) -> bool:
    """Whether ``text`` is a whole number of 64 bits, as the server writes it."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
        return False
    number = int(text)
    return str(number) == text and _LEAST <= number <= _MOST


def _on_update(wanted: Condition, column: Column | None, values: Parameters) -> sql.Composable:
    """A row without a time of its own is as old as `EPOCH`."""
    if wanted.operator == "exists":
        return _TRUE
    if column is None or column.kind not in ("date", "timestamp", "timestamptz"):
        return _TRUE if wanted.holds(("time", 0)) else _FALSE
    unknown = sql.SQL("({}) IS NOT TRUE").format(in_calendar(column))
    known = _on_column(wanted, column, values)
    if not wanted.holds(("time", 0)):
        return known
    return sql.SQL("({}) OR ({})").format(known, unknown)
