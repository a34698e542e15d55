"""Files that a person names: only regular ones are read, for a pipe may never end, nor a device,
and a pipe is written only while somebody reads it."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from triptych.errors import ValidationError

_COMMON = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_FLAGS = os.O_RDONLY | _COMMON
_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _COMMON


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


def open_to_write(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, or what stands for one, to be written over.

    Raises:
        ValidationError: it is a pipe that nobody reads: to write into it would wait.
        OSError: it cannot be opened.
    """
    try:
        handle = os.open(path, _WRITTEN, 0o666)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise ValidationError(
            f"{os.fspath(path)!r} is a pipe that nobody reads: name a file, or read it first"
        ) from error
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a whole file; the errors of `open_to_write`."""
    with open_to_write(path) as stream:
        stream.write(content)


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file; the errors of `open_regular`."""
    with open_regular(path) as stream:
        return stream.read()
