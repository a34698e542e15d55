"""Searching a grid of search options on one half of the questions, and testing on the other.

What is best of many on some questions is best there partly by chance. So the halves are kept
apart: a question's half is that of a digest of its text, and stays whatever else is asked.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs

from triptych._internal.progress import ProgressCallback
from triptych._internal.wording import counted
from triptych.contracts import Ranker, SettingsStore
from triptych.errors import ConflictError, NotAvailableError, ValidationError
from triptych.evaluation.collections import Collection, JudgedQuery
from triptych.evaluation.pipelines import evaluate_pipelines, service_pipeline
from triptych.evaluation.results import Difference, Evaluation, compare
from triptych.evaluation.targets import find_targets
from triptych.records import DatasetConfig, Mode
from triptych.records.queries import SearchOptions
from triptych.records.serialization import to_dict
from triptych.search.dataset_settings import TUNED_SETTINGS
from triptych.search.fusion import WEIGHT, chosen_ranker
from triptych.search.pipeline_record import Pipeline
from triptych.search.tuned import TunedRanking, described_ranker

if TYPE_CHECKING:
    from triptych.service import Service

MOST_CHOICES = 200
"""A grid has at most so many combinations."""

SIGNIFICANT = 0.05

LEAST_QUESTIONS = 30
"""A choice that is kept was made and tested on so many questions, at least."""

WEIGHTS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0)
"""What is tried of each lane but the keyword lane, where no grid is given."""

_RANKER_KEYS = ("ranker", "depth")
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
        applied: whether the best is kept for the dataset.
    """

    metric: str
    choices: tuple[Mapping[str, Any], ...]
    tuned: tuple[float, ...]
    best: Mapping[str, Any]
    tuned_on: int
    held_out: Evaluation
    difference: Difference | None
    warnings: tuple[str, ...] = ()
    applied: bool = False

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
        if key not in (*_RANKER_KEYS, *_SEARCH) and not key.startswith(WEIGHT):
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
    apply: bool = False,
    progress: ProgressCallback | None = None,
) -> Tuning:
    """Try every choice of ``grid`` on half of the questions; test the best on the other half.

    Each choice is ``pipeline`` with these options. Of equals the first counts. With ``apply`` a
    best that gained is kept in the store: hybrid searches for the dataset's chunks rank by it then.

    Raises:
        ValidationError: the grid is invalid, a half has no questions, or there is no such metric;
            with ``apply``, there are few questions, or the grid is not of the ranker alone.
        NotAvailableError: a choice cannot be served, or, with ``apply``, not be kept.
        ConflictError: others changed what is kept, or the dataset's configuration, meanwhile.
    """
    choices = grid_of(grid)
    for key in grid:
        if key.startswith(WEIGHT) and key.removeprefix(WEIGHT) not in service.lanes:
            raise ValidationError(f"the grid has {key!r}: the lanes are {', '.join(service.lanes)}")
    before = _before(service, collection, grid, dataset_id, pipeline) if apply else None
    queries = [query for query in collection.queries if not query.unanswerable]
    halves = [
        [query for query in queries if is_tuned_on(query) is which] for which in (True, False)
    ]
    if not all(halves):
        raise ValidationError(
            f"of {len(queries)} questions with an answer, one half is empty: add questions"
        )
    pipelines = {choice_text(each): _with(pipeline, each, service.ranker) for each in choices}
    first, second = (attrs.evolve(collection, queries=tuple(half)) for half in halves)
    found = evaluate_pipelines(
        service, first, pipelines, dataset_id=dataset_id, cutoffs=cutoffs, progress=progress
    )
    if metric not in found.metrics:
        raise ValidationError(
            f"there is no metric {metric!r}: choose from {', '.join(found.metrics)}"
        )
    means = [found.modes[choice_text(choice)].estimates[metric].mean for choice in choices]
    best = choices[means.index(max(means))]
    judged = {"default": pipelines[choice_text({})]}
    if best:
        judged["best"] = pipelines[choice_text(best)]
    held_out = evaluate_pipelines(
        service, second, judged, dataset_id=dataset_id, cutoffs=cutoffs, progress=progress
    )
    difference = None
    if best:
        compared = compare(held_out, held_out, metrics=[metric], modes=[("default", "best")])
        difference = compared.differences[0]
    made = Tuning(
        metric=metric,
        choices=tuple(choices),
        tuned=tuple(means),
        best=best,
        tuned_on=len(halves[0]),
        held_out=held_out,
        difference=difference,
        warnings=tuple(dict.fromkeys((*found.warnings, *held_out.warnings))),
    )
    if before is None or not made.gained:
        return made
    _keep(service, dataset_id, made, *before)
    return attrs.evolve(made, applied=True)


def choice_text(choice: Mapping[str, Any]) -> str:
    """A choice in words: "default" for the empty one."""
    return " ".join(f"{key}={value}" for key, value in choice.items()) or "default"


def _with(pipeline: Pipeline, choice: Mapping[str, Any], own: Ranker) -> Pipeline:
    """The pipeline with a choice; without one of a ranker, it ranks as a search does now."""
    search = {key: value for key, value in choice.items() if key in _SEARCH}
    ranker = pipeline.ranker
    if search.keys() != choice.keys():
        ranker = chosen_ranker(choice, ranker or own)
    return attrs.evolve(pipeline, search={**pipeline.search, **search}, ranker=ranker)


def default_grid(service: Service) -> dict[str, Sequence[Any]]:
    """The weights that are tried where no grid is given."""
    return {f"{WEIGHT}{lane}": WEIGHTS for lane in service.lanes if lane != Mode.BM25}


def _before(
    service: Service,
    collection: Collection,
    grid: Mapping[str, Any],
    dataset_id: str,
    pipeline: Pipeline,
) -> tuple[SettingsStore, str | None, DatasetConfig]:
    """The settings, what is kept of a dataset, and its configuration.

    What could not be kept is refused here, before it is measured.
    """
    settings, config = service.store.capabilities.settings, service.chunks.config(dataset_id)
    if settings is None:
        raise NotAvailableError(
            "this store keeps no settings, and cannot store a ranker for a dataset"
        )
    if pipeline != service_pipeline(service) or any(key in _SEARCH for key in grid):
        raise ValidationError(
            "only the ranker of a dataset can be stored: leave out the pipeline, and use only "
            "ranker, depth and weights.LANE in the grid"
        )
    found = sum(
        any(grade > 0 and name not in each.missing for name, grade in each.grades.items())
        for each in find_targets(service, dataset_id, collection, passages=False).values()
    )
    if found < LEAST_QUESTIONS:
        raise ValidationError(
            f"the dataset {dataset_id!r} has an answer to {counted(found, 'question')} of the "
            f"golden set, and {LEAST_QUESTIONS} are needed to keep a choice: add questions"
        )
    embeds = service.options.has_embedder or service.options.sparse_encoder is not None
    if config is None or not (embeds and (config.embed_sig or config.sparse_sig)):
        raise NotAvailableError(
            f"the dataset {dataset_id!r} is searched by keyword only, and one lane needs no "
            "weights: `triptych embed` adds vectors"
        )
    key = TUNED_SETTINGS + dataset_id
    before = settings.get_setting(key)
    settings.set_setting(key, before, expected=before)  # a store that is only read refuses it now
    return settings, before, config


def _keep(
    service: Service,
    dataset_id: str,
    made: Tuning,
    settings: SettingsStore,
    before: str | None,
    config: DatasetConfig,
) -> None:
    found = made.difference
    assert found is not None
    low, high = found.estimate.low, found.estimate.high
    summary = (
        f"search settings tuned on {datetime.now(UTC):%Y-%m-%d}: {choice_text(made.best)}, "
        f"{made.metric} {found.mean_a:.4f} → {found.mean_b:.4f} ({low:+.4f} to {high:+.4f}, "
        f"p {found.p:.3g}) on {len(found.values)} questions; chosen by {made.tuned_on} others"
    )
    ranker = described_ranker(service.ranker)
    kept = TunedRanking(choice=made.best, summary=summary, ranker=ranker, config=config)
    key, text = TUNED_SETTINGS + dataset_id, json.dumps(to_dict(kept))
    written = settings.set_setting(key, text, expected=before)
    # Looked at after the write: who deletes a dataset removes its settings after it.
    if not written or service.chunks.config(dataset_id) != config:
        settings.set_setting(key, before, expected=text)
        raise ConflictError(
            f"the search settings or the configuration of {dataset_id!r} were changed during the "
            "measurement, and nothing was stored: measure again"
        )
