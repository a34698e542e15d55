"""The result of `Service.explain`: why a search finds a document or does not."""

from __future__ import annotations

from typing import Literal

import attrs

from triptych.records.values import NO_CHUNK, StaleReason

ObstacleKind = Literal[
    "expired",
    "not_indexed",
    "no_text",
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
"""What excludes a document from a result, in the order in which a search applies it."""


@attrs.frozen(kw_only=True, slots=True)
class LaneRank:
    """The rank of a document in one lane, given by its best passage there.

    Attributes:
        lane: the name of the lane.
        rank: the rank of the passage in the lane, from 1. None if the lane does not find the
            document among its first 1,000 passages.
        score: the passage's score in the lane; None if the lane does not find the document.
        chunk_index: the index of the passage; `NO_CHUNK` for layers and whole documents.
        brings: the number of passages that the lane contributed to the ranking.
        last: the lowest score of these passages.
    """

    lane: str
    rank: int | None = None
    score: float | None = None
    chunk_index: int = NO_CHUNK
    brings: int = 0
    last: float | None = None


@attrs.frozen(kw_only=True, slots=True)
class Obstacle:
    """One reason why a document is not in a result, and what to do about it."""

    kind: ObstacleKind
    message: str


@attrs.frozen(kw_only=True, slots=True)
class Explanation:
    """The rank of a document in a search, and the reasons for it.

    Attributes:
        dataset_id: the document's dataset.
        doc_name: the document's name.
        rank: its rank among the hits, from 1, counting those that ``offset`` skips; None if it is
            not a hit.
        score: the score of the hit, else the fused score of its best passage; None if it is not in
            the ranking.
        fused_rank: the rank of that passage after fusion, from 1, before threshold and steps.
        needed: the score of the last hit in the result.
        lanes: its rank in each lane that ran.
        matched: the query's words that it contains, as typed; for scripts without spaces, terms.
        lacking: the query's words that it does not contain.
        as_code: what `triptych.search.CodeRanking` counted for its best passage, if that is code.
        stale: why its indexed text may be out of date; None if it is fresh.
        obstacles: why it is not a hit; empty if it is.
        warnings: the warnings of the search.
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
    as_code: tuple[str, ...] = ()
    stale: StaleReason | None = None
    obstacles: tuple[Obstacle, ...] = ()
    warnings: tuple[str, ...] = ()
