"""Tables by their rules: lines that cross make a grid, and a grid has cells."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import attrs

_NEAR = 3.0
"""Points between two lines that are drawn as one, or that meet."""
_MOST_LINES = 600

Rule = tuple[float, float, float]
"""Where it stands on one axis, and from where to where on the other."""


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

    def cell(self, x: float, y: float) -> tuple[int, int] | None:
        """Row (from the top) and column of a point; of a merged cell, those of its first.

        None outside of the grid.
        """
        column, row = bisect_right(self.xs, x) - 1, bisect_right(self.ys, y) - 1
        if not (0 <= column < self.columns and 0 <= row < self.rows):
            return None
        while column > 0 and not _is_drawn(self.upright, self.xs[column], y):
            column -= 1
        while row < self.rows - 1 and not _is_drawn(self.across, self.ys[row + 1], x):
            row += 1
        return self.rows - 1 - row, column


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


def _is_drawn(rules: Sequence[Rule], place: float, at: float) -> bool:
    return any(
        abs(other - place) <= _NEAR and low - _NEAR <= at <= high + _NEAR
        for other, low, high in rules
    )
