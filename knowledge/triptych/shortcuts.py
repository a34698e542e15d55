"""Functions that store a folder or a file, search, or build a prompt's context in one call.

Each takes a `Service`, or the path or URL of a store, or None for the store in the settings. In the
latter cases it opens and closes the store and its models, which suits scripts. Programs that make
several calls should open a Service and keep it.
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
from triptych.service import KnowledgeBase, service_of
from triptych.sync.reading import FileSet
from triptych.sync.roots import SyncOptions

Store: TypeAlias = KnowledgeBase | str | os.PathLike[str] | None


@attrs.frozen(kw_only=True, slots=True)
class IngestReport(PutReport):
    """A `PutReport` whose ``failed`` includes unreadable files, with the skipped files and with
    ``notes`` on files that were read (such as a guessed encoding)."""

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
    """Store the files below ``directory`` in a dataset; return a report.

    The same files become the same documents as with `triptych.sync.DirectorySync`, but no sync owns
    them: documents whose files are gone remain. Unchanged files cost nothing. A document's name is
    its file's path relative to ``directory``, with forward slashes. A file that fails is in the
    report, and the others are stored. The files of the store itself are skipped.

    Args:
        recreate: empty the dataset first (`Service.recreate`), if the directory exists.
        parser: reads the files; None reads every format whose library is installed.
        all_folders: include folders of installed or generated files (``node_modules``, virtual
            environments, build outputs), which are otherwise skipped and named in the report.
        categories: set the metadata ``category``, derived from words of the file's name
            (`triptych.parsing.files`), for documents without one.

    Raises:
        NotFoundError: there is no such directory.
        ValidationError: an argument is invalid; nothing was emptied.
        TriptychError: as `Service.put_documents`, or the health check of a store that is opened
            here failed.
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
    """Store one file, whatever its extension; return the stored document.

    ``name`` None is the file's path relative to the current directory, or only its file name if it
    is elsewhere. ``parser`` and ``categories`` are as for `ingest_directory`.

    Raises:
        ValidationError: the file cannot be read, or is binary and in no format of the parser.
        NotAvailableError: a library that the format needs is not installed.
        TriptychError: as `Service.put_document`, or the health check of a store that is opened here
            failed.
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
    """Return the chunk with this `Hit.chunk_id`, without its vector.

    ``name`` is its document; None searches all chunks of the dataset.

    Raises:
        NotFoundError: the store, dataset, document or chunk does not exist. The id changes with the
            chunk's text, headings and title.
        NotAvailableError: ``service`` is on a server, which does not serve chunks.
    """
    with _opened(service, to_write=False) as kb:
        kb.list_documents(dataset_id, limit=1)
        for chunk in service_of(kb, "reading a chunk").chunks.iter_chunks(dataset_id, name):
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
    """Search one dataset with `Service.search`; ``options`` are further fields of `Query`.

    Raises:
        NotFoundError: the store or the dataset does not exist.
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
    """Return the hits of `query` as text for a prompt: "xml", "text" or "json" (`result_formats`).

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
def _opened(service: Store, *, to_write: bool) -> Iterator[KnowledgeBase]:
    if isinstance(service, KnowledgeBase):
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
