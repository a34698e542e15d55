"""What `Output` prints on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from support.rows import each_row
from triptych_adapters.cli.output import Output


@each_row(
    ("columns", "row"),
    [
        (
            ("metric", "modes", "A", "B", "B - A", "low", "high", "p", "p (Holm)", "+", "-"),
            (
                "precision@10",
                "vector",
                *["0.1000"] * 2,
                *["+0.0000"] * 3,
                *["1.0000"] * 2,
                "12",
                "10",
            ),
        ),
        (
            ("id", "name", "state", "allows", "expires"),
            (
                *("f02adc01fdf9", "another-name-of-a-key", "valid"),
                'reads default where {"lang": "en", "year": {"$gte": 2020}}, 60 requests a minute',
                "2026-12-26T08:04:43+00:00",
            ),
        ),
        (
            ("dataset", "embedder", "serves", "vectors", "documents without"),
            ("default", "hash-bag-of-words/not-semantic/v1/256", "yes", 2, 0),
        ),
        (("name", "n"), (f"{'deep/' * 20}a.md", 1)),
    ],
)
def test_a_table_of_eighty_columns_breaks_no_word(
    columns: tuple[str, ...], row: tuple[object, ...]
) -> None:
    screen = io.StringIO()
    output = Output(command="test")
    console = Console(file=screen, force_terminal=True, color_system=None, width=80)
    object.__setattr__(output, "stdout", console)
    output.table(columns, [row])
    lines = screen.getvalue().splitlines()
    assert {word for each in row for word in str(each).split()} <= set(screen.getvalue().split())
    assert all(len(line) <= 80 or "deep/" in line for line in lines), lines
