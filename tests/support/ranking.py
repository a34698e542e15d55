"""Rankers asked with lanes by name: a list for each, of one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from triptych.contracts import Ranker
from triptych.records import Candidate, Layer, Mode, RankedList, ResolvedQuery

QUERY = ResolvedQuery(
    text="any", dataset_ids=("d",), mode=Mode.HYBRID, layer=Layer.DETAIL, top_k=10, limit=30
)


def fuse_lanes(ranker: Ranker, lanes: Mapping[str, Sequence[Candidate]]) -> Sequence[Candidate]:
    """Return what ``ranker`` makes of ``lanes``."""
    lists = [RankedList(lane=lane, candidates=found) for lane, found in lanes.items()]
    return ranker.rank(QUERY, lists)
