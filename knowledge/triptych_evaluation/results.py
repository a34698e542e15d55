"""The results of evaluations and comparisons, and their JSON form."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import attrs
import numpy as np

from triptych.errors import ValidationError
from triptych.records import counted
from triptych.records.serialization import from_dict, to_dict
from triptych.resources import write_bytes
from triptych_evaluation.collections import MalformedFileError, read_file
from triptych_evaluation.significance import (
    Estimate,
    bootstrap,
    few_queries_warning,
    holm,
    randomisation_tests,
)


class Granularity(StrEnum):
    """The ranked unit: documents or chunks."""

    DOCUMENT = "document"
    CHUNK = "chunk"


@attrs.frozen(kw_only=True, slots=True)
class Latency:
    """Percentiles of the duration of a search in milliseconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, milliseconds: Sequence[float]) -> Latency:
        """Compute the percentiles of at least one duration."""
        p50, p95, p99 = np.percentile(milliseconds, [50, 95, 99]).tolist()
        return cls(p50=p50, p95=p95, p99=p99)


@attrs.frozen(kw_only=True, slots=True)
class ModeResult:
    """The result of one mode of an evaluation.

    Attributes:
        values: by metric, one value for each query in the order of `Evaluation.query_ids`.
        estimates: by metric, the mean over queries with its 95% interval.
        latencies: milliseconds for each query in the same order; 0 if the search failed.
        recall_at_depth: the mean recall at depth 1, 2, … to the depth searched.
        warnings: problems of this mode.
        checks: expected keywords and abstention, if the questions have any: `check_answers`.
        rankings: by query, the ranked names with their scores; not in JSON.
    """

    values: Mapping[str, Sequence[float]]
    estimates: Mapping[str, Estimate]
    latencies: Sequence[float]
    recall_at_depth: Sequence[float]
    warnings: tuple[str, ...] = ()
    checks: Mapping[str, Estimate] = attrs.field(factory=dict)
    rankings: Mapping[str, Sequence[tuple[str, float]]] = attrs.field(
        factory=dict, eq=False, repr=False
    )

    @property
    def latency(self) -> Latency:
        """The percentiles of `latencies`, without failed searches."""
        return Latency.of([each for each in self.latencies if each > 0] or [0.0])


@attrs.frozen(kw_only=True, slots=True)
class Evaluation:
    """The result of an evaluation.

    Attributes:
        collection: the collection's name.
        granularity: the ranked unit.
        query_ids: the judged queries, in order.
        modes: the result of each mode, "bm25", "vector" or "hybrid".
        configuration: versions, embedder, chunker, language, ranker, postprocessors, depth.
        warnings: warnings for all modes.
        questions: the text of each query by id; empty if the file does not have them.
    """

    collection: str
    granularity: Granularity
    query_ids: tuple[str, ...]
    modes: Mapping[str, ModeResult]
    configuration: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    questions: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics, in order."""
        return list(next(iter(self.modes.values())).values)


_SAME = 1e-12  # values that differ by less are ties


@attrs.frozen(kw_only=True, slots=True)
class Difference:
    """The difference of one metric: ``values`` are ``b - a`` in the order of
    `Comparison.query_ids`.

    ``p`` is the p-value of a paired randomisation test, ``p_holm`` the same adjusted for all tests
    of the comparison. ``estimate`` is the mean difference with its 95% interval.
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
        """The number of queries for which b is better."""
        return sum(value > _SAME for value in self.values)

    @property
    def worse(self) -> int:
        """The number of queries for which b is worse."""
        return sum(value < -_SAME for value in self.values)


@attrs.frozen(kw_only=True, slots=True)
class Comparison:
    """The differences between two evaluations, over their common queries.

    ``questions`` has their texts by id, if the evaluations have them.
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

    ``metrics`` are by default all common ones; ``modes`` are pairs of a mode of ``a`` and one of
    ``b``, by default each common mode with itself.

    Raises:
        ValidationError: the two have no common queries, modes or metrics, or lack a named one.
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
    differences = [
        Difference(
            metric=key[2],
            mode_a=key[0],
            mode_b=key[1],
            mean_a=float(lefts[key].mean()),
            mean_b=float(rights[key].mean()),
            estimate=estimates[key],
            p=p_values[key],
            p_holm=adjusted[key],
            values=row,
        )
        for key, row in values.items()
    ]
    return Comparison(
        query_ids=tuple(queries),
        differences=tuple(differences),
        warnings=tuple(_warnings(a, b, len(queries))),
        questions={**b.questions, **a.questions},
    )


def compare_modes(
    evaluation: Evaluation, baseline: str, mode: str, *, metrics: Sequence[str] | None = None
) -> Comparison:
    """Compare one mode of an evaluation with another one, the ``baseline``.

    Raises:
        ValidationError: it does not have the mode or metric.
    """
    return compare(evaluation, evaluation, metrics=metrics, modes=[(baseline, mode)])


def _check(named: Sequence[str], known: Sequence[str], what: str) -> None:
    for name in named:
        if name not in known:
            raise ValidationError(
                f"there is no {what} {name!r} to compare: choose from {', '.join(known)}"
            )


def _warnings(a: Evaluation, b: Evaluation, queries: int) -> list[str]:
    warnings = few_queries_warning(queries)
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


FORMAT = "triptych-evaluation/1"
"""The name and version of the format. A version may gain fields, but not change or lose any."""


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Convert the evaluation to plain data for JSON, without rankings."""
    return {
        "format": FORMAT,
        "collection": evaluation.collection,
        "granularity": str(evaluation.granularity),
        "configuration": dict(evaluation.configuration),
        "warnings": list(evaluation.warnings),
        "modes": {
            mode: {
                "metrics": to_dict(result.estimates),
                "checks": to_dict(result.checks),
                "latency_ms": to_dict(result.latency),
                "recall_at_depth": list(result.recall_at_depth),
                "warnings": list(result.warnings),
                "latencies_ms": list(result.latencies),
                "values": {name: list(values) for name, values in result.values.items()},
            }
            for mode, result in evaluation.modes.items()
        },
        "queries": list(evaluation.query_ids),
        "questions": dict(evaluation.questions),
    }


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Convert the comparison to plain data for JSON."""
    return {
        "format": "triptych-comparison/1",
        "warnings": list(comparison.warnings),
        "differences": [_difference(each) for each in comparison.differences],
        "queries": list(comparison.query_ids),
        "questions": dict(comparison.questions),
    }


def _difference(difference: Difference) -> dict[str, Any]:
    fields = to_dict(difference)
    fields["difference"] = fields.pop("estimate")
    return {**fields, "better": difference.better, "worse": difference.worse}


def write_evaluation(path: str | os.PathLike[str], evaluation: Evaluation) -> None:
    """Write the evaluation as JSON."""
    text = json.dumps(evaluation_json(evaluation), ensure_ascii=False, indent=1)
    write_bytes(path, f"{text}\n".encode())


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """Read an evaluation from a JSON file.

    Raises:
        NotFoundError: the file cannot be read.
        MalformedFileError: it is not an evaluation, or has another version.
    """
    try:
        value = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        raise MalformedFileError(
            f"not JSON ({error})", file=str(path), line=getattr(error, "lineno", 0)
        ) from error
    found = value.get("format") if isinstance(value, dict) else None
    if found != FORMAT:
        raise MalformedFileError(
            f"its format is {found!r}, not {FORMAT!r}: give a file that `triptych eval "
            "retrieval --json` wrote",
            file=str(path),
        )
    try:
        return _evaluation(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedFileError(
            f"not a whole evaluation ({type(error).__name__}: {error})", file=str(path)
        ) from error


def _evaluation(value: Mapping[str, Any]) -> Evaluation:
    queries = tuple(map(str, value["queries"]))
    modes = {str(mode): _mode(entry, len(queries)) for mode, entry in value["modes"].items()}
    if not modes:
        raise ValueError("no modes")
    return Evaluation(
        collection=str(value["collection"]),
        granularity=Granularity(value["granularity"]),
        query_ids=queries,
        modes=modes,
        configuration=dict(value["configuration"]),
        warnings=tuple(map(str, value["warnings"])),
        questions={str(key): str(text) for key, text in value.get("questions", {}).items()},
    )


def _mode(entry: Mapping[str, Any], queries: int) -> ModeResult:
    values = {str(name): tuple(map(float, row)) for name, row in entry["values"].items()}
    latencies = tuple(map(float, entry["latencies_ms"]))
    if {len(row) for row in (*values.values(), latencies)} != {queries}:
        raise ValueError(f"a row has not {queries} values, one for each query")
    estimates = {str(name): from_dict(Estimate, e) for name, e in entry["metrics"].items()}
    if set(estimates) != set(values):
        raise ValueError("metrics and values name different metrics")
    return ModeResult(
        values=values,
        estimates=estimates,
        latencies=latencies,
        recall_at_depth=tuple(map(float, entry["recall_at_depth"])),
        warnings=tuple(map(str, entry["warnings"])),
        checks={str(n): from_dict(Estimate, e) for n, e in entry.get("checks", {}).items()},
    )
