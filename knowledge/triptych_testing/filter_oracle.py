"""A simple reference implementation of ``where``, and filters to test it with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from triptych.records import Metadata, Subject

MISSING: Any = object()
KEYS = ("a", "b", "lang")
NAMES = ("a", "a/b", "b", "n")


def passes(where: Mapping[str, Any], subject: Subject) -> bool:
    """Whether ``subject`` passes ``where``."""
    return all(_entry(key, value, subject) for key, value in where.items())


def _entry(key: str, value: Any, subject: Subject) -> bool:
    if key == "$and":
        return all(passes(each, subject) for each in value)
    if key == "$or":
        return any(passes(each, subject) for each in value)
    if key == "$not":
        return not passes(value, subject)
    if isinstance(value, Mapping):
        return all(_operation(key, name, each, subject) for name, each in value.items())
    return _operation(key, "$in" if isinstance(value, list) else "$eq", value, subject)


def _operation(key: str, name: str, wanted: Any, subject: Subject) -> bool:
    negated = {"$ne": "$eq", "$nin": "$in"}
    if name in negated:
        return not _operation(key, negated[name], wanted, subject)
    several = wanted if name == "$in" else [wanted]
    if key in ("$prefix", "doc_prefix"):
        return any(subject.name.startswith(each) for each in several)
    if key in ("$heading", "heading"):
        return any(each.casefold() in subject.headings for each in several)
    own: dict[str, Any] = {"doc_name": subject.name, "$name": subject.name}
    own |= {"$version": subject.version, "$updated_at": subject.updated_at}
    value = own[key] if key in own else subject.metadata.get(key, MISSING)
    if value is None:
        value = MISSING
    if name == "$exists":
        return (value is not MISSING) is wanted
    if value is MISSING:
        return False
    if name == "$in":
        return any(_equal(value, each) for each in wanted)
    if name == "$eq":
        return _equal(value, wanted)
    if name == "$contains":
        if isinstance(value, list):
            return any(_equal(each, wanted) for each in value)
        return isinstance(value, str) and isinstance(wanted, str) and wanted in value
    return _ordered(value, name, wanted)


def _kind(value: Any) -> str:
    for kind, types in (("bool", bool), ("number", int | float), ("text", str), ("time", date)):
        if isinstance(value, types):
            return kind
    return "list"


def _time(value: date) -> datetime:
    if not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _equal(left: Any, right: Any) -> bool:
    if _kind(left) != _kind(right):
        return False
    if _kind(left) == "time":
        return _time(left) == _time(right)
    if _kind(left) == "list":
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _ordered(left: Any, name: str, right: Any) -> bool:
    if _kind(left) != _kind(right) or _kind(left) in ("bool", "list"):
        return False
    if _kind(left) == "time":
        left, right = _time(left), _time(right)
    if name == "$lt":
        return bool(left < right)
    if name == "$lte":
        return bool(left <= right)
    return bool(left > right) if name == "$gt" else bool(left >= right)


def _scalars(*, bools: bool = True) -> st.SearchStrategy[Any]:
    return st.sampled_from(SCALARS if bools else SCALARS[:-2])


def _values() -> list[Any]:
    big = 1 << 53
    zone = timezone(timedelta(hours=2))
    values: list[Any] = ["", "a", "b", "ab", "1", "2024-01-01", "same beginning 1"]
    values += ["same beginning 12", "same beginning 1\0", "𐀀", "\uffff", "NaN"]
    values += [0, 1, -1, 2, 1.0, 0.5, -0.5, 0.0, -0.0, 1e300, big, big + 1, float(big), -big - 1]
    values += [(1 << 63) - 1, -(1 << 63)]
    values += [date(2024, 1, 1), date(2024, 1, 2), datetime(2024, 1, 1)]
    values += [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, 2, tzinfo=zone)]
    values += [datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC), datetime(1, 1, 1), date(9999, 12, 31)]
    return [*values, True, False]


SCALARS = _values()
"""Few values of each kind, many of them next to each other or equal across types; bools last."""


_LISTS = st.lists(_scalars(), max_size=3)
METADATA: st.SearchStrategy[Metadata] = st.dictionaries(
    st.sampled_from(KEYS), _scalars() | _LISTS, max_size=3
)
"""Metadata of few keys, with values of every kind under each."""

_TEXTS = st.sampled_from(["a", "a/", "b", "n", "A", "", "part"])
_MANY = st.lists(_scalars(), max_size=3)


def _own(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """A comparison of a document's own field, whose values are of one kind."""
    of_kind = st.sampled_from([each for each in SCALARS if _kind(each) == kind])
    several = st.lists(of_kind, max_size=3)
    return st.one_of(
        *(st.fixed_dictionaries({each: of_kind}) for each in ("$eq", "$ne")),
        *(st.fixed_dictionaries({each: several}) for each in ("$in", "$nin")),
        st.dictionaries(
            st.sampled_from(["$lt", "$lte", "$gt", "$gte"]), of_kind, min_size=1, max_size=2
        ),
        st.fixed_dictionaries({"$exists": st.booleans()}),
    )


def _comparison() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries({"$eq": _scalars() | _LISTS}),
        st.fixed_dictionaries({"$ne": _scalars() | _LISTS}),
        st.fixed_dictionaries({"$in": _MANY}),
        st.fixed_dictionaries({"$nin": _MANY}),
        st.dictionaries(
            st.sampled_from(["$lt", "$lte", "$gt", "$gte"]),
            _scalars(bools=False),
            min_size=1,
            max_size=2,
        ),
        st.fixed_dictionaries({"$contains": _scalars()}),
        st.fixed_dictionaries({"$exists": st.booleans()}),
    )


def _texts() -> st.SearchStrategy[Any]:
    several = st.lists(_TEXTS, max_size=2)
    return (
        _TEXTS
        | several
        | st.fixed_dictionaries({"$in": several})
        | st.fixed_dictionaries({"$ne": _TEXTS})
        | st.fixed_dictionaries({"$nin": several})
    )


_PLAIN = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), _scalars() | _MANY | _comparison(), max_size=2),
    st.dictionaries(st.sampled_from(["$prefix", "$heading"]), _texts(), max_size=1),
    st.dictionaries(st.sampled_from(["doc_name", "doc_prefix", "heading"]), _TEXTS, max_size=2),
    st.fixed_dictionaries(
        {
            "$name": _texts()
            | st.dictionaries(
                st.sampled_from(["$lt", "$lte", "$gt", "$gte", "$contains"]), _TEXTS, min_size=1
            )
        }
    ),
    st.fixed_dictionaries({"$version": _own("number")}),
    st.fixed_dictionaries({"$updated_at": _own("time")}),
)
WHERES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _PLAIN,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"$and": st.lists(inner.filter(bool), min_size=1, max_size=3)},
            optional={"lang": _scalars()},
        ),
        st.fixed_dictionaries({"$or": st.lists(inner.filter(bool), min_size=1, max_size=3)}),
        st.fixed_dictionaries({"$not": inner.filter(bool)}),
    ),
    max_leaves=6,
)
"""Conditions on metadata and on a document's own fields, joined to any depth."""
