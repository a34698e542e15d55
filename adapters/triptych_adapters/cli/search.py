"""``triptych search``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from triptych_adapters.cli.query_options import (
    Dataset,
    Everywhere,
    FreshOnly,
    LayerChoice,
    ModeOption,
    OptionalQuery,
    Where,
    make_query,
)
from triptych_adapters.cli.session import Session, command, examples

if TYPE_CHECKING:
    from rich.text import Text

    from triptych.records import Hit


class RankerChoice(StrEnum):
    """The rankers that ship."""

    RRF = "rrf"
    MIN_MAX = "min-max"


def register(app: typer.Typer) -> None:
    """Add ``search``."""
    command(
        app,
        "search",
        epilog=examples(
            "triptych search how do I start",
            "triptych search retries --all --mode bm25 --top-k 3",
            "triptych search auth --where lang=en --where doc_prefix=guide/",
            "triptych search auth --json | jq -r '.hits\\[].name'",
        ),
    )(search)


def search(
    session: Session,
    query: OptionalQuery = None,
    dataset: Dataset = "default",
    everywhere: Everywhere = False,
    mode: ModeOption = None,
    layer: Annotated[
        LayerChoice,
        typer.Option("--layer", "-l", help="L2 finds chunks, L0 abstracts, L1 overviews."),
    ] = LayerChoice.DETAIL,
    documents: Annotated[
        bool, typer.Option("--documents", help="Find whole documents instead.")
    ] = False,
    top_k: Annotated[int, typer.Option("--top-k", "-k", help="The most hits to show.")] = 10,
    threshold: Annotated[
        float | None, typer.Option("--threshold", help="The least fused score.")
    ] = None,
    where: Where = None,
    per_document: Annotated[
        int | None,
        typer.Option("--per-document", min=1, help="The most hits of one document: its best."),
    ] = None,
    offset: Annotated[
        int, typer.Option("--offset", min=0, help="Skip so many of the best: the pages before.")
    ] = 0,
    fresh_only: FreshOnly = False,
    ranker: Annotated[
        RankerChoice | None,
        typer.Option("--ranker", help="What fuses the lanes. By default the setting, rrf."),
    ] = None,
    reranker: Annotated[
        str | None,
        typer.Option(
            "--reranker",
            metavar="PROVIDER:MODEL",
            help="A model that puts the best 50 hits in its order, such as voyage:rerank-2.5.",
        ),
    ] = None,
) -> None:
    """Find the chunks, layers or documents that answer best.

    Each hit shows its document, line, section and scores, and whether it is stale. No hits
    is an answer: the exit code is 0.
    """
    from triptych_adapters.wire.schema import to_json

    asked = make_query(
        query,
        dataset=dataset,
        everywhere=everywhere,
        mode=mode,
        where=where,
        fresh_only=fresh_only,
        layer=str(layer),
        top_k=top_k,
        threshold=threshold,
        per_document=per_document,
        offset=offset,
    )
    settings = session.settings(
        llm="none", ranker=None if ranker is None else str(ranker), reranker=reranker
    )
    with session.service(settings=settings) as service:
        result = service.search_documents(asked) if documents else service.search(asked)
    output = session.output
    for warning in result.warnings:
        output.warn(warning)
    if output.as_json:
        output.emit({"query": asked.text, **to_json(result)})
        return
    for rank, hit in enumerate(result.hits, start=1 + offset):
        output.say(heading(rank, hit, show_dataset=everywhere))
        output.say(_excerpt(hit))
    if not result.hits:
        output.note("no hits")


def heading(rank: int, hit: Hit, *, show_dataset: bool) -> Text:
    """A hit's first line: rank, place, section, scores, and why it is stale."""
    from rich.text import Text

    from triptych_adapters.cli.output import visible

    place = f"{hit.dataset_id}/{hit.doc_name}" if show_dataset else hit.doc_name
    if hit.layer is None:
        where = ""
    elif hit.chunk_index >= 0:
        where = f", {visible(hit.locator)}" if hit.locator else f":{hit.start_line}"
    else:
        where = f" {hit.layer}"
    line = Text(f"{rank}. ")
    line.append(visible(place) + where, style="bold cyan")
    if hit.heading_path:
        line.append("  " + visible(" > ".join(hit.heading_path)), style="italic")
    lanes = ", ".join(f"{lane} {score:.3f}" for lane, score in sorted(hit.scores.items()))
    line.append(f"  {hit.score:.4f}" + (f" ({lanes})" if lanes else ""), style="dim")
    if hit.stale is not None:
        line.append(f"  stale: {hit.stale}", style="yellow")
    return line


def _excerpt(hit: Hit) -> str:
    lines = (hit.snippet or hit.content).strip().splitlines()[:6]
    return "\n".join(f"   {line}" for line in lines)
