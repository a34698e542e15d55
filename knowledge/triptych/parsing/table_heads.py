"""Finding the head of a table: the rows that name its columns.

A head is judged by what stands below it: text above numbers, dates or truth values names a column,
a number above numbers does not, nor does a text that stands below again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

Cells = Sequence[str]

_NUMBER = re.compile(
    r"[-+−~<>≤≥(]*[$€£¥]?\s?[-+−]?(?:\d[\d.,'\s]*|[.,]\d+)(?:[eE][-+]?\d+)?\s?[%‰)$€£¥*]*"
)
_FIGURE = re.compile(r"\W*\d[\d\W]*(?:[TZ][\d\W]*|[AaPp]\.?[Mm]\.?)*|\d\d?[-/ ][A-Za-z]{3}[-/ ]\d+")
_YEAR = re.compile(r"1[5-9]\d\d|20\d\d")
_TRUTH = {"true", "false", "yes", "no", "y", "n", "✓", "✗", "✅", "❌"}
_MISSING = re.compile(r"[-–—.?*]|--|\.\.|-?inf|n/?a|nan|null|none|nil", re.IGNORECASE)
_SHORT = 60
MAX_TITLES = 10
"""Rows of text above a head."""


class Head(NamedTuple):
    """The rows from ``start`` to ``end`` name the columns ``names``, "" where they name none."""

    start: int
    end: int
    names: list[str]


def find_head(rows: Sequence[Cells], before: Sequence[Cells] = ()) -> Head | None:
    """Return the head of a table that begins with ``rows``, after up to ten rows of titles.

    ``before`` are the first rows of the table above: rows that are like them belong to it. None
    for no head.
    """
    if len(rows) < 2:
        return None
    first = min((at for cells in rows for at, cell in enumerate(cells) if cell), default=0)
    if first:  # a table that begins further on in a sheet
        found = find_head([row[first:] for row in rows], [row[first:] for row in before])
        return found and found._replace(names=[""] * first + found.names)
    at = _first_wide(rows)
    cells = rows[at]
    below = [row for row in rows[at + 1 :] if row != cells]  # a head may come again
    if not below:  # all of them are like titles
        return None
    pro, contra = _votes(cells, below)
    if pro <= contra and (pro or contra or not _may_name(cells, below)):
        return None
    if before and not pro and not _votes(cells, before)[0] and _width(below) <= _width(before):
        return None
    names, start, end = list(cells), at, at + 1
    filled = list(filter(None, cells))
    if at and sum(map(bool, rows[at - 1])) > 1 and len(set(filled)) < len(filled):
        names, start = _joined(rows[at - 1], names), at - 1
    while pro and end < len(rows) - 1 and end < start + 3 and _is_text(rows[end], rows[end + 1 :]):
        names, end = _joined(names, rows[end]), end + 1
    return Head(start, end, numbered([names[0].removeprefix("# "), *names[1:]]))


def _first_wide(rows: Sequence[Cells]) -> int:
    """The first row that is no title: titles fill less than half of the columns, or only one."""
    widths = [sum(map(bool, cells)) for cells in rows]
    wide = sorted(widths)[3 * len(widths) // 4]
    for at, (cells, width) in enumerate(zip(rows[:MAX_TITLES], widths, strict=False)):
        if 2 * width >= wide and (width > 1 or wide < 2 or (wide == 2 and not cells[0])):
            return at
    return len(rows) - 1


def numbered(names: Cells) -> list[str]:
    """Return ``names`` with a number after each repeated one: "price", "price (2)"."""
    met: Counter[str] = Counter()
    result = []
    for name in names:
        met[name] += 1
        result.append(f"{name} ({met[name]})" if name and met[name] > 1 else name)
    return result


def _votes(cells: Cells, below: Sequence[Cells]) -> tuple[int, int]:
    """How many columns say that ``cells`` name what is ``below``, and how many that not."""
    pro = contra = 0
    for at, cell in enumerate(cells):
        values = _values(at, below)
        if not cell or not values:
            continue
        kind, own = _kind_of(values), _kind(cell)
        if own != kind:
            pro += bool(kind)
        elif own == "text":
            contra += cell in values
        elif own == "number" and _is_label(at, cells, values):
            pro += 1
        else:
            contra += 1
    return pro, contra


def _is_label(at: int, cells: Cells, values: Cells) -> bool:
    """Whether a number names a column: a year above other numbers, or 0, 1, 2, … after a blank."""
    if _YEAR.fullmatch(cells[at]):
        return 2 * sum(_YEAR.fullmatch(value) is not None for value in values) < len(values)
    first = next((place for place, cell in enumerate(cells) if cell), 0)
    return first > 0 and cells[at] in (str(at - first), str(at - first + 1))


def _may_name(cells: Cells, below: Sequence[Cells]) -> bool:
    """Whether ``cells``, all text and distinct, name every column but one of row labels."""
    named = [cell for cell in cells if cell]
    lacking = [at for at, cell in enumerate(cells) if not cell and _values(at, below)]
    return (
        bool(named)
        and (not lacking or (lacking == [0] and all(row[0] for row in below)))
        and len(set(named)) == len(named)
        and all(_kind(cell) == "text" and not cell.endswith(":") for cell in named)
    )


def _width(rows: Sequence[Cells]) -> int:
    return max(map(len, rows))


def _is_text(cells: Cells, below: Sequence[Cells]) -> bool:
    """Whether ``cells`` are a further row of a head, such as units: short, above most numbers."""
    if cells[0].startswith("#") or max(map(len, cells)) > _SHORT:
        return False
    typed = [at for at in range(len(cells)) if _kind_of(_values(at, below)) not in ("text", "")]
    kinds = [_kind(cells[at]) for at in typed if _is_value(cells[at])]
    return 2 * len(kinds) >= len(typed) > 0 and all(kind == "text" for kind in kinds)


def _joined(upper: Cells, lower: Cells) -> list[str]:
    """The names of two rows; one above a group of columns stands in the first of them."""
    names, group = [], ""
    for above, name in zip_longest(upper, lower, fillvalue=""):
        group = above or group
        names.append(" ".join(filter(None, [group if name else above, name])))
    return names


def _values(at: int, rows: Sequence[Cells]) -> list[str]:
    return [row[at] for row in rows if at < len(row) and _is_value(row[at])]


def _is_value(cell: str) -> bool:
    return bool(cell) and _MISSING.fullmatch(cell) is None


def _kind_of(values: Cells) -> str:
    """The kind of two thirds of ``values``, else ""."""
    kinds = Counter(map(_kind, values)).most_common(1)
    return kinds[0][0] if kinds and 3 * kinds[0][1] >= 2 * len(values) else ""


def _kind(cell: str) -> str:
    if len(cell) > _SHORT:
        return "text"
    if cell.casefold() in _TRUTH:
        return "truth"
    if _NUMBER.fullmatch(cell):
        return "number"
    return "figure" if _FIGURE.fullmatch(cell) else "text"
