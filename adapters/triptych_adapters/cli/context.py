"""``triptych context``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from triptych._internal.wording import counted
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.options import option
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.query_options import (
    AsOf,
    Dataset,
    FreshOnly,
    LayerChoice,
    ModeOption,
    OptionalQuery,
    PipelineOption,
    Where,
    make_query,
    moment_note,
    note_unknown_fields,
    query_fields,
)
from triptych_adapters.cli.session import Session

_BUDGET = 2000


class FormatChoice(StrEnum):
    """How a context is written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    XML = "xml"


@command(
    "triptych context how do I start --budget 2000",
    "triptych context retries --format xml > prompt.xml",
    "triptych context auth --json | jq -r '.pieces\\[].citation.doc_name'",
    "triptych context --hook < hook.json",
)
def context(
    session: Session,
    query: OptionalQuery = None,
    budget: Annotated[
        int | None,
        option(
            "--budget -b TOKENS", "Maximum number of tokens. By default 2000, or the pipeline's."
        ),
    ] = None,
    top_k: Annotated[
        int | None,
        option(
            "--top-k -k N",
            "Maximum number of pieces. Without it as many as the budget holds; with --hook 6.",
            min=1,
        ),
    ] = None,
    format: Annotated[
        FormatChoice, option("--format -f", "How the pieces are written.")
    ] = FormatChoice.TEXT,
    dataset: Dataset = None,
    mode: ModeOption = None,
    layer: Annotated[
        list[LayerChoice] | None,
        option(
            "--layer -l",
            "Only these layers: L0 abstracts, L1 overviews, L2 passages. Without it: all.",
        ),
    ] = None,
    where: Where = None,
    fresh_only: FreshOnly = False,
    as_of: AsOf = None,
    pipeline: PipelineOption = None,
    fence: Annotated[
        bool, option("--fence", "Put each text between delimiters that no document can guess.")
    ] = False,
    hook: Annotated[
        bool,
        option(
            "--hook",
            "Serve as a session hook of a coding agent: read its JSON from stdin, and print the "
            "context of its prompt for it. Prints nothing where nothing is found.",
        ),
    ] = False,
    timeout: Annotated[
        float, option("--timeout SECONDS", "With --hook: end after so many seconds.", min=0)
    ] = 5.0,
) -> Exit | None:
    """Print what answers best for a prompt, with citations, within a budget of tokens.

    Passages, abstracts and overviews are mixed, the best first and the second best last.
    Headers and citations count against the budget. Nothing found prints nothing of a document.
    """
    if hook:
        from triptych_adapters.cli.hook import run_hook

        return run_hook(
            session,
            refused={
                "a QUERY": query,
                "--layer": layer,
                "--pipeline": pipeline,
                "--json": session.output.as_json,
                "--format": format is not FormatChoice.TEXT,
            },
            where=where or [],
            timeout=timeout,
            dataset_id=dataset,
            token_budget=_BUDGET if budget is None else budget,
            max_pieces=6 if top_k is None else top_k,
            mode=None if mode is None else str(mode),
            fresh_only=fresh_only,
        )

    written: dict[str, Any] = {
        "format": str(format),
        "layers": [str(each) for each in layer or LayerChoice],
        "max_pieces": top_k,
        "fence": fence,
    }
    settings = None if pipeline is None else session.settings()
    with session.service(
        settings=settings, dataset=dataset or "", tells=True, pipeline=pipeline
    ) as service:
        view = None if pipeline is None else service.pipeline(pipeline)
        text = " ".join(query or ())
        given = query_fields(
            dataset=dataset,
            mode=mode,
            where=where,
            fresh_only=fresh_only,
            as_of=as_of,
        )
        if view is None:
            asked = make_query(text, given, None)
            pack = service.context(asked, _BUDGET if budget is None else budget, **written)
        else:
            pack = view.context(text, budget, **written, **given)
        if not pack.pieces:
            note_unknown_fields(session.output, service, dataset, given["where"])
    output = session.output
    for warning in pack.warnings:
        output.warn(warning)
    if output.as_json:
        output.show(pack)
        return None
    if note := moment_note(pack):
        output.note(note)
    output.write(visible(pack.render()))
    pieces = counted(len(pack.pieces), "piece")
    output.note(f"{pieces}, {pack.tokens} of {pack.budget} tokens ({pack.counter})")
    return None
