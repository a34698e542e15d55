"""``triptych doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from triptych._internal.wording import counted
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.records import DoctorReport


@command("triptych doctor", "triptych doctor --repair", "triptych doctor --json | jq '.findings'")
def doctor(
    session: Session,
    dataset: Annotated[
        str | None, option("--dataset -d", "The one dataset to look at, beside the store itself.")
    ] = None,
    repair: Annotated[
        bool, option("--repair", "Repair what can be made again from the documents.")
    ] = False,
) -> Exit:
    """Check everything that is stored, and say what is wrong and why it matters.

    Documents and their old versions against their checksums, chunks against documents, vectors,
    layers, what has lost its owner, the database, the search index, what syncs remember, the
    model's files: all are read, which takes a while; `status` is the quick look. A repair drops
    what is derived and wrong, and makes it again; it never removes or alters a document. Of
    pipelines over tables of your own the columns and indexes are checked.
    """
    from triptych_factory.syncing import examined_syncs
    from triptych_factory.tables import examined_tables

    output, settings = session.output, session.settings().without_llm()
    with (
        session.service(settings=settings) as service,
        output.progress("examining") as progress,
    ):
        report = service.doctor(repair=repair, dataset_id=dataset, progress=progress)
        of = "dataset " if dataset is None else f"dataset {dataset!r} "
        checks = service.health(probe=False).problems
        coverage = [str(c) for c in checks if c.name == "coverage" and c.detail.startswith(of)]
        report = examined_syncs(report, settings, repair=repair)
        if dataset is None:
            report = examined_tables(report, settings)
    output.show(
        {"dataset_id": dataset},
        report,
        {"coverage": coverage},
        lines=_lines(report, repair=repair),
        note=[*_notes(report), *coverage],
    )
    if report.clean:
        return Exit.OK
    of_model = all(finding.check == "embedder.weights" for finding in report.findings)
    return Exit.MODEL if of_model else Exit.STORE


def _lines(report: DoctorReport, *, repair: bool) -> Iterator[str]:
    for finding in report.repaired:
        yield f"repaired {finding}"
    for finding in report.findings:
        yield str(finding)
        yield f"  why: {finding.why}"
        how = f"{'not repaired' if repair else '--repair repairs it'}: {finding.repair}"
        yield f"  {how if finding.repairable else f'beyond repair: {finding.remedy}'}"


def _notes(report: DoctorReport) -> Iterator[str]:
    yield from report.actions
    for skipped in report.skipped:
        yield f"not looked at: {skipped}"
    for left_out in report.left_out:
        yield f"in no chunk: {left_out}"
    checked = ", ".join(
        counted(count, what.removesuffix("s"), what) for what, count in report.checked.items()
    )
    ending = "all is well" if report.clean else counted(len(report.findings), "problem")
    yield f"checked {checked or 'an empty store'}: {ending}"
