"""How ``triptych search --why`` shows where a document stands in a search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from triptych_adapters.cli.output import Output

if TYPE_CHECKING:
    from triptych.records import Explanation


def show_why(output: Output, told: Explanation) -> None:
    """Print an `Explanation`: whether a document is shown, why not, its place in each lane."""
    columns = ("lane", "rank", "score", "brings", "last score")
    rows = [
        (lane.lane, lane.rank or "-", _score(lane.score), lane.brings, _score(lane.last))
        for lane in told.lanes
    ]
    for line in () if output.as_json else _lines(told):
        output.say(line)
    output.show(told, table=(columns, rows))
    output.warn(*told.warnings)


def _score(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"


def _lines(told: Explanation) -> Iterator[str]:
    name = f"{told.dataset_id}/{told.doc_name}"
    if told.rank is not None:
        yield f"{name} is hit #{told.rank}, with score {_score(told.score)}"
    else:
        yield f"{name} is not shown"
    for obstacle in told.obstacles:
        yield f"  {obstacle.kind}: {obstacle.message}"
    if told.rank is None and told.score is not None and told.needed is not None:
        yield f"  score {_score(told.score)}; the last hit has {_score(told.needed)}"
    if told.matched:
        yield f"  it has: {', '.join(told.matched)}"
    if told.lacking:
        yield f"  it lacks: {', '.join(told.lacking)}"
    if told.stale is not None:
        yield f"  stale: {told.stale}"
