"""``triptych ask``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from rich.style import Style
from rich.text import Text

from triptych._internal.wording import counted
from triptych.errors import ValidationError
from triptych_adapters.cli.command import command, option
from triptych_adapters.cli.hits import excerpt
from triptych_adapters.cli.names import SourceFiles, shown_path
from triptych_adapters.cli.options import (
    AnswerModel,
    Dataset,
    FreshOnly,
    ModeOption,
    PipelineOption,
    PriceInput,
    PriceOutput,
    QueryArgument,
    Where,
    asked_of,
    note_unknown_fields,
    prices_of,
    query_fields,
)
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.answers import Answer, AnswerStream, ContextPack, Piece
    from triptych.records import Message

_Footnote: TypeAlias = "Callable[[Piece], Text]"

_NEAREST = 3
"""The passages that are shown in place of an answer."""

_CITED = re.compile(r"\[[0-9][0-9,;、 –-]*\]")


@command(
    "triptych ask how do I start --llm ollama:qwen3",
    "triptych ask 'which port does the broker use?' --where lang=en",
    "triptych ask and the other one --conversation chat.json",
    "triptych ask how are backups made --json | jq -r '.citations\\[].path'",
)
def ask(
    session: Session,
    query: QueryArgument,
    llm: AnswerModel = None,
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
            "Maximum number of sources. By default as many as fit the budget.",
            min=1,
        ),
    ] = None,
    dataset: Dataset = None,
    mode: ModeOption = None,
    where: Where = None,
    fresh_only: FreshOnly = False,
    pipeline: PipelineOption = None,
    proof: Annotated[
        Literal["mark", "drop", "refuse"],
        option(
            "--proof POLICY",
            "What happens to a sentence whose quotations, figures, dates, names or code are not in "
            "the passages that it cites: mark names them, drop leaves the sentence out, refuse "
            "fails.",
        ),
    ] = "mark",
    conversation: Annotated[
        Path | None,
        option(
            "--conversation FILE",
            "Continue the conversation in this file, and append the question and its answer. A "
            "missing file is created.",
        ),
    ] = None,
    timeout: Annotated[
        float | None, option("--timeout SECONDS", "Time limit in seconds.", min=0)
    ] = None,
    price_input: PriceInput = None,
    price_output: PriceOutput = None,
) -> None:
    """Answer a question from the documents, and cite files and lines.

    The answer is printed as the model writes it, followed by the cited sources. Each citation is
    checked against the sources that the model read, and so are quotations, figures, dates, names
    and code: a warning names what a cited source does not have. If the documents do not answer, a
    sentence says so, and the exit code is 0. `triptych context` shows what a model would read.
    """
    from triptych.deadlines import deadline

    settings = session.settings(llm=llm)
    turns = () if conversation is None else _read(conversation)
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "max_pieces": top_k,
        "prices": prices_of(price_input, price_output),
        "proof": proof,
    }
    with (
        deadline(timeout),
        session.service(
            settings=settings,
            dataset=dataset or "",
            tells=True,
            preload=mode != "bm25",
            pipeline=pipeline,
        ) as service,
    ):
        given = query_fields(
            dataset=dataset,
            mode=mode,
            where=where,
            fresh_only=fresh_only,
            conversation=turns or None,
        )
        if budget is not None:
            options["token_budget"] = budget
        if pipeline is not None and llm is not None:
            options["llm"] = service.llm
        files = SourceFiles(service)
        footnote = partial(
            _footnote, files, several=dataset is None and len(service.list_datasets()) > 1
        )
        answering, asked, more = asked_of(service, pipeline, query, given)
        if answering.llm is None and "llm" not in options and not session.output.as_json:
            # Passages are what there is to answer with; `ask` itself then says what is missing.
            pack = answering.context(asked, budget, **more)
            _show_nearest(session, pack, footnote, first=True)
            session.output.warn(*pack.warnings)
        options |= more
        if session.output.as_json:
            answer = answering.ask(asked, **options)
            session.output.show(_json(answer, files))
        else:
            answer = _live(session, lambda: answering.ask_stream(asked, **options))
            _finish(session, answer, footnote)
        if answer.reason == "nothing":
            note_unknown_fields(session.output, service, dataset, given["where"])
    if conversation is not None:
        _write(conversation, answer.conversation)


def _live(session: Session, start: Callable[[], AnswerStream]) -> Answer:
    """Print the answer as it comes."""
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
                    output.stdout.print(_styled(piece), end="", soft_wrap=True)
                else:
                    output.write(_styled(piece).plain)
        finally:
            output.say("")
    return stream.answer


def _finish(session: Session, answer: Answer, footnote: _Footnote) -> None:
    """The sources on stdout; all else on stderr."""
    output = session.output
    if answer.citations:
        output.say("")
    for source in answer.citations:
        output.say(footnote(source.piece))
    if answer.reason in ("nothing", "weak"):
        _show_nearest(session, answer.pack, footnote)
    output.warn(*answer.warnings)
    if answer.reason == "nothing":
        output.note("nothing was found that answers: the model was not called")
    if answer.reason == "weak":
        output.note("the hits hardly answer: the model was not called")
    if answer.uncited:
        output.note(f"{counted(len(answer.uncited), 'sentence')} without a source")
    if answer.usage.calls:
        used = answer.usage
        about = "about " if answer.usage_estimated else ""
        told = f"{used.model}: {about}{used.input_tokens:,} tokens in, {used.output_tokens:,} out"
        output.note(told if answer.cost is None else f"{told}, a cost of {answer.cost:,.4f}")


def _show_nearest(
    session: Session, pack: ContextPack, footnote: _Footnote, *, first: bool = False
) -> None:
    """The best passages, each after a blank line; ``first``: nothing stands before them."""
    from triptych.text import get_analyzer

    output, terms = session.output, get_analyzer("auto").analyze_query(pack.query)
    for at, piece in enumerate(sorted(pack.pieces, key=lambda each: each.number)[:_NEAREST]):
        if at or not first:
            output.say("")
        output.say(footnote(piece))
        for line in excerpt(piece.text, terms, width=output.stdout.width - 4):
            output.say(Text.assemble("    ", line))


def _json(answer: Answer, files: SourceFiles) -> Mapping[str, Any]:
    from triptych.records.serialization import to_json

    shown: dict[str, Any] = to_json(answer)
    for entry, source in zip(shown["citations"], answer.citations, strict=True):
        path = files.path(source.citation.dataset_id, source.citation.doc_name)
        entry["file"] = None if path is None else str(path)
    return shown


def _styled(piece: str) -> Text:
    """A piece of an answer, without what could steer a terminal."""
    text = Text(visible(piece))
    text.highlight_regex(_CITED, "cyan")
    return text


def _footnote(files: SourceFiles, piece: Piece, *, several: bool) -> Text:
    """A source: its number, file, lines and section; its dataset, if it may be of several."""
    cited = piece.citation
    path = files.path(cited.dataset_id, cited.doc_name)
    name = cited.doc_name or f"[{cited.dataset_id}]"
    place = name if path is None else shown_path(path)
    if cited.locator:
        # A locator says that the text was extracted: its lines are those of the file, if any.
        words = f", {cited.locator}"
        place += words if path is None else re.sub("^, lines? ", ":", words)
    elif cited.lines is not None:
        first, last = cited.lines[0], cited.lines[-1]
        place += f":{first}" if first == last else f":{first}-{last}"
    else:
        place += f" {cited.layer}"
    link = None if path is None else path.as_uri()
    line = Text.assemble(
        (f"[{piece.number}]", "cyan"), " ", (visible(place), Style(bold=True, link=link))
    )
    if cited.heading_path:
        line.append(f"  {visible(' > '.join(cited.heading_path))}", style="italic")
    if several and cited.doc_name:
        line.append(f"  [{visible(cited.dataset_id)}]", style="dim")
    if cited.stale is not None:
        line.append(f"  stale: {cited.stale}", style="yellow")
    if signs := dict.fromkeys(sign.kind for sign in piece.signs):
        line.append(f"  written for models? {', '.join(signs)}", style="yellow")
    return line


def _read(path: Path) -> tuple[Message, ...]:
    """The messages in ``path``; none if the file does not exist.

    Raises:
        ValidationError: the file cannot be read, holds something else, or is to be in a folder
            that is not there.
    """
    from triptych.records import Message
    from triptych.records.serialization import from_dict
    from triptych.resources.files import read_regular

    try:
        text = read_regular(path).decode("utf-8")
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise ValidationError(
                f"the conversation {path} cannot be written: there is no folder {path.parent}"
            ) from None
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ValidationError(f"the conversation {path} cannot be read: {error}") from error
    try:
        return from_dict(tuple[Message, ...], json.loads(text))
    except ValueError as error:
        raise ValidationError(
            f'{path} is not a conversation, a JSON list of {{"role": …, "content": …}}: {error}'
        ) from error


def _write(path: Path, messages: Sequence[Message]) -> None:
    """Put ``messages`` in place of what the file holds, whole or not at all.

    Raises:
        ValidationError: the file cannot be written.
    """
    from triptych.records.serialization import to_dict

    text = json.dumps(to_dict(tuple(messages)), ensure_ascii=False, indent=2) + "\n"
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ValidationError(f"the conversation {path} cannot be written: {error}") from error
