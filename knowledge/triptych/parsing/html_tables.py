"""Tables of HTML pages: those that lay out a page, and the rows of those that hold data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import attrs

from triptych.parsing.html_blocks import Block

Items: TypeAlias = "list[Block | Table]"

_LONG = 300
_VERY_LONG = 1_000
_SHORT = 100
_SOME = 3
_MARKS = 9  # of a cell, below the head too
_MAX_SPAN = 65_534


@attrs.define(slots=True, eq=False)
class Cell:
    """A cell: what stands in it, and how many rows and columns it spans."""

    items: Items
    rows: int = 1
    columns: int = 1


@attrs.define(slots=True, eq=False)
class Row:
    """A row, and the line it begins on."""

    line: int
    cells: list[Cell] = attrs.field(factory=list)


@attrs.define(slots=True, eq=False)
class Table:
    """A table that is being read; ``data`` that a caption or head says what it is."""

    main: bool
    article: int
    role: str = ""
    data: bool = False
    rows: list[Row] = attrs.field(factory=list)

    def items(self) -> Items:
        """Return the table, or what stands in its cells, in order, if it lays out a page."""
        return self._laid_out() if self._is_layout() else [self]

    def _is_layout(self) -> bool:
        cells = [cell.items for row in self.rows for cell in row.cells]
        if self.role in ("presentation", "none") or any(
            isinstance(item, Table) for items in cells for item in items
        ):
            return True
        if max((len(row.cells) for row in self.rows), default=0) < 2:
            return True
        single = len(self.rows) == 1
        return not self.data and any(
            _is_text(items, _LONG if single else _VERY_LONG) for items in cells
        )

    def _laid_out(self) -> Items:
        found: Items = []
        rows: list[Row] = []

        def end() -> None:
            if len(rows) > 1:
                found.append(Table(main=self.main, article=self.article, rows=rows[:]))
            else:
                found.extend(item for row in rows for cell in row.cells for item in cell.items)
            rows.clear()

        for row in self.rows:
            if len(row.cells) > 1 and all(_is_short(cell.items) for cell in row.cells):
                rows.append(row)
                continue
            end()
            for cell in row.cells:
                found.extend(cell.items)
        end()
        return found


def _is_text(items: Items, long: int) -> bool:
    """Whether a cell holds text of a page: a heading or code, or blocks of ``long`` characters."""
    blocks = [item for item in items if isinstance(item, Block)]
    if len(blocks) > 1 and any(block.level or block.kind == "pre" for block in blocks):
        return True
    size = sum(block.size for block in blocks)
    return size >= long or (len(blocks) >= _SOME and size >= _LONG)


def _is_short(items: Items) -> bool:
    return not items or (
        len(items) == 1
        and isinstance(items[0], Block)
        and not items[0].kind
        and not items[0].level
        and items[0].size < _SHORT
    )


def span(attributes: Mapping[str, str], name: str) -> int:
    """Return how many rows or columns a cell spans; 0 rows are all that follow."""
    try:
        found = int(attributes.get(name, "1"))
    except ValueError:
        return 1
    return min(found, _MAX_SPAN) if found > 0 else _MAX_SPAN if name == "rowspan" else 1


class Grid:
    """Puts the cells of a page's tables into each place that they span.

    ``repeated`` is how many characters of cells may be repeated, so that no span is a bomb.
    """

    def __init__(self, repeated: int) -> None:
        self._left = repeated
        self._line: list[str] = []
        self._above: dict[int, tuple[int, str]] = {}  # by column: for how many rows, and its text
        self._below: dict[int, tuple[int, str]] = {}

    def rows(self, table: Table, read: Callable[[Cell], str]) -> Iterator[tuple[Row, list[str]]]:
        """Yield the rows that have text of their own, with the text of each of their places."""
        width = max(
            sum(cell.columns for cell in row.cells) if len(row.cells) > 1 else 1
            for row in table.rows
        )
        self._above = {}
        for row in table.rows:
            self._line, self._below = [], {}
            own = False
            for cell in row.cells:
                self._repeat()
                text = read(cell)
                own = own or bool(text)
                self._put(text, cell.rows)
                for _ in range(min(cell.columns - 1, width - len(self._line))):
                    if not self._take(text):
                        break
                    self._put(text if len(text) < _LONG else "", cell.rows)
            self._repeat(to_end=True)
            self._above = self._below
            if own:
                yield row, self._line

    def _put(self, text: str, rows: int) -> None:
        if rows > 1:
            self._below[len(self._line)] = rows - 1, text if len(text) < _LONG else ""
        self._line.append(text)

    def _repeat(self, *, to_end: bool = False) -> None:
        while self._above and (to_end or len(self._line) in self._above):
            rows, text = self._above.pop(len(self._line), (0, ""))
            if not self._take(text):
                self._above.clear()
                return
            self._put(text, rows)

    def _take(self, text: str) -> bool:
        self._left -= len(text) + _MARKS
        return self._left >= 0
