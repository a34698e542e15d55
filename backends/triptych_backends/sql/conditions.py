"""The documents for which one condition of a filter holds, found by the indexes of the tables."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
from numpy.typing import NDArray

from triptych import deadlines
from triptych._internal.turns import SEARCHES
from triptych.records import Condition, FilterTree, MetadataValue, Subject
from triptych.records.filters import (
    EXPIRES_AT,
    HEADING,
    NAME,
    UPDATED_AT,
    VERSION,
    OrderOperator,
    conditions_of,
)
from triptych.records.metadata import metadata_from_plain
from triptych.text import headings_in
from triptych_backends.index.selection import AT_ONCE
from triptych_backends.sql.chunk_rows import headings_of
from triptych_backends.sql.deferred import bindparam, in_list, select, tables as t
from triptych_backends.sql.document_rows import moment_of, read_system
from triptych_backends.sql.errors import DAMAGE, corrupt
from triptych_backends.sql.metadata_entries import (
    TEXT_LENGTH,
    entry_of,
    key_digest,
    kind_prefix,
    next_prefix,
    prefix_end,
)
from triptych_backends.sql.transaction import Session

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, Select

Ids = NDArray[np.int64]

_GREATEST = 2**63 - 1
_SCALARS = (str, int, float, bool)

_d, _m = t.document.c, t.document_meta.c
_EVERY = select(_d.id).where(_d.dataset_id == bindparam("dataset"))
_NAMED = _EVERY.where(in_list(_d.name, "names"))
_FROM = _EVERY.where(_d.name >= bindparam("prefix"))
_BETWEEN = _FROM.where(_d.name < bindparam("end"))
_WITH_ENTRY = select(_m.document_id).where(
    _m.dataset_id == bindparam("dataset"), _m.pair == bindparam("entry")
)
_WITH_ENTRIES = select(_m.document_id, _m.pair).where(
    _m.dataset_id == bindparam("dataset"), _m.pair >= bindparam("low"), _m.pair < bindparam("high")
)
_SUBJECTS = select(_d.id, _d.name, _d.version, _d.updated_at, _d.system, _d.metadata).where(
    in_list(_d.id, "ids")
)
_HEADINGS = (
    select(t.chunk.c.document_id, t.chunk.c.heading_path)
    .where(in_list(t.chunk.c.document_id, "ids"), t.chunk.c.heading_path.is_not(None))
    .distinct()
)


def _compared(column: Any) -> dict[str, Select[tuple[int]]]:
    value: BindParameter[Any] = bindparam("value")
    return {
        "in": _EVERY.where(column == value),
        "lt": _EVERY.where(column < value),
        "lte": _EVERY.where(column <= value),
        "gt": _EVERY.where(column > value),
        "gte": _EVERY.where(column >= value),
    }


_NAME_IS, _VERSION_IS, _TIME_IS = map(_compared, (_d.name, _d.version, _d.updated_at))


def is_indexed(tree: FilterTree) -> bool:
    """Whether indexes decide each condition of ``tree``: no document is read for it, or few are."""
    return not any(
        each.field == HEADING or (each.operator == "contains" and each.values[0][0] == "text")
        for each in conditions_of(tree)
    )


class DocumentConditions:
    """Conditions on the documents of one dataset."""

    def __init__(self, session: Session, dataset: int) -> None:
        self.session = session
        self.dataset = dataset

    @cached_property
    def every(self) -> Ids:
        """The ids of all documents."""
        return self._ids(_EVERY)

    def holding(self, condition: Condition) -> Ids:
        """The ids of the documents for which ``condition`` holds, sorted; it `is_indexed`."""
        if condition.field == NAME:
            return self._name(condition)
        if condition.field in (VERSION, UPDATED_AT):
            return self._number(condition)
        return self._metadata(condition)

    def judged(self, ids: Ids, tree: FilterTree) -> Ids:
        """Those of ``ids``, which are sorted, that pass ``tree``. No other document is read."""
        return sorted_ids(pk for pk, each in self.subjects(ids, tree) if tree.admits(each))

    def subjects(self, ids: Ids, tree: FilterTree) -> Iterator[tuple[int, Subject]]:
        """What ``tree`` judges of each of these documents."""
        fields = {condition.field for condition in conditions_of(tree)}
        keys = fields - {NAME, HEADING, VERSION, UPDATED_AT, EXPIRES_AT}
        # Of many conditions few documents take as long as many of few.
        at_once = max(1, AT_ONCE // (1 + sum(1 for _ in conditions_of(tree)) // 10))
        for start in range(0, len(ids), at_once):
            SEARCHES.pass_on("the filter")
            page = ids[start : start + at_once].tolist()
            headings: dict[int, set[str]] = {}
            if HEADING in fields:
                for pk, path in self.session.all(_HEADINGS, ids=page):
                    titles = headings.setdefault(pk, set())
                    titles |= headings_in(headings_of(path))
            for row in self.session.all(_SUBJECTS, ids=page):
                yield row[0], _subject(row, fields, keys, headings.get(row[0], ()))

    # The document's own fields

    def _name(self, condition: Condition) -> Ids:
        texts = [text for kind, text in condition.values if kind == "text"]
        match condition.operator:
            case "exists":
                return self.every
            case "in":
                return self._ids(_NAMED, names=texts)
            case "starts":
                return union_of(self._starting(text) for text in texts)
            case "contains":
                assert not texts, "it is judged by the name itself: see is_indexed"
                return union_of(())
            case "lt" | "lte" | "gt" | "gte" as order:
                return union_of(self._ids(_NAME_IS[order], value=text) for text in texts)
            case _:
                assert_never(condition.operator)

    def _starting(self, prefix: str) -> Ids:
        end = prefix_end(prefix)
        if end is None:
            # Above U+10FFFF there is no bound, and none is needed: nothing else comes after.
            return self._ids(_FROM, prefix=prefix)
        return self._ids(_BETWEEN, prefix=prefix, end=end)

    def _number(self, condition: Condition) -> Ids:
        is_version = condition.field == VERSION
        kind, columns = ("number", _VERSION_IS) if is_version else ("time", _TIME_IS)
        match condition.operator:
            case "exists":
                return self.every
            case "contains" | "starts":
                return union_of(())
            case "in" | "lt" | "lte" | "gt" | "gte" as operator:
                values = [value for found, value in condition.values if found == kind]
                whole = [_whole(operator, value) for value in values]
                return union_of(
                    self._ids(columns[operator], value=value)
                    for value in whole
                    if value is not None
                )
            case _:
                assert_never(condition.operator)

    # Metadata

    def _metadata(self, condition: Condition) -> Ids:
        key = condition.field
        match condition.operator:
            case "exists":
                prefix = key_digest(key)
                return self._between(prefix, next_prefix(prefix))
            case "in":
                return union_of(self._with(entry_of(key, value)) for value in condition.values)
            case "contains":
                (value,) = condition.values
                return self._with(entry_of(key, value, item=True))
            case "lt" | "lte" | "gt" | "gte" as order:
                return self._ordered(condition, order)
            case "starts":
                raise AssertionError("only a name is asked how it begins")
            case _:
                assert_never(condition.operator)

    def _ordered(self, condition: Condition, order: OrderOperator) -> Ids:
        (value,) = condition.values
        kind = value[0]
        kind_begin = kind_prefix(condition.field, kind)
        kind_end = next_prefix(kind_begin)
        entry = entry_of(condition.field, value)
        below = order in ("lt", "lte")
        equal = order in ("lte", "gte")
        if kind != "text":
            edge = entry + b"\0" if below is equal else entry
            return self._between(kind_begin, edge) if below else self._between(edge, kind_end)
        # Of texts that begin alike, the texts themselves decide.
        alike = entry[: len(kind_begin) + TEXT_LENGTH]
        beyond = next_prefix(alike)
        sure = self._between(kind_begin, alike) if below else self._between(beyond, kind_end)
        same = self._with(entry) if equal else union_of(())
        doubtful = np.setdiff1d(self._between(alike, beyond), self._with(entry))
        return union_of([sure, same, self.judged(doubtful, condition)])

    def _with(self, entry: bytes) -> Ids:
        return self._ids(_WITH_ENTRY, entry=entry)

    def _between(self, low: bytes, high: bytes) -> Ids:
        return self._ids(_WITH_ENTRIES, low=low, high=high)

    def _ids(self, statement: Select[Any], **parameters: object) -> Ids:
        return ids_of(self.session, statement, dataset=self.dataset, **parameters)


def _value(plain: dict[str, Any], key: str) -> MetadataValue:
    value: MetadataValue = plain[key]
    return value if type(value) in _SCALARS else metadata_from_plain({key: value})[key]


def _subject(
    row: Sequence[Any], fields: set[str], keys: set[str], headings: Collection[str]
) -> Subject:
    """What a filter on ``fields`` judges of a row of `_SUBJECTS`; ``keys`` are of metadata."""
    _, name, version, updated_at, system, metadata = row
    try:
        plain = json.loads(metadata) if keys else {}
        return Subject(
            name=name,
            metadata={key: _value(plain, key) for key in keys if key in plain},
            version=version,
            updated_at=moment_of(updated_at) if UPDATED_AT in fields else None,
            expires_at=read_system(system)[1].expires_at if EXPIRES_AT in fields else None,
            headings=headings,
        )
    except DAMAGE as error:
        raise corrupt("", f"the metadata of document {name!r}: {error}") from error


def _whole(operator: str, value: float) -> int | None:
    """The number that a column of whole numbers is compared with to find what ``value`` would.

    A server does not compare its whole numbers with others exactly. None: nothing is equal to it.
    """
    bounded = max(-_GREATEST, min(value, _GREATEST))
    if operator == "in":
        return int(value) if value == bounded == int(bounded) else None
    return math.ceil(bounded) if operator in ("lt", "gte") else math.floor(bounded)


def ids_of(session: Session, statement: Select[Any], **parameters: object) -> Ids:
    """The first column of what ``statement`` finds, sorted, each once."""
    deadlines.check("the filter")
    return sorted_ids(map(itemgetter(0), session.all(statement, **parameters)))


def sorted_ids(ids: Iterable[int]) -> Ids:
    """``ids``, sorted, each once."""
    # `np.unique` takes ten times as long.
    values = np.sort(np.fromiter(ids, np.int64))
    return values[np.diff(values, prepend=-1) > 0] if len(values) else values


def union_of(parts: Iterable[Ids]) -> Ids:
    """The ids that one of ``parts`` has."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))
