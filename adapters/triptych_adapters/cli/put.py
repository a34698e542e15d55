"""``triptych put``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.folders import AllFolders, tell_generated
from triptych_adapters.cli.session import Session, command, examples, pairs

if TYPE_CHECKING:
    from triptych.parsing import ParsedFile
    from triptych.parsing.files import Skipped
    from triptych.records import Failure, NewDocument, PutReport
    from triptych_adapters.cli.files import FileToPut

_SHOWN = 5
"""How many of the files that were passed over a remark names."""


def register(app: typer.Typer) -> None:
    """Add ``put``."""
    command(
        app,
        "put",
        epilog=examples(
            "triptych put docs/                         every file below docs/ that can be read",
            "triptych put notes.md --metadata lang=en   one file",
            "cat log.txt | triptych put - --name log    standard input",
        ),
    )(put)


def put(
    session: Session,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH",
            help="Files, directories, or - for standard input.",
            show_default=False,
            allow_dash=True,
        ),
    ],
    dataset: Annotated[
        str, typer.Option("--dataset", "-d", help="The dataset to put into.")
    ] = "default",
    name: Annotated[
        str | None, typer.Option("--name", help="The name of a single document.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option("--metadata", "-m", metavar="KEY=VALUE", help="Metadata for every document."),
    ] = None,
    if_version: Annotated[
        int | None,
        typer.Option(
            "--if-version",
            metavar="N",
            help="Put a single document only over this version (0: only if there is none).",
        ),
    ] = None,
    all_folders: AllFolders = False,
) -> Exit:
    """Put files into a dataset: add new documents, update changed ones.

    From a directory it takes the files of every format that has a parser (Markdown, text, HTML,
    source code, notebooks, tables, PDF, office files, …) at any depth, each named by its path from
    there. Left out is what is hidden, and folders of installed or generated files, such as
    node_modules or a virtual environment. Unchanged documents cost nothing.
    """
    import attrs

    from triptych.errors import CancelledError, TriptychError, ValidationError
    from triptych.parsing.registry import not_text
    from triptych.records import Failure
    from triptych_adapters.cli.files import find_files
    from triptych_adapters.cli.progress import shown
    from triptych_backends.parsing import default_parser

    extra = _metadata(metadata or [])
    from_stdin = paths == [Path("-")]
    if Path("-") in paths and not from_stdin:
        raise ValidationError("- is standard input: put it by itself")
    if from_stdin and name is None:
        raise ValidationError("a document from standard input needs --name")
    parser = default_parser()
    files: list[FileToPut] = []
    skipped: list[Skipped] = []
    if not from_stdin:
        files, skipped = find_files(
            paths, name=name, endings=parser.endings, all_folders=all_folders
        )
    if if_version is not None and not from_stdin and len(files) != 1:
        raise ValidationError("--if-version goes with a single document")
    unread: list[Failure] = []
    notes: list[str] = []

    def document(made: ParsedFile, doc_name: str) -> NewDocument:
        notes.extend(made.notes)
        return made.document(doc_name, extra, if_version=if_version)

    def documents() -> Iterator[NewDocument]:
        if name is not None and from_stdin:
            parsed = parser.parse(name, sys.stdin.buffer.read())
            if parsed is None:
                raise not_text(name)
            read = document(parsed, name)
            # A text alone says nothing of metadata: what the document has is kept.
            yield read if read.metadata else attrs.evolve(read, metadata=None)
        for file in files:
            try:
                yield document(parser.parse_path(file.path), file.name)
            except CancelledError:
                raise
            except TriptychError as error:
                unread.append(Failure(dataset_id=dataset, name=file.name, error=error))

    alone = from_stdin or (len(files) == 1 and not paths[0].is_dir())
    # One document is read before the store is opened, so that a mistake leaves no store behind.
    incoming: Iterator[NewDocument] = iter(list(documents())) if alone else documents()
    if alone and unread:
        raise unread[0].error
    with (
        session.service(create=True) as service,
        shown(session.output, "documents", total=len(files) or None) as progress,
    ):
        if not alone:
            service.health().require()
        report = service.put_documents(dataset, incoming, progress=progress)
    failed = (*unread, *report.failed)
    if alone and failed:
        raise failed[0].error
    _tell(session, dataset, report, failed, skipped, notes)
    done = report.added + report.updated + report.unchanged
    return exit_after([failure.error for failure in failed], done=done)


def _metadata(values: list[str]) -> Mapping[str, str]:
    from triptych.errors import ValidationError

    found = pairs(values, "--metadata")
    for key, several in found.items():
        if len(several) > 1:
            raise ValidationError(f"--metadata gives {key!r} {len(several)} times: give it once")
    return {key: several[0] for key, several in found.items()}


def _tell(
    session: Session,
    dataset: str,
    report: PutReport,
    failed: tuple[Failure, ...],
    skipped: list[Skipped],
    notes: list[str],
) -> None:
    import attrs

    from triptych.parsing.generated_folders import GENERATED
    from triptych_adapters.wire.schema import to_json

    output = session.output
    fields = to_json(attrs.evolve(report, failed=failed))
    for failure in failed:
        output.warn(f"{failure.name}: {failure.error}")
    for note in notes[:_SHOWN]:
        output.note(note)
    if len(notes) > _SHOWN:
        output.note(f"and {len(notes) - _SHOWN} more remarks like these; --json has them all")
    tell_generated(output, skipped)
    seen = [each for each in skipped if each.reason not in GENERATED | {"hidden"}]
    if seen:
        some = ", ".join(f"{each.name} ({each.reason})" for each in seen[:_SHOWN])
        more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
        output.note(f"passed over {some}{more}; a file that is named itself is always taken")
    if output.as_json:
        output.emit({"dataset": dataset, **fields, "skipped": to_json(skipped), "notes": notes})
    elif not output.quiet:
        output.table(("", dataset), list(fields["counts"].items()))
