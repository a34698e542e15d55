"""``triptych follow``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from triptych.errors import CancelledError, DeletionHeldError, NotAvailableError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after, exit_for
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.signals import until_stopped
from triptych_adapters.cli.values import conditions

if TYPE_CHECKING:
    from triptych.sync import RowReport
    from triptych_adapters.cli.output import Output

_GRACE = 10.0
_COMPARED = 600.0  # seconds between two comparisons of all ids


@command(
    "triptych follow postgresql://reader@db.example/shop public.products --id sku "
    "--text title --text description -m brand --updated-at changed",
    "triptych follow postgresql://reader@db.example/shop notes --text body "
    "--updated-at changed --every 30",
    "triptych follow qdrant://localhost:6333 manuals --document metadata.source "
    "--text page_content --updated-at changed",
)
def follow(
    session: Session,
    url: Annotated[str, argument("URL", "The database, or qdrant://HOST:6333.")],
    table: Annotated[
        str, argument("TABLE", "A table or a view, SCHEMA.TABLE; of Qdrant a collection.")
    ],
    text: Annotated[
        list[str],
        option("--text -t COLUMN", "Holds a document's text; may be given several times."),
    ],
    id_column: Annotated[
        str, option("--id COLUMN", "Names a row; unique. Of Qdrant the point's own.")
    ] = "id",
    document: Annotated[
        str | None,
        option(
            "--document FIELD",
            "Of a collection: stands before the id in the name, such as the file.",
        ),
    ] = None,
    metadata: Annotated[
        list[str] | None,
        option("--metadata-field -m COLUMN", "Becomes metadata; may be given several times."),
    ] = None,
    updated_at: Annotated[
        str | None,
        option(
            "--updated-at COLUMN",
            "Says when a row last changed. Without it each pass reads every row.",
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        option(
            "--where -w KEY=VALUE",
            "A condition on any column that rows must pass; JSON for comparisons.",
        ),
    ] = None,
    dataset: Annotated[
        str | None, option("--dataset -d", "The dataset to write to, by default the table's name.")
    ] = None,
    overlap: Annotated[
        float,
        option(
            "--overlap SECONDS",
            "How far back each pass reads again: longer than a transaction takes.",
            min=0,
        ),
    ] = 600.0,
    every: Annotated[
        float | None,
        option("--every SECONDS", "Go on, with a pause of so long, until interrupted.", min=0.1),
    ] = None,
    full: Annotated[bool, option("--full", "Read every row, whatever was read before.")] = False,
    yes: Annotated[
        bool, option("--yes -y", "Delete more than half of the documents, too.")
    ] = False,
    adopt: Annotated[
        bool, option("--adopt", "Replace documents of the dataset from elsewhere.")
    ] = False,
) -> Exit:
    """Keep a dataset as the rows of a table are, or the points of a collection of Qdrant.

    Rows that changed are read, and only documents that differ are written and embedded. Documents
    whose row is gone are deleted: ids are compared at first, and every ten minutes. Where that
    would be more than half of them, none is. A run that was interrupted goes on where it was.
    Nothing is written to the database: a role that may SELECT, or a key that may read, is enough.
    """
    import triptych
    from triptych.service import Service
    from triptych.sync import follow_rows
    from triptych_factory.tables import open_rows

    described = {
        "table": table,
        "id": id_column,
        "columns": [{"text": each} for each in text],
        "metadata": metadata or [],
        "where": conditions(where or [], "--where"),
        **({} if updated_at is None else {"updated_at": updated_at}),
        **({} if document is None else {"document": document}),
    }
    with (
        until_stopped(session.output, _GRACE) as on_stop,
        open_rows(url, described, overlap=overlap) as source,
        session.service(create=True, preload=True) as service,
        triptych.deadline() as scope,
    ):
        if not isinstance(service, Service):
            raise NotAvailableError(
                "rows are followed into a store, not to a server: run this where the store is, "
                "with --store"
            )
        on_stop(scope.cancel)
        name = dataset or source.spec.name
        compared = -_COMPARED
        try:
            while True:
                compare = time.monotonic() - compared >= _COMPARED or every is None
                report = follow_rows(
                    service, name, source, full=full, compare=compare, delete_most=yes, adopt=adopt
                )
                compared = time.monotonic() if compare else compared
                if every is None or report.changed or report.failed or report.held:
                    _show(session.output, name, report)
                if every is None:
                    return _ended(report)
                full = False
                _pause(every)
        except CancelledError:
            session.output.note("stopped")
            return Exit.OK


def _pause(seconds: float) -> None:
    from triptych import deadlines

    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        deadlines.check("following rows")
        time.sleep(min(left, 0.2))


def _show(output: Output, dataset: str, report: RowReport) -> None:
    output.warn_of(report.failed)
    if report.held:
        output.warn(
            f"{len(report.held)} of {report.documents} documents have no row any more, and were "
            "not deleted: --yes confirms it"
        )
    counts = {
        "checked": report.checked,
        "added": report.added,
        "updated": report.updated,
        "deleted": len(report.deleted),
        "held": len(report.held),
        "failed": len(report.failed),
        "embedded": report.embedded,
        "pending": report.pending,
    }
    output.show(
        {"dataset_id": dataset}, counts, table=(("", dataset), counts.items()), unless_quiet=True
    )


def _ended(report: RowReport) -> Exit:
    if report.held and not report.failed:
        held = DeletionHeldError("deletions are held", names=report.held)
        return Exit.PARTIAL if report.checked else exit_for(held)
    return exit_after(report.failed, done=report.checked - len(report.failed))
