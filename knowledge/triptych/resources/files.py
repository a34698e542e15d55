"""Reading only regular files, and writing files atomically."""

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

from triptych.errors import StoreError, ValidationError

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
        f"{os.fspath(path)!r} is a pipe or a device, and only regular files can be read: save its "
        "output to a file first"
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


fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where a file that is open is neither removed nor replaced
    fcntl = None

# Files that appear whole

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
    found = _found(target)
    if found is not None and not stat.S_ISREG(found.st_mode):
        with open_to_write(target) as stream:
            yield stream
        return
    with _drafted(target, mode, found) as (_, stream):
        yield stream


@contextmanager
def draft_of(path: Path, *, mode: int) -> Iterator[Path]:
    """An empty file for others to write, as `written_whole` does.

    Raises:
        ValidationError: there is a pipe or a device at ``path``.
        OSError: it cannot be written.
    """
    target = path.resolve()
    found = _found(target)
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise ValidationError(
            f"{os.fspath(path)!r} is a pipe or a device, and only a regular file can be written: "
            "name a file"
        )
    with _drafted(target, mode, found) as (draft, _):
        yield draft


def _found(target: Path) -> os.stat_result | None:
    try:
        return target.stat()
    except FileNotFoundError:
        return None


@contextmanager
def _drafted(
    target: Path, mode: int, found: os.stat_result | None
) -> Iterator[tuple[Path, BinaryIO]]:
    if found is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    wanted = mode if found is None else found.st_mode & _MODE
    draft, held = _begun(target, wanted)
    try:
        with held as stream:
            if found is not None:
                draft.chmod(wanted)  # whatever the umask is
            yield draft, stream
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


def delete_results(path: Path) -> None:
    """Delete the file of a semantic cache, with its journal. Idempotent.

    Raises:
        StoreError: it cannot be deleted.
    """
    try:
        for file in (path.with_name(f"{path.name}-journal"), path):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"{path}, the semantic cache, cannot be deleted ({error.strerror}): try again when no "
            "other process uses it"
        ) from error
