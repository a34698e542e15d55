"""``triptych eval rag``, ``calibrate``, ``questions`` and ``log``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from triptych._internal.close_on_exit import close_model
from triptych.errors import ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.evaluation import (
    Dataset,
    Golden,
    Html,
    Output,
    check_places,
    read_questions,
    tell_json,
    write_page,
)
from triptych_adapters.cli.names import dataset_in_use
from triptych_adapters.cli.options import AnswerModel, names
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych_evaluation import CalibrationReport, RagEvaluation
    from triptych_evaluation.answers import AbstentionScore


@command(
    "triptych eval rag golden.yaml --llm ollama:llama3.2 --judge openai:gpt-4o-mini",
    "triptych eval rag golden.yaml --judge ollama:qwen3 --pipeline support --html rag.html",
)
def rag(
    session: Session,
    golden: Golden,
    judge: Annotated[str, option("--judge PROVIDER:MODEL", "The model that judges.")],
    llm: AnswerModel = None,
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
            "commas. By default all.",
        ),
    ] = None,
    written: Output = None,
    html: Html = None,
) -> None:
    """Answer every golden question as `triptych ask` does, and let another model judge the answers.

    It reports four metrics of RAGAS. context_recall needs an expected_answer, and answer_relevance
    an embedder; otherwise they are N/A. For questions with answerable: false, and for missing
    answers, it reports how often leaving them unanswered was right.
    """
    from triptych.records.serialization import to_dict
    from triptych_evaluation import RAG_METRICS, answers_json, evaluate_answers
    from triptych_evaluation.answers import collect_answers
    from triptych_factory.llms import settings_llm

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
        view = service if pipeline is None else service.pipeline(pipeline)
        searched = () if pipeline is None else service.pipelines[pipeline].datasets
        if dataset is None and len(searched) == 1:
            dataset = searched[0]
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
    session.output.warn(*warnings)
    if html is not None:
        from triptych_evaluation.report import answers_html

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
    from triptych_evaluation.report import answer_rows

    rows: list[tuple[str, ...]] = [] if judged is None else list(answer_rows(judged))
    if score is not None:
        for name, value, number in (
            ("abstention precision", score.precision, score.abstained),
            ("abstention recall", score.recall, score.unanswerable),
        ):
            shown = "N/A" if value is None else f"{value:.4f}"
            rows.append((name, shown, "", "", str(number)))
    session.output.table(("metric", "mean", "low", "high", "scored"), rows, title=title)


@command(
    "triptych eval questions manual --llm ollama:qwen3 --output golden.yaml",
    "triptych eval questions manual --llm openai:gpt-4o-mini --count 100 -o golden.yaml",
)
def questions(
    session: Session,
    dataset: Annotated[str, argument("DATASET", "The dataset to ask about.")],
    written: Annotated[Path, option("--output -o FILE", "Write the golden set here, in YAML.")],
    llm: Annotated[
        str | None,
        option("--llm PROVIDER:MODEL", "The model that proposes. By default the setting llm."),
    ] = None,
    count: Annotated[int, option("--count -n", "Number of questions with an answer.", min=0)] = 50,
    unanswerable: Annotated[
        int, option("--unanswerable", "Number of questions without an answer.", min=0)
    ] = 10,
    force: Annotated[bool, option("--force", "Overwrite an existing file.")] = False,
) -> None:
    """Let a language model propose golden questions for you to review.

    Each question names its document and the sentence that answers it. Questions whose sentence is
    not in the document word for word are dropped and counted. Check each question, correct it, and
    remove "reviewed: false"; until then the eval commands warn.
    """
    from triptych.contracts.models import check_llm
    from triptych_evaluation.golden import golden_yaml
    from triptych_evaluation.questions import propose_questions

    check_places(written)
    if written.exists() and not force:
        raise ValidationError(f"{str(written)!r} is there already: --force writes over it")
    with session.service(settings=session.settings(llm=llm), dataset=dataset) as service:
        model = check_llm(service.llm)
        total = count + unanswerable
        with session.output.progress("questions", total=total) as progress:
            found = propose_questions(
                service,
                dataset,
                model,
                count=count,
                unanswerable=unanswerable,
                progress=progress,
            )
    session.output.warn(*found.failures[:3])
    if len(found.failures) > 3:
        session.output.warn(f"{len(found.failures) - 3} more calls brought nothing")
    if found.queries:
        write_page(
            written,
            golden_yaml(
                found.queries,
                name=dataset,
                comments=[
                    f"Proposed by {model.signature} from the dataset {dataset}. Look at each "
                    "question, and",
                    "correct it. For answerable: false, check that no document answers it. Then",
                    "remove 'reviewed: false'.",
                ],
            ),
        )
    proposed = sum(not query.unanswerable for query in found.queries)
    for reason, number in found.dropped.items():
        session.output.warn(f"{number} questions were thrown away: {reason}")
    session.output.show(
        {
            "file": str(written) if found.queries else None,
            "questions": proposed,
            "unanswerable": len(found.queries) - proposed,
            "dropped": dict(found.dropped),
            "failures": list(found.failures),
            "calls": found.calls,
            "input_tokens": found.usage.input_tokens,
            "output_tokens": found.usage.output_tokens,
        },
        note=f"{proposed} questions with an answer and {len(found.queries) - proposed} without are "
        f"in {written}: review each"
        if found.queries
        else "no question can be used: nothing was written",
    )


@command(
    "triptych eval log", "triptych eval log --golden unanswered.yaml", "triptych eval log --clear"
)
def log(
    session: Session,
    dataset: Annotated[
        str | None, option("--dataset -d", "Only questions to this dataset.")
    ] = None,
    golden: Annotated[
        Path | None,
        option("--golden FILE", "Write the questions here as golden questions to fill in."),
    ] = None,
    clear: Annotated[
        bool, option("--clear", "Delete the questions, and the counts of citations.")
    ] = False,
) -> None:
    """List questions that were not answered, newest first.

    If the setting question_log is true, the store keeps up to 200 questions without hits or with
    the answerability "weak" or "nothing".
    """
    from triptych.question_log import QuestionLog
    from triptych.records.serialization import to_dict
    from triptych_evaluation.golden import logged_yaml

    check_places(golden)
    with session.service() as service:
        kept = QuestionLog(service.capabilities.settings)
        questions = kept.questions(dataset)
        keeps = service.options.observer is not None
        if golden is not None:
            write_page(golden, logged_yaml(questions))
        if clear:
            kept.erase(dataset)
    rows = (
        (
            f"{each.asked_at:%Y-%m-%d %H:%M}",
            str(each.times),
            each.answerability,
            ", ".join(each.dataset_ids),
            " ".join(each.text.split()),
            ", ".join(each.found),
        )
        for each in questions
    )
    head = ("asked", "times", "verdict", "datasets", "question", "found")
    session.output.show(
        {"questions": [to_dict(each) for each in questions]},
        table=(head, rows) if golden is None and not clear else None,
        note="" if questions else "no questions are logged",
    )
    if not keeps:
        session.output.note("questions are not kept: set question_log = true to keep them")


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
    from triptych.records.serialization import to_dict
    from triptych.search.calibration import save_calibration
    from triptych_evaluation import calibrate as fit

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
        _show_calibration(session, found)
    if not save:
        session.output.note("nothing was kept: --save keeps the calibration in the store")


def _show_calibration(session: Session, found: CalibrationReport) -> None:
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
