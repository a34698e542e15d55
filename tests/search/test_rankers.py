"""Fusion is pure, defined at every tie, and what the formulas say."""

import attrs
import pytest
from hypothesis import given, strategies as st

from support.ranking import fuse_lanes
from triptych import RRFRanker, ValidationError
from triptych.records import Candidate
from triptych.search import WeightedRanker


def candidate(name: str, score: float, index: int = 0, dataset: str = "d") -> Candidate:
    return Candidate(dataset_id=dataset, doc_name=name, index=index, key=(name, index), score=score)


lanes = st.dictionaries(
    st.sampled_from(["bm25", "vector", "other"]),
    st.lists(
        st.builds(
            candidate,
            st.sampled_from("abcdefgh"),
            st.floats(-1, 30, allow_nan=False),
            st.integers(0, 3),
        ),
        unique_by=lambda c: c.key,
        max_size=12,
    ).map(lambda cs: sorted(cs, key=lambda c: -c.score)),
    max_size=3,
)


def test_rrf_sums_reciprocal_ranks() -> None:
    fused = fuse_lanes(
        RRFRanker(k=60),
        {"bm25": [candidate("a", 9.0), candidate("b", 8.0)], "vector": [candidate("b", 0.9)]},
    )
    assert [c.doc_name for c in fused] == ["b", "a"]
    assert fused[0].score == pytest.approx(1 / 62 + 1 / 61, abs=1e-9)
    assert fused[1].score == pytest.approx(1 / 61, abs=1e-9)
    assert fused[0].scores == {"bm25": 8.0, "vector": 0.9}
    assert fused[1].scores == {"bm25": 9.0}


def test_a_list_counts_a_candidate_once_at_its_best_rank() -> None:
    twice = [candidate("a", 9.0), candidate("a", 8.0), candidate("b", 7.0), candidate("b", 6.0)]
    fused = fuse_lanes(RRFRanker(k=60), {"vector": [candidate("b", 0.9)], "bm25": twice})
    assert [c.doc_name for c in fused] == ["b", "a"]
    assert fused[0].score == pytest.approx(1 / 61 + 1 / 63, abs=1e-9)
    assert fused[1].score == pytest.approx(1 / 61, abs=1e-9)
    assert [c.scores for c in fused] == [{"vector": 0.9, "bm25": 7.0}, {"bm25": 9.0}]


def test_min_max_weighs_normalised_scores() -> None:
    fused = fuse_lanes(
        WeightedRanker(weights={"bm25": 3.0, "vector": 1.0}),
        {
            "bm25": [candidate("a", 10.0), candidate("b", 5.0), candidate("c", 0.0)],
            "vector": [candidate("c", 0.8), candidate("b", 0.4)],
        },
    )
    assert [(c.doc_name, c.score) for c in fused] == [("a", 0.75), ("b", 0.375), ("c", 0.25)]


def test_a_lane_of_equal_scores_gives_each_its_whole_weight() -> None:
    fused = fuse_lanes(WeightedRanker(), {"bm25": [candidate("b", 2.0), candidate("a", 2.0)]})
    assert [(c.doc_name, c.score) for c in fused] == [("a", 1.0), ("b", 1.0)]


def test_ties_break_by_name_then_index_then_dataset() -> None:
    tied = [
        candidate("b", 1.0),
        candidate("a", 1.0, index=2),
        candidate("a", 1.0, index=1, dataset="z"),
        candidate("a", 1.0, index=1, dataset="d"),
    ]
    fused = fuse_lanes(WeightedRanker(), {"bm25": tied})
    assert [(c.doc_name, c.index, c.dataset_id) for c in fused] == [
        ("a", 1, "d"),
        ("a", 1, "z"),
        ("a", 2, "d"),
        ("b", 0, "d"),
    ]


@pytest.mark.parametrize("ranker", [RRFRanker(), WeightedRanker(weights={"bm25": 0.3})])
@given(lanes=lanes)
def test_fusion_is_pure_complete_and_blind_to_the_order_of_lanes(
    ranker: RRFRanker | WeightedRanker, lanes: dict[str, list[Candidate]]
) -> None:
    before = {lane: [attrs.evolve(c) for c in candidates] for lane, candidates in lanes.items()}
    fused = fuse_lanes(ranker, lanes)
    assert lanes == before
    assert {c.key for c in fused} == {c.key for cs in lanes.values() for c in cs}
    assert len({c.key for c in fused}) == len(fused)
    assert fused == sorted(fused, key=lambda c: (-c.score, c.doc_name, c.index, c.dataset_id))
    for c in fused:
        assert c.scores == {
            lane: other.score
            for lane, candidates in lanes.items()
            for other in candidates
            if other.key == c.key
        }
    backwards = fuse_lanes(ranker, dict(reversed(lanes.items())))
    assert {c.key: pytest.approx(c.score, abs=2e-9) for c in backwards} == {
        c.key: c.score for c in fused
    }


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValidationError, match="rank fusion is a finite number from 0 up"):
        RRFRanker(k=-1)
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValidationError, match="lane 'vector'"):
            WeightedRanker(weights={"vector": weight})


def test_rrf_weighs_lanes() -> None:
    lanes = {"bm25": [candidate("a", 9.0)], "vector": [candidate("b", 0.9)]}
    fused = fuse_lanes(RRFRanker(k=60, weights={"vector": 2.0}), lanes)
    assert [(c.doc_name, c.score) for c in fused] == [
        ("b", pytest.approx(2 / 61, abs=1e-9)),
        ("a", pytest.approx(1 / 61, abs=1e-9)),
    ]
    with pytest.raises(ValidationError, match="lane 'vector'"):
        RRFRanker(weights={"vector": -1.0})
