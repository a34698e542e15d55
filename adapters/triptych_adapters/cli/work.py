"""``triptych work``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from triptych._internal.wording import counted
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.options import option
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.signals import until_stopped

if TYPE_CHECKING:
    from triptych.workers import Share

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
        worker = Worker(service, datasets, poll=poll, lease=lease, on_share=partial(_tell, output))
        on_stop(worker.stop)
        if not once:
            output.note("waiting for work; Ctrl-C ends it")
        report = worker.run(once=once)
        if worker.stopped:
            output.note("stopped")
    documents, shares = counted(report.documents, "document"), counted(report.shares, "share")
    output.show({"event": "end"}, report, note=f"{documents} in {shares}")
    if worker.stopped:
        return Exit.OK
    return exit_after(report.failed, done=report.documents)


def _tell(output: Output, share: Share) -> None:
    report = share.report
    output.warn_of(report.failed, placed=True, most=_NAMED)
    if not output.as_json and not share.documents:
        return
    done, embedded = report.rebuilt, report.embedded + report.encoded
    line = f"{share.dataset_id}: {done} of {share.documents} documents, {embedded} embedded"
    output.show(
        {"event": "share", "dataset_id": share.dataset_id or None},
        report,
        {"seconds": round(share.seconds, 3)},
        lines=[f"{line}, {share.seconds:.1f} s"],
        unless_quiet=True,
    )
