"""All operations on the disk, in one class; other modules do not access files.

Paths are relative to the store's root, with ``/`` between components, and never leave it: no
symbolic link is followed, whether it stands at the end of a path or on the way.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import sys
from collections.abc import Iterator
from typing import Literal

import attrs

from triptych.errors import StoreError
from triptych_backends.file_locks import sync_folder
from triptych_backends.filesystem.layout import is_ignored

Kind = Literal["file", "folder", "link", "other"]

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_BINARY: int = getattr(os, "O_BINARY", 0)
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "the disk's quota is used up: free some space and try again",
    errno.EACCES: "access was denied: check the rights of the files, or open it read_only",
    errno.EPERM: "access was denied: check the rights of the files, or open it read_only",
    errno.EROFS: "the disk is read-only: open the store with read_only=True",
    errno.ENOENT: "part of the store was removed: close it and open it again, or restore it",
    errno.ENAMETOOLONG: "the path is too long for this disk: move the store higher up",
    errno.EIO: "the disk failed: see the system log",
}


MAX_SIZE = 1 << 29
"""Bytes of the largest file that is read: SQLite holds rows of up to 1 GB."""

_NO_DRIVE = frozenset("\\:")


class LinkError(StoreError):
    """A symbolic link, or something else that is not a plain file, stands in the way."""


@attrs.frozen
class FileStat:
    """What changes when a file does: time in ns, size in bytes, inode.

    The time is that of modification, or of the inode's last change where that is later.
    """

    mtime: int
    size: int
    inode: int


@attrs.frozen
class Entry:
    """Something on the disk."""

    kind: Kind
    seen: FileStat


class Disk:
    """The folder ``root``. Methods raise OSError, and `LinkError` where a link stands."""

    def __init__(self, root: str) -> None:
        self.root = root

    def real(self, path: str) -> str:
        """The absolute path of ``path``.

        Raises:
            StoreError: it would leave the root.
        """
        if not _is_inside(path):
            raise StoreError(f"{path!r} is not a path inside the store {self.root}")
        return f"{self.root}{os.sep}{path if os.sep == '/' else path.replace('/', os.sep)}"

    def entry(self, path: str) -> Entry | None:
        """What is at ``path``, itself; None if there is nothing."""
        self._check_way(path)
        return self._entry(self.real(path))

    def _entry(self, real: str) -> Entry | None:
        found = _stat(real)
        return None if found is None else _entry(found)

    def _check_way(self, path: str) -> None:
        real = self.real(path)
        end = real.find(os.sep, len(self.root) + 1)
        while end >= 0:
            found = _stat(real[:end])
            if found is None:
                return
            if _is_link(found):
                raise self.refused(path[: end - len(self.root) - 1])
            end = real.find(os.sep, end + 1)

    def check_writable(self, folder: str) -> None:
        """Raise PermissionError where nothing can be put into, or taken from, ``folder``."""
        if not os.access(self.real(folder) if folder else self.root, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), folder)

    def refused(self, path: str) -> LinkError:
        """The error for a link at ``path``."""
        return LinkError(
            f"{path!r} in the store {self.root} is a symbolic link, which Triptych never follows: "
            "replace it by the file or folder, or remove the link"
        )

    def read(self, path: str) -> tuple[bytes, FileStat]:
        """A plain file's bytes, and what it looked like before they were read.

        Raises FileNotFoundError where there is none, OSError (EFBIG) beyond `MAX_SIZE`.
        """
        self._check_way(path)
        if not _NO_FOLLOW and (found := self._entry(self.real(path))) and found.kind == "link":
            raise self.refused(path)
        try:
            handle = os.open(self.real(path), os.O_RDONLY | _NO_FOLLOW | _BINARY | _NO_WAIT)
        except NotADirectoryError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self.refused(path) from error
            if error.errno in (errno.ENAMETOOLONG, errno.ENXIO):  # ENXIO: a socket
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
            raise
        entry = _entry(os.fstat(handle))
        if entry.kind != "file":
            os.close(handle)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        with open(handle, "rb") as file:
            if entry.seen.size > MAX_SIZE:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            return file.read(), entry.seen

    def write(self, path: str, data: bytes) -> None:
        """Make a file of these bytes, in place of an old one, and put it on the disk."""
        self._check_way(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW | _BINARY
        try:
            handle = os.open(self.real(path), flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self.refused(path) from error
            raise
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            self.sync(handle, path)

    def sync(self, handle: int, path: str) -> None:
        """Put the bytes of an open file, which is at ``path``, on the disk."""
        os.fsync(handle)

    def rename(self, old: str, new: str) -> None:
        """Move a file to ``new``, in place of a file there, in one step."""
        self._check_way(new)
        os.replace(self.real(old), self.real(new))

    def remove(self, path: str) -> None:
        """Remove a file, or a link itself. Absence is not an error."""
        self._check_way(path)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self.real(path))

    def make_folder(self, path: str) -> bool:
        """Make a folder in one that exists; whether there was none."""
        found = self.entry(path)
        if found is not None and found.kind == "folder":
            return False
        if found is not None and found.kind == "link":
            raise self.refused(path)
        try:
            os.mkdir(self.real(path))
        except FileExistsError:
            found = self.entry(path)
            if found is None or found.kind != "folder":
                raise
            return False
        return True

    def remove_folder(self, path: str) -> bool:
        """Remove a folder if it is empty; whether that was done, or there was none."""
        self._check_way(path)
        try:
            os.rmdir(self.real(path))
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return True

    def sync_folder(self, path: str) -> None:
        """Put the names in a folder ("" is the root) on the disk, where the system can."""
        sync_folder(self.real(path) if path else self.root, _NO_FOLLOW)

    def names(self, path: str) -> list[tuple[str, Entry]]:
        """What is in a folder ("" is the root), by name; nothing if there is no such folder.

        What `is_ignored` is left out; a name that is not UTF-8 holds surrogates.
        """
        if path:
            self._check_way(path)
            found = self._entry(self.real(path))
            if found is None or found.kind != "folder":
                return []
        entries = []
        with (
            contextlib.suppress(FileNotFoundError),
            os.scandir(self.real(path) if path else self.root) as scan,
        ):
            for item in scan:
                if is_ignored(item.name):
                    continue
                try:
                    entries.append((item.name, _stat_of(item)))
                except FileNotFoundError:
                    continue
        return sorted(entries, key=lambda entry: entry[0])

    def walk(self, path: str) -> Iterator[tuple[str, Entry]]:
        """Everything below a folder but folders, by path; links are listed, not followed."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            for name, found in self.names(folder):
                if found.kind == "folder":
                    waiting.append(f"{folder}/{name}")
                else:
                    yield f"{folder}/{name}", found


def _stat(real: str) -> os.stat_result | None:
    """What is at ``real``, None for nothing: where a name is too long, nothing can be."""
    try:
        return os.lstat(real)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return None


def _stat_of(item: os.DirEntry[str]) -> Entry:
    # Windows tells no inode while it scans.
    found = os.lstat(item.path) if sys.platform == "win32" else item.stat(follow_symlinks=False)
    return _entry(found)


def _is_link(found: os.stat_result) -> bool:
    return stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) in _LINK_TAGS


@functools.lru_cache(maxsize=8192)
def _is_inside(path: str) -> bool:
    return not any(
        part in ("", ".", "..")
        or "\0" in part
        or (os.sep != "/" and not _NO_DRIVE.isdisjoint(part))
        for part in path.split("/")
    )


def _entry(found: os.stat_result) -> Entry:
    kind: Kind = "other"
    if _is_link(found):
        kind = "link"
    elif stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    # A tool can set the time of modification back; where the system has a time of change (on
    # Windows st_ctime is that of creation), it cannot set that.
    changed = found.st_mtime_ns if os.name == "nt" else max(found.st_mtime_ns, found.st_ctime_ns)
    # SQLite's integers have 63 bits; some systems' inodes more.
    return Entry(kind, FileStat(changed, found.st_size, found.st_ino & (1 << 63) - 1))


_LINK_TAGS = {0xA000000C, 0xA0000003}
"""Windows' tags of symbolic links and of junctions, which are links to folders."""


@contextlib.contextmanager
def disk_errors(where: str) -> Iterator[None]:
    """Let no OSError out."""
    try:
        yield
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0)
        said = error.strerror or str(error)
        # Of a rename that failed, where it should have gone.
        place = error.filename2 or error.filename
        name = f" at {place!r}" if place else ""
        raise StoreError(
            f"the store {where} failed{name} ({said})" + (f": {advice}" if advice else "")
        ) from error
