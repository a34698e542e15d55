"""Z-score fusion: the formula, what it says of lanes with few or equal scores, and its depth."""

import math
from collections.abc import Sequence
from statistics import pstdev

import attrs
import pytest
from hypothesis import assume, given, strategies as st

from support.ranking import QUERY, fuse_lanes
from support.rows import each_row
from triptych import RRFRanker, ValidationError
from triptych.records import Candidate, Mode, RankedList, ResolvedQuery
from triptych.search import SearchEngine, WeightedRanker, ZScoreRanker
from triptych.search.fusion import depth_of, standard_scores

scores = st.lists(st.integers(-1_000, 1_000).map(lambda n: n / 10), min_size=1, max_size=60)


def candidate(name: str, score: float) -> Candidate:
    return Candidate(dataset_id="d", doc_name=name, index=0, key=name, score=score)


def lane(values: Sequence[float], first: int = 0) -> list[Candidate]:
    ordered = sorted(values, reverse=True)
    return [candidate(f"{first + at:03}", score) for at, score in enumerate(ordered)]


lanes = st.dictionaries(
    st.sampled_from(["bm25", "vector", "other"]),
    st.builds(lane, scores, st.integers(0, 40)),
    min_size=1,
    max_size=3,
)


def test_a_score_counts_deviations_above_the_last_of_its_list() -> None:
    fused = fuse_lanes(
        ZScoreRanker(dense_lanes=["bm25", "vector"]),
        {
            "bm25": [candidate("a", 7.0), candidate("b", 4.0), candidate("c", 1.0)],
            "vector": [candidate("d", 0.9), candidate("b", 0.8), candidate("a", 0.4)],
        },
    )
    of_bm25, of_vector = pstdev([7, 4, 1]), pstdev([0.9, 0.8, 0.4])
    assert {c.doc_name: c.score for c in fused} == {
        "a": pytest.approx(6 / of_bm25 / 2, abs=1e-9),
        "b": pytest.approx((3 / of_bm25 + 0.4 / of_vector) / 2, abs=1e-9),
        "c": 0.0,
        "d": pytest.approx(0.5 / of_vector / 2, abs=1e-9),
    }
    assert [c.doc_name for c in fused] == ["b", "a", "d", "c"]
    assert fused[0].scores == {"bm25": 4.0, "vector": 0.8}


def test_lanes_and_variants_weigh_as_they_are_given() -> None:
    lists = [
        RankedList(lane="bm25", candidates=[candidate("a", 2.0), candidate("b", 1.0)], weight=0.5),
        RankedList(lane="vector", candidates=[candidate("c", 0.7), candidate("d", 0.1)]),
    ]
    fused = ZScoreRanker(weights={"vector": 2.0}, dense_lanes=["bm25", "vector"]).rank(QUERY, lists)
    # Two scores are two deviations apart; the weights are 0.5 and 2 of 2.5.
    assert {c.doc_name: c.score for c in fused} == pytest.approx(
        {"c": 1.6, "a": 0.4, "b": 0.0, "d": 0.0}
    )


def test_a_lane_that_stands_out_decides_and_one_without_contrast_does_not() -> None:
    """One keyword hit far above all others wins over a vector lane that is sure of nothing."""
    keyword = [candidate("rare", 30.0), *lane([3 - at / 100 for at in range(40)], 100)]
    vector = lane([0.5 - at / 100 for at in range(40)])
    assert fuse_lanes(ZScoreRanker(), {"bm25": keyword, "vector": vector})[0].doc_name == "rare"


def test_texts_without_a_word_of_the_query_count_as_zeros() -> None:
    vector = lane([0.5 - at / 1000 for at in range(50)], 100)
    alone = fuse_lanes(ZScoreRanker(), {"bm25": [candidate("rare", 9.0)], "vector": vector})
    assert (alone[0].doc_name, alone[0].score) == (
        "rare",
        pytest.approx(9 / pstdev([9.0, *[0.0] * 49]) / 2),
    )
    # The more hold the word, the less it says.
    many = fuse_lanes(ZScoreRanker(), {"bm25": lane([9.0] * 20), "vector": vector})
    assert many[0].doc_name == "100"
    # As many as were asked for: what else there is, is not known.
    full = [candidate(f"{at:03}", 9.0 - at / 10) for at in range(50)]
    ranked = fuse_lanes(ZScoreRanker(), {"bm25": full, "vector": []})
    assert ranked[-1].score == 0.0


@given(scores)
def test_of_a_word_lane_alone_the_order_stays(values: list[float]) -> None:
    found = lane([abs(value) for value in values])
    fused = fuse_lanes(ZScoreRanker(), {"bm25": found, "vector": []})
    ranked = {c.doc_name: c.score for c in fused}
    assert [ranked[c.doc_name] for c in found] == sorted(ranked.values(), reverse=True)
    assert min(ranked.values()) >= 0.0


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_list_of_equal_scores_gives_each_its_weight(count: int) -> None:
    fused = fuse_lanes(ZScoreRanker(), {"vector": lane([0.1 + 0.2] * count), "bm25": []})
    assert [c.score for c in fused] == [0.5] * count
    noise = [0.3, 0.1 + 0.2]  # equal, but for rounding
    assert standard_scores(noise) == [1.0, 1.0]
    assert standard_scores([0.0, -0.0]) == [1.0, 1.0]
    assert standard_scores([]) == []


def test_lists_without_candidates_give_none() -> None:
    assert list(fuse_lanes(ZScoreRanker(), {"bm25": [], "vector": []})) == []
    assert list(ZScoreRanker().rank(QUERY, [])) == []


@given(values=scores, factor=st.integers(-8, 8), shift=st.integers(-100, 100))
def test_a_lanes_scale_and_zero_do_not_matter(values: list[float], factor: int, shift: int) -> None:
    scale = 2.0**factor
    moved = [value * scale + shift for value in values]
    assert standard_scores(moved) == pytest.approx(standard_scores(values), abs=1e-6)


@given(values=scores, weight=st.integers(0, 40).map(lambda n: n / 10))
def test_shares_keep_the_order_from_0_up_and_are_as_deviant_as_their_weight(
    values: list[float], weight: float
) -> None:
    shares = standard_scores(values, weight)
    for one, share in zip(values, shares, strict=True):
        for other, its in zip(values, shares, strict=True):
            assert (one > other) <= (share >= its)
    if len(set(values)) > 1:
        assert min(shares) == 0
        assert pstdev(shares) == pytest.approx(weight, abs=1e-9)
    else:
        assert shares == [weight] * len(values)


@given(found=lanes)
def test_fusion_is_complete_finite_in_order_and_blind_to_the_order_of_lanes(
    found: dict[str, list[Candidate]],
) -> None:
    before = {name: [attrs.evolve(c) for c in each] for name, each in found.items()}
    fused = fuse_lanes(ZScoreRanker(), found)
    assert found == before
    assert sorted(c.key for c in fused) == sorted({c.key for each in found.values() for c in each})
    assert all(math.isfinite(c.score) and c.score >= 0 for c in fused)
    assert fused == sorted(fused, key=lambda c: (-c.score, c.doc_name, c.index, c.dataset_id))
    for c in fused:
        assert c.scores == {
            name: other.score
            for name, each in found.items()
            for other in each
            if other.key == c.key
        }
    backwards = fuse_lanes(ZScoreRanker(), dict(reversed(found.items())))
    assert {c.key: pytest.approx(c.score, abs=2e-9) for c in backwards} == {
        c.key: c.score for c in fused
    }


@given(found=lanes)
def test_the_best_of_every_lane_is_first(found: dict[str, list[Candidate]]) -> None:
    best = candidate("best", 200.0)
    fused = fuse_lanes(ZScoreRanker(), {name: [best, *each] for name, each in found.items()})
    assert fused[0].doc_name == "best"


@given(values=scores)
def test_one_list_keeps_its_order(values: list[float]) -> None:
    found = lane(values)
    fused = fuse_lanes(ZScoreRanker(), {"bm25": found})
    assert [c.doc_name for c in fused] == [c.doc_name for c in found]


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_any_finite_scores_give_finite_ones(values: list[float]) -> None:
    shares = standard_scores(values)
    assert all(0 <= share <= math.sqrt(2 * len(values)) + 1 for share in shares)


@given(values=scores, more=scores)
def test_a_list_that_goes_deeper_keeps_its_scale(values: list[float], more: list[float]) -> None:
    """Pages of one search reach to different depths: differences of shares stay what they were."""
    assume(len(set(values)) > 1)
    deeper = sorted(values, reverse=True) + [min(values) - 1 - abs(each) for each in more]
    shares = standard_scores(sorted(values, reverse=True))
    further = standard_scores(deeper, first=len(values))
    moved = [one - other for one, other in zip(further, shares, strict=False)]
    assert moved == pytest.approx([moved[0]] * len(values), abs=1e-6)


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
def test_a_score_that_is_no_number_is_refused_by_its_lane(score: float) -> None:
    with pytest.raises(ValidationError, match="the other lane gave a score that is not a finite"):
        fuse_lanes(ZScoreRanker(), {"other": [candidate("b", 1.0), candidate("a", score)]})


def test_bad_options_are_refused() -> None:
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValidationError, match="lane 'vector'"):
            ZScoreRanker(weights={"vector": weight})
    for depth in (1, 0, -5, 2.5, True):
        with pytest.raises(ValidationError, match="from 2 up"):
            ZScoreRanker(depth=depth)  # type: ignore[arg-type]  # on purpose


class Recorder:
    """A lane that notes how deep it is asked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.limits: list[int] = []

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        self.limits.append(query.limit)
        return [candidate("a", 1.0)]


@each_row(
    ("ranker", "mode", "expected"),
    [
        (ZScoreRanker(), Mode.HYBRID, 50),
        (None, Mode.HYBRID, 50),
        (ZScoreRanker(depth=200), Mode.HYBRID, 200),
        (RRFRanker(), Mode.HYBRID, 30),
        (WeightedRanker(), Mode.HYBRID, 30),
        (ZScoreRanker(), Mode.BM25, 30),
    ],
)
def test_the_ranker_says_how_deep_fused_lanes_reach(
    ranker: ZScoreRanker | None, mode: Mode, expected: int
) -> None:
    recorder = Recorder("bm25")
    engine = SearchEngine(chunk=[recorder], ranker=ranker)
    query = attrs.evolve(QUERY, mode=mode)
    engine.retrieve("chunk", [query])
    # Where every text is read to check it, no lane goes deeper than it must.
    engine.retrieve("chunk", [query], keep=lambda found: range(len(found)))
    engine.close()
    assert recorder.limits[0] == expected
    assert recorder.limits[-1] == 30


def test_a_depth_is_at_least_twice_what_is_asked_for() -> None:
    assert not hasattr(RRFRanker(), "depth")
    assert [depth_of(ZScoreRanker(depth=50), top_k) for top_k in (1, 10, 25, 26, 400)] == [
        *[50] * 3,
        52,
        800,
    ]
    assert [depth_of(RRFRanker(), top_k) for top_k in (1, 15, 16)] == [30, 30, 32]
