"""Files that a person names: regular ones only, for a pipe may never end, nor a device."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from triptych.errors import ValidationError

__all__ = ["open_regular", "read_regular"]

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to be read.

    Raises:
        ValidationError: it is a pipe, a socket or a device, or a link to one.
        OSError: it cannot be opened, or is a folder.
    """
    handle = os.open(path, _FLAGS)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    raise ValidationError(
        f"{os.fspath(path)!r} is a pipe or a device, and only regular files are read: write what "
        "it gives into a file, and name that"
    )


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file; the errors of `open_regular`."""
    with open_regular(path) as stream:
        return stream.read()
