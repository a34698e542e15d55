"""``triptych put``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs

from triptych.errors import ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.folders import (
    AllFolders,
    Ocr,
    tell_generated,
    tell_notes,
    unexpected,
)
from triptych_adapters.cli.names import dataset_in_use
from triptych_adapters.cli.options import Language, expiry_of, metadata_of
from triptych_adapters.cli.output import counts_of, summary_line
from triptych_adapters.cli.session import Exit, Session, exit_after, uncovered

if TYPE_CHECKING:
    from triptych.records import PutReport
    from triptych.sync import FileSet

_SHOWN = 5
"""How many skipped files a remark names."""


@command(
    "triptych put docs/                         every file below docs/ that can be read",
    "triptych put notes.md --metadata lang=en   one file",
    "cat log.txt | triptych put - --name log    standard input",
    "triptych put today.md --ttl 30d            found for 30 days",
)
def put(
    session: Session,
    paths: Annotated[
        list[Path],
        argument("PATH", "Files, directories, or - for standard input.", allow_dash=True),
    ],
    dataset: Annotated[
        str | None,
        option("--dataset -d", "The dataset to store in. By default 'default', or the only one."),
    ] = None,
    name: Annotated[str | None, option("--name", "The name of a single document.")] = None,
    metadata: Annotated[
        list[str] | None,
        option(
            "--metadata -m KEY=VALUE",
            "Metadata for every document: text, or a JSON object of typed values.",
        ),
    ] = None,
    if_version: Annotated[
        int | None,
        option(
            "--if-version N",
            "Store a single document only if its version is N (0: only if it does not exist).",
        ),
    ] = None,
    expires: Annotated[
        str | None,
        option(
            "--expires TIME",
            "When the document expires: ISO 8601, by default in UTC; or never.",
        ),
    ] = None,
    ttl: Annotated[
        str | None, option("--ttl 30d", "When it expires, from now: s, m, h, d or w.")
    ] = None,
    all_folders: AllFolders = False,
    ocr: Ocr = None,
    language: Language = None,
    later: Annotated[
        bool,
        option(
            "--later",
            "Make no vectors now: `triptych embed` makes them. Keyword search works at once.",
        ),
    ] = False,
) -> Exit:
    """Put files into a dataset: add new documents, update changed ones.

    From a directory it reads the files of every format with a parser (Markdown, text, HTML, source
    code, notebooks, tables, PDF, office files, …) at any depth. Their names are paths relative to
    the directory. Hidden, binary and ignored files (.gitignore, .triptychignore) are skipped, and
    so are folders of installed or generated files, such as node_modules or a virtual environment.
    Files that you name explicitly are always read. Unchanged documents cost nothing.
    """
    from triptych.parsing.registry import not_text
    from triptych.records.reports import reported
    from triptych.sync import FileSet, SyncOptions
    from triptych_factory.locations import parse_location, store_paths
    from triptych_parsers import default_parser

    extra = metadata_of(metadata or [], "--metadata")
    expires_at = expiry_of(expires, ttl)
    from_stdin = paths == [Path("-")]
    if Path("-") in paths and not from_stdin:
        raise ValidationError("- is standard input: give no other files with it")
    if from_stdin and name is None:
        raise ValidationError("a document from standard input needs --name")
    if name is not None and len(paths) != 1:
        raise ValidationError("--name names a single file: give one file with it")
    settings = session.settings()
    parser = default_parser(ocr=settings.ocr if ocr is None else ocr)
    store = store_paths(parse_location(settings.url))
    options = SyncOptions(all_folders=bool(all_folders), exclude_paths=store)
    files = FileSet(parser=parser, options=options)
    alone = from_stdin or (len(paths) == 1 and not paths[0].is_dir())
    if not from_stdin:
        for path in paths:
            files.add(path, name)
    if if_version is not None and not from_stdin and len(files) != 1:
        raise ValidationError("--if-version goes with a single document")
    incoming = files.documents(extra, if_version=if_version)
    if from_stdin and name is not None:
        parsed = parser.parse(name, sys.stdin.buffer.read())
        if parsed is None:
            raise not_text(name)
        files.notes += parsed.notes
        read = parsed.document(name, extra, if_version=if_version)
        # A text alone says nothing of metadata: what the document has is kept.
        incoming = iter([read if read.metadata else attrs.evolve(read, metadata=None)])
    elif alone:
        # One document is read before the store is opened, so that a mistake leaves none behind.
        incoming = iter(list(incoming))
        if files.failed:
            raise files.failed[0].error
    if expires_at is not None:
        incoming = (attrs.evolve(each, expires_at=expires_at) for each in incoming)
    with (
        session.service(create=True, dataset=dataset or "default", tells=True) as service,
        session.output.progress("documents", total=len(files) or None) as progress,
    ):
        dataset = dataset_in_use(service, dataset)
        if not alone:
            service.health().require()
        if language is not None:
            service.configure_dataset(dataset, language=language)
        put = partial(service.put_documents, embed="later" if later else "now")
        report = reported(lambda: put(dataset, incoming, progress=progress))
        session.output.warn(*uncovered(service, dataset, report))
    unread = (attrs.evolve(each, dataset_id=dataset) for each in files.failed)
    report = attrs.evolve(report, failed=(*unread, *report.failed))
    if alone and report.failed:
        raise report.failed[0].error
    _tell(session, dataset, report, files)
    return exit_after(report.failed, done=report.added + report.updated + report.unchanged)


def _tell(session: Session, dataset: str, report: PutReport, files: FileSet) -> None:
    output, skipped, notes = session.output, files.skipped, files.notes
    output.warn_of(report.failed)
    tell_notes(output, notes)
    tell_generated(output, skipped)
    if seen := unexpected(skipped):
        some = ", ".join(f"{each.name} ({each.reason})" for each in seen[:_SHOWN])
        more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
        output.note(f"skipped {some}{more}; name a file to store it anyway")
    output.show(
        {"dataset_id": dataset},
        report,
        {"skipped": skipped, "notes": notes},
        lines=[summary_line({**counts_of(report), "skipped": len(seen)})],
        unless_quiet=True,
    )
