"""A file's bytes, with the times under which it had them."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from triptych.sync.scanner import FileStat
from triptych.sync.tree import Tree, is_hidden, is_link

_TRIES = 3
_RACY_NS = 2_000_000_000
"""A file that is this young may change once more without another time: the coarsest clock of a
file system in use (FAT) ticks every two seconds. Git calls such entries racily clean."""


def read_file(root: Path, relative: str, max_bytes: int) -> tuple[bytes, FileStat | None]:
    """The bytes of the file, and its times; None for those where they are no proof of the bytes.

    Raises:
        OSError: it cannot be read, has left the root, is no regular file, or has grown over
            ``max_bytes``.
    """
    with Tree(str(root)) as tree:
        try:
            return _read(tree, relative.split("/"), max_bytes)
        except OSError as error:
            if not is_link(error):
                raise
        # It is a link, or below one; what it leads to is judged as in a scan.
        real = tree.resolve(relative)
        if not real or is_hidden(real):
            why = "out of the folder" if real is None else "to what is hidden"
            raise OSError(errno.ELOOP, f"it leads {why}", str(root / relative))
        try:
            return _read(tree, real, max_bytes)
        except OSError as error:
            if is_link(error):
                error.strerror = "a link took its place while it was read"
            raise


def _read(tree: Tree, parts: Sequence[str], max_bytes: int) -> tuple[bytes, FileStat | None]:
    data, steady = b"", None
    with tree.folder(parts[:-1]) as folder:
        path = os.path.join(folder.path, parts[-1])
        for _ in range(_TRIES):
            started = time.time_ns()
            with open(folder.open(parts[-1]), "rb") as file:
                before = os.fstat(file.fileno())
                if not stat.S_ISREG(before.st_mode):
                    raise OSError(errno.EINVAL, "it is not a regular file", path)
                data = file.read(max_bytes + 1)
                after = FileStat.of(os.fstat(file.fileno()))
            if len(data) > max_bytes:
                raise OSError(errno.EFBIG, f"it has more than {max_bytes} bytes", path)
            if FileStat.of(before) == after:
                steady = after if max(after.mtime_ns, after.ctime_ns) < started - _RACY_NS else None
                break
    return data, steady
