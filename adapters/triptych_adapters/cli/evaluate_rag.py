"""``triptych eval rag``."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

from triptych._internal.close_on_exit import close_model
from triptych.errors import ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.evaluation import (
    Dataset,
    Golden,
    Html,
    Output,
    read_questions,
    tell_json,
    write_page,
)
from triptych_adapters.cli.names import dataset_in_use
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.values import names

if TYPE_CHECKING:
    from triptych.evaluation import RagEvaluation
    from triptych.evaluation.answers import AbstentionScore


@command(
    "triptych eval rag golden.yaml --llm ollama:llama3.2 --judge openai:gpt-4o-mini",
    "triptych eval rag golden.yaml --judge ollama:qwen3 --pipeline support --html rag.html",
)
def rag(
    session: Session,
    golden: Golden,
    judge: Annotated[str, option("--judge PROVIDER:MODEL", "The model that judges.")],
    llm: Annotated[
        str | None,
        option(
            "--llm PROVIDER:MODEL",
            "The model that answers. By default the setting llm, or the pipeline's.",
        ),
    ] = None,
    dataset: Dataset = None,
    pipeline: Annotated[
        str | None, option("--pipeline NAME", "Answer as this pipeline of triptych.toml does.")
    ] = None,
    budget: Annotated[
        int | None, option("--budget -b TOKENS", "Maximum number of tokens of a context.")
    ] = None,
    metrics: Annotated[
        str | None,
        option(
            "--metrics NAMES",
            "faithfulness, answer_relevance, context_precision, context_recall, separated by "
            "commas. Without it: all.",
        ),
    ] = None,
    written: Output = None,
    html: Html = None,
) -> None:
    """Answer every golden question as ask does, and have another model judge the answers.

    Four metrics of RAGAS. context_recall needs an expected_answer, and answer_relevance an
    embedder: without, there is N/A. Of questions with answerable: false, and of answers that were
    not given, this says how rightly they were left unanswered.
    """
    from triptych.evaluation import RAG_METRICS, answers_json, evaluate_answers
    from triptych.evaluation.answers import collect_answers
    from triptych.records.serialization import to_dict
    from triptych_factory.wiring import settings_llm

    collection = read_questions(session, golden, written, html)
    total = len(collection.queries)
    settings = session.settings(llm=llm)
    judging = settings_llm(settings, judge)
    if judging is None:
        raise ValidationError("the judge is none: give --judge PROVIDER:MODEL")
    chosen = list(RAG_METRICS) if metrics is None else names(metrics)
    judged: RagEvaluation | None = None
    with ExitStack() as opened:
        opened.callback(close_model, judging)
        service = opened.enter_context(session.service(settings=settings, pipeline=pipeline))
        view: Any = service if pipeline is None else service.pipeline(pipeline)
        if dataset is None and pipeline is not None and len(view.pipeline.datasets) == 1:
            dataset = view.pipeline.datasets[0]
        target = dataset_in_use(service, dataset)
        with session.output.progress("answering", total=total) as progress:
            collected = collect_answers(
                view,
                collection,
                dataset_id=target,
                llm=service.llm if llm is not None else None,
                token_budget=budget,
                progress=progress,
            )
            if collected.samples:
                judged = evaluate_answers(
                    collected.samples,
                    judging,
                    embedder=service.options.embedder,
                    metrics=chosen,
                    progress=progress,
                )
    warnings = [*(judged.warnings if judged is not None else ()), *collected.warnings]
    for query, reason in collected.failures.items():
        warnings.append(f"{query} was not answered: {reason}")
    if judged is None:
        warnings.append("no question was answered: there is nothing to judge")
    for warning in warnings:
        session.output.warn(warning)
    if html is not None:
        from triptych.evaluation.report import answers_html

        title = f"Answers to {collection.name}"
        write_page(html, answers_html(title, judged, collected, warnings))
    answer: dict[str, object] = {
        "format": "triptych-rag/1",
        "collection": collection.name,
        "dataset_id": target,
        "warnings": warnings,
        "judged": None if judged is None else answers_json(judged),
        "abstained": dict(collected.abstained),
        "abstention": None if collected.score is None else to_dict(collected.score),
        "failures": dict(collected.failures),
        "answers": [to_dict(sample) for sample in collected.samples],
    }
    if not tell_json(session, written, answer):
        _show(session, judged, collected.score, f"{collection.name}: {total} questions")


def _show(
    session: Session, judged: RagEvaluation | None, score: AbstentionScore | None, title: str
) -> None:
    from triptych.evaluation.report import answer_rows

    rows: list[tuple[str, ...]] = [] if judged is None else list(answer_rows(judged))
    if score is not None:
        for name, value, number in (
            ("abstention precision", score.precision, score.abstained),
            ("abstention recall", score.recall, score.unanswerable),
        ):
            shown = "N/A" if value is None else f"{value:.4f}"
            rows.append((name, shown, "", "", str(number)))
    session.output.table(("metric", "mean", "low", "high", "scored"), rows, title=title)
