"""What the commands share that move stores: opening one, archives, and telling what was done."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from triptych.errors import ValidationError
from triptych_adapters.cli.options import option
from triptych_adapters.cli.output import Output
from triptych_adapters.cli.session import Session

if TYPE_CHECKING:
    from triptych.contracts import Store
    from triptych.copies import ArchiveSummary, CopyReport, DatasetCopy, DatasetSummary

__all__ = [
    "Replace",
    "check_output",
    "is_archive",
    "load_archive",
    "opened_store",
    "place_of",
    "print_copy",
    "save_archive",
    "typed",
    "until_terminated",
]

Replace = Annotated[
    bool,
    option(
        "--replace",
        "Of a backup: remove what the store has in its datasets and the backup has not.",
    ),
]
_SHOWN = 5


def is_archive(file: Path) -> bool:
    """Whether there is a file that begins as an archive does.

    Raises:
        ValidationError: it is a pipe or a device.
    """
    from triptych._internal.regular_files import open_regular

    try:
        with open_regular(file) as stream:
            return stream.read(4) == b"PK\x03\x04"
    except OSError:
        return False


def load_archive(
    session: Session,
    file: Path,
    url: str | None,
    *,
    datasets: Sequence[str] | None = None,
    with_settings: bool,
    replace: bool,
) -> None:
    """Copy an archive, or these datasets of it, into the store at ``url`` or the one in force."""
    from triptych.copies import Archive, check_datasets, copy_store
    from triptych_adapters.cli.progress import shown

    path, place, named = str(file.absolute()), place_of(session, url), datasets
    words = ("restore", path, place) if with_settings else ("--store", place, "import", path)
    with Archive(file) as archive:
        check_datasets(archive, datasets)  # before the store is made
        if datasets is None and not with_settings:
            datasets = archive.datasets()
        again = typed(*words, datasets=named, replace=replace)
        with (
            opened_store(session, url, again) as store,
            shown(session.output, "documents") as progress,
        ):
            report = copy_store(
                archive,
                store,
                datasets=datasets,
                replace=replace,
                progress=progress,
                again=again,
            )
    print_copy(session.output, report)


def save_archive(
    session: Session, file: Path, *, datasets: Sequence[str] | None, overwrite: bool
) -> None:
    """Write the store in force, or these datasets of it, into an archive."""
    from triptych.copies import write_archive
    from triptych_adapters.cli.progress import shown

    check_output(session, file)
    with (
        until_terminated(),
        opened_store(session, None) as store,
        shown(session.output, "documents") as progress,
    ):
        summary = write_archive(
            store, file, datasets=datasets, overwrite=overwrite, progress=progress
        )
    _print_summary(session.output, file, summary)


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


@contextmanager
def until_terminated() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP where it ends the process, end the block as an exception does, so
    that half a file is removed."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = [each for each in ("SIGTERM", "SIGHUP") if hasattr(signal, each)]
    wanted = [getattr(signal, each) for each in ending]
    taken = [each for each in wanted if signal.getsignal(each) is signal.SIG_DFL]
    for each in taken:
        signal.signal(each, stop)
    try:
        yield
    finally:
        for each in taken:
            signal.signal(each, signal.SIG_DFL)


def typed(*words: str, datasets: Sequence[str] | None, replace: bool) -> str:
    """The command to type, such as ``triptych copy a.db b.db``."""
    named = [word for each in datasets or () for word in ("--dataset", each)]
    return shlex.join(["triptych", *words, *named, *(["--replace"] if replace else [])])


def place_of(session: Session, url: str | None) -> str:
    """The store at ``url``, or the one in force, from wherever it is named; without a password."""
    from triptych_factory.locations import parse_location

    return str(parse_location(session.settings(**({} if url is None else {"url": url})).url))


@contextmanager
def opened_store(session: Session, url: str | None, again: str | None = None) -> Iterator[Store]:
    """The store at ``url``, or the one in force, without a model.

    One to copy into is made if need be: ``again`` is what to type if the copy does not end.

    Raises:
        NotAvailableError: it is on a server.
    """
    from triptych_factory.backends import open_store, open_target
    from triptych_factory.locations import parse_location
    from triptych_factory.remote import check_local

    given = {} if url is None else {"url": url}
    settings = session.settings(**given).without_llm()
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


def print_copy(output: Output, report: CopyReport) -> None:
    """Tell what a copy did."""
    from triptych.records.serialization import to_json

    different = report.settings_different
    if different:
        more = ", …" if different[_SHOWN:] else ""
        output.warn(
            f"{len(different):,} settings are other in the destination, and stay as they are there "
            f"({', '.join(different[:_SHOWN])}{more}): --replace takes over those of the source"
        )
    if output.as_json:
        output.emit(to_json(report))
        return
    _print_datasets(output, report.datasets, copied=[each.written for each in report.datasets])
    output.note("compared: the destination is as the source")


def _print_summary(output: Output, file: Path, summary: ArchiveSummary) -> None:
    from triptych.records.serialization import to_json

    for each in summary.removed:
        output.warn(f"removed {each}, which a backup left that was killed")
    if output.as_json:
        output.emit({"file": str(file), **to_json(summary)})
        return
    _print_datasets(output, summary.datasets)
    output.note(f"written: {file}")


def _print_datasets(
    output: Output,
    datasets: Sequence[DatasetCopy | DatasetSummary],
    copied: Sequence[int] | None = None,
) -> None:
    """A row for each dataset, with how many names were ``copied`` where that is given."""
    if output.quiet:
        return
    rows: list[Sequence[object]] = []
    for at, each in enumerate(datasets):
        counts = each.counts
        vectors = counts.vectors + counts.sparse_vectors
        row = (counts.documents, counts.versions, counts.chunks, vectors, counts.layers)
        rows.append((each.dataset_id, *row, *(copied[at : at + 1] if copied is not None else ())))
    columns = ("dataset", "documents", "versions", "chunks", "vectors", "layers")
    output.table((*columns, "copied") if copied is not None else columns, rows)
