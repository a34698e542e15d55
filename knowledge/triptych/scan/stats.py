"""What a file looked like when it was read, and which files look different now."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Literal

import attrs

Kind = Literal["file", "folder", "link", "other"]

RACY_NS = 2_000_000_000
"""Nanoseconds, the coarsest clock of a file system in use (FAT)."""

_LINK_TAGS = {0xA000000C, 0xA0000003}
"""Windows' tags of symbolic links and of junctions, which are links to folders."""


@attrs.frozen(slots=True)
class FileStat:
    """What changes when a file does, as far as the file system tells; times in nanoseconds.

    A tool can set the time of modification back, but not that of the inode's last change, which
    is ``ctime_ns`` (on Windows the time of creation).
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    kind: Kind = "file"

    @classmethod
    def of(cls, found: os.stat_result) -> FileStat:
        """The part of ``found`` that counts."""
        kind: Kind = "other"
        if stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) in _LINK_TAGS:
            kind = "link"
        elif stat.S_ISREG(found.st_mode):
            kind = "file"
        elif stat.S_ISDIR(found.st_mode):
            kind = "folder"
        # Databases hold integers of 63 bits; some systems' inodes have more.
        inode = found.st_ino & (1 << 63) - 1
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, inode, kind)

    def unless_racy(self, looked: int) -> FileStat | None:
        """This, if it proves that a file still has the bytes it had at ``looked`` (ns since 1970).

        None if the file was changed so shortly before that a later change may leave the same
        times. Git calls such an entry racily clean.
        """
        return None if max(self.mtime_ns, self.ctime_ns) >= looked - RACY_NS else self


@attrs.frozen(slots=True)
class FileRecord:
    """What is known of the bytes of a file: their SHA-256, and under which ``stat`` it has them;
    None if no stat proves it."""

    stat: FileStat | None
    sha256: str


@attrs.frozen(slots=True)
class Comparison:
    """The paths of files that came, that went, and that may have other bytes now, in order."""

    new: list[str]
    removed: list[str]
    changed: list[str]


def compare(
    before: Mapping[str, FileStat | None], now: Mapping[str, FileStat | None]
) -> Comparison:
    """Compare what files looked like with what they look like; None is like nothing else."""
    return Comparison(
        new=[path for path in now if path not in before],
        removed=[path for path in before if path not in now],
        changed=[
            path
            for path, stat in now.items()
            if path in before and (stat is None or stat != before[path])
        ],
    )
