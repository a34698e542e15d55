"""The ways to fuse that bench/fusion.py compares are those that the library has."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from support.ranking import fuse_lanes
from triptych import RRFRanker
from triptych.contracts import Ranker
from triptych.records import Candidate
from triptych.search import WeightedRanker, ZScoreRanker

# The script is not an installed package: it is imported from where it stands.
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
ways = import_module("fusion")

found = st.lists(st.integers(0, 60), min_size=1, max_size=40, unique=True).flatmap(
    lambda names: st.lists(
        st.integers(1, 999), min_size=len(names), max_size=len(names), unique=True
    ).map(lambda scores: list(zip(names, sorted(scores, reverse=True), strict=True)))
)


@pytest.mark.parametrize(
    ("way", "ranker"),
    [
        ("rrf k=60 @100", RRFRanker()),
        ("min-max @100", WeightedRanker()),
        ("z-score @100", ZScoreRanker(depth=100)),
    ],
)
@given(lanes=st.fixed_dictionaries({"bm25": found, "vector": found}))
def test_they_rank_as_the_library_does(
    way: str, ranker: Ranker, lanes: Mapping[str, Sequence[tuple[int, int]]]
) -> None:
    shares, depth = ways.WAYS[way]
    asked = ways.Asked(
        grades={},
        found={
            lane: ([f"{name:02}\t0" for name, _ in each], np.array([float(s) for _, s in each]))
            for lane, each in lanes.items()
        },
    )
    theirs = fuse_lanes(
        ranker,
        {
            lane: [
                Candidate(dataset_id="d", doc_name=f"{name:02}", index=0, key=name, score=float(s))
                for name, s in each
            ]
            for lane, each in lanes.items()
        },
    )
    ours = {unit: at for at, unit in enumerate(ways.fused(asked, shares, depth))}
    # Totals that are equal but for rounding may come in either order.
    for one, other in pairwise(theirs):
        if one.score - other.score > 1e-8:
            assert ours[f"{one.doc_name}\t0"] < ours[f"{other.doc_name}\t0"]


def test_a_ranking_is_worth_its_documents_by_their_best_chunk() -> None:
    asked = ways.Asked(grades={"b": 1}, found={})
    assert ways.gain(asked, ["a\t0", "a\t1", "b\t3"]) == pytest.approx(1 / np.log2(3))
