"""Reading a folder without following links out of it.

Where the system opens files relative to open folders, each part of a path is opened by itself and
no link is followed, so that a link that is swapped in meanwhile is refused. Elsewhere (Windows)
the path is opened as a whole, and then compared with what it leads to.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import attrs

from triptych._internal.close_on_exit import CloseOnExit

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


def _outside(path: str) -> OSError:
    return OSError(errno.ELOOP, "it leads out of the folder", path)


@attrs.frozen(slots=True)
class Folder:
    """An open folder of a `Tree`; ``handle`` is None where the system has none."""

    path: str
    handle: int | None

    def entries(self) -> list[tuple[str, os.stat_result | OSError]]:
        """What is in it, ordered by name, each entry with its own status, links not followed."""
        found: list[tuple[str, os.stat_result | OSError]] = []
        with os.scandir(self.path if self.handle is None else self.handle) as entries:
            for entry in entries:
                try:
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
                except OSError as error:
                    found.append((entry.name, error))
        self._check()
        return sorted(found, key=lambda each: each[0])

    def status(self, name: str) -> os.stat_result:
        """The entry's own status, a link not followed."""
        if self.handle is not None:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        found = os.lstat(os.path.join(self.path, name))
        self._check()
        return found

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
        path = os.path.join(self.path, name)
        if self.handle is not None:
            return os.open(name, _FILE, dir_fd=self.handle)
        descriptor = os.open(path, _FILE)
        try:
            real = os.path.realpath(path, strict=True)
            if real != path or not os.path.samestat(os.fstat(descriptor), os.lstat(path)):
                raise _outside(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def read(self, name: str, most: int) -> bytes | None:
        """The first ``most`` bytes of a regular file; None where there is none, or a link.

        Raises:
            OSError: it cannot be read.
        """
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(self.status(name).st_mode):
                return None
            with open(self.open(name), "rb") as file:
                return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
        return None

    def _check(self) -> None:
        if self.handle is None and os.path.realpath(self.path, strict=True) != self.path:
            raise _outside(self.path)


class Tree(CloseOnExit):
    """An open root; close it, or use it as a context manager."""

    def __init__(self, root: str) -> None:
        """Open ``root``, a folder or a link to one.

        Raises:
            OSError: it is not there, is no folder, or cannot be opened.
        """
        self.root = root
        self.path: str = os.path.realpath(root, strict=True)
        self._handle: int | None = None
        if _HANDLES:
            self._handle = os.open(self.path, _FOLDER)
        elif not stat.S_ISDIR(os.lstat(self.path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root)

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
        path = os.path.join(self.path, *parts)
        if self._handle is None:
            if os.path.realpath(path, strict=True) != path:
                raise _outside(path)
            yield Folder(path, None)
            return
        handle = self._handle
        try:
            for part in parts:
                before = handle
                handle = os.open(part, _FOLDER, dir_fd=before)
                if before != self._handle:
                    os.close(before)
            yield Folder(path, handle)
        finally:
            if handle != self._handle:
                os.close(handle)

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
