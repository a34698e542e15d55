"""A file that appears whole: written beside its place, and moved there at the end."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from triptych._internal.regular_files import open_to_write

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where a file that is open is neither removed nor replaced
    fcntl = None

_DRAFT = re.compile(r"[0-9a-f]{8}\.part")

_MODE = 0o777


@contextmanager
def written_whole(path: Path, *, mode: int) -> Iterator[BinaryIO]:
    """A stream whose bytes are the file at ``path`` once the block ends without an exception.

    Until then the file is as it was. One that exists keeps its mode, a new one gets ``mode``. What
    is no file, such as a pipe, is written straight, and a link stays one. What a killed process
    leaves is found by `left_drafts`.

    Raises:
        ValidationError: it is a pipe that nobody reads.
        OSError: it cannot be written.
    """
    target = path.resolve()
    try:
        found = target.stat()
    except FileNotFoundError:
        found = None
    if found is not None and not stat.S_ISREG(found.st_mode):
        with open_to_write(target) as stream:
            yield stream
        return
    if found is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    wanted = mode if found is None else found.st_mode & _MODE
    draft, held = _begun(target, wanted)
    try:
        with held as stream:
            if found is not None:
                draft.chmod(wanted)  # whatever the umask is
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if fcntl is None:
                stream.close()
            os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def _begun(target: Path, mode: int) -> tuple[Path, BinaryIO]:
    """A new draft, which this process holds as long as it is open."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        draft = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
        stream = os.fdopen(os.open(draft, flags, mode), "wb")
        if fcntl is not None:
            with suppress(OSError):  # of a disk without locks nobody removes drafts
                fcntl.flock(stream, fcntl.LOCK_EX)
            if not os.fstat(stream.fileno()).st_nlink:  # removed before it was held
                stream.close()
                continue
        return draft, stream


def left_drafts(path: Path, *, remove: bool) -> list[Path]:
    """The drafts of the file at ``path`` whose writers have ended; ``remove`` removes them."""
    return [each for each in drafts_of(path) if _is_left(each, remove=remove)]


def drafts_of(path: Path) -> list[Path]:
    """The drafts of the file at ``path``, also those that are being written."""
    target = path.resolve()
    try:
        beside = sorted(target.parent.iterdir())
    except OSError:
        return []
    begins = f"{target.name}."
    return [
        each
        for each in beside
        if each.name.startswith(begins) and _DRAFT.fullmatch(each.name[len(begins) :])
    ]


def _is_left(draft: Path, *, remove: bool) -> bool:
    handle = None
    try:
        if fcntl is not None and stat.S_ISREG(draft.lstat().st_mode):
            handle = os.open(draft, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif fcntl is not None or not remove:
            return False
        if remove:
            draft.unlink()
    except OSError:  # it is held, or was moved to its place
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True
