"""`compare`: two evaluations query by query, with a test of each difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from triptych._internal.wording import counted
from triptych.errors import ValidationError
from triptych.evaluation.results import Evaluation
from triptych.evaluation.significance import (
    Estimate,
    bootstrap,
    few_queries_warning,
    holm,
    randomisation_tests,
)

_SAME = 1e-12  # values that differ by less are ties


@attrs.frozen(kw_only=True, slots=True)
class Difference:
    """One metric of two runs: ``values`` are ``b - a`` by query, as in `Comparison.query_ids`.

    ``p`` is the p-value of a paired randomisation test, ``p_holm`` the same adjusted for all
    tests of the comparison. ``estimate`` is the mean difference with its 95% interval.
    """

    metric: str
    mode_a: str
    mode_b: str
    mean_a: float
    mean_b: float
    estimate: Estimate
    p: float
    p_holm: float
    values: Sequence[float]

    @property
    def better(self) -> int:
        """How many queries b answers better."""
        return sum(value > _SAME for value in self.values)

    @property
    def worse(self) -> int:
        """How many queries b answers worse."""
        return sum(value < -_SAME for value in self.values)


@attrs.frozen(kw_only=True, slots=True)
class Comparison:
    """The differences between two evaluations, over the queries that both have.

    ``questions`` has their texts by id, as far as the evaluations have them.
    """

    query_ids: tuple[str, ...]
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...] = ()
    questions: Mapping[str, str] = attrs.field(factory=dict)


def compare(
    a: Evaluation,
    b: Evaluation,
    *,
    metrics: Sequence[str] | None = None,
    modes: Sequence[tuple[str, str]] | None = None,
) -> Comparison:
    """Compare ``b`` with ``a``, query by query.

    ``metrics`` are those that both have unless named; ``modes`` are pairs of a mode of ``a``
    and one of ``b``, by default each mode that both have with itself.

    Raises:
        ValidationError: the two have no queries, no modes or no metrics in common, or one that
            was named is not there.
    """
    pairs = [(mode, mode) for mode in a.modes if mode in b.modes] if modes is None else list(modes)
    common = [metric for metric in a.metrics if metric in b.metrics]
    names = common if metrics is None else list(metrics)
    in_b = {query: at for at, query in enumerate(b.query_ids)}
    queries = [query for query in a.query_ids if query in in_b]
    if not queries or not pairs or not names:
        raise ValidationError(
            f"the evaluations of {a.collection!r} and {b.collection!r} share {len(queries)} "
            f"queries, {len(pairs)} modes and {len(names)} metrics: there is nothing to compare"
        )
    _check([mode for mode, _ in pairs], list(a.modes), "mode")
    _check([mode for _, mode in pairs], list(b.modes), "mode")
    _check(names, common, "metric")
    in_a = {query: at for at, query in enumerate(a.query_ids)}
    rows_a, rows_b = [in_a[query] for query in queries], [in_b[query] for query in queries]
    lefts, rights = {}, {}
    for mode_a, mode_b in pairs:
        for metric in names:
            key = (mode_a, mode_b, metric)
            lefts[key] = np.array(a.modes[mode_a].values[metric])[rows_a]
            rights[key] = np.array(b.modes[mode_b].values[metric])[rows_b]
    values = {key: tuple((rights[key] - left).tolist()) for key, left in lefts.items()}
    estimates, p_values = bootstrap(values), randomisation_tests(values)
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    differences = []
    for key, row in values.items():
        mode_a, mode_b, metric = key
        differences.append(
            Difference(
                metric=metric,
                mode_a=mode_a,
                mode_b=mode_b,
                mean_a=float(lefts[key].mean()),
                mean_b=float(rights[key].mean()),
                estimate=estimates[key],
                p=p_values[key],
                p_holm=adjusted[key],
                values=row,
            )
        )
    return Comparison(
        query_ids=tuple(queries),
        differences=tuple(differences),
        warnings=tuple(_warnings(a, b, len(queries))),
        questions={**b.questions, **a.questions},
    )


def compare_modes(
    evaluation: Evaluation, baseline: str, mode: str, *, metrics: Sequence[str] | None = None
) -> Comparison:
    """Compare one mode of an evaluation with another of it, the ``baseline``.

    Raises:
        ValidationError: it has no such mode or metric.
    """
    return compare(evaluation, evaluation, metrics=metrics, modes=[(baseline, mode)])


def _check(named: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in named:
        if name not in known:
            raise ValidationError(
                f"there is no {what} {name!r} to compare: choose from {', '.join(known)}"
            )


def _warnings(a: Evaluation, b: Evaluation, queries: int) -> list[str]:
    warnings = []
    few = few_queries_warning(queries)
    if few is not None:
        warnings.append(few)
    left_out = len(a.query_ids) + len(b.query_ids) - 2 * queries
    if left_out:
        skipped = counted(left_out, "query", "queries")
        warnings.append(f"skipped {skipped} that only one of the evaluations has")
    if a.collection != b.collection:
        warnings.append(f"the collections differ: {a.collection!r} and {b.collection!r}")
    if a.granularity is not b.granularity:
        warnings.append(
            f"the granularities differ: {a.granularity!s} and {b.granularity!s} are not judged "
            "alike"
        )
    for setting in ("depth", "least_grade"):
        left, right = a.configuration.get(setting), b.configuration.get(setting)
        if left != right:
            warnings.append(f"{setting} differs: {left} and {right}")
    return warnings
