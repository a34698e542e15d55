"""The documents for which one condition of a filter holds, found by the indexes of the tables."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych.records import Condition
from triptych.records.filters import HEADING, NAME, UPDATED_AT, VERSION
from triptych.records.metadata import ComparisonKey, comparison_key, metadata_from_plain
from triptych_backends.sql.chunk_rows import headings_of
from triptych_backends.sql.deferred import bindparam, select, tables as t
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.entries import (
    TEXT_LENGTH,
    entry_of,
    key_digest,
    kind_prefix,
    next_prefix,
)
from triptych_backends.sql.errors import DAMAGE, corrupt
from triptych_backends.sql.prefixes import prefix_end
from triptych_backends.sql.session import Session

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, Select

__all__ = ["DocumentConditions", "Ids", "ids_of", "sorted_ids", "union_of"]

Ids = NDArray[np.int64]

_GREATEST = 2**63 - 1

_d, _m = t.document.c, t.document_meta.c
_EVERY = select(_d.id).where(_d.dataset_id == bindparam("dataset"))
_NAMED = _EVERY.where(in_list(_d.name, "names"))
_FROM = _EVERY.where(_d.name >= bindparam("prefix"))
_BETWEEN = _FROM.where(_d.name < bindparam("end"))
_NAMES = _EVERY.with_only_columns(_d.id, _d.name)
_WITH_ENTRY = select(_m.document_id).where(
    _m.dataset_id == bindparam("dataset"), _m.pair == bindparam("entry")
)
_WITH_ENTRIES = select(_m.document_id, _m.pair).where(
    _m.dataset_id == bindparam("dataset"), _m.pair >= bindparam("low"), _m.pair < bindparam("high")
)
_METADATA = select(_d.id, _d.name, _d.metadata).where(in_list(_d.id, "ids"))
_HEADED = (
    select(t.chunk.c.document_id, t.chunk.c.heading_path)
    .join(t.document, _d.id == t.chunk.c.document_id)
    .where(_d.dataset_id == bindparam("dataset"), t.chunk.c.heading_path.is_not(None))
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
        """The ids of the documents for which ``condition`` holds, sorted."""
        if condition.field == NAME:
            return self._name(condition)
        if condition.field == HEADING:
            return self._headed({text for _, text in condition.values})
        if condition.field in (VERSION, UPDATED_AT):
            return self._number(condition)
        return self._metadata(condition)

    # The document's own fields

    def _name(self, condition: Condition) -> Ids:
        operator = condition.operator
        texts = [text for kind, text in condition.values if kind == "text"]
        if operator == "exists":
            return self.every
        if operator == "in":
            return self._ids(_NAMED, names=texts)
        if operator == "starts":
            return union_of(self._starting(text) for text in texts)
        if operator == "contains":
            rows = self.session.all(_NAMES, dataset=self.dataset)
            return sorted_ids(pk for pk, name in rows if any(text in name for text in texts))
        return union_of(self._ids(_NAME_IS[operator], value=text) for text in texts)

    def _starting(self, prefix: str) -> Ids:
        end = prefix_end(prefix)
        if end is None:
            # Above U+10FFFF there is no bound, and none is needed: nothing else comes after.
            return self._ids(_FROM, prefix=prefix)
        return self._ids(_BETWEEN, prefix=prefix, end=end)

    def _headed(self, wanted: set[str]) -> Ids:
        rows = self.session.all(_HEADED, dataset=self.dataset)
        return sorted_ids(
            pk
            for pk, path in rows
            if not wanted.isdisjoint(heading.casefold() for heading in headings_of(path))
        )

    def _number(self, condition: Condition) -> Ids:
        is_version = condition.field == VERSION
        kind, columns = ("number", _VERSION_IS) if is_version else ("time", _TIME_IS)
        if condition.operator == "exists":
            return self.every
        if condition.operator not in columns:
            return union_of(())
        values = [value for found, value in condition.values if found == kind]
        whole = [_whole(condition.operator, value) for value in values]
        return union_of(
            self._ids(columns[condition.operator], value=value)
            for value in whole
            if value is not None
        )

    # Metadata

    def _metadata(self, condition: Condition) -> Ids:
        key, operator = condition.field, condition.operator
        if operator == "exists":
            prefix = key_digest(key)
            return self._between(prefix, next_prefix(prefix))
        if operator == "in":
            return union_of(self._with(entry_of(key, value)) for value in condition.values)
        (value,) = condition.values
        if operator == "contains":
            return self._containing(condition, value)
        return self._ordered(condition, value)

    def _containing(self, condition: Condition, value: ComparisonKey) -> Ids:
        found = self._with(entry_of(condition.field, value, item=True))
        if value[0] != "text":
            return found
        prefix = kind_prefix(condition.field, "text")
        return union_of([found, self._checked(condition, prefix, next_prefix(prefix))])

    def _ordered(self, condition: Condition, value: ComparisonKey) -> Ids:
        kind = value[0]
        kind_begin = kind_prefix(condition.field, kind)
        kind_end = next_prefix(kind_begin)
        entry = entry_of(condition.field, value)
        below = condition.operator in ("lt", "lte")
        equal = condition.operator in ("lte", "gte")
        if kind != "text":
            edge = entry + b"\0" if below is equal else entry
            return self._between(kind_begin, edge) if below else self._between(edge, kind_end)
        # Of texts that begin alike, the texts themselves decide.
        alike = entry[: len(kind_begin) + TEXT_LENGTH]
        beyond = next_prefix(alike)
        sure = self._between(kind_begin, alike) if below else self._between(beyond, kind_end)
        same = self._with(entry) if equal else union_of(())
        return union_of([sure, same, self._checked(condition, alike, beyond, but=entry)])

    def _with(self, entry: bytes) -> Ids:
        return self._ids(_WITH_ENTRY, entry=entry)

    def _between(self, low: bytes, high: bytes) -> Ids:
        return self._ids(_WITH_ENTRIES, low=low, high=high)

    def _checked(
        self, condition: Condition, low: bytes, high: bytes, *, but: bytes | None = None
    ) -> Ids:
        """Those between ``low`` and ``high`` whose metadata itself fulfils the condition."""
        rows = self.session.all(_WITH_ENTRIES, dataset=self.dataset, low=low, high=high)
        ids = sorted({pk for pk, entry in rows if entry != but})
        if not ids:
            return union_of(())
        found = self.session.all(_METADATA, ids=ids)
        return sorted_ids(
            pk for pk, name, text in found if condition.holds(_value(text, name, condition.field))
        )

    def _ids(self, statement: Select[Any], **parameters: object) -> Ids:
        return ids_of(self.session, statement, dataset=self.dataset, **parameters)


def _value(text: Any, name: str, key: str) -> ComparisonKey:
    try:
        return comparison_key(metadata_from_plain(json.loads(text))[key])
    except (*DAMAGE, KeyError) as error:
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
    return sorted_ids(row[0] for row in session.all(statement, **parameters))


def sorted_ids(ids: Iterable[int]) -> Ids:
    """``ids``, sorted, each once."""
    return np.unique(np.fromiter(ids, np.int64))


def union_of(parts: Iterable[Ids]) -> Ids:
    """The ids that one of ``parts`` has."""
    found = list(parts)
    if len(found) == 1:
        return found[0]
    return np.unique(np.concatenate([np.empty(0, np.int64), *found]))
