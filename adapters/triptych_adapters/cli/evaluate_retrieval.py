"""``triptych eval retrieval`` and ``compare``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import attrs

from triptych.errors import ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.evaluation import (
    Html,
    Metrics,
    Output,
    check_places,
    chosen_metrics,
    note_failed,
    read_questions,
    show_comparison,
    show_evaluation,
    tell_json,
    tell_warnings,
    write_page,
    write_runs,
)
from triptych_adapters.cli.names import dataset_in_use
from triptych_adapters.cli.options import names, numbers
from triptych_adapters.cli.session import Exit, Session, exit_after

if TYPE_CHECKING:
    from triptych.records import Failure
    from triptych.service import KnowledgeBase, Service
    from triptych_evaluation import Collection

_FAILURES_SHOWN = 5


@command(
    "triptych eval retrieval --beir scifact.zip --output before.json",
    "triptych eval retrieval golden.yaml --granularity chunk --html report.html",
    "triptych eval retrieval golden.yaml --modes hybrid --pipeline support",
)
def retrieval(
    session: Session,
    golden: Annotated[
        Path | None, argument("GOLDEN", "Questions and the files that answer them, in YAML.")
    ] = None,
    beir: Annotated[
        Path | None,
        option(
            "--beir PATH",
            "A collection in BEIR's layout, a folder or a zip file. Without --store its documents "
            "are stored in memory for this command.",
        ),
    ] = None,
    split: Annotated[
        str, option("--split", "The judgements of the collection: qrels/SPLIT.tsv.")
    ] = "test",
    dataset: Annotated[
        str | None,
        option(
            "--dataset -d",
            "The dataset. Without it: default, or the only one; of --beir the collection's name.",
        ),
    ] = None,
    modes: Annotated[
        str | None,
        option(
            "--modes MODES",
            "bm25, vector, hybrid, separated by commas. By default all available.",
        ),
    ] = None,
    pipeline: Annotated[
        list[str] | None,
        option(
            "--pipeline NAME",
            "A pipeline of triptych.toml, beside the modes and with its own options; may be "
            "repeated. Documents are ranked without its postprocessors.",
        ),
    ] = None,
    granularity: Annotated[
        Literal["document", "chunk"], option("--granularity", "The unit to rank and judge.")
    ] = "document",
    cutoffs: Annotated[
        str, option("--k DEPTHS", "Depths of the metrics; the largest is the number of hits.")
    ] = "1,5,10,100",
    budgets: Annotated[
        str, option("--budgets TOKENS", "Token budgets for the share of evidence in chunks.")
    ] = "500,1000,2000,4000",
    least_grade: Annotated[
        int, option("--least-grade", "Lowest grade that counts as relevant.")
    ] = 1,
    metrics: Metrics = None,
    written: Output = None,
    html: Html = None,
    runs: Annotated[
        Path | None,
        option("--runs DIR", "Write each mode's ranking here as a TREC run, with the judgements."),
    ] = None,
) -> Exit:
    """Search for every judged question in every mode, and score the results.

    Means have 95% intervals; the JSON has every value of every query.
    """
    from triptych_evaluation import evaluate, evaluation_json, metric_names, read_beir

    if (beir is None) is (golden is None):
        raise ValidationError("give GOLDEN or --beir: one of the two")
    depths, tokens = numbers(cutoffs, "--k"), numbers(budgets, "--budgets")
    known = metric_names(depths)
    if granularity == "chunk":
        known += [f"evidence@{each}" for each in tokens]
    wanted = chosen_metrics(metrics, known)
    if beir is not None:
        check_places(written, html)
        collection = read_beir(beir, split=split)
    else:
        assert golden is not None
        collection = read_questions(session, golden, written, html)
    output = session.output
    with ExitStack() as stack:
        service = stack.enter_context(_service(session, pipeline, fresh=beir is not None))
        target = dataset_in_use(service, dataset) if beir is None else dataset or collection.name
        failed = _put(session, service, target, collection)
        named = None if modes is None else names(modes)
        first = named[0] if named else "bm25"
        with output.progress(first, total=len(collection.queries)) as progress:
            found = evaluate(
                service,
                collection,
                dataset_id=target,
                modes=named,
                pipelines=pipeline or (),
                granularity=granularity,
                least_grade=least_grade,
                progress=progress,
                cutoffs=depths,
                budgets=tokens,
            )
    tell_warnings(session, found)
    if html is not None:
        from triptych_evaluation.report import evaluation_html

        write_page(html, evaluation_html(found))
    if runs is not None:
        write_runs(runs, found, collection)
    if not tell_json(session, written, evaluation_json(found)):
        show_evaluation(session, found, wanted)
        note_failed(session, found)
    return exit_after(failed, done=len(collection.queries))


@contextmanager
def _service(
    session: Session, pipelines: Sequence[str] | None, *, fresh: bool
) -> Iterator[Service]:
    """The Service to evaluate; ``fresh``: in memory, unless a store was named."""
    from triptych.service import service_of

    settings = session.settings() if pipelines else session.settings().without_llm()
    if fresh and session.options.store is None:
        settings = attrs.evolve(settings, url="memory://", read_only=False)
    with session.service(create=fresh, settings=settings, pipeline=pipelines) as service:
        yield service_of(service, "an evaluation")


def _put(
    session: Session, service: KnowledgeBase, dataset: str, collection: Collection
) -> Sequence[Failure]:
    """Put the collection's documents, where it brings them; those that failed."""
    if collection.documents is None:
        return ()
    with session.output.progress("documents") as progress:
        report = service.put_documents(dataset, collection.documents(), progress=progress)
    session.output.warn_of(report.failed, most=_FAILURES_SHOWN)
    return report.failed


@command(
    "triptych eval compare before.json after.json",
    "triptych eval compare one.json one.json --modes bm25:hybrid --by-query ndcg@10",
)
def compare(
    session: Session,
    a: Annotated[Path, argument("A", "An evaluation in JSON: the baseline.")],
    b: Annotated[Path, argument("B", "An evaluation in JSON.")],
    metrics: Metrics = None,
    modes: Annotated[
        str | None,
        option(
            "--modes MODES",
            "Separated by commas; bm25:hybrid compares one mode of A with another of B. Without "
            "it: each mode that both have.",
        ),
    ] = None,
    by_query: Annotated[
        str | None,
        option(
            "--by-query METRIC",
            "List the queries that differ in this metric, largest loss first.",
        ),
    ] = None,
    written: Output = None,
    html: Html = None,
) -> None:
    """Compare two evaluations query by query, with a test of each difference.

    p comes from a paired randomisation test; p (Holm) is adjusted for all tests in the table.
    """
    from triptych_evaluation import compare as compare_evaluations, comparison_json, read_evaluation

    check_places(written, html)
    left, right = read_evaluation(a), read_evaluation(b)
    common = [name for name in left.metrics if name in right.metrics]
    chosen = chosen_metrics(metrics, common)
    if by_query is not None and by_query not in chosen:
        chosen.append(by_query)
    found = compare_evaluations(
        left, right, metrics=chosen, modes=None if modes is None else _pairs(modes)
    )
    session.output.warn(*found.warnings)
    if html is not None:
        from triptych_evaluation.report import comparison_html

        write_page(html, comparison_html(found, name_a=a.name, name_b=b.name))
    if not tell_json(session, written, comparison_json(found)):
        show_comparison(session, found, by_query)


def _pairs(text: str) -> list[tuple[str, str]]:
    return [
        (left, right if colon else left)
        for left, colon, right in (each.partition(":") for each in names(text))
    ]
