"""Numbers in the pages are those of the code."""

from __future__ import annotations

from pathlib import Path

from triptych.search.query import over_fetch

DOCS = Path(__file__).parents[2] / "docs"


def test_how_deep_lanes_reach() -> None:
    stated = f"Each lane reaches `max({over_fetch(1)}, 2 * top_k)` deep."
    assert stated in (DOCS / "concepts.md").read_text(encoding="utf-8")
    assert over_fetch(10_000) == 20_000
