"""All operations on the disk, in one class; other modules do not access files.

Paths are relative to the store's root, with ``/`` between components, and never leave it: no
symbolic link is followed, whether it stands at the end of a path or on the way.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
from collections.abc import Iterator

from triptych.errors import StoreError, StoreFullError
from triptych.scan import FileStat, Folder, Tree, is_link
from triptych_backends.file_locks import sync_folder
from triptych_backends.filesystem.layout import is_ignored

_NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW | getattr(os, "O_BINARY", 0)
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
"""What systems say of a path at which nothing is, or can be."""
_NO_FILE = (*_NOWHERE, errno.EINVAL, errno.ENXIO, errno.EISDIR)
"""What they, and `Folder.read`, say of one at which no plain file is."""
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
_FULL = (errno.ENOSPC, errno.EDQUOT)


MAX_SIZE = 1 << 29
"""Bytes of the largest file that is read: SQLite holds rows of up to 1 GB."""

_NO_DRIVE = frozenset("\\:")


class LinkError(StoreError):
    """A symbolic link, or something else that is not a plain file, stands in the way."""


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

    def entry(self, path: str) -> FileStat | None:
        """What is at ``path``, itself; None if there is nothing."""
        try:
            with self._folder(path) as (folder, name):
                return folder.status(name)
        except OSError as error:
            if error.errno not in _NOWHERE:
                raise
            return None

    def is_folder(self, path: str) -> bool:
        """Whether a folder is at ``path``; "" is the root."""
        found = self.entry(path) if path else None
        return not path or (found is not None and found.kind == "folder")

    @contextlib.contextmanager
    def _folder(self, path: str) -> Iterator[tuple[Folder, str]]:
        """The open folder in which ``path`` lies, and its name there."""
        real = self.real(path)
        *above, name = real[len(self.root) + 1 :].split(os.sep)
        try:
            with Tree(self.root) as tree, tree.folder(above) as folder:
                yield folder, name
        except OSError as error:
            if is_link(error):
                self._refuse_links(path)
            error.filename, error.filename2 = real, None
            raise

    def _refuse_links(self, path: str) -> None:
        """
        Raises:
            LinkError: a link stands at ``path``, or on the way to it.
        """
        ends = [end for end, letter in enumerate(path) if letter == "/"]
        for end in (*ends, len(path)):
            with contextlib.suppress(OSError):
                if FileStat.of(os.lstat(self.real(path[:end]))).kind == "link":
                    raise self.refused(path[:end])

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

    def read(self, path: str) -> tuple[bytes, FileStat | None]:
        """A plain file's bytes, and the stat that proves them, as `Folder.read` gives it.

        Raises FileNotFoundError where there is none, OSError (EFBIG) beyond `MAX_SIZE`.
        """
        try:
            with self._folder(path) as (folder, name):
                return folder.read(name, MAX_SIZE)
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error

    def write(self, path: str, data: bytes) -> None:
        """Make a file of these bytes, in place of an old one, and put it on the disk."""
        with self._folder(path) as (folder, name):
            place, at = folder.at(name)
            with open(os.open(place, _WRITE, 0o666, dir_fd=at), "wb") as file:
                file.write(data)
                file.flush()
                self.sync(file.fileno(), path)

    def sync(self, handle: int, path: str) -> None:
        """Put the bytes of an open file, which is at ``path``, on the disk."""
        os.fsync(handle)

    def rename(self, old: str, new: str) -> None:
        """Move a file to ``new``, in place of a file there, in one step."""
        with self._folder(old) as (source, old_name), self._folder(new) as (folder, name):
            (part, source_at), (place, at) = source.at(old_name), folder.at(name)
            os.replace(part, place, src_dir_fd=source_at, dst_dir_fd=at)

    def remove(self, path: str) -> None:
        """Remove a file, or a link itself. Absence is not an error."""
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._folder(path) as (folder, name),
        ):
            place, at = folder.at(name)
            os.unlink(place, dir_fd=at)

    def make_folder(self, path: str) -> bool:
        """Make a folder in one that exists; whether there was none."""
        found = self.entry(path)
        if found is not None and found.kind == "link":
            raise self.refused(path)
        if found is not None and found.kind == "folder":
            return False
        try:
            with self._folder(path) as (folder, name):
                place, at = folder.at(name)
                os.mkdir(place, dir_fd=at)
        except FileExistsError:
            if not self.is_folder(path):
                raise
            return False
        return True

    def remove_folder(self, path: str) -> bool:
        """Remove a folder if it is empty; whether that was done, or there was none."""
        try:
            with self._folder(path) as (folder, name):
                place, at = folder.at(name)
                os.rmdir(place, dir_fd=at)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        return True

    def sync_folder(self, path: str) -> None:
        """Put the names in a folder ("" is the root) on the disk, where the system can."""
        sync_folder(self.real(path) if path else self.root, _NO_FOLLOW)

    def names(self, path: str) -> list[tuple[str, FileStat]]:
        """What is in a folder ("" is the root), by name; nothing if there is no such folder.

        What `is_ignored` is left out; a name that is not UTF-8 holds surrogates.
        """
        parts = self.real(path)[len(self.root) + 1 :].split(os.sep) if path else ()
        try:
            with Tree(self.root) as tree, tree.folder(parts) as folder:
                entries = folder.entries()
        except OSError as error:
            if is_link(error) and "/" in path:
                self._refuse_links(path.rpartition("/")[0])
            elif not is_link(error) and error.errno not in _NOWHERE:
                raise
            return []
        found = []
        for name, seen in entries:
            if not is_ignored(name) and not isinstance(seen, FileNotFoundError):
                if isinstance(seen, OSError):
                    raise seen
                found.append((name, seen))
        return found

    def walk(self, path: str) -> Iterator[tuple[str, FileStat]]:
        """Everything below a folder but folders, by path; links are listed, not followed."""
        waiting = [path]
        while waiting:
            folder = waiting.pop()
            for name, found in self.names(folder):
                if found.kind == "folder":
                    waiting.append(f"{folder}/{name}")
                else:
                    yield f"{folder}/{name}", found


@functools.lru_cache(maxsize=8192)
def _is_inside(path: str) -> bool:
    return not any(
        part in ("", ".", "..")
        or "\0" in part
        or (os.sep != "/" and not _NO_DRIVE.isdisjoint(part))
        for part in path.split("/")
    )


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
        kind = StoreFullError if error.errno in _FULL else StoreError
        raise kind(
            f"the store {where} failed{name} ({said})" + (f": {advice}" if advice else "")
        ) from error
