"""``triptych copy`` and ``backup``: whole stores."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from triptych.errors import StoreError, ValidationError
from triptych_adapters.cli.archives import (
    is_archive,
    opened_store,
    place_of,
    print_copy,
    save_archive,
    typed,
)
from triptych_adapters.cli.command import command
from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.output import SCHEMA, Output, json_text
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.copies import CopyReport

_DATASETS = Annotated[
    list[str] | None,
    option(
        "--dataset -d",
        "Only this dataset; may be given several times. By default all, and the settings.",
    ),
]


@command("triptych copy kb.db files:///home/me/kb", "triptych copy kb.db replica.db --follow")
def copy(
    session: Session,
    source: Annotated[str, argument("SRC", "The store to copy.")],
    destination: Annotated[str, argument("DST", "The store to copy into; made if need be.")],
    dataset: _DATASETS = None,
    replace: Annotated[
        bool, option("--replace", "Remove what the destination has and the source has not.")
    ] = False,
    follow: Annotated[
        bool, option("--follow -f", "Go on, and keep the destination as the source is.")
    ] = False,
    poll: Annotated[float, option("--poll SECONDS", "With --follow: look this often.")] = 1.0,
) -> Exit:
    """Copy a store into another, of whatever kind.

    Versions, metadata, chunks, vectors and layers are taken over as they are: no model is called.
    What is there already is skipped, so run it again after a failure. At the end both are compared.
    Others may write to the source meanwhile: it is copied as it was at the beginning.
    """
    from triptych.copies import check_datasets, copy_store, follow_store
    from triptych_adapters.cli.progress import shown
    from triptych_factory.backends import store_exists
    from triptych_factory.locations import parse_location

    output = session.output
    if is_archive(Path(source)):
        raise ValidationError(
            f"{source!r} is an archive, not a store: `triptych restore {source} {destination}`"
        )
    with ExitStack() as held:
        one = held.enter_context(opened_store(session, source))
        if not (follow and store_exists(parse_location(destination))):
            check_datasets(one, dataset)  # before the destination is made
        words = ["copy", *(place_of(session, each) for each in (source, destination))]
        words += ["--follow"] if follow else []
        again = typed(*words, datasets=dataset, replace=replace)
        other = held.enter_context(opened_store(session, destination, again))
        if not follow:
            with shown(output, "documents") as progress:
                report = copy_store(
                    one, other, datasets=dataset, replace=replace, progress=progress, again=again
                )
            print_copy(output, report)
            return Exit.OK

        def warn(error: StoreError, pause: float) -> None:
            output.warn(f"{error}; trying again in {pause:g} s")

        try:
            for report in follow_store(
                one,
                other,
                datasets=dataset,
                replace=replace,
                poll=poll,
                on_failure=warn,
                again=again,
            ):
                _print_followed(output, report)
        except KeyboardInterrupt:
            output.note("stopped")
    return Exit.OK


@command("triptych backup kb.zip", "triptych restore kb.zip other.db")
def backup(
    session: Session,
    file: Annotated[Path, argument("FILE", "The archive to write.")],
    dataset: _DATASETS = None,
    overwrite: Annotated[bool, option("--overwrite", "Replace the file if it exists.")] = False,
) -> None:
    """Write the store into one file, as it is at this moment, while others go on writing.

    Versions, metadata, chunks, vectors and layers are in it. `triptych restore FILE STORE` makes a
    store of it. The same store gives the same file, byte for byte.
    """
    save_archive(session, file, datasets=dataset, overwrite=overwrite)


def _print_followed(output: Output, report: CopyReport) -> None:
    from triptych.records.serialization import to_json

    if output.as_json:
        line = {"schema": SCHEMA, "command": "copy", **to_json(report)}
        output.write(json_text(line) + "\n")
        return
    for each in report.datasets:
        output.say(f"{each.dataset_id}: {each.written} copied, {each.removed} removed")
    if report.erased:
        output.say("erased what the source has purged")
