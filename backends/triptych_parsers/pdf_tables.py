"""Tables on a page: by rules that make a grid, or by pieces that stand under each other."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from statistics import median

import attrs

_NEAR = 3.0
"""Points between two lines that are drawn as one, or that meet."""
_TOUCH = 0.5
"""Points by which a letter may reach over a rule that stands beside it."""
_MOST_LINES = 600
HYPHEN = "\x02"
"""Where PDFium has joined two lines at a hyphen."""

Rule = tuple[float, float, float]
"""Where it stands on one axis, and from where to where on the other."""


@attrs.define(slots=True)
class Glyph:
    """A visible character, the middle of its box, and whether white space stands before it."""

    text: str
    left: float
    right: float
    middle: float
    size: float
    spaced: bool


def text_of(glyphs: Sequence[Glyph]) -> str:
    """What ``glyphs`` say, on one line."""
    return "".join(f" {glyph.text}" if glyph.spaced else glyph.text for glyph in glyphs).strip()


@attrs.frozen
class Grid:
    """Cells between ``xs`` (left to right) and ``ys`` (bottom to top), and the rules between."""

    xs: tuple[float, ...]
    ys: tuple[float, ...]
    across: tuple[Rule, ...]
    upright: tuple[Rule, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.ys) - 1

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self.xs) - 1

    def column(self, x: float) -> int:
        """The column of a point, -1 left of all."""
        return bisect_right(self.xs, x) - 1

    def cell(self, run: Sequence[Glyph]) -> tuple[int, int] | None:
        """Row (from the top) and column of a run of text; of a merged cell, those of its first.

        None outside of the grid.
        """
        left, right = min(each.left for each in run), max(each.right for each in run)
        y = median(each.middle for each in run)
        column, row = self.column((left + right) / 2), bisect_right(self.ys, y) - 1
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            return None
        while column > 0 and not self.is_parted(column, y):
            column -= 1
        # A rule that ends above the run is not above another cell: the run stays whole.
        while row < self.rows - 1 and not _is_drawn(self.across, self.ys[row + 1], left, right):
            row += 1
        return self.rows - 1 - row, column

    def is_parted(self, column: int, y: float) -> bool:
        """Whether there is a rule left of ``column`` at the height ``y``."""
        return _is_drawn(self.upright, self.xs[column], y - _NEAR, y + _NEAR)


def runs(glyphs: Sequence[Glyph], grid: Grid) -> Iterator[list[Glyph]]:
    """The pieces of a line: white space parts them, or a rule of ``grid`` between two letters."""
    run: list[Glyph] = []
    for glyph in glyphs:
        if run and (_is_apart(run[-1], glyph) or _is_between(grid, run[-1], glyph)):
            yield run
            run = []
        run.append(glyph)
    if run:
        yield run


def _is_between(grid: Grid, one: Glyph, other: Glyph) -> bool:
    first, last = grid.column(one.right - _TOUCH), grid.column(other.left + _TOUCH)
    return any(
        at < len(grid.xs) and grid.is_parted(at, other.middle) for at in range(first + 1, last + 1)
    )


def find_grids(across: Sequence[Rule], upright: Sequence[Rule]) -> Iterator[Grid]:
    """The grids of two rows and two columns or more; none where there are too many lines."""
    flat, tall = _joined(across), _joined(upright)
    if len(flat) + len(tall) > _MOST_LINES:
        return
    # Lines that meet belong together, and what meets those.
    owner = list(range(len(flat) + len(tall)))

    def root(at: int) -> int:
        while owner[at] != at:
            owner[at] = owner[owner[at]]
            at = owner[at]
        return at

    for i, (y, left, right) in enumerate(flat):
        for j, (x, bottom, top) in enumerate(tall):
            if left - _NEAR <= x <= right + _NEAR and bottom - _NEAR <= y <= top + _NEAR:
                owner[root(i)] = root(len(flat) + j)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for at, rule in enumerate([*flat, *tall]):
        groups.setdefault(root(at), ([], []))[at >= len(flat)].append(rule)
    for lines, posts in groups.values():
        xs = _places([x for x, _, _ in posts])
        ys = _places([y for y, _, _ in lines])
        if len(xs) > 2 and len(ys) > 2:
            yield Grid(tuple(xs), tuple(ys), tuple(lines), tuple(posts))


def _joined(rules: Sequence[Rule]) -> list[Rule]:
    """``rules`` with those that lie on one line and touch as one."""
    joined: list[Rule] = []
    for place, start, end in sorted(rules):
        for at in range(len(joined) - 1, max(-1, len(joined) - 40), -1):
            other, low, high = joined[at]
            if abs(other - place) <= 1 and start <= high + _NEAR and end >= low - _NEAR:
                joined[at] = (other, min(low, start), max(high, end))
                break
        else:
            joined.append((place, start, end))
    return joined


def _places(values: Sequence[float]) -> list[float]:
    places: list[float] = []
    for value in sorted(values):
        if not places or value - places[-1] > _NEAR:
            places.append(value)
    return places


def _is_drawn(rules: Sequence[Rule], place: float, start: float, end: float) -> bool:
    """Whether a rule at ``place`` stands anywhere between ``start`` and ``end``."""
    return any(
        abs(other - place) <= _NEAR and low <= end and start <= high for other, low, high in rules
    )


_GAP = 1.0
"""Of the size of the letters: white space that is wider parts two cells."""
_ALIGNED = 4.0
"""Points by which the edges of a column may differ."""
_FEWEST_ROWS = 3
_FEWEST_COLUMNS = 3


@attrs.frozen
class _Cell:
    text: str
    left: float
    right: float


def find_rows(lines: Sequence[Sequence[Glyph]]) -> list[tuple[int, int, list[list[str]]]]:
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


def spaced_cells(line: Sequence[Glyph]) -> list[str]:
    """The texts of a line that wide white space parts."""
    return [cell.text for cell in _cells(line)]


def _is_apart(one: Glyph, other: Glyph) -> bool:
    """Whether two neighbouring letters stand in two pieces of text."""
    gap = other.left - one.right
    is_wide = gap > max(_GAP * other.size, 6.0) or gap < -4 * other.size
    return is_wide or one.text == HYPHEN


def _cells(line: Sequence[Glyph]) -> list[_Cell]:
    cells: list[_Cell] = []
    piece: list[Glyph] = []
    for glyph, following in itertools.zip_longest(line, line[1:]):
        piece.append(glyph)
        if following is None or _is_apart(glyph, following):
            cells.append(_Cell(text_of(piece), piece[0].left, glyph.right))
            piece = []
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
