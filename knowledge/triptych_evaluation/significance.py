"""Bootstrap intervals of means and a paired randomisation test.

Both are seeded: the same values give the same result. They treat the queries as a random sample of
all possible ones, and do not apply to other collections.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.errors import ValidationError

RESAMPLES = 1_000
PERMUTATIONS = 10_000
FEWEST_QUERIES = 50
"""With fewer queries a warning says that differences are hardly significant."""

_K = TypeVar("_K", bound=Hashable)

_CELLS = 4_000_000  # random draws held at once: 32 MB


@attrs.frozen(kw_only=True, slots=True)
class Estimate:
    """A mean over queries with its 95% interval."""

    mean: float
    low: float
    high: float


def bootstrap(
    values: Mapping[_K, Sequence[float]], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[_K, Estimate]:
    """Return the mean of each row of values with its 95% percentile bootstrap interval.

    Every row has one value for each query, in the same order; a resample draws as many queries with
    replacement, the same for every row. The interval spans the 2.5th to the 97.5th percentile of
    the resamples' means.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, §13.3; for retrieval
    Sakai (2006), SIGIR.

    Raises:
        ValidationError: the rows differ in length, or are empty.
    """
    if not values:
        return {}
    table = _table(values)
    queries = table.shape[1]
    means = np.empty((resamples, len(table)))
    random = np.random.default_rng(seed)
    for rows in _blocks(resamples, queries):
        drawn = random.integers(0, queries, size=(rows.stop - rows.start, queries))
        offsets = np.arange(len(drawn))[:, None] * queries
        counts = np.bincount((drawn + offsets).ravel(), minlength=drawn.size)
        means[rows] = counts.reshape(drawn.shape) @ table.T / queries
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return {
        name: Estimate(
            mean=float(row.mean()),
            # Summing in another order moves a constant row's resamples by a last digit.
            low=min(float(low[at]), float(row.mean())),
            high=max(float(high[at]), float(row.mean())),
        )
        for at, (name, row) in enumerate(zip(values, table, strict=True))
    }


def randomisation_test(
    left: Sequence[float],
    right: Sequence[float],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> float:
    """Return the two-sided p-value of the difference of means of two runs on the same queries.

    Under the null hypothesis each query's two values may be swapped: p is the share of random swaps
    with a difference at least as great as the observed one, with one added to both counts, so that
    it is never 0 (minimum 1 / (permutations + 1)).

    Source: Smucker, Allan and Carterette (2007), CIKM; the added one from Davison and Hinkley
    (1997), Bootstrap Methods and their Application, §4.2.

    Raises:
        ValidationError: the runs differ in length, or are empty.
    """
    table = _table({"left": left, "right": right})
    differences = {"": (table[0] - table[1]).tolist()}
    return randomisation_tests(differences, permutations=permutations, seed=seed)[""]


def randomisation_tests(
    differences: Mapping[_K, Sequence[float]], *, permutations: int = PERMUTATIONS, seed: int = 0
) -> dict[_K, float]:
    """`randomisation_test` for each row of differences by query, all under the same swaps.

    Raises:
        ValidationError: the rows differ in length, or are empty.
    """
    if not differences:
        return {}
    table = _table(differences)
    queries = table.shape[1]
    seen = table.sum(axis=1)
    # Sums of the same numbers in another order differ by rounding, and are ties all the same.
    least = np.abs(seen) - 1e-9 * np.maximum(1.0, np.abs(table).sum(axis=1))
    random = np.random.default_rng(seed)
    extreme = np.zeros(len(table), np.int64)
    for rows in _blocks(permutations, queries):
        kept = random.integers(0, 2, size=(rows.stop - rows.start, queries), dtype=np.int8)
        # Σ ±d = 2 Σ kept·d - Σ d
        swapped = np.abs(2 * (kept.astype(np.float64) @ table.T) - seen)
        extreme += (swapped >= least).sum(axis=0)
    shares = ((extreme + 1) / (permutations + 1)).tolist()
    return dict(zip(differences, shares, strict=True))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being several, in the order given.

    Source: Holm (1979), A simple sequentially rejective multiple test procedure.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=lambda each: p_values[each])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted


def few_queries_warning(queries: int) -> list[str]:
    """What to tell where there are under 50 queries, else nothing."""
    if queries >= FEWEST_QUERIES:
        return []
    number = "1 query is too" if queries == 1 else f"{queries} queries are"
    return [
        f"{number} few: under {FEWEST_QUERIES} an interval is wide and itself "
        "uncertain, and a difference between runs tells a direction at most"
    ]


def _table(values: Mapping[_K, Sequence[float]]) -> NDArray[np.float64]:
    lengths = {len(row) for row in values.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise ValidationError(
            "every row must have one value for each query, and there must be queries; the rows "
            f"have {sorted(lengths)} values"
        )
    table = np.array(list(values.values()), np.float64)
    if not np.isfinite(table).all():
        raise ValidationError("a value is not a finite number")
    return table


def _blocks(rounds: int, width: int) -> Iterator[slice]:
    step = max(1, _CELLS // width)
    for start in range(0, rounds, step):
        yield slice(start, min(start + step, rounds))
