"""Locating a database file and its write-ahead log.

SQLite takes the log at ``<file>-wal`` for that of whatever file it finds at the path. Where another
file was renamed over the database while it was open, or after a process was killed, the log of the
file before it would be played into the new one. So device and inode of both files are kept beside
them in ``<file>-wal.owner`` as long as there is a log. Where the log is the one that is named there
and the database is not, the database was replaced. Where both are others, they were copied
together.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from triptych.errors import StoreError, ValidationError
from triptych.resources.urls import shown_url
from triptych_backends.sql.errors import corrupt

_NETWORK = {
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gpfs", "lustre", "ncpfs", "nfs",
    "nfs4", "ocfs2", "orangefs", "smb2", "smb3", "smbfs", "fuse.cephfs", "fuse.davfs",
    "fuse.davfs2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.gvfsd-fuse", "fuse.rclone",
    "fuse.s3fs", "fuse.smbnetfs", "fuse.sshfs",
}  # fmt: skip


def database_path(url: str | os.PathLike[str]) -> Path:
    """The absolute path that ``url`` means: a path, or ``sqlite:///`` and a path.

    Raises:
        ValidationError: another scheme, options, or a database in memory.
    """
    text = os.fspath(url)
    if text.startswith("sqlite:"):
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            parsed = make_url(text)
        except ArgumentError as error:
            raise ValidationError(
                f"{shown_url(text)!r} is not a URL of a database: write sqlite:///and/a/path"
            ) from error
        if parsed.query or parsed.host:
            raise ValidationError(
                f"{shown_url(text)!r} has a host or options, which Triptych does not know: write "
                "sqlite:/// and a path (three slashes, four for an absolute path)"
            )
        text = parsed.database or ":memory:"
    elif re.match(r"[a-z][a-z0-9+.-]+://", text):
        raise ValidationError(f"{shown_url(text)!r} is not a path and not a sqlite:/// URL")
    if text in ("", ":memory:") or text.startswith("file:"):
        raise ValidationError(f"{os.fspath(url)!r} names no file: a store in memory is memory://")
    return Path(os.path.abspath(Path(text).expanduser()))


FileIdentity = tuple[int, int]
"""Device and inode."""


def identity_of(path: str | Path) -> FileIdentity:
    """What tells the file at ``path`` from every other. Raises OSError."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


def log_of(path: Path) -> tuple[str, FileIdentity] | None:
    """Where the log of ``path`` is, and what tells it from every other; None if there is none."""
    log = _beside(path)[0]
    found = identity_if_there(log)
    return None if found is None else (log, found)


def filesystem_type(path: Path, mounts: str) -> str:
    """The type of the file system that holds ``path``, "" if unknown.

    ``mounts`` is the text of /proc/mounts: the mount point with the longest prefix decides,
    of two equal ones the later.
    """
    best, found = -1, ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), fields[1]))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), fields[2]
    return found


def refuse_unusable(
    path: Path, *, create: bool, read_only: bool, mounts: str | None = None
) -> None:
    """Say by name what SQLite would only call "unable to open database file".

    ``mounts`` replaces /proc/mounts, which only Linux has.

    Raises:
        CorruptStoreError: the file is empty, and its search index is not.
        StoreError: a directory, a missing folder or file, or a network file system.
    """
    if path.is_dir():
        raise StoreError(f"{path} is a folder: name a file in it, such as {path / 'kb.db'}")
    if not path.parent.is_dir():
        raise StoreError(f"the folder {path.parent} does not exist: create it first")
    if not path.exists() and (read_only or not create):
        raise StoreError(f"there is no store at {path}: check the path, or open it for writing")
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is not a regular file: name one")
    found = path.with_name(f"{path.name}.index")
    if path.exists() and not path.stat().st_size and found.is_dir() and any(found.iterdir()):
        raise corrupt(str(path), f"it is empty, and {found.name} beside it is not")
    kind = filesystem_type(Path(os.path.realpath(path)), _mounts() if mounts is None else mounts)
    if kind in _NETWORK:
        raise StoreError(
            f"{path} lies on a network file system ({kind}), where SQLite's write-ahead log "
            "loses data: put the store on a local disk, or use a server such as PostgreSQL"
        )


def _mounts() -> str:
    try:
        return Path("/proc/mounts").read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


Pair = tuple[FileIdentity, FileIdentity]
"""A database and its log."""

logger = logging.getLogger("triptych.store")

_ASIDE = ".replaced-"
_LENGTH = 4 * 21  # four numbers of 64 bits: a line of one length is written over another whole


def set_foreign_log_aside(path: Path, *, read_only: bool) -> None:
    """Rename the log beside ``path`` if it belongs to a file that was there before.

    To rename does no harm to a process that has the old file open: it goes on with the log that it
    has, until it finds its file replaced. To raise instead would let such a process keep the new
    file shut, for as long as it lives.

    Raises:
        StoreError: there is such a log, and it cannot be set aside; nothing was read or written.
    """
    if not _is_foreign(path):
        return
    log, memory, owner = _beside(path)
    if read_only:
        raise StoreError(
            f"{path} took the place of another file, and {log} is still the log of that one, which "
            "SQLite would mix into it: open the store for writing once, which sets the log aside, "
            f"or move {log} and {memory} away"
        )
    try:
        with _locked(owner):
            if not _is_foreign(path):  # another process was faster
                return
            number = next(n for n in count(1) if not os.path.lexists(f"{log}{_ASIDE}{n}"))
            # The log last: as long as it is there, the next to open the file finds it foreign.
            with suppress(FileNotFoundError):
                os.replace(memory, f"{memory}{_ASIDE}{number}")
            os.replace(log, f"{log}{_ASIDE}{number}")
            _write(owner, (identity_if_there(path) or (0, 0), (0, 0)))
    except OSError as error:
        raise StoreError(
            f"{path} took the place of another file, and {log} is still the log of that one, which "
            f"cannot be set aside ({error}): close every process that uses the store, and move "
            f"{log} and {memory} away"
        ) from error
    logger.warning(
        "%s took the place of another file. The log of that one, with its last writes, was set "
        "aside as %s%s%d: move it away once nobody needs it",
        path,
        log,
        _ASIDE,
        number,
    )


def remember_owner(path: Path, file: FileIdentity, known: Pair | None) -> Pair | None:
    """Note that the log at ``path`` belongs to ``file``; what is noted, ``known`` if nothing new.

    A folder that cannot be written is not an error: the note is lost, and nothing else.
    """
    log, _, owner = _beside(path)
    found = identity_if_there(log)
    if found is None or known == (file, found):
        return known
    # The file after the log: once it is another, so may be the log.
    if identity_if_there(path) != file:
        return known
    with suppress(OSError):
        _write(owner, (file, found))
    return file, found


def forget_owner(path: Path) -> None:
    """Remove the note where the log is gone, as after the last close."""
    log, _, owner = _beside(path)
    if not os.path.lexists(log):
        with suppress(OSError):
            os.unlink(owner)


def logs_set_aside(path: Path) -> list[Path]:
    """The logs of files that were replaced."""
    log = Path(_beside(path)[0])
    return sorted(each for each in log.parent.iterdir() if each.name.startswith(log.name + _ASIDE))


def _beside(path: Path) -> tuple[str, str, str]:
    # SQLite, too, keeps them beside what a link leads to.
    real = os.path.realpath(path)
    return f"{real}-wal", f"{real}-shm", f"{real}-wal.owner"


def _is_foreign(path: Path) -> bool:
    log, _, owner = _beside(path)
    noted = _read(owner)
    return (
        noted is not None
        and identity_if_there(log) == noted[1]
        and identity_if_there(path) != noted[0]
    )


def identity_if_there(path: str | Path) -> FileIdentity | None:
    """`identity_of`, None where there is no file."""
    try:
        return identity_of(path)
    except OSError:
        return None


def _read(owner: str) -> Pair | None:
    try:
        with open(owner, "rb") as file:
            numbers = [int(word) for word in file.read(_LENGTH + 1).split()]
    except (OSError, ValueError):
        return None
    if len(numbers) != 4:
        return None
    return (numbers[0], numbers[1]), (numbers[2], numbers[3])


def _write(owner: str, pair: Pair) -> None:
    line = "".join(f"{number:>20} " for file in pair for number in file)
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(owner, flags, 0o666)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


@contextmanager
def _locked(owner: str) -> Iterator[None]:
    """One process at a time; the system releases the lock of a killed one."""
    handle = os.open(owner, os.O_RDWR)
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _LENGTH * 2, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
