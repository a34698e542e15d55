"""Old versions: one gzipped JSON file each, readable with `zcat`.

They are no derived data: nothing can make them again. They are written and removed with the change
that replaces or deletes their document, through its journal.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import zlib
from collections.abc import Collection, Iterator, Sequence

from triptych.errors import CorruptStoreError
from triptych.records import DocumentInfo, SourceDocument
from triptych.records.serialization import from_dict, to_dict
from triptych.signatures import document_info
from triptych_backends.filesystem.disk import MAX_SIZE, Disk, LinkError, disk_errors
from triptych_backends.filesystem.formats import FormatError, dump, parse
from triptych_backends.filesystem.journal import Intent
from triptych_backends.filesystem.layout import (
    HISTORY,
    history_folder,
    version_file,
    versions_folder,
)
from triptych_backends.filesystem.workspace import Workspace

_SUFFIX = ".json.gz"


def keep(
    plan: Intent,
    folder: str,
    current: tuple[str, int],
    replaced: Sequence[SourceDocument],
    old: Collection[int],
    history: int,
) -> None:
    """Let ``plan`` keep the newest ``history`` versions below ``current`` (name, version).

    ``old`` are those that have a file, ``replaced`` others, which have none yet.
    """
    name, version = current
    new = {each.version: each for each in replaced if each.version not in old}
    newest = sorted({*old, *new}, reverse=True)
    staying = [each for each in newest if each < version][:history]
    for each in staying:
        if each in new:
            plan.writes[version_file(folder, name, each)] = _written(new[each])
    for each in set(old).difference(staying):
        plan.removals[version_file(folder, name, each)] = None


def forget_document(
    disk: Disk, plan: Intent, folder: str, name: str, *, below: int | None = None
) -> None:
    """Let ``plan`` remove the versions of a document: those ``below`` one, or all."""
    for version in kept(disk, folder, name):
        if below is None or version < below:
            plan.removals[version_file(folder, name, version)] = None


def forget_dataset(disk: Disk, plan: Intent, folder: str) -> None:
    """Let ``plan`` remove all versions of all documents of a dataset."""
    for path, _ in disk.walk(history_folder(folder)):
        plan.removals[path] = None


def kept(disk: Disk, folder: str, name: str) -> list[int]:
    """The versions that have a file, newest first."""
    try:
        found = disk.names(versions_folder(folder, name))
    except LinkError:
        return []
    versions = [
        int(file.removesuffix(_SUFFIX))
        for file, entry in found
        if entry.kind == "file" and file.removesuffix(_SUFFIX).isdecimal()
    ]
    return sorted(versions, reverse=True)


def versions(workspace: Workspace, current: DocumentInfo | None) -> list[DocumentInfo]:
    """See `VersionReader.versions`. While another writes the document, the oldest may be missing
    already."""
    if current is None:
        return []
    dataset_id, name = current.dataset_id, current.name
    with disk_errors(workspace.where):
        folder = workspace.folder(dataset_id)
        numbers = kept(workspace.disk, folder, name) if folder else []
    below = [number for number in numbers if number < current.version]
    old = [_kept_version(workspace, dataset_id, name, number) for number in below]
    return [current, *(document_info(each) for each in old if each is not None)]


def get_version(
    workspace: Workspace, current: SourceDocument | None, version: int
) -> SourceDocument | None:
    """See `VersionReader.get_version`, of the document that is ``current``."""
    if current is None or version > current.version:
        return None
    if version == current.version:
        return current
    return _kept_version(workspace, current.dataset_id, current.name, version)


def _kept_version(
    workspace: Workspace, dataset_id: str, name: str, version: int
) -> SourceDocument | None:
    """A kept version; None where there is no file of it.

    Raises:
        CorruptStoreError: its file is damaged.
    """
    with disk_errors(workspace.where):
        folder = workspace.folder(dataset_id)
        if folder is None:
            return None
        path = version_file(folder, name, version)
        try:
            data, _ = workspace.disk.read(path)
        except FileNotFoundError:
            return None
        try:
            document = from_dict(SourceDocument, parse(_unpacked(data)))
            found = (document.dataset_id, document.name, document.version)
            if found != (dataset_id, name, version):
                raise FormatError(f"it is version {document.version} of {document.name!r}")
        except (FormatError, ValueError, OSError, EOFError, zlib.error) as error:
            raise CorruptStoreError(
                f"{workspace.disk.real(path)} in the store {workspace.where} is not an old version "
                f"({error}): restore it, or remove it, which drops that version"
            ) from error
    return document


def sweep(workspace: Workspace) -> int:
    """Remove versions of documents that are gone, should their files have outlived them; of how
    many documents. For who holds the lock."""
    disk = workspace.disk
    dead = orphans(workspace)
    for folder, paths in dead.items():
        for path in paths:
            disk.remove(path)
        disk.remove_folder(folder)
        disk.remove_folder(folder.rpartition("/")[0])
    return len(dead)


def orphans(workspace: Workspace) -> dict[str, list[str]]:
    """The files of versions of documents that are gone, by folder."""
    disk = workspace.disk
    living = set(_living(workspace))
    dead: dict[str, list[str]] = {}
    for path, _ in disk.walk(HISTORY):
        folder = path.rpartition("/")[0]
        if folder not in living:
            dead.setdefault(folder, []).append(path)
    return {folder: paths for folder, paths in dead.items() if not _may_come(workspace, paths[0])}


def _may_come(workspace: Workspace, path: str) -> bool:
    """Whether a file that cannot be taken now may become the document of this version again."""
    of_dataset, _, _ = path.removeprefix(f"{HISTORY}/").partition("/")
    name = _name_in(workspace.disk, path)
    return name is not None and workspace.find_path(of_dataset, name) is not None


def _living(workspace: Workspace) -> Iterator[str]:
    for dataset in workspace.mirror.documents.list_datasets():
        folder = workspace.folder(dataset)
        if folder is not None:
            for info in workspace.mirror.documents.list(dataset):
                yield versions_folder(folder, info.name)


def _name_in(disk: Disk, path: str) -> str | None:
    with contextlib.suppress(FormatError, ValueError, OSError, EOFError, zlib.error, LinkError):
        name = parse(_unpacked(disk.read(path)[0])).get("name")
        return name if isinstance(name, str) else None
    return None


def _written(document: SourceDocument) -> bytes:
    # Without a time of its own, so that the same version is the same file.
    return gzip.compress(dump(to_dict(document)), mtime=0)


def _unpacked(data: bytes) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        unpacked = file.read(MAX_SIZE + 1)
    if len(unpacked) > MAX_SIZE:
        raise FormatError(f"it is larger than {MAX_SIZE >> 20} MB")
    return unpacked
