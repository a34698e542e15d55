"""``triptych eval compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.evaluation import (
    Html,
    Metrics,
    Output,
    check_places,
    chosen_metrics,
    show_comparison,
    tell_json,
    write_page,
)
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.values import names


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
            "List the queries that differ in this metric, the greatest loss first.",
        ),
    ] = None,
    written: Output = None,
    html: Html = None,
) -> None:
    """Compare two evaluations query by query, with a test of each difference.

    p comes from a paired randomisation test; p (Holm) is adjusted for all tests in the table.
    """
    from triptych.evaluation import compare as compare_evaluations, comparison_json, read_evaluation

    check_places(written, html)
    left, right = read_evaluation(a), read_evaluation(b)
    common = [name for name in left.metrics if name in right.metrics]
    chosen = chosen_metrics(metrics, common)
    if by_query is not None and by_query not in chosen:
        chosen.append(by_query)
    found = compare_evaluations(
        left, right, metrics=chosen, modes=None if modes is None else _pairs(modes)
    )
    for warning in found.warnings:
        session.output.warn(warning)
    if html is not None:
        from triptych.evaluation.report import comparison_html

        write_page(html, comparison_html(found, name_a=a.name, name_b=b.name))
    if not tell_json(session, written, comparison_json(found)):
        show_comparison(session, found, by_query)


def _pairs(text: str) -> list[tuple[str, str]]:
    return [
        (left, right if colon else left)
        for left, colon, right in (each.partition(":") for each in names(text))
    ]
