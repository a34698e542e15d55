"""``triptych copy`` and ``backup``, and the other half of ``restore``: whole stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triptych_adapters.cli.exits import Exit
from triptych_adapters.cli.output import SCHEMA, Output, json_text
from triptych_adapters.cli.session import Session, command, examples

if TYPE_CHECKING:
    from triptych.contracts import Store
    from triptych.replication import ArchiveSummary, CopyReport

__all__ = ["is_archive", "opened_store", "print_copy", "print_summary", "register", "restore"]

_SHOWN = 5
_DATASETS = Annotated[
    list[str] | None,
    typer.Option(
        "--dataset",
        "-d",
        help="Only this dataset; may be given several times. By default all, and the settings.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add ``copy`` and ``backup``."""
    command(
        app,
        "copy",
        epilog=examples(
            "triptych copy kb.db files:///home/me/kb",
            "triptych copy kb.db replica.db --follow",
        ),
    )(copy)
    command(
        app,
        "backup",
        epilog=examples("triptych backup kb.zip", "triptych restore kb.zip other.db"),
    )(backup)


def copy(
    session: Session,
    source: Annotated[
        str, typer.Argument(metavar="SRC", help="The store to copy.", show_default=False)
    ],
    destination: Annotated[
        str,
        typer.Argument(
            metavar="DST", help="The store to copy into; made if need be.", show_default=False
        ),
    ],
    dataset: _DATASETS = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Remove what the destination has and the source has not."),
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on, and keep the destination as the source is."),
    ] = False,
    poll: Annotated[
        float, typer.Option("--poll", metavar="SECONDS", help="With --follow: look this often.")
    ] = 1.0,
) -> Exit:
    """Copy a store into another, of whatever kind.

    Versions, metadata, chunks, vectors and layers are taken over as they are: no model is called.
    What is there already is skipped, so run it again after a failure. At the end both are compared.
    Others may write to the source meanwhile: it is copied as it was at the beginning.
    """
    from triptych.replication import copy_store, follow_store
    from triptych_adapters.cli.progress import shown

    output = session.output
    with (
        opened_store(session, source, create=False) as one,
        opened_store(session, destination, create=True) as other,
    ):
        if not follow:
            with shown(output, "documents") as progress:
                report = copy_store(
                    one, other, datasets=dataset, replace=replace, progress=progress
                )
            print_copy(output, report)
            return Exit.OK
        try:
            for report in follow_store(one, other, datasets=dataset, replace=replace, poll=poll):
                _print_followed(output, report)
        except KeyboardInterrupt:
            output.note("stopped")
    return Exit.OK


def backup(
    session: Session,
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The archive to write.", show_default=False),
    ],
    dataset: _DATASETS = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file if it exists.")
    ] = False,
) -> None:
    """Write the store into one file, as it is at this moment, while others go on writing.

    Versions, metadata, chunks, vectors and layers are in it. `triptych restore FILE STORE` makes a
    store of it. The same store gives the same file, byte for byte.
    """
    from triptych.replication import write_archive
    from triptych_adapters.cli.progress import shown

    output = session.output
    with (
        opened_store(session, None, create=False) as store,
        shown(output, "documents") as progress,
    ):
        summary = write_archive(
            store, file, datasets=dataset, overwrite=overwrite, progress=progress
        )
    print_summary(output, file, summary)


def restore(session: Session, file: Path, destination: str) -> None:
    """Make a store of an archive, or complete one."""
    from triptych.replication import Archive, copy_store
    from triptych_adapters.cli.progress import shown

    with (
        Archive(file) as archive,
        opened_store(session, destination, create=True) as store,
        shown(session.output, "documents") as progress,
    ):
        report = copy_store(archive, store, progress=progress)
    print_copy(session.output, report)


def is_archive(file: Path) -> bool:
    """Whether there is a file that begins as an archive does."""
    try:
        with file.open("rb") as stream:
            return stream.read(4) == b"PK\x03\x04"
    except OSError:
        return False


@contextmanager
def opened_store(session: Session, url: str | None, *, create: bool) -> Iterator[Store]:
    """The store at ``url``, or the one in force, without a model.

    Raises:
        NotAvailableError: it is on a server.
    """
    from triptych_factory.backends import open_store
    from triptych_factory.locations import parse_location
    from triptych_factory.remote import check_local

    given = {} if url is None else {"url": url}
    settings = session.settings(**given).without_llm()
    check_local(settings, "copying a store")
    store: Any = open_store(parse_location(settings.url), settings, create=create)
    try:
        yield store
    finally:
        store.close()


def print_copy(output: Output, report: CopyReport) -> None:
    """Tell what a copy did."""
    from triptych_adapters.wire.schema import to_json

    if output.as_json:
        output.emit(to_json(report))
        return
    if report.settings_different:
        output.warn(
            f"{len(report.settings_different)} settings are other in the destination and stay as "
            f"they are there ({', '.join(report.settings_different[:_SHOWN])}"
            f"{', …' if report.settings_different[_SHOWN:] else ''}): --replace takes over those "
            "of the source"
        )
    if not output.quiet:
        output.table(
            ("dataset", "documents", "versions", "chunks", "vectors", "layers", "copied"),
            [
                (
                    each.dataset_id,
                    each.counts.documents,
                    each.counts.versions,
                    each.counts.chunks,
                    each.counts.vectors + each.counts.sparse_vectors,
                    each.counts.layers,
                    each.written,
                )
                for each in report.datasets
            ],
        )
    output.note("compared: the destination is as the source")


def print_summary(output: Output, file: Path, summary: ArchiveSummary) -> None:
    """Tell what an archive holds."""
    from triptych_adapters.wire.schema import to_json

    if output.as_json:
        output.emit({"file": str(file), **to_json(summary)})
        return
    if not output.quiet:
        output.table(
            ("dataset", "documents", "versions", "chunks", "vectors", "layers"),
            [
                (
                    each.dataset_id,
                    each.counts.documents,
                    each.counts.versions,
                    each.counts.chunks,
                    each.counts.vectors + each.counts.sparse_vectors,
                    each.counts.layers,
                )
                for each in summary.datasets
            ],
        )
    output.note(f"written: {file}")


def _print_followed(output: Output, report: CopyReport) -> None:
    from triptych_adapters.wire.schema import to_json

    if output.as_json:
        line = {"schema": SCHEMA, "command": "copy", **to_json(report)}
        output.write(json_text(line) + "\n")
        return
    for each in report.datasets:
        output.say(f"{each.dataset_id}: {each.written} copied, {each.removed} removed")
