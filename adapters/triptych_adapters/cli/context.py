"""``triptych context``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from triptych_adapters.cli.query_options import (
    AsOf,
    Dataset,
    FreshOnly,
    LayerChoice,
    ModeOption,
    PipelineOption,
    QueryArgument,
    Where,
    make_query,
    moment_note,
)
from triptych_adapters.cli.session import Session, command, examples

_BUDGET = 2000


class FormatChoice(StrEnum):
    """How a context is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    XML = "xml"


def register(app: typer.Typer) -> None:
    """Add ``context``."""
    command(
        app,
        "context",
        epilog=examples(
            "triptych context how do I start --budget 2000",
            "triptych context retries --format xml > prompt.xml",
            "triptych context auth --json | jq -r '.pieces\\[].citation.doc_name'",
        ),
    )(context)


def context(
    session: Session,
    query: QueryArgument,
    budget: Annotated[
        int | None,
        typer.Option(
            "--budget",
            "-b",
            metavar="TOKENS",
            help="Maximum number of tokens. By default 2000, or the pipeline's.",
        ),
    ] = None,
    format: Annotated[
        FormatChoice, typer.Option("--format", "-f", help="How the pieces are written.")
    ] = FormatChoice.TEXT,
    dataset: Dataset = None,
    mode: ModeOption = None,
    layer: Annotated[
        list[LayerChoice] | None,
        typer.Option(
            "--layer",
            "-l",
            help="Only these layers: L0 abstracts, L1 overviews, L2 passages. Without it: all.",
        ),
    ] = None,
    where: Where = None,
    fresh_only: FreshOnly = False,
    as_of: AsOf = None,
    pipeline: PipelineOption = None,
) -> None:
    """Print what answers best for a prompt, with citations, within a budget of tokens.

    Passages, abstracts and overviews are mixed, the best first and the second best last.
    Headers and citations count against the budget. Nothing found prints nothing of a document.
    """
    from triptych._internal.plurals import counted
    from triptych_adapters.cli.output import visible
    from triptych_adapters.wire.schema import to_json

    layers = [str(each) for each in layer or LayerChoice]
    settings = None if pipeline is None else session.settings()
    with session.service(
        settings=settings, dataset=dataset or "", tells=True, pipeline=pipeline
    ) as service:
        view = None if pipeline is None else service.pipeline(pipeline)
        asked = make_query(
            query,
            dataset=dataset,
            mode=mode,
            where=where,
            fresh_only=fresh_only,
            as_of=as_of,
            pipeline=None if view is None else view.pipeline,
        )
        if view is None:
            pack = service.context(asked, budget or _BUDGET, format=str(format), layers=layers)
        else:
            pack = view.context(asked, budget, format=str(format), layers=layers)
    output = session.output
    for warning in pack.warnings:
        output.warn(warning)
    if note := moment_note(pack):
        output.note(note)
    if output.as_json:
        output.emit(to_json(pack))
        return
    output.write(visible(pack.render()))
    pieces = counted(len(pack.pieces), "piece")
    output.note(f"{pieces}, {pack.tokens} of {pack.budget} tokens ({pack.counter})")
