"""``triptych spaces``: changing the embedder of a dataset while it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs

from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.spaces import SwapReport
    from triptych_factory import Settings


OneDataset = Annotated[str, option("--dataset -d", "The dataset.")]
AnyDataset = Annotated[str | None, option("--dataset -d", "The dataset. By default all.")]
Incomplete = Annotated[
    bool,
    option(
        "--incomplete",
        "Swap also where documents lack vectors: they are found by keyword till they have them.",
    ),
]


@command("triptych spaces list")
def list_(session: Session, dataset: AnyDataset = None) -> None:
    """List the embedders that datasets have vectors of, and which of them serves."""
    from triptych.spaces import list_spaces

    with session.service(settings=_settings(session, embeds=False)) as service:
        found = list_spaces(service, dataset)
    output = session.output
    if output.as_json:
        output.emit({"spaces": [attrs.asdict(each) for each in found]})
        return
    output.table(
        ("dataset", "embedder", "serves", "vectors", "documents without"),
        [
            (
                each.dataset_id,
                each.embed_sig or "none",
                "yes" if each.serves else "no",
                each.vectors,
                each.lacking,
            )
            for each in found
        ],
    )


@command("triptych spaces fill --dataset docs")
def fill(session: Session, dataset: AnyDataset = None) -> Exit:
    """Make the vectors of the next embedder beside those that serve.

    The setting next_embedder names it. The dataset is searched and written as before. Stop this
    command whenever you like: each vector is kept, and the next run goes on from there.
    """
    from triptych.records.serialization import to_json
    from triptych.spaces import fill_space
    from triptych_adapters.cli.progress import shown

    output = session.output
    settings = _settings(session)
    with (
        session.service(settings=settings, dataset=dataset or "") as service,
        shown(output, "embedding") as progress,
    ):
        service.health().require()
        report = fill_space(service, dataset, progress=progress)
    for failure in report.failed:
        place = f"{failure.dataset_id}/{failure.name}" if failure.name else failure.dataset_id
        output.warn(f"{place}: {failure.error}")
    if output.as_json:
        output.emit({"dataset_id": dataset, **to_json(report)})
    elif not output.quiet:
        output.table(
            ("", report.embed_sig),
            [
                ("documents", report.documents),
                ("texts embedded", report.embedded),
                ("texts reused", report.reused),
                ("documents without", report.lacking),
            ],
        )
    done = report.documents + report.embedded
    return exit_after([failure.error for failure in report.failed], done=done)


@command("triptych spaces swap --dataset docs")
def swap(session: Session, dataset: OneDataset = "default", incomplete: Incomplete = False) -> None:
    """Let the vectors of the next embedder serve, and keep those that served.

    What was written since the fill is embedded first. Every process whose setting next_embedder
    names it follows at once; `triptych spaces back` goes back.
    """
    from triptych.spaces import swap_space
    from triptych_adapters.cli.progress import shown

    with (
        session.service(settings=_settings(session), dataset=dataset) as service,
        shown(session.output, "embedding") as progress,
    ):
        report = swap_space(service, dataset, incomplete=incomplete, progress=progress)
    _tell(session, report, "`triptych spaces back` goes back")


@command("triptych spaces back --dataset docs")
def back(session: Session, dataset: OneDataset = "default", incomplete: Incomplete = False) -> None:
    """Let the vectors serve that served before the swap, and keep those of the next embedder.

    What was written since the swap is embedded first, with the embedder of these vectors.
    """
    from triptych.spaces import swap_back
    from triptych_adapters.cli.progress import shown

    with (
        session.service(settings=_settings(session), dataset=dataset) as service,
        shown(session.output, "embedding") as progress,
    ):
        report = swap_back(service, dataset, incomplete=incomplete, progress=progress)
    _tell(session, report, "`triptych spaces swap` swaps again")


@command("triptych spaces drop 'hash/1/256' --dataset docs")
def drop(
    session: Session,
    signature: Annotated[str, argument("EMBEDDER", "Its signature, as `list` shows it.")],
    dataset: OneDataset = "default",
) -> Exit:
    """Remove the vectors of an embedder that does not serve."""
    from triptych.spaces import drop_space

    with session.service(settings=_settings(session, embeds=False)) as service:
        dropped = drop_space(service, dataset, signature)
    if session.output.as_json:
        session.output.emit({"dataset_id": dataset, "embed_sig": signature, "dropped": dropped})
    elif dropped:
        session.output.note(f"dropped the vectors of {signature}")
    else:
        session.output.warn(f"the dataset {dataset!r} keeps no vectors of {signature}")
    return Exit.OK if dropped else Exit.NOT_FOUND


def _settings(session: Session, *, embeds: bool = True) -> Settings:
    from triptych_factory.remote import check_local

    settings = session.settings()
    check_local(settings, "`triptych spaces`")
    settings = settings.without_llm()
    return settings if embeds else attrs.evolve(settings, embedder="none", next_embedder="none")


def _tell(session: Session, report: SwapReport, other_way: str) -> None:
    output = session.output
    if output.as_json:
        output.emit(attrs.asdict(report))
        return
    if not report.swapped:
        output.note(f"{report.embed_sig} serves the dataset {report.dataset_id!r} already")
    else:
        before = report.before or "keyword search alone"
        output.note(
            f"{report.embed_sig} serves the dataset {report.dataset_id!r} now, in place of "
            f"{before}: {other_way}"
        )
    if report.pending:
        output.warn(
            f"{report.pending} documents have no vectors of it yet, and are found by keyword: "
            "`triptych embed` adds them"
        )
