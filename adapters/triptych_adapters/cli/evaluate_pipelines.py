"""``triptych eval ablate``, ``tune`` and ``calibrate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.evaluation import (
    Dataset,
    Golden,
    Html,
    Output,
    note_failed,
    opened_pipeline,
    read_questions,
    tell_json,
    tell_warnings,
    write_page,
)
from triptych_adapters.cli.names import dataset_in_use
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.evaluation import CalibrationReport, Comparison, Evaluation
    from triptych.evaluation.tuning import Tuning

_SHOWN = 10


@command(
    "triptych eval ablate golden.yaml",
    "triptych eval ablate golden.yaml --pipeline support --html stages.html",
)
def ablate(
    session: Session,
    golden: Golden,
    dataset: Dataset = None,
    pipeline: Annotated[
        str | None,
        option(
            "--pipeline NAME",
            "A pipeline of triptych.toml. By default the default search.",
        ),
    ] = None,
    metric: Annotated[str, option("--metric", "The metric to compare.")] = "ndcg@10",
    written: Output = None,
    html: Html = None,
) -> None:
    """Run a pipeline stage by stage: what does each lane, rewriter and postprocessor add?

    The stages are each lane alone, all lanes together, then one more step at a time. Each stage is
    compared with the previous one, and hybrid with each lane, by a paired test. Documents are
    ranked as in `triptych eval retrieval`; with --pipeline or postprocessors, by their best chunk
    among the hits, which gives other numbers. "Calls" are calls of models for one question.
    """
    from triptych.evaluation import DEFAULT_CUTOFFS, compare, evaluation_json
    from triptych.evaluation.pipelines import ablation_stages, evaluate_pipelines
    from triptych.evaluation.results import Granularity

    collection = read_questions(session, golden, written, html)
    with opened_pipeline(session, dataset, pipeline) as (service, whole, target):
        stages = ablation_stages(service, whole)
        lanes = sum(stage in service.lanes for stage in stages)
        as_retrieval: dict[str, Any] = {}
        if pipeline is None and not whole.postprocessors:
            as_retrieval = {"granularity": Granularity.DOCUMENT, "cutoffs": DEFAULT_CUTOFFS}
        total = len(collection.queries)
        with session.output.progress(next(iter(stages)), total=total) as progress:
            found = evaluate_pipelines(
                service, collection, stages, dataset_id=target, progress=progress, **as_retrieval
            )
    pairs = list(_pairs(list(stages)))
    compared = None
    if pairs:
        compared = compare(found, found, metrics=[metric], modes=pairs)
    tell_warnings(session, found)
    if html is not None:
        from triptych.evaluation.report import evaluation_html

        write_page(html, evaluation_html(found))
    steps = [] if compared is None else [_step(each) for each in compared.differences]
    answer = {**evaluation_json(found), "metric": metric, "steps": steps, "lanes": lanes}
    if not tell_json(session, written, answer):
        _show_stages(session, found, compared, metric)
        note_failed(session, found)


def _pairs(stages: list[str]) -> Iterator[tuple[str, str]]:
    """The stages that are compared: hybrid with each lane, each step with the stage before."""
    for at, stage in enumerate(stages):
        if stage == "hybrid":
            yield from ((lane, stage) for lane in stages[:at])
        elif stage.startswith("+ "):
            yield stages[at - 1], stage


def _step(difference: Any) -> Mapping[str, Any]:
    return {
        "from": difference.mode_a,
        "to": difference.mode_b,
        "difference": difference.estimate.mean,
        "low": difference.estimate.low,
        "high": difference.estimate.high,
        "p": difference.p,
        "p_holm": difference.p_holm,
    }


def _show_stages(
    session: Session, found: Evaluation, compared: Comparison | None, metric: str
) -> None:
    calls = found.configuration["model_calls"]
    session.output.table(
        ("stage", metric, "recall@10", "p50 ms", "p95 ms", "calls"),
        [
            (
                stage,
                f"{result.estimates[metric].mean:.4f}",
                f"{result.estimates['recall@10'].mean:.4f}",
                f"{result.latency.p50:.1f}",
                f"{result.latency.p95:.1f}",
                f"{calls[stage]:.2f}",
            )
            for stage, result in found.modes.items()
        ],
        title=f"{found.collection}: {len(found.query_ids)} questions, by {found.granularity}",
    )
    if compared is not None:
        session.output.table(
            ("from", "to", "difference", "low", "high", "p", "p (Holm)"),
            [
                (
                    each.mode_a,
                    each.mode_b,
                    *(
                        f"{value:+.4f}"
                        for value in (each.estimate.mean, each.estimate.low, each.estimate.high)
                    ),
                    f"{each.p:.4f}",
                    f"{each.p_holm:.4f}",
                )
                for each in compared.differences
            ],
        )


@command(
    "triptych eval tune golden.yaml --apply",
    "triptych eval tune golden.yaml --grid ranker=z-score,rrf --grid weights.vector=1,2",
    "triptych eval tune golden.yaml --grid grid.toml --pipeline support",
    "triptych eval tune --reset",
)
def tune(
    session: Session,
    golden: Annotated[
        Path | None, argument("[GOLDEN]", "Questions and the files that answer them, in YAML.")
    ] = None,
    grid: Annotated[
        list[str] | None,
        option(
            "--grid KEY=VALUE,VALUE|FILE",
            "Values to try: mode, ranker, depth, weights.LANE, keyword_boost, top_k and other "
            "options of a search; or a TOML file with a list for each key. Several are combined. "
            "By default the weight of each lane.",
        ),
    ] = None,
    dataset: Dataset = None,
    pipeline: Annotated[
        str | None, option("--pipeline NAME", "A pipeline of triptych.toml to start from.")
    ] = None,
    metric: Annotated[str, option("--metric", "The metric to maximise.")] = ("ndcg@10"),
    apply: Annotated[
        bool,
        option("--apply", "Store the best ranker, if it is better; searches then use it."),
    ] = False,
    reset: Annotated[
        bool, option("--reset", "Delete the ranker that --apply stored; measure nothing.")
    ] = False,
    written: Output = None,
) -> None:
    """Search a grid of options on half of the questions, and test the best on the other half.

    A digest of its text decides the half of each question. The best options are compared with the
    default by a paired test. Nothing is changed without --apply, which needs 30 questions and sets
    the best ranker for hybrid searches of the dataset, if it is significantly better.
    """
    from triptych.evaluation import evaluation_json
    from triptych.evaluation.tuning import default_grid, grid_of, tune as search_grid
    from triptych.search.dataset_settings import TUNED_SETTINGS, forget_settings

    if reset:
        with session.service() as service:
            target = dataset_in_use(service, dataset)
            forget_settings(service.store.capabilities.settings, target, [TUNED_SETTINGS])
        session.output.show({"dataset_id": target}, note=f"{target!r} is not tuned any more")
        return
    if golden is None:
        raise ValidationError("name a golden set: `triptych eval tune golden.yaml`")
    values = _values(grid or [])
    if values:
        grid_of(values)
    collection = read_questions(session, golden, written)
    with opened_pipeline(session, dataset, pipeline) as (service, whole, target):
        total = len(collection.queries)
        with session.output.progress("default", total=total) as progress:
            found = search_grid(
                service,
                collection,
                values or default_grid(service),
                dataset_id=target,
                pipeline=whole,
                metric=metric,
                apply=apply,
                progress=progress,
            )
    session.output.warn(*found.warnings)
    answer: dict[str, object] = {
        "format": "triptych-tuning/1",
        "metric": found.metric,
        "tuned_on": found.tuned_on,
        "choices": [
            {"choice": dict(choice), "mean": mean}
            for choice, mean in zip(found.choices, found.tuned, strict=True)
        ],
        "best": dict(found.best),
        "gained": found.gained,
        "applied": found.applied,
        "summary": found.summary,
        "held_out": evaluation_json(found.held_out),
    }
    if found.difference is not None:
        difference = found.difference
        answer["difference"] = {
            "mean": difference.estimate.mean,
            "low": difference.estimate.low,
            "high": difference.estimate.high,
            "p": difference.p,
        }
    if not tell_json(session, written, answer):
        _show_tuning(session, found)
    session.output.note(found.summary)
    if found.applied:
        session.output.note(f"kept: searches of {target!r} use it; `triptych status` shows it")
    elif apply:
        session.output.note("nothing was kept: searches rank as before")


def _show_tuning(session: Session, found: Tuning) -> None:
    from triptych.evaluation.tuning import choice_text

    ranked = sorted(zip(found.tuned, range(len(found.choices)), strict=True), key=lambda e: -e[0])
    rows = [
        ("tuned", choice_text(found.choices[at]), f"{mean:.4f}") for mean, at in ranked[:_SHOWN]
    ]
    for name, result in found.held_out.modes.items():
        choice = found.best if name == "best" else {}
        mean = result.estimates[found.metric].mean
        rows.append(("held out", choice_text(choice), f"{mean:.4f}"))
    session.output.table(("questions", "choice", found.metric), rows)


def _values(given: list[str]) -> dict[str, list[Any]]:
    """The grid that ``--grid`` options describe."""
    from triptych._internal.files import read_regular
    from triptych._internal.toml import parse_toml

    grid: dict[str, list[Any]] = {}
    for each in given:
        key, equals, values = each.partition("=")
        if equals:
            found: dict[str, Any] = {
                key.strip(): [_value(one) for one in values.split(",") if one.strip()]
            }
        else:
            try:
                found = parse_toml(read_regular(each).decode("utf-8"))
            except OSError as error:
                raise NotFoundError(f"{each!r} cannot be read: {error.strerror}") from error
            except ValueError as error:
                raise ValidationError(f"{each!r} is not TOML: {error}") from error
            weights = found.pop("weights", {})
            if isinstance(weights, dict):
                found |= {f"weights.{lane}": values for lane, values in weights.items()}
        for name, several in found.items():
            if not isinstance(several, list) or name in grid:
                raise ValidationError(f"--grid {name}: give a list of values for it, once")
            grid[name] = several
    return grid


def _value(text: str) -> Any:
    text = text.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text, text)


@command(
    "triptych eval calibrate golden.yaml",
    "triptych eval calibrate golden.yaml --dataset manual --save",
)
def calibrate(
    session: Session,
    golden: Golden,
    dataset: Dataset = None,
    top_k: Annotated[int, option("--top-k -n", "Number of hits to use.", min=1)] = 10,
    save: Annotated[
        bool, option("--save", "Store the calibration; searches of the dataset then use it.")
    ] = False,
    written: Output = None,
) -> None:
    """Learn from golden questions when the hits of a search answer the question.

    The golden set needs 10 questions with an answer, and 10 with answerable: false. With --save
    each search of the dataset reports "enough", "weak" or "nothing". The numbers are for questions
    that the model was not fitted on.
    """
    from triptych.evaluation import calibrate as fit
    from triptych.records.serialization import to_dict
    from triptych.search.answerability import save_calibration

    collection = read_questions(session, golden, written)
    total = len(collection.queries)
    with session.service() as service:
        target = dataset_in_use(service, dataset)
        with session.output.progress("questions", total=total) as progress:
            found = fit(service, collection, dataset_id=target, top_k=top_k, progress=progress)
        if save:
            save_calibration(service.capabilities.settings, target, found.calibration)
    session.output.warn(*found.warnings)
    answer = {
        "format": "triptych-calibration/1",
        "dataset_id": target,
        "saved": save,
        "missed": found.missed,
        "warnings": list(found.warnings),
        "calibration": to_dict(found.calibration),
    }
    if not tell_json(session, written, answer):
        _show(session, found)
    if not save:
        session.output.note("nothing was kept: --save keeps the calibration in the store")


def _show(session: Session, found: CalibrationReport) -> None:
    made = found.calibration
    rows = [
        (
            lanes,
            *(f"{each:.3f}" for each in (m.held_out.auc, m.held_out.precision, m.held_out.recall)),
            *(f"{each:.3f}" for each in (m.held_out.f1, m.held_out.nothing_precision)),
            *(f"{each:.3f}" for each in (m.held_out.nothing_recall, m.held_out.refused)),
            " ".join(f"{name} {weight:.3g}" for name, weight in m.weights.items()),
        )
        for lanes, m in made.models.items()
    ]
    session.output.table(
        (
            *("lanes", "AUC", "precision", "recall", "F1"),
            *("nothing: precision", "nothing: recall", "refused", "weights"),
        ),
        rows,
        title=f"{made.answered} questions answered, {made.unanswered} not",
    )
