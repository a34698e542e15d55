"""A file's bytes, with the times under which it had them."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

from triptych.sync.scanning import FileStat

__all__ = ["read_file"]

_TRIES = 3
_RACY_NS = 2_000_000_000
"""A file that is this young may change once more without another time: the coarsest clock of a
file system in use (FAT) ticks every two seconds. Git calls such entries racily clean."""

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    # A pipe that took the file's place must not be waited for.
    | getattr(os, "O_NONBLOCK", 0)
)


def read_file(root: Path, relative: str, max_bytes: int) -> tuple[bytes, FileStat | None]:
    """The bytes of the file, and its times; None for those where they are no proof of the bytes.

    Raises:
        OSError: it cannot be read, has left the root, is no regular file, or has grown over
            ``max_bytes``.
    """
    path = os.path.realpath(root / relative, strict=True)
    if not path.startswith(os.path.realpath(root).rstrip(os.sep) + os.sep):
        raise OSError(errno.ELOOP, "it leads out of the folder", str(root / relative))
    data, steady = b"", None
    for _ in range(_TRIES):
        started = time.time_ns()
        handle = os.open(path, _FLAGS)
        with open(handle, "rb") as file:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode):
                raise OSError(errno.EINVAL, "it is no regular file", path)
            data = file.read(max_bytes + 1)
            after = FileStat.of(os.fstat(handle))
        if len(data) > max_bytes:
            raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", path)
        if FileStat.of(before) == after:
            steady = after if max(after.mtime_ns, after.ctime_ns) < started - _RACY_NS else None
            break
    return data, steady
