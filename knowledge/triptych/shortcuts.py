"""Short ways: a folder or a file in, an answer or a prompt's context out, each in one call.

Every function takes a `Service`, or in its place the path or URL of a store, or None for the one
that the settings name. Such a store is opened for the call and closed after it, embedder and all:
fine for a script; a program that asks more than once opens a Service and keeps it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from triptych._internal.progress import ProgressCallback
from triptych._open import open as open_store
from triptych.errors import NotAvailableError, ValidationError
from triptych.ingestion.batches import check_progress
from triptych.parsing import FileParsers
from triptych.parsing.categories import category
from triptych.parsing.files import ENDINGS, Skipped, name_of, read_text, text_files
from triptych.records import (
    Failure,
    NewDocument,
    PutReport,
    Result,
    SourceDocument,
    check_text,
)
from triptych.search.result_formats import FORMATS
from triptych.service import Service

__all__ = [
    "IngestReport",
    "Store",
    "ingest_directory",
    "ingest_file",
    "query",
    "query_context",
]

Store: TypeAlias = Service | str | os.PathLike[str] | None


@attrs.frozen(kw_only=True, slots=True)
class IngestReport(PutReport):
    """What a folder gave: a `PutReport`, whose ``failed`` has the files that could not be read
    too, and what was passed over."""

    skipped: tuple[Skipped, ...] = ()


def ingest_directory(
    service: Store,
    directory: str | os.PathLike[str],
    dataset_id: str,
    *,
    recreate: bool = False,
    parser: FileParsers | None = None,
    all_folders: bool = False,
    progress: ProgressCallback | None = None,
) -> IngestReport:
    """Put the text files below ``directory`` (`triptych.parsing.files.text_files`) into a dataset.

    A document is named by its path from there, with forward slashes, and has its `category` as
    metadata. ``recreate`` empties the dataset first (`Service.recreate`), once the folder has
    been found; without it what is unchanged costs nothing, and documents whose files are gone
    stay. A file that is not UTF-8, or cannot be read, is reported and holds up no other. With a
    ``parser`` (`triptych_backends.parsing.default_parser`) the files of every format that it has
    are taken. Folders of installed or generated files (`generated_kind`: ``node_modules``,
    virtual environments, build outputs) are left out and named in the report; ``all_folders``
    takes them.

    Raises:
        NotFoundError: there is no such directory.
        ValidationError: an argument is invalid; nothing was emptied.
        TriptychError: the health check failed (only where the store is opened here), or as
            `Service.put_documents`.
    """
    check_progress(progress)
    if not isinstance(recreate, bool):
        raise ValidationError(f"recreate is True or False, not {recreate!r:.60}")
    if not isinstance(all_folders, bool):
        raise ValidationError(f"all_folders is True or False, not {all_folders!r:.60}")
    root = _path(directory, "directory")
    endings = ENDINGS if parser is None else parser.endings
    files, skipped = text_files(root, endings, all_folders=all_folders)
    unread: list[Failure] = []

    def documents() -> Iterator[NewDocument]:
        for file in files:
            name = file.relative_to(root).as_posix()
            try:
                yield _document(name, file, parser)
            except (ValidationError, NotAvailableError) as error:
                unread.append(Failure(dataset_id=dataset_id, name=name, error=error))

    with _opened(service, to_write=True) as kb:
        if recreate:
            kb.recreate(dataset_id)
        report = kb.put_documents(dataset_id, documents(), progress=progress)
    fields = attrs.asdict(report, recurse=False) | {"failed": (*unread, *report.failed)}
    return IngestReport(**fields, skipped=tuple(skipped))


def ingest_file(
    service: Store,
    path: str | os.PathLike[str],
    dataset_id: str,
    *,
    name: str | None = None,
    parser: FileParsers | None = None,
) -> SourceDocument:
    """Put one file, whatever its ending; the stored document.

    It is named by ``name``, else by its path from the current directory; one outside of it, by
    its last part. Its category is metadata. With a ``parser``
    (`triptych_backends.parsing.default_parser`) it may be of any format that this has.

    Raises:
        ValidationError: the file is not UTF-8, or cannot be read.
        NotAvailableError: the parser lacks a library.
        TriptychError: the health check failed (only where the store is opened here), or as
            `Service.put_document`.
    """
    file = _path(path, "path")
    known_as = name_of(file) if name is None else check_text(name, "name")
    document = _document(known_as, file, parser)
    with _opened(service, to_write=True) as kb:
        if parser is None:
            return kb.put_document(dataset_id, document.name, document.content, document.metadata)
        failed = kb.put_documents(dataset_id, [document]).failed
        if failed:
            raise failed[0].error
        return kb.get_document(dataset_id, document.name)


def query(service: Store, question: str, dataset_id: str, top_k: int = 5, **fields: Any) -> Result:
    """`Service.search` in one dataset; ``fields`` are further fields of `Query`.

    Raises:
        NotFoundError: there is no such store, or dataset.
        TriptychError: as `Service.search`.
    """
    with _opened(service, to_write=False) as kb:
        return kb.search(question, dataset_id=dataset_id, top_k=top_k, **fields)


def query_context(
    service: Store,
    question: str,
    dataset_id: str,
    top_k: int = 5,
    format: str = "xml",
    **fields: Any,
) -> str:
    """The hits of `query` as text for a prompt: "xml", "text" or "json" (see `result_formats`).

    Raises:
        ValidationError: there is no such format.
        TriptychError: as `query`.
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise ValidationError(
            f"there is no format {format!r}: choose one of {', '.join(map(repr, FORMATS))}"
        )
    return FORMATS[format](query(service, question, dataset_id, top_k, **fields))


@contextmanager
def _opened(service: Store, *, to_write: bool) -> Iterator[Service]:
    if isinstance(service, Service):
        yield service
        return
    with open_store(service, create=to_write) as kb:
        if to_write:
            kb.health().require()
        yield kb


def _path(path: Any, what: str) -> Path:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise ValidationError(f"{what} is a path, not {path!r:.60}")
    return Path(path)


def _document(name: str, path: Path, parser: FileParsers | None) -> NewDocument:
    metadata = {"category": category(name)}
    if parser is None:
        return NewDocument(name=name, content=read_text(path), metadata=metadata)
    return parser.parse_path(path).document(name, metadata)
