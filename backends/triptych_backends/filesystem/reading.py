"""Files as they are found: whole, absent, or not what the store can take."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import time

import attrs

from triptych.records import DerivedLayer

from .disk import MAX_SIZE, Disk, Entry, LinkError, Seen
from .formats import (
    FormatError,
    Home,
    OtherSpellingError,
    Sidecar,
    read_home,
    read_layer,
    read_sidecar,
)
from .layout import dataset_file, document_file, sidecar_file
from .problems import Problem

__all__ = ["Found", "FoundLayer", "FoundSidecar", "find_content", "find_home", "find_layer",
           "find_sidecar", "misplaced"]  # fmt: skip

BEHIND = "lies behind a symbolic link"


@attrs.frozen
class Found:
    """A file's bytes, their SHA-256, what it looked like and when (ns since 1970)."""

    data: bytes
    digest: str
    seen: Seen
    looked: int


@attrs.frozen
class FoundSidecar:
    """A sidecar and what its file looked like."""

    sidecar: Sidecar
    seen: Seen


@attrs.frozen
class FoundLayer:
    """A layer and its file."""

    layer: DerivedLayer
    file: Found


def find_content(disk: Disk, folder: str, path: str) -> Found | Problem | None:
    """A document's file; a `Problem` when it cannot be content."""
    return _find_text(disk, document_file(folder, path))


def find_sidecar(disk: Disk, folder: str, path: str) -> FoundSidecar | Problem | None:
    """The sidecar of the document at ``path``."""
    place = sidecar_file(folder, path)
    found = _find(disk, place)
    if not isinstance(found, Found):
        return found
    try:
        return FoundSidecar(read_sidecar(found.data, path), found.seen)
    except OtherSpellingError:
        return None
    except FormatError as error:
        return Problem(
            path=place,
            reason=f"is no sidecar ({error})",
            remedy="restore it, or remove it: the document is then taken as a new one, and its "
            "metadata is lost",
        )


def find_home(disk: Disk, folder: str) -> Home | Problem | None:
    """What the dataset's own file says."""
    place = dataset_file(folder)
    found = _find(disk, place)
    if not isinstance(found, Found):
        return found
    try:
        return read_home(found.data, folder)
    except OtherSpellingError:
        return None
    except FormatError as error:
        return Problem(
            path=place,
            reason=f"does not describe a dataset ({error})",
            remedy="restore it, or remove it: configuration and used versions are then taken "
            "from the derived database",
        )


def find_layer(disk: Disk, path: str) -> FoundLayer | Problem | None:
    """The layer in the file at ``path`` (from the root)."""
    found = _find(disk, path)
    if not isinstance(found, Found):
        return found
    try:
        return FoundLayer(read_layer(found.data), found)
    except FormatError as error:
        return Problem(
            path=path,
            reason=f"is no layer ({error})",
            remedy="restore its front matter, or remove it: the layer is then made again",
        )


def misplaced(path: str, entry: Entry) -> Problem | None:
    """Why what is at ``path`` is no plain file; None if it is one."""
    if entry.kind == "file":
        return None
    if entry.kind == "link":
        return Problem(
            path=path,
            reason="is a symbolic link, which is never followed",
            remedy="put the file or folder itself there, or remove the link",
        )
    return Problem(path=path, reason="is no plain file", remedy="move it elsewhere")


def _find_text(disk: Disk, path: str) -> Found | Problem | None:
    found = _find(disk, path)
    if not isinstance(found, Found):
        return found
    try:
        found.data.decode()
    except UnicodeDecodeError as error:
        return Problem(
            path=path,
            reason=f"is not UTF-8 ({error.reason} at byte {error.start})",
            remedy="save it as UTF-8, or move it elsewhere",
        )
    return found


def _find(disk: Disk, path: str) -> Found | Problem | None:
    looked = time.time_ns()
    try:
        data, seen = disk.read(path)
    except FileNotFoundError:
        entry = disk.entry(path)
        return None if entry is None or entry.kind == "folder" else misplaced(path, entry)
    except LinkError:
        with contextlib.suppress(LinkError):
            entry = disk.entry(path)
            return None if entry is None else misplaced(path, entry)
        return Problem(
            path=path,
            reason=f"{BEHIND}, which is never followed",
            remedy="put the folder itself there, or remove the link",
        )
    except PermissionError:
        return Problem(
            path=path, reason="cannot be read", remedy="give yourself the right to read it"
        )
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        return Problem(
            path=path,
            reason=f"is larger than {MAX_SIZE >> 20} MB",
            remedy="split it, or move it elsewhere",
        )
    return Found(data, hashlib.sha256(data).hexdigest(), seen, looked)
