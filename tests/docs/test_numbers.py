"""Numbers in the pages are those of the code."""

from __future__ import annotations

import os
from pathlib import Path

import triptych
from triptych import Query
from triptych.aio.threads import THREADS
from triptych.search import ZScoreRanker
from triptych.search.fusion import depth_of

DOCS = Path(__file__).parents[2] / "docs"


def test_how_deep_lanes_reach() -> None:
    concepts = " ".join((DOCS / "concepts.md").read_text(encoding="utf-8").split())
    depth = depth_of(ZScoreRanker(), 1)
    assert f"Each lane reaches `max({depth}, 2 * top_k)` deep" in concepts
    steps = (DOCS / "how-to/search-steps.md").read_text(encoding="utf-8")
    with triptych.open("memory://", embedder="hash") as kb:
        kb.put_document("d", "a", "tea")

        def limit(top_k: int) -> int:
            asked = Query(text="tea", dataset_id="d", top_k=top_k)
            return kb.searches.resolver.resolve(asked).query.limit

        assert f"Each lane brings `max({limit(1)}, 2 * top_k)` candidates." in steps
        assert limit(5_000) == 10_000


def test_how_many_asynchronous_calls_run_at_a_time() -> None:
    page = (DOCS / "how-to/async.md").read_text(encoding="utf-8")
    assert "`min(32, processors + 6)` in a process" in page
    assert min(32, (os.cpu_count() or 1) + 6) == THREADS
