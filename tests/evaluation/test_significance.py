"""Intervals and tests: seeded, checked against what can be counted exactly."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from support.rows import each_row
from triptych.errors import ValidationError
from triptych_evaluation import (
    bootstrap,
    holm,
    randomisation_test,
    randomisation_tests,
    significance,
)
from triptych_evaluation.significance import few_queries_warning


def exact_p(left: list[float], right: list[float]) -> float:
    """The share of all swaps with a difference as great: every one of them is tried."""
    difference = np.array(left) - np.array(right)
    sums = [abs(np.dot(signs, difference)) for signs in product((-1, 1), repeat=len(difference))]
    return float(np.mean(np.array(sums) >= abs(difference.sum()) - 1e-12))


@each_row("seed", range(5))
def test_p_is_near_the_share_of_all_swaps(seed: int) -> None:
    random = np.random.default_rng(seed)
    left = random.random(9).round(1).tolist()
    right = (np.array(left) - random.random(9).round(1) * 0.4 + 0.1).tolist()
    assert randomisation_test(left, right) == pytest.approx(exact_p(left, right), abs=0.02)


def test_p_is_symmetric_seeded_and_never_zero() -> None:
    left, right = [1.0] * 60, [0.0] * 60
    assert randomisation_test(left, right) == pytest.approx(1 / 10_001)
    assert randomisation_test(right, left) == randomisation_test(left, right)
    assert randomisation_test(left, left) == 1.0


def test_several_rows_are_tested_as_each_alone() -> None:
    random = np.random.default_rng(2)
    rows = {name: (random.random(30) - 0.4).tolist() for name in "abc"}
    zero = [0.0] * 30
    assert randomisation_tests(rows) == {
        name: randomisation_test(row, zero) for name, row in rows.items()
    }
    assert randomisation_tests({}) == {}


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    left, right = random.random(40), random.random(40)
    whole = randomisation_test(left, right), bootstrap({"a": left})
    monkeypatch.setattr(significance, "_CELLS", 40 * 8)
    assert randomisation_test(left, right) == pytest.approx(whole[0], abs=0.02)
    blocked = bootstrap({"a": left})
    assert blocked["a"].low == pytest.approx(whole[1]["a"].low, abs=1e-12)


def test_an_interval_is_that_of_the_normal_law_where_it_holds() -> None:
    values = np.random.default_rng(3).normal(0.5, 0.2, size=2_000)
    estimate = bootstrap({"a": values})["a"]
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert estimate.mean == pytest.approx(values.mean())
    assert estimate.low == pytest.approx(values.mean() - half, abs=half / 10)
    assert estimate.high == pytest.approx(values.mean() + half, abs=half / 10)


def test_rows_share_their_resamples_and_a_constant_has_no_width() -> None:
    row = np.random.default_rng(4).random(30)
    both = bootstrap({"a": row, "b": row + 1, "c": np.full(30, 0.3)})
    assert both["b"].low - both["a"].low == pytest.approx(1)
    assert both["c"].low == pytest.approx(0.3, abs=1e-12)
    assert both["c"].low <= both["c"].mean <= both["c"].high
    assert bootstrap({"a": row}) == {"a": both["a"]}


def test_what_cannot_be_compared_is_refused() -> None:
    for rows in ({"a": [1.0], "b": [1.0, 2.0]}, {"a": []}, {"a": [float("nan")]}):
        with pytest.raises(ValidationError):
            bootstrap(rows)
    with pytest.raises(ValidationError):
        randomisation_test([1.0], [1.0, 2.0])


def test_few_queries_are_reported() -> None:
    assert few_queries_warning(50) == []
    assert "49 queries are few" in few_queries_warning(49)[0]
    assert few_queries_warning(1)[0].startswith("1 query is too few")


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
