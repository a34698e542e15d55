"""What every source of rows for `follow_rows` is described by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych._internal.digests import digest
from triptych.errors import ValidationError
from triptych.sync.rows import SourceRow
from triptych_backends.in_place.source import InPlaceSource
from triptych_backends.in_place.spec import ColumnPair, TableSpec
from triptych_backends.in_place.table import OpenTable, Row

OVERLAP: Final = 600.0
"""Seconds before the newest change seen that are read again: longer than a write takes to be
seen."""


T = TypeVar("T")
Opened = TypeVar("Opened", bound=OpenTable)


class FollowedRows(CloseOnExit, Generic[Opened]):
    """The part of a `RowSource` that is the same whatever database the rows are in."""

    _SOURCE: ClassVar[type[InPlaceSource[Any]]]

    def __init__(self, database: Any, table: TableSpec, *, overlap: float = OVERLAP) -> None:
        """Raises ValidationError: ``overlap`` is negative, or a key is not for this database."""
        if not 0 <= overlap < 1e9:
            raise ValidationError(f"overlap is {overlap!r}: give seconds from 0 up")
        self.spec = attrs.evolve(
            table,
            columns=[ColumnPair(pair.text) for pair in table.columns],
            text_search=None,
            text_config=None,
            keywords="auto",
            distance=None,
        )
        self.overlap = overlap
        self._source: InPlaceSource[Opened] = self._SOURCE(
            database, [self.spec], chunker_sig="", language="none"
        )
        self.where: str = self._source.where
        place = digest("table", self.where, *self.spec.path)[:16]
        self.key: str = f"{self.spec.path[-1][:64]}-{place}"
        shown = [
            self.spec.id,
            *(pair.text for pair in self.spec.columns),
            "metadata",
            *self.spec.metadata,
            "where",
            repr(self.spec.where),
            repr(self.spec.updated_at),
        ]
        if self.spec.document is not None:
            shown.append(self.spec.document)
        self.shape: str = digest(*shown)

    def read(self, names: Sequence[str]) -> Sequence[SourceRow]:
        return [source_row(row) for row in self._read(lambda table: table.rows_named(names))]

    def _read(self, ask: Callable[[Opened], T]) -> T:
        return self._source.read([self.spec.name], lambda tables: ask(tables[0]))

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self._source.close()


def source_row(row: Row) -> SourceRow:
    """A row as `follow_rows` reads it."""
    return SourceRow(name=row.name, content=row.document.content, metadata=row.metadata)
