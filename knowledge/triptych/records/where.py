"""Parsing a caller's ``where`` into the tree of a filter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

from triptych.errors import ValidationError
from triptych.records.filters import (
    HEADING,
    NAME,
    OF_DOCUMENTS,
    UPDATED_AT,
    VERSION,
    And,
    Condition,
    FilterTree,
    Not,
    Or,
    OrderOperator,
    all_of,
    conditions_of,
)
from triptych.records.metadata import (
    DATE,
    ComparisonKey,
    check_metadata,
    comparison_key,
    value_from_plain,
)
from triptych.records.values import check_text

_PREFIX = "$prefix"
_OWN = (NAME, _PREFIX, HEADING, *OF_DOCUMENTS)
_SHORT = {"doc_name": NAME, "doc_prefix": _PREFIX, "heading": HEADING}
_JOINS = ("$and", "$or", "$not")
_ORDERED: dict[str, OrderOperator] = {
    "$lt": "lt",
    "$lte": "lte",
    "$gt": "gt",
    "$gte": "gte",
}
_OPERATORS = ("$eq", "$ne", "$in", "$nin", *_ORDERED, "$contains", "$exists")
_MEMBER = ("$eq", "$ne", "$in", "$nin")
_MOST_DEPTH = 20
_MOST_CONDITIONS = 1_000
_MOST_VALUES = 10_000
_SYMBOLS = {">=": "$gte", "<=": "$lte", "!=": "$ne", "==": "$eq", ">": "$gt", "<": "$lt"}
_LOOKS = re.compile(r"\s*(>=|<=|!=|==|>|<)\s*(?=\S)")
_NAMES = re.compile(r"\$(?:and|or|not|eq|ne|in|nin|lte?|gte?|contains|exists)\b")


def parse_filter(where: Any) -> FilterTree | None:
    """Parse a ``where`` into a tree; None for an empty one, which matches everything.

    Raises:
        ValidationError: it is malformed, too deep or too large; the message shows a valid form.
    """
    tree = _object(where, 0)
    count = values = 0
    for condition in conditions_of(tree):
        count += 1
        values += len(condition.values)
    if values > _MOST_VALUES:
        raise ValidationError(
            f"where names {values:,} values in total; the maximum is {_MOST_VALUES:,}"
        )
    if count > _MOST_CONDITIONS:
        raise ValidationError(
            f"where has {count:,} conditions; the maximum is {_MOST_CONDITIONS:,}: name many "
            "values of one field with $in"
        )
    return tree


def _object(where: Any, depth: int) -> FilterTree | None:
    if depth > _MOST_DEPTH:
        raise ValidationError(f"where is nested more than {_MOST_DEPTH} levels deep: flatten it")
    if not isinstance(where, Mapping):
        raise ValidationError(
            "where must map fields to the values they may have, such as {'lang': 'en'} or "
            f"{{'year': {{'$gte': 2024}}}}, not {where!r:.60}"
        )
    return all_of(*(_entry(key, value, depth) for key, value in where.items()))


def _entry(key: Any, value: Any, depth: int) -> FilterTree | None:
    check_text(key, "a key of where")
    if key in ("$and", "$or"):
        return _join(key, value, depth)
    if key == "$not":
        part = _object(value, depth + 1)
        if part is None:
            raise ValidationError("where['$not'] is empty: give it a condition to negate")
        return Not(part)
    if key in _OPERATORS:
        raise ValidationError(
            f"{key} belongs under the field that it compares: {{'year': {{{key!r}: …}}}}"
        )
    if key.startswith("$") and key not in _OWN:
        raise ValidationError(
            f"where has no operator or field {key!r}: operators are {', '.join(_OPERATORS)}, "
            f"joined by {', '.join(_JOINS)}; a document's own fields are {', '.join(_OWN)}"
        )
    if key in _SHORT and isinstance(value, Mapping):
        raise ValidationError(
            f"where[{key!r}] takes a string or a list of strings; for operators write "
            f"{_SHORT[key]!r}"
        )
    field = _SHORT.get(key, key)
    if isinstance(value, Mapping) and DATE not in value:
        return _compared(key, field, value)
    if isinstance(value, list | tuple | set | frozenset):
        _check_count(field, value)
        return _any_of(key, field, [_plain(key, item) for item in value])
    return _any_of(key, field, [_plain(key, value)])


def _join(key: str, value: Any, depth: int) -> FilterTree:
    if not isinstance(value, list | tuple) or not value:
        raise ValidationError(
            f"where[{key!r}] joins a list of conditions: {{{key!r}: [{{'lang': 'en'}}, …]}}"
        )
    parts = [_object(part, depth + 1) for part in value]
    given = tuple(part for part in parts if part is not None)
    if len(given) < len(parts):
        raise ValidationError(f"where[{key!r}] joins an empty condition: leave it out")
    return And(given) if key == "$and" else Or(given)


def _compared(key: str, field: str, operators: Mapping[Any, Any]) -> FilterTree:
    parts = [_operation(key, field, name, value) for name, value in operators.items()]
    tree = all_of(*parts)
    if tree is None:
        raise ValidationError(
            f"where[{key!r}] is empty: compare it, as in {{{key!r}: {{'$gte': 2024}}}}"
        )
    return tree


def _operation(key: str, field: str, name: Any, value: Any) -> FilterTree:
    if name in _JOINS:
        raise ValidationError(
            f"{name} stands outside of the field: {{'$not': {{{key!r}: …}}}}"
            if name == "$not"
            else f"{name} stands outside of the field: {{{name!r}: [{{{key!r}: …}}, …]}}"
        )
    if name not in _OPERATORS:
        if name == "$not_contains":
            raise ValidationError(
                f"where[{key!r}] has no operator {name!r}: write "
                f"{{'$not': {{{key!r}: {{'$contains': …}}}}}}"
            )
        raise ValidationError(
            f"where[{key!r}] has no operator {name!r}: choose among {', '.join(_OPERATORS)}"
        )
    if field in (HEADING, _PREFIX) and name not in _MEMBER:
        raise ValidationError(f"{field} is compared by {', '.join(_MEMBER)}, not by {name}")
    what = f"where[{key!r}][{name!r}]"
    if name in ("$in", "$nin"):
        if not isinstance(value, list | tuple | set | frozenset):
            raise ValidationError(f"{what} takes a list of values, not {value!r:.60}")
        _check_count(field, value)
        found = _any_of(key, field, [_scalar(item, what) for item in value])
        return found if name == "$in" else Not(found)
    if name in ("$eq", "$ne"):
        found = _any_of(key, field, [_value(value, what)])
        return found if name == "$eq" else Not(found)
    if name == "$exists":
        if not isinstance(value, bool):
            raise ValidationError(f"{what} is True or False, not {value!r:.60}")
        there = Condition(field, "exists")
        return there if value else Not(there)
    wanted = comparison_key(_scalar(value, what))
    _check_kind(key, field, wanted)
    if name == "$contains":
        return Condition(field, "contains", (wanted,))
    if wanted[0] == "bool":
        raise ValidationError(f"{what}: true and false have no order; use $eq or $ne")
    return Condition(field, _ORDERED[name], (wanted,))


def _any_of(key: str, field: str, values: list[Any]) -> Condition:
    keys = tuple(dict.fromkeys(comparison_key(value) for value in values))
    if field in (NAME, _PREFIX, HEADING):
        for value in values:
            if not isinstance(value, str):
                raise ValidationError(
                    f"where[{key!r}] must be a string or a list of strings, not {value!r:.60}"
                )
    for wanted in keys:
        _check_kind(key, field, wanted)
    if field == _PREFIX:
        return Condition(NAME, "starts", keys)
    if field == HEADING:
        keys = tuple(dict.fromkeys(("text", text.casefold()) for _, text in keys))
    return Condition(field, "in", keys)


def _check_count(field: str, values: Collection[Any]) -> None:
    if len(values) > _MOST_VALUES:
        raise ValidationError(
            f"where names {len(values):,} values of {field!r}; the maximum is {_MOST_VALUES:,}"
        )


def _check_kind(key: str, field: str, wanted: ComparisonKey) -> None:
    """Raise ValidationError for a value of a type that the document's field never has."""
    if field == VERSION and wanted[0] != "number":
        raise ValidationError(f"where[{key!r}] is compared with a number, not {wanted[1]!r:.60}")
    if field == UPDATED_AT and wanted[0] != "time":
        raise ValidationError(
            f"where[{key!r}] is compared with a date or datetime, in JSON "
            f"{{{DATE!r}: '2026-09-01'}}, not {wanted[1]!r:.60}"
        )


def _plain(key: str, value: Any) -> Any:
    """Check a value without an operator; it must not look like an operator."""
    value = _scalar(value, f"where[{key!r}]")
    if not isinstance(value, str):
        return value
    found = _LOOKS.match(value)
    if key in _SHORT and (found or _NAMES.match(value)):
        raise ValidationError(
            f"where[{key!r}] is the text {value!r:.60}, which looks like an operator: write "
            f"{{{_SHORT[key]!r}: {{'$eq': {value!r:.60}}}}} for this text itself"
        )
    if found is not None:
        operator, rest = _SYMBOLS[found[1]], value[found.end() :]
        raise ValidationError(
            f"where[{key!r}] is the text {value!r:.60}, which looks like a comparison: write "
            f"{{{key!r}: {{{operator!r}: {_example(rest)}}}}}, or {{'$eq': {value!r:.60}}} for "
            "this text itself"
        )
    if _NAMES.match(value):
        raise ValidationError(
            f"where[{key!r}] is the text {value!r:.60}, which looks like an operator: write "
            f"{{{key!r}: {{{value.split()[0]!r:.20}: …}}}}, or {{'$eq': {value!r:.60}}} for this "
            "text itself"
        )
    return value


def _example(text: str) -> str:
    """Return ``text`` as the value that it would be written as."""
    try:
        return f"{{{DATE!r}: {date.fromisoformat(text[:10]).isoformat()!r}}}"
    except ValueError:
        pass
    try:
        return repr(int(text) if text.strip().lstrip("+-").isdigit() else float(text))
    except ValueError:
        return repr(text[:40])


def _scalar(value: Any, what: str) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        raise ValidationError(f"{what} compares with a list: use {{'$eq': [...]}} for a whole list")
    return _value(value, what)


def _value(value: Any, what: str) -> Any:
    value = value_from_plain(value)
    if value is None:
        raise ValidationError(f"{what} is None: use {{'$exists': False}} for a missing field")
    try:
        return check_metadata({"value": value})["value"]
    except ValidationError as error:
        raise ValidationError(str(error).replace("metadata['value']", what)) from None
