"""``triptych doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.options import option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.records import DoctorReport, Finding
    from triptych_adapters.cli.output import Output


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
    from triptych.records.serialization import to_json
    from triptych_adapters.cli.progress import shown
    from triptych_factory.syncing import examined_syncs
    from triptych_factory.tables import examined_tables

    output, settings = session.output, session.settings().without_llm()
    with (
        session.service(settings=settings) as service,
        shown(output, "examining") as progress,
    ):
        report = service.doctor(repair=repair, dataset_id=dataset, progress=progress)
        of = "dataset " if dataset is None else f"dataset {dataset!r} "
        checks = service.health(probe=False).problems
        coverage = [str(c) for c in checks if c.name == "coverage" and c.detail.startswith(of)]
        report = examined_syncs(report, settings, repair=repair)
        if dataset is None:
            report = examined_tables(report, settings)
    if output.as_json:
        output.emit({"dataset_id": dataset, **to_json(report), "coverage": coverage})
    else:
        _show(output, report, repair=repair)
        for line in coverage:
            output.note(line)
    return ended(report)


def _show(output: Output, report: DoctorReport, *, repair: bool) -> None:
    from triptych._internal.plurals import counted

    for finding in report.repaired:
        output.say(f"repaired {finding}")
    for finding in report.findings:
        output.say(str(finding))
        output.say(f"  why: {finding.why}")
        output.say(f"  {_advice(finding, repair=repair)}")
    for action in report.actions:
        output.note(action)
    for skipped in report.skipped:
        output.note(f"not looked at: {skipped}")
    for left_out in report.left_out:
        output.note(f"in no chunk: {left_out}")
    checked = ", ".join(
        counted(count, what.removesuffix("s"), what) for what, count in report.checked.items()
    )
    ending = "all is well" if report.clean else counted(len(report.findings), "problem")
    output.note(f"checked {checked or 'an empty store'}: {ending}")


def _advice(finding: Finding, *, repair: bool) -> str:
    if finding.repairable:
        return f"{'not repaired' if repair else '--repair repairs it'}: {finding.repair}"
    return f"beyond repair: {finding.remedy}"


def ended(report: DoctorReport) -> Exit:
    """STORE where something is wrong with what is stored, MODEL where it is the model alone."""
    if report.clean:
        return Exit.OK
    of_model = all(finding.check == "embedder.weights" for finding in report.findings)
    return Exit.MODEL if of_model else Exit.STORE
