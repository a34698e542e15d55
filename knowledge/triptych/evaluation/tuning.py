"""Searching a declared grid of search options: chosen on one half of the questions, judged on the
other.

What is best of many on some questions is best there partly by chance. So the halves are kept
apart: a question's half is that of a digest of its text, and stays whatever else is asked.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from triptych._internal.progress import ProgressCallback
from triptych.contracts import Ranker
from triptych.errors import ValidationError
from triptych.evaluation.collections import Collection, JudgedQuery
from triptych.evaluation.pipelines import evaluate_pipelines
from triptych.evaluation.results import Difference, Evaluation, compare
from triptych.records.queries import SearchOptions
from triptych.search.fusion import RANKERS
from triptych.search.pipeline_record import Pipeline

if TYPE_CHECKING:
    from triptych.service import Service

MOST_CHOICES = 200
"""A grid has at most so many combinations."""

SIGNIFICANT = 0.05

_RANKER_KEYS = ("ranker", "depth")
_WEIGHT = "weights."
_NOT_TUNED = ("dataset_id", "dataset_ids", "scope", "where", "layer", "conversation", "offset")
_SEARCH = tuple(key for key in SearchOptions.__annotations__ if key not in _NOT_TUNED)


@attrs.frozen(kw_only=True, slots=True)
class Tuning:
    """What a grid's best choice is worth on questions that it was not chosen by.

    Attributes:
        metric: what was made as high as possible.
        choices: every combination of the grid, the default (``{}``) first.
        tuned: the mean of the metric of each, on the questions that were tuned on.
        best: the best of ``choices``; the default where none is better.
        held_out: both, "default" and "best", on the other questions.
        difference: best less default on these, with its interval and p; None where the default is
            the best.
    """

    metric: str
    choices: tuple[Mapping[str, Any], ...]
    tuned: tuple[float, ...]
    best: Mapping[str, Any]
    tuned_on: int
    held_out: Evaluation
    difference: Difference | None
    warnings: tuple[str, ...] = ()

    @property
    def gained(self) -> bool:
        """Whether the best is above the default on the held-out questions, by more than chance."""
        found = self.difference
        return found is not None and found.estimate.mean > 0 and found.p < SIGNIFICANT

    @property
    def summary(self) -> str:
        """The outcome in a sentence."""
        if self.difference is None:
            return "nothing is gained: no choice of the grid is better than the default"
        mean, p = self.difference.estimate.mean, self.difference.p
        numbers = f"{self.metric} {mean:+.4f}, p {p:.3g}, on {len(self.held_out.query_ids)} others"
        if self.gained:
            return f"gained: the best choice is better than the default ({numbers})"
        return f"nothing is gained: the best choice is no better than the default ({numbers})"


def grid_of(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values, the empty one (the default) first.

    Keys are options of a search (``mode``, ``keyword_boost``, ``top_k``, ``per_document``, …),
    ``ranker`` (z-score, rrf, min-max; else the pipeline's own), its ``depth`` where it has one, as
    the z-score ranker has, and its ``weights.LANE``.

    Raises:
        ValidationError: a key is unknown or without values, or there are too many combinations.
    """
    for key, several in values.items():
        if key not in (*_RANKER_KEYS, *_SEARCH) and not key.startswith(_WEIGHT):
            raise ValidationError(
                f"a grid has no key {key!r}: give {', '.join((*_RANKER_KEYS, *_SEARCH))} or "
                "weights.LANE"
            )
        if not several:
            raise ValidationError(f"the grid has no values for {key!r}: give one or more")
    if not values:
        raise ValidationError("the grid is empty: give at least one key with values")
    combinations = [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]
    if len(combinations) > MOST_CHOICES:
        raise ValidationError(
            f"the grid has {len(combinations)} combinations: at most {MOST_CHOICES} are tried"
        )
    return [{}, *combinations]


def is_tuned_on(query: JudgedQuery) -> bool:
    """Whether a question is of the half that is tuned on: by a digest of its text."""
    return hashlib.sha256(query.text.encode("utf-8")).digest()[0] % 2 == 0


def tune(
    service: Service,
    collection: Collection,
    grid: Mapping[str, Sequence[Any]],
    *,
    dataset_id: str,
    pipeline: Pipeline,
    metric: str = "ndcg@10",
    cutoffs: Sequence[int] = (1, 5, 10),
    progress: ProgressCallback | None = None,
) -> Tuning:
    """Try every choice of ``grid`` on half of the questions; test the best on the other half.

    Each choice is ``pipeline`` with these options. Of equals the first counts.

    Raises:
        ValidationError: the grid is invalid, a half has no questions, or there is no such metric.
        NotAvailableError: a choice cannot be served.
    """
    choices = grid_of(grid)
    queries = [query for query in collection.queries if not query.unanswerable]
    halves = [
        [query for query in queries if is_tuned_on(query) is which] for which in (True, False)
    ]
    if not all(halves):
        raise ValidationError(
            f"of {len(queries)} questions with an answer, one half is empty: add questions"
        )
    ranker = pipeline.ranker or service.ranker
    pipelines = {_name(choice): _with(pipeline, choice, ranker) for choice in choices}
    first, second = (attrs.evolve(collection, queries=tuple(half)) for half in halves)
    found = evaluate_pipelines(
        service, first, pipelines, dataset_id=dataset_id, cutoffs=cutoffs, progress=progress
    )
    if metric not in found.metrics:
        raise ValidationError(
            f"there is no metric {metric!r}: choose from {', '.join(found.metrics)}"
        )
    means = [found.modes[_name(choice)].estimates[metric].mean for choice in choices]
    best = choices[means.index(max(means))]
    judged = {"default": pipelines[_name({})]}
    if best:
        judged["best"] = pipelines[_name(best)]
    held_out = evaluate_pipelines(
        service, second, judged, dataset_id=dataset_id, cutoffs=cutoffs, progress=progress
    )
    difference = None
    if best:
        compared = compare(held_out, held_out, metrics=[metric], modes=[("default", "best")])
        difference = compared.differences[0]
    return Tuning(
        metric=metric,
        choices=tuple(choices),
        tuned=tuple(means),
        best=best,
        tuned_on=len(halves[0]),
        held_out=held_out,
        difference=difference,
        warnings=tuple(dict.fromkeys((*found.warnings, *held_out.warnings))),
    )


def _name(choice: Mapping[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in choice.items()) or "default"


def _with(pipeline: Pipeline, choice: Mapping[str, Any], ranker: Ranker) -> Pipeline:
    search = {key: value for key, value in choice.items() if key in _SEARCH}
    if any(key in _RANKER_KEYS or key.startswith(_WEIGHT) for key in choice):
        ranker = _ranker(choice, ranker)
    return attrs.evolve(pipeline, search={**pipeline.search, **search}, ranker=ranker)


def _ranker(choice: Mapping[str, Any], ranker: Ranker) -> Ranker:
    """The ranker that ``choice`` names, else ``ranker``, with the weights and the depth of it."""
    values: dict[str, Any] = {}
    weights = {
        key.removeprefix(_WEIGHT): value for key, value in choice.items() if key.startswith(_WEIGHT)
    }
    if weights:
        values["weights"] = weights
    if "depth" in choice:
        values["depth"] = choice["depth"]
    name = choice.get("ranker")
    if name is not None:
        if name not in RANKERS:
            raise ValidationError(f"there is no ranker {name!r}: choose from {', '.join(RANKERS)}")
        ranker = RANKERS[name]()
        # A grid of rankers and depths tries the depths of the one that has a depth.
        if not hasattr(ranker, "depth"):
            values.pop("depth", None)
    kind: type[Any] = type(ranker)
    known = attrs.fields_dict(kind) if attrs.has(kind) else {}
    for key in values:
        if key not in known:
            raise ValidationError(
                f"the ranker {kind.__name__} has no {key}: leave {key} out of the grid, or "
                f"put into it a ranker that has: {', '.join(RANKERS)}"
            )
    made: Any = ranker
    return ranker if not values else cast(Ranker, attrs.evolve(made, **values))
