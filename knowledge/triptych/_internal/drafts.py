"""A file that appears whole: written beside its place, and moved there at the end."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["written_whole"]

_MODE = 0o777


@contextmanager
def written_whole(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """A stream whose bytes are the file at ``path`` once the block ends without an exception.

    Until then the file is as it was. One that exists keeps its mode, a new one gets ``mode``. What
    is no file, such as a pipe, is written straight, and a link stays one.

    Raises:
        OSError: it cannot be written.
    """
    target = path.resolve()
    try:
        found = target.stat()
    except FileNotFoundError:
        found = None
    if found is not None and not stat.S_ISREG(found.st_mode):
        with target.open("wb") as stream:
            yield stream
        return
    draft = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    wanted = mode if found is None else found.st_mode & _MODE
    try:
        with os.fdopen(os.open(draft, flags, wanted), "wb") as stream:
            if found is not None:
                draft.chmod(wanted)  # whatever the umask is
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
