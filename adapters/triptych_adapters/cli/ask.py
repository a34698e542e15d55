"""``triptych ask``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from triptych.errors import ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.options import option
from triptych_adapters.cli.query_options import (
    Dataset,
    FreshOnly,
    ModeChoice,
    ModeOption,
    PipelineOption,
    QueryArgument,
    Where,
    make_query,
    note_unknown_fields,
    query_fields,
)
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.answering import Answer, AnswerStream
    from triptych.records import Prices
    from triptych_adapters.cli.source_files import SourceFiles


@command(
    "triptych ask how do I start --llm ollama:qwen3",
    "triptych ask 'which port does the broker use?' --where lang=en",
    "triptych ask and the other one --conversation chat.json",
    "triptych ask how are backups made --json | jq -r '.citations\\[].path'",
)
def ask(
    session: Session,
    query: QueryArgument,
    llm: Annotated[
        str | None,
        option(
            "--llm PROVIDER:MODEL",
            "The model that answers. By default the setting llm, or the pipeline's.",
        ),
    ] = None,
    budget: Annotated[
        int | None,
        option(
            "--budget -b TOKENS",
            "Maximum number of tokens of the sources. By default 2800, or the pipeline's.",
        ),
    ] = None,
    max_tokens: Annotated[
        int, option("--max-tokens TOKENS", "Maximum number of tokens of the answer.")
    ] = 1024,
    top_k: Annotated[
        int | None,
        option(
            "--top-k -k N",
            "Maximum number of sources. Without it as many as the budget holds.",
            min=1,
        ),
    ] = None,
    dataset: Dataset = None,
    mode: ModeOption = None,
    where: Where = None,
    fresh_only: FreshOnly = False,
    pipeline: PipelineOption = None,
    conversation: Annotated[
        Path | None,
        option(
            "--conversation FILE",
            "Go on with the conversation in this file, and add the question and its answer. A "
            "file that is missing is made.",
        ),
    ] = None,
    timeout: Annotated[
        float | None, option("--timeout SECONDS", "End after so many seconds.", min=0)
    ] = None,
    price_input: Annotated[
        float | None, option("--price-input PRICE", "Of a million tokens in.")
    ] = None,
    price_output: Annotated[
        float | None, option("--price-output PRICE", "Of a million tokens out.")
    ] = None,
) -> None:
    """Answer a question from the documents, with the files and lines that say so.

    The answer is printed as the model writes it, and then the sources that it cites. Each number
    in it was checked against what the model was shown. Where the documents do not answer, a
    sentence says so, and the exit code is 0. `triptych context` shows what a model would read.
    """
    from triptych.deadlines import deadline
    from triptych_adapters.cli import conversation_file
    from triptych_adapters.cli.source_files import SourceFiles

    settings = session.settings(llm=llm)
    turns = () if conversation is None else conversation_file.read(conversation)
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "max_pieces": top_k,
        "prices": _prices(price_input, price_output),
    }
    with (
        deadline(timeout),
        session.service(
            settings=settings,
            dataset=dataset or "",
            tells=True,
            preload=mode != ModeChoice.BM25,
            pipeline=pipeline,
        ) as service,
    ):
        view = None if pipeline is None else service.pipeline(pipeline)
        text = " ".join(query or ())
        given = query_fields(
            dataset=dataset,
            mode=mode,
            where=where,
            fresh_only=fresh_only,
            conversation=turns or None,
        )
        if budget is not None:
            options["token_budget"] = budget
        if view is not None and llm is not None:
            options["llm"] = service.llm
        files = SourceFiles(service)
        answering = service if view is None else view
        asked = make_query(text, given, None) if view is None else text
        options |= {} if view is None else given
        if session.output.as_json:
            answer = answering.ask(asked, **options)
            session.output.emit(_json(answer, files))
        else:
            answer = _live(session, lambda: answering.ask_stream(asked, **options))
            _finish(session, answer, files)
        if answer.reason == "nothing":
            note_unknown_fields(session.output, service, dataset, given["where"])
    if conversation is not None:
        conversation_file.write(conversation, answer.conversation)


def _live(session: Session, start: Callable[[], AnswerStream]) -> Answer:
    """Print the answer as it comes."""
    from triptych_adapters.cli.answer_lines import styled

    output = session.output
    status = output.stderr.status("reading the documents, and asking the model …")
    with ExitStack() as opened:
        with status if output.shows_progress else nullcontext():
            stream = opened.enter_context(start())
            first = next(stream, "")
        try:
            # The status is gone before the first word: both may be on one screen.
            for piece in chain((first,), stream):
                if output.stdout.is_terminal:
                    output.stdout.print(styled(piece), end="", soft_wrap=True)
                else:
                    output.write(styled(piece).plain)
        finally:
            output.say("")
    return stream.answer


def _finish(session: Session, answer: Answer, files: SourceFiles) -> None:
    """The sources on stdout; all else on stderr."""
    from triptych._internal.plurals import counted
    from triptych_adapters.cli.answer_lines import footnotes

    output = session.output
    lines = footnotes(answer, files)
    if lines:
        output.say("")
    for line in lines:
        output.say(line)
    for warning in answer.warnings:
        output.warn(warning)
    if answer.reason == "nothing":
        output.note("nothing was found that answers: the model was not asked")
    if answer.reason == "weak":
        output.note("what was found hardly answers: the model was not asked")
    if answer.uncited:
        output.note(f"{counted(len(answer.uncited), 'sentence')} without a source")
    if answer.usage.calls:
        used = answer.usage
        about = "about " if answer.usage_estimated else ""
        told = f"{used.model}: {about}{used.input_tokens:,} tokens in, {used.output_tokens:,} out"
        output.note(told if answer.cost is None else f"{told}, a cost of {answer.cost:,.4f}")


def _json(answer: Answer, files: SourceFiles) -> Mapping[str, Any]:
    from triptych.records.serialization import to_json

    shown: dict[str, Any] = to_json(answer)
    for entry, source in zip(shown["citations"], answer.citations, strict=True):
        path = files.path(source.citation.dataset_id, source.citation.doc_name)
        entry["file"] = None if path is None else str(path)
    return shown


def _prices(price_input: float | None, price_output: float | None) -> Prices | None:
    from triptych.records import Prices

    if price_input is None and price_output is None:
        return None
    if price_input is None or price_output is None:
        raise ValidationError("give --price-input and --price-output: both or none")
    return Prices(input=price_input, output=price_output)
