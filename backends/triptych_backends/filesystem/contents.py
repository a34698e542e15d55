"""The contents of files: valid, absent or rejected."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import time

import attrs

from triptych.errors import CorruptStoreError
from triptych.records import DerivedLayer
from triptych_backends.filesystem.disk import MAX_SIZE, Disk, Entry, FileStat, LinkError
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
    """A file's bytes, their SHA-256, what it looked like and when (ns since 1970)."""

    data: bytes
    digest: str
    seen: FileStat
    looked: int


@attrs.frozen
class FileSidecar:
    """A sidecar and what its file looked like."""

    sidecar: Sidecar
    seen: FileStat


@attrs.frozen
class FileLayer:
    """A layer and its file."""

    layer: DerivedLayer
    file: FileContent


def find_content(disk: Disk, folder: str, path: str) -> FileContent | RejectedFile | None:
    """A document's file; a `RejectedFile` when it cannot be content."""
    return _find_text(disk, document_file(folder, path))


def find_sidecar(disk: Disk, folder: str, path: str) -> FileSidecar | RejectedFile | None:
    """The sidecar of the document at ``path``."""
    place = sidecar_file(folder, path)
    found = _find(disk, place)
    if not isinstance(found, FileContent):
        return found
    try:
        return FileSidecar(read_sidecar(found.data, path), found.seen)
    except CaseMismatchError:
        return None
    except FormatError as error:
        return RejectedFile(
            path=place,
            reason=f"is not a sidecar ({error})",
            remedy="restore it, or remove it: the document is then taken as a new one, and its "
            "metadata is lost",
        )


def find_home(disk: Disk, folder: str) -> DatasetManifest | RejectedFile | None:
    """What the dataset's own file says."""
    place = dataset_file(folder)
    found = _find(disk, place)
    if not isinstance(found, FileContent):
        return found
    try:
        return read_home(found.data, folder)
    except CaseMismatchError:
        return None
    except FormatError as error:
        return RejectedFile(
            path=place,
            reason=f"does not describe a dataset ({error})",
            remedy="restore it, or remove it: configuration and used versions are then taken "
            "from the derived database",
        )


def find_layer(disk: Disk, path: str) -> FileLayer | RejectedFile | None:
    """The layer in the file at ``path`` (from the root)."""
    found = _find(disk, path)
    if not isinstance(found, FileContent):
        return found
    try:
        return FileLayer(read_layer(found.data), found)
    except FormatError as error:
        return RejectedFile(
            path=path,
            reason=f"is not a layer ({error})",
            remedy="restore its front matter, or remove it: the layer is then made again",
        )


def is_misplaced(path: str, entry: Entry) -> RejectedFile | None:
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


def _find_text(disk: Disk, path: str) -> FileContent | RejectedFile | None:
    found = _find(disk, path)
    if not isinstance(found, FileContent):
        return found
    try:
        found.data.decode()
    except UnicodeDecodeError as error:
        return RejectedFile(
            path=path,
            reason=f"is not UTF-8 ({error.reason} at byte {error.start})",
            remedy="save it as UTF-8, or move it elsewhere",
        )
    return found


def _find(disk: Disk, path: str) -> FileContent | RejectedFile | None:
    looked = time.time_ns()
    try:
        data, seen = disk.read(path)
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
    return FileContent(data, hashlib.sha256(data).hexdigest(), seen, looked)
