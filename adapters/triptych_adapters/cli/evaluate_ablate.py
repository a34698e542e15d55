"""``triptych eval ablate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from triptych_adapters.cli.command import command
from triptych_adapters.cli.evaluate_options import Dataset, Golden, Html, Output, warn_unreviewed
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.evaluation import Comparison, Evaluation


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
            "A pipeline of triptych.toml. Without it: what a search does by default.",
        ),
    ] = None,
    metric: Annotated[str, option("--metric", "What is compared from stage to stage.")] = "ndcg@10",
    written: Output = None,
    html: Html = None,
) -> None:
    """Run a pipeline stage by stage: what does each lane, rewriter and postprocessor add?

    Each lane alone, all together, then each step after the other. A stage is compared with the one
    before it, and hybrid with each lane, by a paired test. Documents are ranked as `triptych eval
    retrieval` ranks them; with --pipeline or postprocessors, by their best chunk among the hits,
    which gives other numbers. Calls are those of models for one question.
    """
    from triptych.evaluation import DEFAULT_CUTOFFS, compare, evaluation_json, read_golden
    from triptych.evaluation.pipelines import (
        ablation_stages,
        evaluate_pipelines,
        service_pipeline,
    )
    from triptych.evaluation.results import Granularity
    from triptych_adapters.cli.evaluate_output import (
        check_places,
        note_failed,
        tell_json,
        write_page,
    )
    from triptych_adapters.cli.names import dataset_in_use
    from triptych_adapters.cli.progress import shown

    check_places(written, html)
    collection = read_golden(golden)
    warn_unreviewed(session, collection)
    settings = None if pipeline is None else session.settings()
    with session.service(settings=settings, pipeline=pipeline) as service:
        whole = service_pipeline(service) if pipeline is None else service.pipelines[pipeline]
        if dataset is None and len(whole.datasets) == 1:
            dataset = whole.datasets[0]
        target = dataset_in_use(service, dataset)
        stages = ablation_stages(service, whole)
        lanes = len(whole.lanes or service.lanes)
        as_retrieval: dict[str, Any] = {}
        if pipeline is None and not whole.postprocessors:
            as_retrieval = {"granularity": Granularity.DOCUMENT, "cutoffs": DEFAULT_CUTOFFS}
        with shown(session.output, next(iter(stages)), total=len(collection.queries)) as progress:
            found = evaluate_pipelines(
                service, collection, stages, dataset_id=target, progress=progress, **as_retrieval
            )
    pairs = list(_pairs(list(stages)))
    compared = None
    if pairs:
        compared = compare(found, found, metrics=[metric], modes=pairs)
    for warning in found.warnings:
        session.output.warn(warning)
    for stage, result in found.modes.items():
        for warning in result.warnings:
            session.output.warn(f"{stage}: {warning}")
    if html is not None:
        from triptych.evaluation.report import evaluation_html

        write_page(html, evaluation_html(found))
    steps = [] if compared is None else [_step(each) for each in compared.differences]
    answer = {**evaluation_json(found), "metric": metric, "steps": steps, "lanes": lanes}
    if not tell_json(session, written, answer):
        _show(session, found, compared, metric)
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


def _show(session: Session, found: Evaluation, compared: Comparison | None, metric: str) -> None:
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
