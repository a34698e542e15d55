"""``triptych context``, for a person and as a hook of coding agents."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NoReturn, get_args

from triptych._internal.wording import counted
from triptych.errors import TriptychError, ValidationError
from triptych_adapters.cli.command import command, option
from triptych_adapters.cli.options import (
    AsOf,
    Dataset,
    FreshOnly,
    LayerChoice,
    ModeOption,
    OptionalQuery,
    PipelineOption,
    Where,
    asked_of,
    conditions,
    moment_note,
    query_fields,
)
from triptych_adapters.cli.output import visible
from triptych_adapters.cli.session import Exit, Session

_BUDGET = 2000


@command(
    "triptych context how do I start --budget 2000",
    "triptych context retries --format xml > prompt.xml",
    "triptych context auth --json | jq -r '.pieces\\[].citation.doc_name'",
    "triptych context how do I start --prefix-tokens 4000",
    "triptych context --prefix-tokens 4000 > prefix.txt",
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
            "Maximum number of pieces. By default as many as fit the budget; with --hook 6.",
            min=1,
        ),
    ] = None,
    format: Annotated[
        Literal["text", "markdown", "xml"], option("--format -f", "The format of the pieces.")
    ] = "text",
    dataset: Dataset = None,
    mode: ModeOption = None,
    layer: Annotated[
        list[str] | None,
        option(
            "--layer -l <list[L0|L1|L2]>",
            "Only these layers: L0 abstracts, L1 overviews, L2 passages. By default all.",
            autocompletion=lambda: get_args(LayerChoice),
        ),
    ] = None,
    where: Where = None,
    fresh_only: FreshOnly = False,
    as_of: AsOf = None,
    pipeline: PipelineOption = None,
    fence: Annotated[
        bool, option("--fence", "Put each text between delimiters that no document can guess.")
    ] = False,
    prefix_tokens: Annotated[
        int | None,
        option(
            "--prefix-tokens TOKENS",
            "Print a prefix of at most this many tokens first: abstracts and overviews, the same "
            "for every question, for a provider's cache. Without QUERY print only the prefix.",
            min=1,
        ),
    ] = None,
    hook: Annotated[
        bool,
        option(
            "--hook",
            "Run as a session hook of a coding agent: read its JSON from stdin, and print the "
            "context for its prompt, or nothing if nothing is found.",
        ),
    ] = False,
    timeout: Annotated[
        float, option("--timeout SECONDS", "With --hook: time limit in seconds.", min=0)
    ] = 5.0,
) -> Exit | None:
    """Print the best passages for a prompt, with citations, within a budget of tokens.

    Passages, abstracts and overviews are mixed, the best first and the second best last. Headers
    and citations count against the budget. If nothing is found, no text of a document is printed.
    """
    if hook:
        return run_hook(
            session,
            refused={
                "a QUERY": query,
                "--layer": layer,
                "--pipeline": pipeline,
                "--json": session.output.as_json,
                "--format": format != "text",
                "--prefix-tokens": prefix_tokens,
            },
            where=where or [],
            timeout=timeout,
            dataset_id=dataset,
            token_budget=_BUDGET if budget is None else budget,
            max_pieces=6 if top_k is None else top_k,
            mode=mode,
            fresh_only=fresh_only,
        )

    if query is None and prefix_tokens is not None and pipeline is None:
        given = query_fields(
            dataset=dataset, mode=None, where=where, fresh_only=fresh_only, as_of=as_of
        )
        _show_prefix(session, prefix_tokens, format=format, fence=fence, **given)
        return None

    written: dict[str, Any] = {
        "format": format,
        "layers": layer or get_args(LayerChoice),
        "max_pieces": top_k,
        "fence": fence,
        "prefix_tokens": prefix_tokens,
    }
    settings = None if pipeline is None else session.settings()
    with session.service(
        settings=settings, dataset=dataset or "", tells=True, pipeline=pipeline
    ) as service:
        given = query_fields(
            dataset=dataset, mode=mode, where=where, fresh_only=fresh_only, as_of=as_of
        )
        target, asked, more = asked_of(service, pipeline, query, given)
        if pipeline is None and budget is None:
            budget = _BUDGET
        pack = target.context(asked, budget, **written, **more)
    output = session.output
    output.warn(*pack.warnings)
    if output.as_json:
        output.show(pack)
        return None
    if note := moment_note(pack):
        output.note(note)
    if pack.prefix is not None and pack.prefix.text:
        output.write(visible(pack.prefix.text) + "\n")
    output.write(visible(pack.tail))
    pieces = counted(len(pack.pieces), "piece")
    output.note(f"{pieces}, {pack.tokens} of {pack.budget} tokens ({pack.counter})")
    return None


def _show_prefix(session: Session, prefix_tokens: int, **options: Any) -> None:
    if "dataset_id" not in options:
        options["scope"] = "all"
    with session.service(dataset=options.get("dataset_id", ""), tells=True) as service:
        prefix = service.context_prefix(prefix_tokens, **options)
    output = session.output
    output.warn(*prefix.warnings)
    if output.as_json:
        output.show(prefix)
        return
    if note := moment_note(prefix):
        output.note(note)
    output.write(visible(prefix.text))
    layers = counted(len(prefix.pieces), "layer")
    tokens = f"{prefix.tokens} of {prefix.budget} tokens ({prefix.counter})"
    output.note(f"{layers}, {tokens}, digest {prefix.digest}")


_SPARE = 2.0  # seconds for what no deadline interrupts, such as loading a model


def run_hook(
    session: Session,
    *,
    refused: Mapping[str, object],
    where: Sequence[str],
    timeout: float,
    dataset_id: str | None,
    **options: Any,
) -> Exit:
    """Read the hook's JSON from stdin, and print what the host adds to the session.

    Nothing is printed where nothing is relevant, or where there is no ``prompt``. What fails is a
    line on stderr and the exit code 1, with which hosts go on. ``options`` are those of
    `context_hook`; what is ``refused`` must not be given.
    """
    for name, is_given in refused.items():
        if is_given:
            session.output.error(f"--hook takes no {name}: the prompt is read from stdin")
            return Exit.FAILED
    with _ended_after(timeout + _SPARE):
        try:
            options["where"] = conditions(where, "--where")
        except TriptychError as error:
            session.output.error(str(error))
            return Exit.FAILED
        try:
            given = _given()
            prompt, event = given.get("prompt"), given.get("hook_event_name")
            if not isinstance(prompt, str) or not prompt.strip():
                return Exit.OK
            from triptych_adapters.context_hook import context_hook

            failures: list[TriptychError] = []
            with session.service(dataset=dataset_id or "", preload=True) as service:
                hook = context_hook(
                    service,
                    dataset_id=dataset_id,
                    timeout=timeout,
                    on_error=failures.append,
                    **options,
                )
                encodable = prompt.encode("utf-8", "replace").decode("utf-8")
                text = hook([{"role": "user", "content": encodable}])
        except Exception as error:  # noqa: BLE001 - the host goes on, whatever it is
            return _fail(session, error)
        if failures:
            return _fail(session, failures[0])
        if text is not None:
            name = event if isinstance(event, str) and event else "UserPromptSubmit"
            said = {"hookEventName": name, "additionalContext": text}
            session.output.write(json.dumps({"hookSpecificOutput": said}) + "\n")
    return Exit.OK


def _given() -> Mapping[str, Any]:
    try:
        given = json.loads(sys.stdin.buffer.read().decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise ValidationError(f"--hook reads a JSON object from stdin: {error}") from None
    if not isinstance(given, dict):
        raise ValidationError(
            f"--hook reads a JSON object from stdin, not a {type(given).__name__}"
        )
    return given


def _fail(session: Session, error: Exception) -> Exit:
    session.output.error(f"no context for this turn: {error}")
    return Exit.FAILED


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the process when the block takes longer: a host waits for its hooks."""
    timer = threading.Timer(seconds, _end, [seconds])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end(seconds: float) -> NoReturn:
    os.write(2, f"error: no context for this turn: it took {seconds:g} seconds\n".encode())
    # Nothing of the store is half written: each change of it is one transaction.
    os._exit(int(Exit.FAILED))
