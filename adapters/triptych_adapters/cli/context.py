"""``triptych context``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from triptych_adapters.cli.search import LayerChoice, ModeChoice
from triptych_adapters.cli.session import Session, command, examples, pairs


class FormatChoice(StrEnum):
    """How a context is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    XML = "xml"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add ``context``."""
    command(
        app,
        "context",
        epilog=examples(
            "triptych context how do I start --budget 2000",
            "triptych context retries --all --format xml > prompt.xml",
            "triptych context auth --json | jq -r '.pieces\\[].document'",
        ),
    )(context)


def context(
    session: Session,
    query: Annotated[
        list[str],
        typer.Argument(metavar="QUERY", help="A question, or some words.", show_default=False),
    ],
    budget: Annotated[
        int, typer.Option("--budget", "-b", metavar="TOKENS", help="The most tokens to print.")
    ] = 2000,
    format: Annotated[
        FormatChoice, typer.Option("--format", "-f", help="How the pieces are written.")
    ] = FormatChoice.TEXT,
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="The dataset to search.")
    ] = "default",
    everywhere: Annotated[bool, typer.Option("--all", "-a", help="Search every dataset.")] = False,
    mode: Annotated[
        ModeChoice | None,
        typer.Option("--mode", help="Which lanes run. Without it: hybrid where an embedder is."),
    ] = None,
    layer: Annotated[
        list[LayerChoice] | None,
        typer.Option(
            "--layer",
            "-l",
            help="Only these layers: L0 abstracts, L1 overviews, L2 passages. Without it: all.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            "-w",
            metavar="KEY=VALUE",
            help="Only documents with this metadata; doc_name, doc_prefix and heading work "
            "too. A key given again allows any of its values.",
        ),
    ] = None,
    fresh_only: Annotated[bool, typer.Option("--fresh-only", help="Leave out what is stale.")] = (
        False
    ),
) -> None:
    """Print what answers best for a prompt, with citations, within a budget of tokens.

    Passages, abstracts and overviews are mixed, the best first and the second best last.
    Headers and citations count against the budget. Nothing found prints nothing of a document.
    """
    from triptych.records import Query, Scope
    from triptych_adapters.cli.output import visible
    from triptych_adapters.wire.schema import to_json

    conditions = pairs(where or [], "--where")
    asked = Query(
        text=" ".join(query),
        dataset_id="" if everywhere else dataset,
        scope=Scope.ALL if everywhere else Scope.SINGLE,
        mode=None if mode is None else str(mode),
        where={
            key: values[0] if len(values) == 1 else values for key, values in conditions.items()
        },
        fresh_only=fresh_only,
    )
    layers = [str(each) for each in layer or LayerChoice]
    with session.service() as service:
        pack = service.context(asked, budget, format=str(format), layers=layers)
    output = session.output
    for warning in pack.warnings:
        output.warn(warning)
    if output.as_json:
        output.emit(to_json(pack))
        return
    output.write(visible(pack.render()))
    output.note(f"{len(pack.pieces)} pieces, {pack.tokens} of {budget} tokens ({pack.counter})")
