"""Where a database is: a path or URL, judged before SQLite touches it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from triptych._internal.urls import shown_url
from triptych.errors import StoreError, ValidationError

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
        raise ValidationError(
            f"{os.fspath(url)!r} names no file: a store in memory alone is memory://"
        )
    return Path(os.path.abspath(Path(text).expanduser()))


FileIdentity = tuple[int, int]
"""Device and inode."""


def identity_of(path: Path) -> FileIdentity:
    """What tells the file at ``path`` from every other. Raises OSError."""
    found = os.stat(path)
    return found.st_dev, found.st_ino


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
