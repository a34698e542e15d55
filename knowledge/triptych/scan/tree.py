"""Reading a folder without following links out of it.

Where the system opens files relative to open folders, each part of a path is opened by itself and
no link is followed, so that a link that is swapped in meanwhile is refused. Elsewhere (Windows)
the path is opened as a whole, and then compared with what it leads to.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.scan.stats import FileStat

Parts = Sequence[str]
"""The names on the way from the root."""

_HANDLES = (
    hasattr(os, "O_NOFOLLOW")
    and {os.open, os.stat} <= os.supports_dir_fd
    and os.scandir in os.supports_fd
)
"""Whether the system opens files relative to open folders."""

_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
_FOLDER = _FLAGS | getattr(os, "O_DIRECTORY", 0)
# A pipe that took the file's place must not be waited for.
_FILE = _FLAGS | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_LINK = {errno.ELOOP, errno.ENOTDIR, getattr(errno, "EMLINK", errno.ELOOP)}
"""What systems say of a link that is not to be followed."""
_TRIES = 3
"""How often a file is read that others write meanwhile."""


def _outside(path: str) -> OSError:
    return OSError(errno.ELOOP, "it leads out of the folder", path)


@attrs.frozen(slots=True)
class Folder:
    """An open folder of a `Tree`; ``handle`` is None where the system has none."""

    root: str
    parts: Parts
    handle: int | None

    @property
    def path(self) -> str:
        """Its real path."""
        return os.path.join(self.root, *self.parts)

    def at(self, name: str) -> tuple[str, int | None]:
        """The path and the ``dir_fd`` that the system's calls take for an entry."""
        return (os.path.join(self.path, name), None) if self.handle is None else (name, self.handle)

    def entries(self) -> list[tuple[str, FileStat | OSError]]:
        """What is in it, ordered by name, each entry with its own status, links not followed."""
        found: list[tuple[str, FileStat | OSError]] = []
        with os.scandir(self.path if self.handle is None else self.handle) as entries:
            for entry in entries:
                try:
                    # Windows tells no inode while it scans.
                    own = sys.platform == "win32"
                    status = os.lstat(entry.path) if own else entry.stat(follow_symlinks=False)
                    found.append((entry.name, FileStat.of(status)))
                except OSError as error:
                    found.append((entry.name, error))
        self._check()
        return sorted(found, key=lambda each: each[0])

    def status(self, name: str) -> FileStat:
        """The entry's own status, a link not followed."""
        path, handle = self.at(name)
        found = os.stat(path, dir_fd=handle, follow_symlinks=False)
        self._check()
        return FileStat.of(found)

    def has(self, name: str) -> bool:
        """Whether there is an entry of this name."""
        with suppress(FileNotFoundError):
            self.status(name)
            return True
        return False

    def names(self) -> list[str]:
        """The names in it."""
        return os.listdir(self.path if self.handle is None else self.handle)

    def open(self, name: str) -> int:
        """A descriptor of the file, which may be a pipe or a device; the caller closes it.

        Raises:
            OSError: it cannot be opened, or is a link.
        """
        path, handle = self.at(name)
        descriptor = os.open(path, _FILE, dir_fd=handle)
        try:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):  # Python's `open` would leave its descriptor open
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if handle is None and (
                os.path.realpath(path, strict=True) != path
                or not os.path.samestat(found, os.lstat(path))
            ):
                raise _outside(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, most: int) -> tuple[bytes, FileStat | None]:
        """The bytes of a file, and the status that proves them; None for that if none does.

        Raises:
            OSError: it cannot be read, is a link or no regular file (EINVAL), or has more than
                ``most`` bytes (EFBIG).
        """
        data, proof = b"", None
        for _ in range(_TRIES):
            looked = time.time_ns()
            with open(self.open(name), "rb") as file:
                before = FileStat.of(os.fstat(file.fileno()))
                if before.kind != "file":
                    raise OSError(errno.EINVAL, "it is not a regular file", name)
                if before.size <= most:
                    data = file.read(most + 1)
                after = FileStat.of(os.fstat(file.fileno()))
            if max(before.size, len(data)) > most:
                raise OSError(errno.EFBIG, f"it has more than {most} bytes", name)
            if before == after:
                proof = after.unless_racy(looked)
                break
        return data, proof

    def head(self, name: str, most: int) -> bytes | None:
        """The first ``most`` bytes of a regular file; None where there is none, or a link.

        Raises:
            OSError: it cannot be read.
        """
        with suppress(FileNotFoundError):
            if self.status(name).kind != "file":
                return None
            with open(self.open(name), "rb") as file:
                return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
        return None

    def _check(self) -> None:
        if self.handle is None and os.path.realpath(self.path, strict=True) != self.path:
            raise _outside(self.path)


class Tree(CloseOnExit):
    """An open root; close it, or use it as a context manager."""

    def __init__(self, path: str) -> None:
        """Open ``path``, the real path of a folder.

        Raises:
            OSError: it is not there, is no folder, or cannot be opened.
        """
        self.path = path
        self._handle: int | None = None
        if _HANDLES:
            self._handle = os.open(path, _FOLDER)
        elif not stat.S_ISDIR(os.lstat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)

    @classmethod
    def of(cls, root: str) -> Tree:
        """Open ``root``, a folder or a link to one. Raises as the constructor."""
        return cls(os.path.realpath(root, strict=True))

    def close(self) -> None:
        """Idempotent."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    @contextmanager
    def folder(self, parts: Parts) -> Iterator[Folder]:
        """The open folder at ``parts``, none of which may be a link.

        Raises:
            OSError: it is not there, or cannot be opened; `is_link` says whether a link is why.
        """
        if self._handle is None:
            opened = Folder(self.path, parts, None)
            if os.path.realpath(opened.path, strict=True) != opened.path:
                raise _outside(opened.path)
            yield opened
            return
        handle = self._handle
        try:
            for part in parts:
                before = handle
                handle = os.open(part, _FOLDER, dir_fd=before)
                if before != self._handle:
                    os.close(before)
            yield Folder(self.path, parts, handle)
        finally:
            if handle != self._handle:
                os.close(handle)

    def read(self, parts: Parts, most: int) -> tuple[bytes, FileStat | None]:
        """What `Folder.read` gives of the file at ``parts``. Raises as `folder` and that."""
        with self.folder(parts[:-1]) as folder:
            return folder.read(parts[-1], most)

    def resolve(self, relative: str) -> tuple[str, ...] | None:
        """The parts of the real path of what is at ``relative``; None where it is outside.

        Raises:
            OSError: there is nothing, or links lead in circles.
        """
        real = os.path.realpath(os.path.join(self.path, relative), strict=True)
        if real == self.path:
            return ()
        inside = self.path.rstrip(os.sep) + os.sep
        return tuple(real[len(inside) :].split(os.sep)) if real.startswith(inside) else None


def is_link(error: OSError) -> bool:
    """Whether opening failed because of a link, or because a folder is none."""
    return error.errno in _LINK


def is_hidden(parts: Parts) -> bool:
    """Whether one of the names begins with a dot."""
    return any(part.startswith(".") for part in parts)
