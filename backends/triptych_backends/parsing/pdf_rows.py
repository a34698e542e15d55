"""Tables without rules: neighbouring lines whose pieces stand under each other."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import attrs

_GAP = 1.0
"""Of the size of the letters: white space that is wider parts two cells."""
_ALIGNED = 4.0
"""Points by which the edges of a column may differ."""
_FEWEST_ROWS = 3
_FEWEST_COLUMNS = 3


class PlacedGlyph(Protocol):
    """What is read of a character."""

    text: str
    left: float
    right: float
    size: float
    spaced: bool


@attrs.frozen
class _Cell:
    text: str
    left: float
    right: float


def find_rows(
    lines: Sequence[Sequence[PlacedGlyph]],
) -> list[tuple[int, int, list[list[str]]]]:
    """First and last line and the rows of each table in ``lines``.

    A table has three rows or more of three aligned cells or more; a row between them may leave some
    out. Two columns alone may be anything: they stay lines.
    """
    cells = [_cells(line) for line in lines]
    found = []
    at = 0
    while at < len(cells):
        end = at
        while end < len(cells) and len(cells[end]) >= 2:
            end += 1
        table = _table(cells[at:end])
        if table is not None:
            first, rows = table
            found.append((at + first, at + first + len(rows) - 1, rows))
            at += first + len(rows)
        else:
            at = max(end, at) + 1
    return found


def _cells(line: Sequence[PlacedGlyph]) -> list[_Cell]:
    cells: list[_Cell] = []
    text, left, right = "", 0.0, 0.0
    for glyph in line:
        gap = glyph.left - right
        if text and (gap > max(_GAP * glyph.size, 6.0) or gap < -4 * glyph.size):
            cells.append(_Cell(text.replace("\xad", "-"), left, right))
            text = ""
        if not text:
            left = glyph.left
        text += f" {glyph.text}" if glyph.spaced and text else glyph.text
        right = glyph.right
    if text:
        cells.append(_Cell(text.replace("\xad", "-"), left, right))
    ordered = all(one.right <= other.left for one, other in itertools.pairwise(cells))
    return cells if ordered else []


def _table(rows: Sequence[Sequence[_Cell]]) -> tuple[int, list[list[str]]] | None:
    """The first row and the cells of the table in ``rows``, None where there is none."""
    count = max((len(row) for row in rows), default=0)
    full = [row for row in rows if len(row) == count]
    if count < _FEWEST_COLUMNS or len(full) < _FEWEST_ROWS:
        return None
    columns = list(zip(*full, strict=True))
    spans = [
        (min(cell.left for cell in column), max(cell.right for cell in column))
        for column in columns
    ]
    if any(right > left for (_, right), (left, _) in itertools.pairwise(spans)):
        return None
    if not all(map(_is_aligned, columns)):
        return None
    placed: list[list[str]] = []
    first = None
    for number, row in enumerate(rows):
        line = [""] * count
        for cell in row:
            fits = [
                at
                for at, (left, right) in enumerate(spans)
                if cell.left < right and cell.right > left
            ]
            if len(fits) != 1 or line[fits[0]]:
                break
            line[fits[0]] = cell.text
        else:
            first = number if first is None else first
            placed.append(line)
            continue
        if first is not None:
            break  # what does not stand in the columns ends the table
    if first is None or sum(all(line) for line in placed) < _FEWEST_ROWS:
        return None
    return first, placed


def _is_aligned(column: Sequence[_Cell]) -> bool:
    # The first cell is the column's name, which people centre over numbers.
    body = column[1:]
    for edge in (
        [cell.left for cell in body],
        [cell.right for cell in body],
        [(cell.left + cell.right) / 2 for cell in body],
    ):
        if max(edge) - min(edge) <= _ALIGNED:
            return True
    return False
