"""``triptych copy``, ``backup``, ``import`` and ``export``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from triptych._internal.wording import counted
from triptych.errors import NotFoundError, ValidationError
from triptych_adapters.cli.command import argument, command, option
from triptych_adapters.cli.names import dataset_in_use
from triptych_adapters.cli.output import Output, Rows, counts_of
from triptych_adapters.cli.session import Exit, Session, until_terminated

if TYPE_CHECKING:
    from triptych.contracts import Store
    from triptych.copies.report import CopyReport, DatasetCopy

Replace = Annotated[
    bool, option("--replace", "Delete data in the destination that the source does not have.")
]
_DATASETS = Annotated[
    list[str] | None,
    option(
        "--dataset -d",
        "Only this dataset; may be given several times. By default all, and the settings.",
    ),
]
_SHOWN = 5


@command(
    "triptych copy kb.db files:///home/me/kb",
    "triptych copy backup.db other.db              a store of a backup",
    "triptych copy kb.db next.db --sources         to be rebuilt with another embedder",
)
def copy(
    session: Session,
    source: Annotated[str, argument("SRC", "The store to copy, or the file of a backup.")],
    destination: Annotated[
        str, argument("DST", "The store to copy into. A missing store is created.")
    ],
    dataset: _DATASETS = None,
    replace: Replace = False,
    sources: Annotated[
        bool,
        option(
            "--sources",
            "Leave out chunks and vectors: `triptych rebuild` makes them in the destination, with "
            "its own settings. Run again, it leaves those of unchanged documents there.",
        ),
    ] = False,
) -> None:
    """Copy a store or a backup into another store, of any kind.

    Versions, metadata, chunks, vectors and layers are copied unchanged, without a model. Existing
    data is skipped, so run it again after a failure. At the end both are compared. Others may write
    to the source meanwhile: its state at the beginning is copied.
    """
    from triptych.copies.copy import check_datasets, copy_store

    with ExitStack() as held:
        one = held.enter_context(_opened_source(session, source))
        check_datasets(one, dataset)  # before the destination is made
        places = (_place(session, each) for each in (source, destination))
        again = _typed("copy", *places, datasets=dataset, replace=replace, sources=sources)
        other = held.enter_context(_opened(session, destination, again))
        progress = held.enter_context(session.output.progress("documents"))
        report = copy_store(
            one,
            other,
            datasets=dataset,
            replace=replace,
            sources=sources,
            progress=progress,
            again=again,
        )
    _show_copy(session.output, report)


@command("triptych backup backup.db", "triptych copy backup.db other.db")
def backup(
    session: Session,
    file: Annotated[Path, argument("FILE", "The file to write.")],
    dataset: _DATASETS = None,
    overwrite: Annotated[bool, option("--overwrite", "Replace the file if it exists.")] = False,
) -> None:
    """Write a snapshot of the store to one file; others may write to the store meanwhile.

    It includes versions, metadata, chunks, vectors and layers. `triptych copy FILE STORE` restores
    it to a store. The file is a store in SQLite.
    """
    from triptych_backends.sqlite import write_backup

    output = session.output
    check_output(session, file)
    with (
        until_terminated(),
        _opened(session, None) as store,
        output.progress("documents") as progress,
    ):
        report = write_backup(store, file, datasets=dataset, overwrite=overwrite, progress=progress)
    for each in report.removed:
        output.warn(f"removed {each}, the unfinished file of a killed backup")
    output.show(
        {"file": str(file)},
        report,
        table=_datasets(report.datasets),
        note=f"written: {file}",
        unless_quiet=True,
    )


def is_backup(file: Path) -> bool:
    """Whether there is a file that begins as a backup does.

    Raises:
        ValidationError: it is a pipe or a device.
    """
    from triptych.resources.files import open_regular

    try:
        with open_regular(file) as stream:
            return stream.read(6) == b"SQLite"
    except OSError:
        return False


def check_output(session: Session, file: Path) -> None:
    """Refuse to write over the store in force.

    Raises:
        ValidationError: ``file`` is one of its files, or lies in one of its folders.
    """
    from triptych_factory.locations import parse_location, store_paths

    target = file.resolve()
    for own in store_paths(parse_location(session.settings().url)):
        place = own.resolve()
        if target == place or place in target.parents or _is_same(target, place):
            raise ValidationError(f"{str(file)!r} is a file of the store itself: name another file")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _typed(*words: str, datasets: Sequence[str] | None, **flags: bool) -> str:
    """The command to type, such as ``triptych copy a.db b.db``."""
    named = [word for each in datasets or () for word in ("--dataset", each)]
    said = [f"--{name}" for name, is_set in flags.items() if is_set]
    return shlex.join(["triptych", *words, *named, *said])


def _place(session: Session, url: str | None) -> str:
    """The store at ``url``, or the one in force, from wherever it is named; without a password."""
    from triptych_factory.locations import parse_location

    return str(parse_location(session.settings(url=url).url))


@contextmanager
def _opened(session: Session, url: str | None, again: str | None = None) -> Iterator[Store]:
    """The store at ``url``, or the one in force, without a model.

    One to copy into is made if need be: ``again`` is what to type if the copy does not end.

    Raises:
        NotAvailableError: it is on a server.
    """
    from triptych_factory.backends import check_local, open_store, open_target
    from triptych_factory.locations import parse_location

    settings = session.settings(url=url).without_llm()
    check_local(settings, "copying a store")
    location = parse_location(settings.url)
    store: Any = (
        open_store(location, settings, create=False)
        if again is None
        else open_target(location, settings, again)
    )
    try:
        yield store
    finally:
        store.close()


@contextmanager
def _opened_source(session: Session, url: str) -> Iterator[Store]:
    """The store at ``url``, to copy from; a file of SQLite may be of somebody else."""
    from triptych_backends.sqlite import open_backup
    from triptych_factory.locations import parse_location

    location = parse_location(session.settings(url=url).url)
    if location.scheme == "sqlite" and location.path is not None:
        with open_backup(location.path) as store:
            yield store
    else:
        with _opened(session, url) as store:
            yield store


def _show_copy(output: Output, report: CopyReport) -> None:
    """Tell what a copy did."""
    different = report.settings_different
    if different:
        more = ", …" if different[_SHOWN:] else ""
        output.warn(
            f"{len(different):,} settings of the destination differ and were kept "
            f"({', '.join(different[:_SHOWN])}{more}): --replace copies those of the source"
        )
    columns, rows = _datasets(report.datasets)
    output.show(
        report,
        table=(
            (*columns, "copied"),
            ((*row, each.written) for row, each in zip(rows, report.datasets, strict=True)),
        ),
        note="compared: the destination is as the source",
        unless_quiet=True,
    )


def _datasets(datasets: Iterable[DatasetCopy]) -> Rows:
    """A row for each dataset."""
    rows = (
        (
            each.dataset_id,
            each.counts.documents,
            each.counts.versions,
            each.counts.chunks,
            each.counts.vectors + each.counts.further_vectors,
            each.counts.layers,
        )
        for each in datasets
    )
    return ("dataset", "documents", "versions", "chunks", "vectors", "layers"), rows


@command(
    "triptych import documents.jsonl",
    "triptych import pages.parquet --name-field url --content-field text -m lang -m date",
    "triptych export | triptych --store copy.db import -",
)
def import_(
    session: Session,
    file: Annotated[
        Path,
        argument(
            "FILE",
            "A .parquet file, or JSON Lines; - for JSON Lines on standard input.",
            allow_dash=True,
        ),
    ],
    dataset: Annotated[
        str | None,
        option(
            "--dataset -d",
            "The dataset to store in. By default 'default', or the only one.",
        ),
    ] = None,
    name_field: Annotated[
        str, option("--name-field FIELD", "The field with a document's name.")
    ] = "name",
    content_field: Annotated[
        str, option("--content-field FIELD", "The field with its text.")
    ] = "content",
    metadata_field: Annotated[
        list[str] | None,
        option(
            "--metadata-field -m FIELD",
            "A field that becomes metadata. Repeatable; * means all other fields. By default the "
            "object in the field metadata.",
        ),
    ] = None,
) -> Exit:
    """Store a document for each line of a JSONL file, or each row of a Parquet file.

    Invalid lines are reported by number; all others are stored. Unchanged documents cost nothing.
    """
    from triptych.transfer import ImportFields, import_jsonl, import_parquet

    output = session.output
    fields = ImportFields(name=name_field, content=content_field, metadata=metadata_field)
    from_stdin = file == Path("-")
    if not from_stdin:
        if is_backup(file):
            typed = shlex.join(["triptych", "copy", str(file), "copy.db"])
            raise ValidationError(f"{str(file)!r} is a backup: `{typed}` restores it to a store")
        if not file.is_file():
            raise NotFoundError(f"there is no file {file}: check the path")
    with session.service(create=True) as service, output.progress("documents") as progress:
        dataset = dataset_in_use(service, dataset)
        if file.suffix.lower() == ".parquet":
            report = import_parquet(service, dataset, file, fields=fields, progress=progress)
        elif from_stdin:
            lines = sys.stdin.buffer
            report = import_jsonl(service, dataset, lines, fields=fields, progress=progress)
        else:
            with file.open("rb") as lines:
                report = import_jsonl(service, dataset, lines, fields=fields, progress=progress)
    return session.finish(
        report.failed,
        {"dataset_id": dataset},
        report,
        done=report.added + report.updated + report.unchanged,
        table=(("", dataset), counts_of(report).items()),
    )


@command(
    "triptych export > documents.jsonl",
    "triptych export --dataset notes --versions --output notes.jsonl",
)
def export(
    session: Session,
    dataset: Annotated[str, option("--dataset -d", "The dataset.")] = "default",
    versions: Annotated[bool, option("--versions", "Include old versions, oldest first.")] = False,
    to: Annotated[
        Path | None,
        option(
            "--output -o FILE",
            "Write to this file instead of standard output. An existing file is replaced once the "
            "new one is complete.",
        ),
    ] = None,
) -> None:
    """Write the documents of a dataset as JSON Lines, with metadata.

    Each line is an object with name, content, metadata, version and updated_at. `triptych import`
    reads it. `triptych backup --dataset` also writes versions, chunks, vectors and layers.
    """
    from triptych.resources.files import left_drafts
    from triptych.transfer import export_jsonl

    if to is not None:
        check_output(session, to)
        for each in left_drafts(to, remove=True):
            session.output.warn(f"removed {each}, the unfinished file of a killed export")

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
    from triptych.resources.files import written_whole

    try:
        with until_terminated(), written_whole(path, mode=0o666) as stream:
            yield stream
    except FileNotFoundError:
        raise NotFoundError(f"there is no folder {str(path.parent)!r}: make it first") from None
    except OSError as error:
        raise ValidationError(f"{str(path)!r} cannot be written: {error.strerror}") from None
