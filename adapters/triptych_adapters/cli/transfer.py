"""``triptych import`` and ``triptych export``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

from triptych._internal.wording import counted
from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import command
from triptych_adapters.cli.copies import (
    Replace,
    check_output,
    is_archive,
    load_archive,
    save_archive,
)
from triptych_adapters.cli.exits import Exit, exit_after
from triptych_adapters.cli.options import argument, option
from triptych_adapters.cli.output import counts_of
from triptych_adapters.cli.session import Session
from triptych_adapters.cli.signals import until_terminated


@command(
    "triptych import documents.jsonl",
    "triptych import pages.parquet --name-field url --content-field text -m lang -m date",
    "triptych export | triptych --store copy.db import -",
    "triptych import notes.zip",
)
def import_(
    session: Session,
    file: Annotated[
        Path,
        argument(
            "FILE",
            "A .parquet file, an archive (.zip), or JSON Lines; - for JSON Lines on standard "
            "input.",
            allow_dash=True,
        ),
    ],
    dataset: Annotated[
        str | None,
        option(
            "--dataset -d",
            "The dataset to put into, by default 'default'. Of an archive, the one to take; by "
            "default all.",
        ),
    ] = None,
    name_field: Annotated[str, option("--name-field FIELD", "Holds a document's name.")] = "name",
    content_field: Annotated[str, option("--content-field FIELD", "Holds its text.")] = "content",
    metadata_field: Annotated[
        list[str] | None,
        option(
            "--metadata-field -m FIELD",
            "Becomes metadata; may be given several times, * takes all other fields. Without it: "
            "the object under metadata.",
        ),
    ] = None,
    replace: Replace = False,
) -> Exit:
    """Put a document for each line of a JSONL file, or each row of a Parquet file.

    A line that is no document is named by its number; all others are put. Unchanged documents
    cost nothing. An archive, which export or backup wrote, is taken over as it is: with versions,
    chunks, vectors and layers.
    """
    from triptych.transfer import ImportFields, import_jsonl, import_parquet

    output = session.output
    if is_archive(file):
        chosen = None if dataset is None else [dataset]
        load_archive(session, file, None, datasets=chosen, replace=replace)
        return Exit.OK
    if replace:
        raise ValidationError(
            f"--replace is for an archive, which {str(file)!r} is not: documents are always put in "
            "place of those of the same name"
        )
    dataset = dataset or "default"
    fields = ImportFields(name=name_field, content=content_field, metadata=metadata_field)
    from_stdin = file == Path("-")
    if not from_stdin and not file.is_file():
        raise NotFoundError(f"there is no file {file}: check the path")
    with (
        session.service(create=True) as service,
        output.progress("documents") as progress,
    ):
        if file.suffix.lower() == ".parquet":
            report = import_parquet(service, dataset, file, fields=fields, progress=progress)
        elif from_stdin:
            lines = sys.stdin.buffer
            report = import_jsonl(service, dataset, lines, fields=fields, progress=progress)
        else:
            with file.open("rb") as lines:
                report = import_jsonl(service, dataset, lines, fields=fields, progress=progress)
    output.warn_of(report.failed)
    output.show(
        {"dataset_id": dataset},
        report,
        table=(("", dataset), counts_of(report).items()),
        unless_quiet=True,
    )
    done = report.added + report.updated + report.unchanged
    return exit_after(report.failed, done=done)


@command(
    "triptych export > documents.jsonl",
    "triptych export --dataset notes --versions --output notes.jsonl",
    "triptych export --dataset notes --output notes.zip",
)
def export(
    session: Session,
    dataset: Annotated[str, option("--dataset -d", "The dataset.")] = "default",
    versions: Annotated[bool, option("--versions", "Old versions, too, oldest first.")] = False,
    to: Annotated[
        Path | None,
        option(
            "--output -o FILE",
            "Write there, and not to standard output; an archive where it ends in .zip. A file "
            "that exists is replaced when the new one is whole.",
        ),
    ] = None,
) -> None:
    """Write the documents of a dataset as JSON Lines, with metadata.

    Each line is an object with name, content, metadata, version and updated_at. import reads it.

    A .zip file is an archive in its place: it has versions, chunks, vectors and layers too, and
    import takes them over without a call of a model.
    """
    from triptych._internal.files import left_drafts
    from triptych.transfer import export_jsonl

    if to is not None and to.suffix.lower() == ".zip":
        save_archive(session, to, datasets=[dataset], overwrite=True)
        return
    if to is not None:
        check_output(session, to)
        for each in left_drafts(to, remove=True):
            session.output.warn(f"removed {each}, which an export left that was killed")

    with session.service() as service:
        if to is None:
            sys.stdout.flush()
            count = export_jsonl(service, dataset, sys.stdout.buffer, versions=versions)
            sys.stdout.buffer.flush()
        else:
            with _written(to) as stream:
                count = export_jsonl(service, dataset, stream, versions=versions)
    session.output.note(counted(count, "line"))


@contextmanager
def _written(path: Path) -> Iterator[BinaryIO]:
    from triptych._internal.files import written_whole

    try:
        with until_terminated(), written_whole(path, mode=0o666) as stream:
            yield stream
    except FileNotFoundError:
        raise NotFoundError(f"there is no folder {str(path.parent)!r}: make it first") from None
    except OSError as error:
        raise ValidationError(f"{str(path)!r} cannot be written: {error.strerror}") from None
