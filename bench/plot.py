"""Draws benchmark results as SVG, readable on light and on dark paper; needs nothing installed.

    python bench/plot.py bench/results/generated-10000.json bench/results/generated-100000.json

One chart a measure, one row a system, one dot a corpus size, on a logarithmic scale. Written to
docs/explanation/performance.svg unless ``--out`` is given.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from harness.table import at, shown

OUT = Path(__file__).parents[1] / "docs" / "explanation" / "performance.svg"

CHARTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Hybrid search, p50", "ms, less is better", ("lanes", "hybrid", "p50")),
    ("Keyword search, p50", "ms, less is better", ("lanes", "keyword", "p50")),
    ("Vector search, p50", "ms, less is better", ("lanes", "vector", "p50")),
    ("Replace one document until found, p50", "ms, less is better", ("replace", "p50")),
    ("Reopen to first answer", "ms, less is better", ("reopen", "open_to_first_answer_ms")),
    ("Peak memory of ingest", "MB, less is better", ("memory", "ingest_peak_mb")),
    ("Disk", "MB, less is better", ("disk_mb",)),
    ("Ingest until searchable", "chunks/s, more is better", ("ingest", "chunks_per_second")),
)

# The text takes the reader's scheme; the marks' tones stand out on white and on black.
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328; }
  .title { font-weight: 600; font-size: 15px; }
  .note { font-size: 12px; fill: #59636e; }
  .own { font-weight: 600; }
  .grid { stroke: #8c959f; stroke-opacity: 0.35; stroke-width: 1; }
  .mark { stroke: #77818c; fill: #77818c; stroke-width: 2; }
  .mark.own { stroke: #2f81d6; fill: #2f81d6; }
  .mark.hollow { fill: none; }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc; }
    .note { fill: #b7bdc8; }
  }
"""
WIDTH, LEFT, RIGHT = 820, 120, 150
ROW, TITLE, TICKS, BETWEEN = 19, 26, 20, 26

Document = dict[str, Any]


def _text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(said)}</text>'


def _chart(
    documents: Sequence[Document], title: str, unit: str, path: Sequence[str], top: float
) -> tuple[list[str], float]:
    """The shapes of one chart that starts at ``top``, and where it ends; none without a value."""
    names = dict.fromkeys(name for one in documents for name in one["systems"])
    rows = {name: [at(one["systems"].get(name, {}), path) for one in documents] for name in names}
    rows = {name: row for name, row in rows.items() if any(row)}
    values = [value for row in rows.values() for value in row if value]
    if not values:
        return [], top
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)) + 1e-9)
    scale = (WIDTH - LEFT - RIGHT) / max(1, high - low)

    def across(value: float) -> float:
        return LEFT + scale * (math.log10(value) - low)

    first, bottom = top + TITLE, top + TITLE + ROW * len(rows)
    shapes = [_text(0, top + 12, title, "title"), _text(WIDTH, top + 12, unit, "note", "end")]
    for power in range(low, max(high, low + 1) + 1):
        x = across(10.0**power)
        shapes.append(f'<path class="grid" d="M{x:.1f} {first:g}V{bottom:g}"/>')
        shapes.append(
            _text(
                round(x, 1),
                bottom + 14,
                f"{10.0**power:,.0f}" if power >= 0 else f"{10.0**power:g}",
                "note",
                "middle",
            )
        )
    for number, (name, row) in enumerate(rows.items()):
        own = " own" if name.startswith("triptych") else ""
        y = first + ROW * (number + 0.5)
        shapes.append(_text(LEFT - 12, y + 4, name, own.strip(), "end"))
        shapes += _marks([(value, across(value)) for value in row if value], y, own)
        said = " → ".join(shown(value) for value in row)
        shapes.append(_text(WIDTH, y + 4, said, "note", "end"))
    return shapes, bottom + TICKS + BETWEEN


def _marks(values: Sequence[tuple[float, float]], y: float, own: str) -> list[str]:
    """A line from the smallest corpus to the largest; rings, and a filled dot for the largest."""
    shapes = []
    ends = [x for _, x in values]
    if max(ends) > min(ends):
        shapes.append(f'<path class="mark{own}" d="M{min(ends):.1f} {y:g}H{max(ends):.1f}"/>')
    for number, (_, x) in enumerate(values):
        kind = "" if number == len(values) - 1 else " hollow"
        shapes.append(f'<circle class="mark{own}{kind}" cx="{x:.1f}" cy="{y:g}" r="5"/>')
    return shapes


def draw(documents: Sequence[Document]) -> str:
    """All charts below one another, as one SVG document."""
    documents = sorted(documents, key=lambda one: one["corpus"]["chunks"])
    sizes = " → ".join(f"{one['corpus']['chunks']:,}" for one in documents)
    machine = documents[-1]["machine"]
    said = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB"
    shapes = [
        _text(0, 16, f"{sizes} chunks; the filled dot is the largest. Logarithmic scales.", "note"),
        _text(0, 34, f"{said}. Vectors are given: embedding is not counted.", "note"),
    ]
    top = 62.0
    for title, unit, path in CHARTS:
        drawn, top = _chart(documents, title, unit, path, top)
        shapes += drawn
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -4 {WIDTH + 16} {top:g}" role="img" '
        f'aria-label="Triptych beside other libraries">\n<style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, nargs="+", help="JSON files of one machine")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    documents = [json.loads(path.read_text()) for path in options.results]
    options.out.write_text(draw(documents))
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
