"""Why a search shows a document, or does not: what `Service.explain` answers."""

from __future__ import annotations

from typing import Literal

import attrs

from triptych.records.values import NO_CHUNK, StaleReason

ObstacleKind = Literal[
    "expired",
    "not_indexed",
    "stale",
    "no_vectors",
    "filter",
    "condition",
    "not_fresh",
    "min_score",
    "not_found",
    "rank",
    "threshold",
    "step",
    "top_k",
]
"""What keeps a document out of a result, in the order in which a search comes to it."""


@attrs.frozen(kw_only=True, slots=True)
class LaneRank:
    """How one lane sees a document: by the best of its passages.

    Attributes:
        lane: its name.
        rank: the passage's place among all that the lane finds, from 1. None where the lane does
            not find the document, or not among its first 1,000.
        score: the passage's in the lane; None where the lane does not find the document.
        chunk_index: which passage that is; `NO_CHUNK` for layers and whole documents.
        brings: how many passages the lane brought to the ranking.
        last: the score of the last of these, which a passage needs to be among them.
    """

    lane: str
    rank: int | None = None
    score: float | None = None
    chunk_index: int = NO_CHUNK
    brings: int = 0
    last: float | None = None


@attrs.frozen(kw_only=True, slots=True)
class Obstacle:
    """One thing that keeps a document out of a result, and what to do about it."""

    kind: ObstacleKind
    message: str


@attrs.frozen(kw_only=True, slots=True)
class Explanation:
    """Where a document stands in a search, and why.

    Attributes:
        dataset_id: the dataset that holds it.
        doc_name: its name.
        rank: its place among the hits, from 1, with those that ``offset`` skips; None where it is
            not shown.
        score: that of the hit where it is shown, else the fused score of its best passage; None
            where it is not in the ranking.
        fused_rank: that passage's place in the ranking, from 1, before the threshold and the steps.
        needed: the score of the last hit that is shown.
        lanes: how each lane that ran sees it.
        matched: the words of the query that it holds, as they were typed; of scripts without spaces
            their terms.
        lacking: those that it does not hold.
        stale: why what is searched of it may no longer be true; None: it is fresh.
        obstacles: what keeps it out; none where it is shown.
        warnings: those of the search.
    """

    dataset_id: str
    doc_name: str
    rank: int | None = None
    score: float | None = None
    fused_rank: int | None = None
    needed: float | None = None
    lanes: tuple[LaneRank, ...] = ()
    matched: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    stale: StaleReason | None = None
    obstacles: tuple[Obstacle, ...] = ()
    warnings: tuple[str, ...] = ()
