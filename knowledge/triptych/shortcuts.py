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
from typing import Any, TypeAlias, Unpack

import attrs

from triptych._internal.progress import ProgressCallback
from triptych._open import every_format, open as open_store
from triptych.derivation.batches import check_progress
from triptych.errors import NotFoundError, ValidationError
from triptych.parsing import FileParsers
from triptych.parsing.files import Skipped, category, name_of
from triptych.records import (
    DerivedChunk,
    NewDocument,
    PutReport,
    Result,
    SourceDocument,
    check_text,
)
from triptych.records.queries import QuestionOptions
from triptych.search.result_formats import FORMATS
from triptych.service import Service
from triptych.sync.reading import FileSet
from triptych.sync.roots import SyncOptions

Store: TypeAlias = Service | str | os.PathLike[str] | None


@attrs.frozen(kw_only=True, slots=True)
class IngestReport(PutReport):
    """What a folder gave: a `PutReport`, whose ``failed`` has the files that could not be read
    too, what was skipped, and remarks on files that were read (a guessed encoding)."""

    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()


def ingest_directory(
    service: Store,
    directory: str | os.PathLike[str],
    dataset_id: str,
    *,
    recreate: bool = False,
    parser: FileParsers | None = None,
    all_folders: bool = False,
    categories: bool = False,
    progress: ProgressCallback | None = None,
) -> IngestReport:
    """Put the files below ``directory`` into a dataset: those that `triptych.sync.DirectorySync`
    takes, and the same documents, which no folder owns.

    A document is named by its path from there, with forward slashes. ``recreate`` empties the
    dataset first (`Service.recreate`), once the folder has been found; without it what is
    unchanged costs nothing, and documents whose files are gone stay. A file that fails is
    reported, and the others are put all the same. The files of the store itself are
    skipped. Folders of installed or generated files (`generated_kind`:
    ``node_modules``, virtual environments, build outputs) are left out and named in the report;
    ``all_folders`` takes them. ``parser`` None takes every format that is installed.
    ``categories`` gives each document whose file names none the metadata ``category``, by the words
    of its name (`triptych.parsing.files`).

    Raises:
        NotFoundError: there is no such directory.
        ValidationError: an argument is invalid; nothing was emptied.
        TriptychError: the health check failed (only where the store is opened here), or as
            `Service.put_documents`.
    """
    check_progress(progress)
    if not isinstance(recreate, bool):
        raise ValidationError(f"recreate is True or False, not {recreate!r:.60}")
    root = _path(directory, "directory")
    if not root.is_dir():
        raise NotFoundError(f"there is no directory {str(root)!r}")
    with _opened(service, to_write=True) as kb:
        options = SyncOptions(all_folders=all_folders, exclude_paths=kb.options.own_paths)
        files = FileSet(dataset_id, parser=parser, options=options)
        files.add(root)
        if recreate:
            kb.recreate(dataset_id)
        documents = files.documents()
        if categories:
            documents = map(_with_category, documents)
        report = kb.put_documents(dataset_id, documents, progress=progress)
    fields = attrs.asdict(report, recurse=False) | {"failed": (*files.failed, *report.failed)}
    return IngestReport(**fields, skipped=tuple(files.skipped), notes=tuple(files.notes))


def ingest_file(
    service: Store,
    path: str | os.PathLike[str],
    dataset_id: str,
    *,
    name: str | None = None,
    parser: FileParsers | None = None,
    categories: bool = False,
) -> SourceDocument:
    """Put one file, whatever its ending; the stored document.

    It is named by ``name``, else by its path from the current directory; one outside of it, by
    its last part. ``parser`` None reads every format that is installed. ``categories`` is as for
    `ingest_directory`.

    Raises:
        ValidationError: the file cannot be read, or is binary and of no format of the parser.
        NotAvailableError: the parser lacks a library.
        TriptychError: the health check failed (only where the store is opened here), or as
            `Service.put_document`.
    """
    file = _path(path, "path")
    known_as = name_of(file) if name is None else check_text(name, "name")
    parsed = (every_format() if parser is None else parser).parse_path(file)
    document = parsed.document(known_as)
    if categories:
        document = _with_category(document)
    with _opened(service, to_write=True) as kb:
        failed = kb.put_documents(dataset_id, [document]).failed
        if failed:
            raise failed[0].error
        return kb.get_document(dataset_id, known_as)


def get_chunk(
    service: Store, chunk_id: str, dataset_id: str, name: str | None = None
) -> DerivedChunk:
    """The chunk with this `Hit.chunk_id`, without its vector.

    ``name`` is its document; None reads the chunks of the dataset until it is found.

    Raises:
        NotFoundError: there is no such store, dataset, document or chunk. The id changes with the
            chunk's text, headings and title.
        NotAvailableError: ``service`` is a server's, which serves no chunks by themselves.
    """
    with _opened(service, to_write=False) as kb:
        kb.list_documents(dataset_id, limit=1)
        for chunk in kb.chunks.iter_chunks(dataset_id, name):
            if chunk.chunk_id == chunk_id:
                kb.get_document(dataset_id, chunk.doc_name)  # one that has expired is not there
                return chunk
        if name is not None:
            kb.get_document(dataset_id, name)
    raise NotFoundError(
        f"there is no chunk {chunk_id!r} in {name or dataset_id!r}: its text, headings or title "
        "have changed, or it was deleted; search again"
    )


def query(
    service: Store,
    question: str,
    dataset_id: str,
    top_k: int = 5,
    **options: Unpack[QuestionOptions],
) -> Result:
    """`Service.search` in one dataset; ``options`` are further fields of `Query`.

    Raises:
        NotFoundError: there is no such store, or dataset.
        TriptychError: as `Service.search`.
    """
    with _opened(service, to_write=False) as kb:
        return kb.search(question, dataset_id=dataset_id, top_k=top_k, **options)


def query_context(
    service: Store,
    question: str,
    dataset_id: str,
    top_k: int = 5,
    format: str = "xml",
    **options: Unpack[QuestionOptions],
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
    return FORMATS[format](query(service, question, dataset_id, top_k, **options))


def _with_category(document: NewDocument) -> NewDocument:
    said = document.metadata or {}
    return attrs.evolve(document, metadata={"category": category(document.name), **said})


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
