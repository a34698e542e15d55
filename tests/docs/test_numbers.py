"""Numbers in the pages are those of the code."""

from __future__ import annotations

from pathlib import Path

from triptych import ZScoreRanker
from triptych.search.fusion import depth_of
from triptych.search.query import over_fetch

DOCS = Path(__file__).parents[2] / "docs"


def test_how_deep_lanes_reach() -> None:
    concepts = " ".join((DOCS / "concepts.md").read_text(encoding="utf-8").split())
    depth = depth_of(ZScoreRanker(), 1)
    assert f"Each lane reaches `max({depth}, 2 * top_k)` deep" in concepts
    steps = (DOCS / "how-to/search-steps.md").read_text(encoding="utf-8")
    assert f"Each lane brings `max({over_fetch(1)}, 2 * top_k)` candidates." in steps
    assert over_fetch(10_000) == 20_000
