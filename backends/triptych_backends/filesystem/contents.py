"""The contents of files: valid, absent or rejected."""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Callable
from typing import Generic, TypeVar

import attrs

from triptych.errors import CorruptStoreError
from triptych.records import DerivedLayer
from triptych.scan import FileRecord, FileStat
from triptych_backends.filesystem.disk import MAX_SIZE, Disk, LinkError
from triptych_backends.filesystem.formats import (
    CaseMismatchError,
    DatasetManifest,
    FormatError,
    Sidecar,
    read_home,
    read_layer,
    read_sidecar,
)
from triptych_backends.filesystem.layout import dataset_file, document_file, sidecar_file

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class RejectedFile:
    """A file that is not adopted: its ``path`` in the store, why not, and what helps."""

    path: str
    reason: str
    remedy: str

    def error(self, where: str) -> CorruptStoreError:
        """What a call raises that cannot do without the file."""
        return CorruptStoreError(f"{self.path!r} in the store {where} {self.reason}: {self.remedy}")


def duplicates(place: str, name: str, other: str) -> RejectedFile:
    """Two files for one document."""
    return RejectedFile(
        path=place,
        reason=f"stands for the document {name!r}, as {other!r} does",
        remedy="rename or remove one of the two",
    )


def bad_name(path: str, kind: str = "document") -> RejectedFile:
    """A file or folder whose name a ``kind`` cannot have."""
    return RejectedFile(
        path=path if is_utf8(path) else ascii(path),
        reason=f"has a name that no {kind} can have",
        remedy="rename it",
    )


def is_utf8(text: str) -> bool:
    """Whether a name from the disk is text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


BEHIND = "lies behind a symbolic link"


@attrs.frozen
class FileContent:
    """A file's bytes and their record."""

    data: bytes
    record: FileRecord


@attrs.frozen
class Parsed(Generic[T]):
    """What a file says, and the file."""

    value: T
    file: FileContent


def find_content(disk: Disk, folder: str, path: str) -> FileContent | RejectedFile | None:
    """A document's file; a `RejectedFile` when it cannot be content."""
    found = _find(disk, document_file(folder, path))
    if isinstance(found, FileContent):
        try:
            found.data.decode()
        except UnicodeDecodeError as error:
            return RejectedFile(
                path=document_file(folder, path),
                reason=f"is not UTF-8 ({error.reason} at byte {error.start})",
                remedy="save it as UTF-8, or move it elsewhere",
            )
    return found


def find_sidecar(disk: Disk, folder: str, path: str) -> Parsed[Sidecar] | RejectedFile | None:
    """The sidecar of the document at ``path``."""
    return _parse(
        disk,
        sidecar_file(folder, path),
        lambda data: read_sidecar(data, path),
        reason="is not a sidecar",
        remedy="restore it, or remove it: the document is then taken as a new one, and its "
        "metadata is lost",
    )


def find_home(disk: Disk, folder: str) -> DatasetManifest | RejectedFile | None:
    """What the dataset's own file says."""
    found = _parse(
        disk,
        dataset_file(folder),
        lambda data: read_home(data, folder),
        reason="does not describe a dataset",
        remedy="restore it, or remove it: configuration and used versions are then taken from the "
        "derived database",
    )
    return found.value if isinstance(found, Parsed) else found


def find_layer(disk: Disk, path: str) -> Parsed[DerivedLayer] | RejectedFile | None:
    """The layer in the file at ``path`` (from the root)."""
    return _parse(
        disk,
        path,
        read_layer,
        reason="is not a layer",
        remedy="restore its front matter, or remove it: the layer is then made again",
    )


def _parse(
    disk: Disk, path: str, read: Callable[[bytes], T], *, reason: str, remedy: str
) -> Parsed[T] | RejectedFile | None:
    found = _find(disk, path)
    if not isinstance(found, FileContent):
        return found
    try:
        return Parsed(read(found.data), found)
    except CaseMismatchError:
        return None
    except FormatError as error:
        return RejectedFile(path=path, reason=f"{reason} ({error})", remedy=remedy)


def is_misplaced(path: str, entry: FileStat) -> RejectedFile | None:
    """Why what is at ``path`` is not a plain file; None if it is one."""
    if entry.kind == "file":
        return None
    if entry.kind == "link":
        return RejectedFile(
            path=path,
            reason="is a symbolic link, which is never followed",
            remedy="put the file or folder itself there, or remove the link",
        )
    return RejectedFile(path=path, reason="is not a plain file", remedy="move it elsewhere")


def _find(disk: Disk, path: str) -> FileContent | RejectedFile | None:
    try:
        data, stat = disk.read(path)
    except FileNotFoundError:
        entry = disk.entry(path)
        return None if entry is None or entry.kind == "folder" else is_misplaced(path, entry)
    except LinkError:
        with contextlib.suppress(LinkError):
            entry = disk.entry(path)
            return None if entry is None else is_misplaced(path, entry)
        return RejectedFile(
            path=path,
            reason=f"{BEHIND}, which is never followed",
            remedy="put the folder itself there, or remove the link",
        )
    except PermissionError:
        return RejectedFile(
            path=path, reason="cannot be read", remedy="give yourself the right to read it"
        )
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        return RejectedFile(
            path=path,
            reason=f"is larger than {MAX_SIZE >> 20} MB",
            remedy="split it, or move it elsewhere",
        )
    return FileContent(data, FileRecord(stat, hashlib.sha256(data).hexdigest()))
