"""SVG charts: pure functions from values to markup for a page.

Colours are CSS classes (``s0``, ``s1``, … a series each), so that the page decides them. Every
mark that stands for a value says which in its ``<title>``, which browsers show without scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from triptych_evaluation.significance import Estimate

WIDTH, HEIGHT = 720, 280
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 44
INNER = WIDTH - LEFT - RIGHT
FLOOR = HEIGHT - BOTTOM
SERIES = 6  # classes that a page gives colours to

_MOST_POINTS = 20  # with more of them a line shows its end alone
_MOST_BARS = 500  # more queries than that are drawn as one shape


def legend(names: Sequence[str]) -> str:
    """The series' names beside their colours."""
    items = "".join(
        f'<li><span class="key s{at % SERIES}"></span>{escape(name)}</li>'
        for at, name in enumerate(names)
    )
    return f'<ul class="legend">{items}</ul>'


def bars(groups: Mapping[str, Mapping[str, Estimate]], *, label: str) -> str:
    """Groups of bars from 0 to 1 with their intervals: by group (a metric), then by series."""
    parts = _frame(0.0, 1.0)
    slot = INNER / max(len(groups), 1)
    for at, (group, row) in enumerate(groups.items()):
        width = min(slot * 0.8 / max(len(row), 1), 36)
        start = LEFT + at * slot + (slot - width * len(row)) / 2
        for series, (name, estimate) in enumerate(row.items()):
            x = start + series * width
            top = _y(estimate.mean, 0.0, 1.0)
            middle = x + width / 2
            low, high = _y(estimate.low, 0.0, 1.0), _y(estimate.high, 0.0, 1.0)
            parts.append(
                f"<g><title>{escape(group)}, {escape(name)}: {estimate.mean:.4f} "
                f"[{estimate.low:.4f}, {estimate.high:.4f}]</title>"
                f'<rect class="s{series % SERIES}" x="{x + 1:.1f}" y="{top:.1f}" '
                f'width="{width - 2:.1f}" height="{max(FLOOR - top, 0):.1f}"/>'
                f'<path class="whisker" d="M{middle:.1f} {low:.1f}V{high:.1f}'
                f'M{middle - 3:.1f} {low:.1f}h6M{middle - 3:.1f} {high:.1f}h6"/></g>'
            )
        parts.append(_text(LEFT + (at + 0.5) * slot, FLOOR + 16, group))
    return _svg(parts, label)


def lines(series: Mapping[str, Sequence[tuple[float, float]]], *, label: str, x_title: str) -> str:
    """A line a series through (x, y) points, y from 0 to 1, x from 0."""
    parts = _frame(0.0, 1.0)
    most = max((x for points in series.values() for x, _ in points), default=1.0) or 1.0
    for tick in _ticks(most):
        x = LEFT + tick / most * INNER
        parts.append(_text(x, FLOOR + 16, f"{tick:,g}"))
    parts.append(_text(LEFT + INNER / 2, HEIGHT - 8, x_title))
    for at, (name, points) in enumerate(series.items()):
        path = " ".join(f"{LEFT + x / most * INNER:.1f},{_y(y, 0.0, 1.0):.1f}" for x, y in points)
        last = f"{points[-1][1]:.4f} at {points[-1][0]:,g}" if points else "nothing"
        parts.append(
            f'<polyline class="line s{at % SERIES}" points="{path}">'
            f"<title>{escape(name)}: {last}</title></polyline>"
        )
        if len(points) <= _MOST_POINTS:
            parts += [
                f'<circle class="s{at % SERIES}" cx="{LEFT + x / most * INNER:.1f}" '
                f'cy="{_y(y, 0.0, 1.0):.1f}" r="4"><title>{escape(name)}: {y:.4f} at {x:,g}'
                "</title></circle>"
                for x, y in points
            ]
    return _svg(parts, label)


def differences(values: Sequence[float], names: Sequence[str], *, label: str) -> str:
    """One bar a query, the greatest gain first and the greatest loss last, around a zero line."""
    order = sorted(range(len(values)), key=lambda at: (-values[at], names[at]))
    reach = max((abs(value) for value in values), default=0.0) or 1.0
    parts = _frame(-reach, reach)
    zero = _y(0.0, -reach, reach)
    width = INNER / max(len(values), 1)
    if len(values) > _MOST_BARS:
        steps = "".join(f"V{_y(values[at], -reach, reach):.1f}h{width:.3f}" for at in order)
        shape = f"M{LEFT} {zero:.1f}{steps}V{zero:.1f}Z"
        parts.append(f'<path class="gain" d="{shape}"/>')
    else:
        for place, at in enumerate(order):
            value = values[at]
            top = _y(max(value, 0.0), -reach, reach)
            bottom = _y(min(value, 0.0), -reach, reach)
            kind = "gain" if value >= 0 else "loss"
            parts.append(
                f'<rect class="{kind}" x="{LEFT + place * width:.2f}" y="{top:.1f}" '
                f'width="{max(width * 0.9, 0.4):.2f}" height="{max(bottom - top, 0.5):.1f}">'
                f"<title>{escape(names[at])}: {value:+.4f}</title></rect>"
            )
    parts.append(f'<path class="axis" d="M{LEFT} {zero:.1f}h{INNER}"/>')
    parts.append(_text(LEFT + INNER / 2, HEIGHT - 8, f"{len(values):,} queries, by difference"))
    return _svg(parts, label)


def _frame(low: float, high: float) -> list[str]:
    """Horizontal lines with their values."""
    parts = []
    for step in range(5):
        value = low + (high - low) * step / 4
        y = _y(value, low, high)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{INNER}"/>')
        place = f'x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end"'
        parts.append(f'<text class="tick" {place}>{value:.2f}</text>')
    return parts


def _y(value: float, low: float, high: float) -> float:
    return FLOOR - (value - low) / (high - low) * (FLOOR - TOP)


def _ticks(most: float) -> list[float]:
    return [most * step / 4 for step in range(5)]


def _text(x: float, y: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def _svg(parts: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
