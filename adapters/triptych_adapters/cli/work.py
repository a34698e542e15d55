"""``triptych work``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from triptych._internal.plurals import counted
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.options import option
from triptych_adapters.cli.output import SCHEMA, Output, json_text
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.signals import until_stopped

if TYPE_CHECKING:
    from triptych.workers import Share, WorkReport

_GRACE = 8.0
"""Seconds from a signal to the end: an embedder that is being asked may answer, and is stored."""
_NAMED = 5
"""How many failures of one share are named."""


@command(
    "triptych work                     wait for work, until Ctrl-C",
    "triptych work --once              end when nothing is left",
    "triptych work -d docs -d wiki     of two datasets",
)
def work(
    session: Session,
    datasets: Annotated[
        list[str] | None, option("--dataset -d", "Repeat it for several. By default all.")
    ] = None,
    once: Annotated[
        bool, option("--once", "End when nothing is left, instead of waiting.")
    ] = False,
    poll: Annotated[
        float, option("--poll SECONDS", "Look for work this often. PostgreSQL reports it.")
    ] = 1.0,
    lease: Annotated[
        float,
        option(
            "--lease SECONDS",
            "Others take over the share of a worker that was killed after this long.",
        ),
    ] = 10.0,
) -> Exit:
    """Chunk and embed what waits for it, beside any number of other workers.

    Run it in as many processes as you like, on every machine that reaches the store, with the same
    settings. Each takes some documents at a time that are stale or lack vectors, and no two take
    the same. What a killed worker had, others take over. A document that fails is tried again
    later, and does not delay the others.

    Each share prints a line: its dataset, the documents, the embedded chunks, the seconds. With
    --json each is an object on one line, and the last one has the sums.
    """
    from triptych.workers import Worker
    from triptych_factory.remote import check_local

    output = session.output
    check_local(session.settings(), "a worker")
    with until_stopped(output, _GRACE) as on_stop, session.service() as service:
        service.health().require()
        log = _Log(output)
        worker = Worker(service, datasets, poll=poll, lease=lease, on_share=log)
        on_stop(worker.stop)
        if not once:
            output.note("waiting for work; Ctrl-C ends it")
        report = worker.run(once=once)
        if worker.stopped:
            output.note("stopped")
    _print_end(output, report)
    if worker.stopped:
        return Exit.OK
    return exit_after([failure.error for failure in report.failed], done=report.documents)


class _Log:
    """Prints each share."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def __call__(self, share: Share) -> None:
        from triptych.records.serialization import to_json

        output, report = self._output, share.report
        for failure in report.failed[:_NAMED]:
            place = "/".join(filter(None, (failure.dataset_id, failure.name))) or "the store"
            output.warn(f"{place}: {failure.error}")
        if len(report.failed) > _NAMED:
            output.warn(f"and {len(report.failed) - _NAMED} more")
        if output.as_json:
            fields = {"event": "share", "dataset_id": share.dataset_id or None, **to_json(report)}
            _print_line(output, {**fields, "seconds": round(share.seconds, 3)})
        elif share.documents and not output.quiet:
            done, embedded = report.rebuilt, report.embedded + report.encoded
            output.say(
                f"{share.dataset_id}: {done} of {share.documents} documents, {embedded} embedded, "
                f"{share.seconds:.1f} s"
            )


def _print_end(output: Output, report: WorkReport) -> None:
    from triptych.records.serialization import to_json

    if output.as_json:
        _print_line(output, {"event": "end", **to_json(report)})
    else:
        documents, shares = counted(report.documents, "document"), counted(report.shares, "share")
        output.note(f"{documents} in {shares}")


def _print_line(output: Output, fields: dict[str, object]) -> None:
    output.write(json_text({"schema": SCHEMA, "command": "work", **fields}) + "\n")
