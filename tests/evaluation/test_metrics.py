"""Metrics on rankings that can be worked out by hand."""

from __future__ import annotations

from math import log2

import pytest

from support.rows import each_row
from triptych.errors import ValidationError
from triptych_evaluation import (
    average_precision,
    in_trec_order,
    metric_names,
    ndcg_at,
    precision_at,
    recall_at,
    reciprocal_rank,
    score_ranking,
    score_run,
    success_at,
)

RANKING = ["x", "b", "a", "y"]
GRADES = {"a": 3, "b": 1, "c": 2, "x": 0, "y": -1}


def test_by_hand() -> None:
    assert recall_at(2, RANKING, GRADES) == pytest.approx(1 / 3)
    assert recall_at(3, RANKING, GRADES) == pytest.approx(2 / 3)
    assert precision_at(2, RANKING, GRADES) == 0.5
    assert precision_at(10, RANKING, GRADES) == 0.2
    assert success_at(1, RANKING, GRADES) == 0
    assert success_at(2, RANKING, GRADES) == 1
    assert reciprocal_rank(RANKING, GRADES) == 0.5
    assert average_precision(RANKING, GRADES) == pytest.approx((1 / 2 + 2 / 3) / 3)


def test_the_two_gains_by_hand() -> None:
    linear = (1 / log2(3) + 3 / log2(4)) / (3 + 2 / log2(3) + 1 / log2(4))
    exponential = (1 / log2(3) + 7 / log2(4)) / (7 + 3 / log2(3) + 1 / log2(4))
    assert ndcg_at(10, RANKING, GRADES) == pytest.approx(linear)
    assert ndcg_at(10, RANKING, GRADES, gain="exponential") == pytest.approx(exponential)
    assert ndcg_at(1, ["a"], GRADES) == 1


def test_a_least_grade_decides_what_is_relevant_and_leaves_ndcg_alone() -> None:
    strict = score_ranking(RANKING, GRADES, cutoffs=(3,), least_grade=2)
    assert strict["recall@3"] == 0.5
    assert strict["mrr"] == pytest.approx(1 / 3)
    assert strict["ndcg@3"] == score_ranking(RANKING, GRADES, cutoffs=(3,))["ndcg@3"]


@pytest.mark.parametrize("grades", [{}, {"a": 0}, {"a": -1}])
def test_without_anything_relevant_all_is_zero(grades: dict[str, int]) -> None:
    assert set(score_ranking(RANKING, grades).values()) == {0.0}


def test_what_comes_twice_or_has_no_id_takes_its_place_and_earns_nothing() -> None:
    scores = score_ranking(["a", "a", "", "b"], {"a": 1, "b": 1, "": 1}, cutoffs=(2, 4))
    assert scores["recall@2"] == 0.5
    assert scores["precision@4"] == 0.5
    assert scores["map"] == pytest.approx((1 + 2 / 4) / 2)
    assert scores["ndcg@4"] == pytest.approx((1 + 1 / log2(5)) / (1 + 1 / log2(3)))


def test_ties_come_by_id_descending_in_single_precision() -> None:
    assert in_trec_order({"a": 1.0, "c": 1.0, "b": 2.0, "d": 1.00000001}) == ["b", "d", "c", "a"]
    assert in_trec_order({"b": 1.0000002, "c": 1.0}) == ["b", "c"]
    with pytest.raises(ValidationError, match="not a number"):
        in_trec_order({"a": float("nan")})


def test_names_and_their_order() -> None:
    assert metric_names((3,)) == [
        "ndcg@3",
        "ndcg_exp@3",
        "recall@3",
        "precision@3",
        "success@3",
        "mrr",
        "map",
    ]
    assert list(score_ranking([], {"a": 1}, cutoffs=(3,))) == metric_names((3,))


@each_row("cutoff", [0, -1, 1.5, True])
def test_a_cutoff_is_a_whole_number(cutoff: int) -> None:
    with pytest.raises(ValidationError, match="a cutoff"):
        score_ranking([], {}, cutoffs=(cutoff,))
    with pytest.raises(ValidationError, match="least_grade"):
        score_run({}, {"q": {}}, least_grade=0)


def test_what_no_ndcg_can_mean_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="grade is beyond 1,000"):
        ndcg_at(10, ["a"], {"a": 5000}, gain="exponential")
    with pytest.raises(ValidationError, match="the gain is"):
        ndcg_at(10, ["a"], {"a": 1}, gain="cubic")  # type: ignore[arg-type]  # that is the point
    with pytest.raises(ValidationError, match="k must be a whole number"):
        ndcg_at(0, ["a"], {"a": 1})
    assert ndcg_at(1, ["a"], {"a": 1000}, gain="exponential") == 1.0
