"""Evaluations and comparisons as JSON: a stable form with a version."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from triptych._internal.files import read_regular, write_bytes
from triptych.errors import NotFoundError
from triptych.evaluation.collections import MalformedFileError
from triptych.evaluation.comparison import Comparison, Difference
from triptych.evaluation.rag import RagEvaluation
from triptych.evaluation.results import Evaluation, Granularity, ModeResult
from triptych.evaluation.significance import Estimate
from triptych.records.serialization import from_dict, to_dict

FORMAT = "triptych-evaluation/1"
"""The form's name and version. Fields may be added under it, none changed or removed."""


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """The evaluation as JSON's types; rankings are left out."""
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
    """The comparison as JSON's types."""
    return {
        "format": "triptych-comparison/1",
        "warnings": list(comparison.warnings),
        "differences": [_difference(each) for each in comparison.differences],
        "queries": list(comparison.query_ids),
        "questions": dict(comparison.questions),
    }


def answers_json(evaluation: RagEvaluation) -> dict[str, Any]:
    """The judged answers as JSON's types, every problem with what the judge said."""
    return {"format": "triptych-answers/1", **to_dict(evaluation)}


def _difference(difference: Difference) -> dict[str, Any]:
    fields = to_dict(difference)
    fields["difference"] = fields.pop("estimate")
    return {**fields, "better": difference.better, "worse": difference.worse}


def write_evaluation(path: str | os.PathLike[str], evaluation: Evaluation) -> None:
    """Write the evaluation as JSON."""
    text = json.dumps(evaluation_json(evaluation), ensure_ascii=False, indent=1)
    write_bytes(path, f"{text}\n".encode())


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """The evaluation in a JSON file.

    Raises:
        NotFoundError: the file cannot be read.
        MalformedFileError: it is not an evaluation, or of another version.
    """
    try:
        data = read_regular(path)
    except OSError as error:
        raise NotFoundError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    try:
        value = json.loads(data)
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
