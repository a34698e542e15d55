"""``triptych admin spaces``: changing the embedder of a dataset while it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs

from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych_factory import Settings


OneDataset = Annotated[str, option("--dataset -d", "The dataset.")]
AnyDataset = Annotated[str | None, option("--dataset -d", "The dataset. By default all.")]


@command("triptych admin spaces list")
def list_(session: Session, dataset: AnyDataset = None) -> None:
    """List the embedders that datasets have vectors of, and which of them serves."""
    from triptych.spaces import list_spaces

    with session.service(settings=_settings(session, embeds=False)) as service:
        found = list_spaces(service, dataset)
    rows = (
        (
            each.dataset_id,
            each.embed_sig or "none",
            "yes" if each.serves else "no",
            each.vectors,
            each.lacking,
        )
        for each in found
    )
    session.output.show(
        {"spaces": [attrs.asdict(each) for each in found]},
        table=(("dataset", "embedder", "serves", "vectors", "documents without"), rows),
    )


@command("triptych admin spaces fill --dataset docs")
def fill(session: Session, dataset: AnyDataset = None) -> Exit:
    """Make the vectors of the next embedder beside those that serve.

    The setting next_embedder names it. The dataset is searched and written as before. Stop this
    command whenever you like: each vector is kept, and the next run goes on from there.
    """
    from triptych.spaces import fill_space

    output = session.output
    with (
        session.service(settings=_settings(session), dataset=dataset or "") as service,
        output.progress("embedding") as progress,
    ):
        service.health().require()
        report = fill_space(service, dataset, progress=progress)
    output.warn_of(report.failed, placed=True)
    output.show(
        {"dataset_id": dataset},
        report,
        table=(
            ("", report.embed_sig),
            [
                ("documents", report.documents),
                ("texts embedded", report.embedded),
                ("texts reused", report.reused),
                ("documents without", report.lacking),
            ],
        ),
        unless_quiet=True,
    )
    done = report.documents + report.embedded
    return exit_after(report.failed, done=done)


@command("triptych admin spaces swap --dataset docs", "triptych admin spaces swap --back")
def swap(
    session: Session,
    dataset: OneDataset = "default",
    back: Annotated[
        bool,
        option("--back", "Let the vectors serve that served before, and keep those of the next."),
    ] = False,
    incomplete: Annotated[
        bool,
        option(
            "--incomplete",
            "Swap also where documents lack vectors: they are found by keyword till they have "
            "them.",
        ),
    ] = False,
) -> None:
    """Let the vectors of the next embedder serve, and keep those that served.

    What was written since the fill, or since the swap, is embedded first. Every process whose
    setting next_embedder names it follows at once; --back goes back.
    """
    from triptych.spaces import swap_back, swap_space

    output = session.output
    with (
        session.service(settings=_settings(session), dataset=dataset) as service,
        output.progress("embedding") as progress,
    ):
        swapped = swap_back if back else swap_space
        report = swapped(service, dataset, incomplete=incomplete, progress=progress)
    other_way = "`triptych admin spaces swap` swaps again"
    if not back:
        other_way = "`triptych admin spaces swap --back` goes back"
    now = (
        f"{report.embed_sig} serves the dataset {report.dataset_id!r} now, in place of "
        f"{report.before or 'keyword search alone'}: {other_way}"
    )
    already = f"{report.embed_sig} serves the dataset {report.dataset_id!r} already"
    output.show(attrs.asdict(report), note=now if report.swapped else already)
    if report.pending and not output.as_json:
        output.warn(
            f"{report.pending} documents have no vectors of it yet, and are found by keyword: "
            "`triptych embed` adds them"
        )


@command("triptych admin spaces drop 'hash/1/256' --dataset docs")
def drop(
    session: Session,
    signature: Annotated[str, argument("EMBEDDER", "Its signature, as `list` shows it.")],
    dataset: OneDataset = "default",
) -> Exit:
    """Remove the vectors of an embedder that does not serve."""
    from triptych.spaces import drop_space

    with session.service(settings=_settings(session, embeds=False)) as service:
        dropped = drop_space(service, dataset, signature)
    session.output.show(
        {"dataset_id": dataset, "embed_sig": signature, "dropped": dropped},
        note=f"dropped the vectors of {signature}" if dropped else "",
    )
    if not dropped:
        session.output.warn(f"the dataset {dataset!r} keeps no vectors of {signature}")
    return Exit.OK if dropped else Exit.NOT_FOUND


def _settings(session: Session, *, embeds: bool = True) -> Settings:
    from triptych_factory.remote import check_local

    settings = session.settings()
    check_local(settings, "`triptych admin spaces`")
    settings = settings.without_llm()
    return settings if embeds else attrs.evolve(settings, embedder="none", next_embedder="none")
