"""What the system does for files that several processes share: locks, and names that stay."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def lock_now(handle: int) -> bool:
        """Lock an open file for this process alone, without waiting; whether that was done.

        The system releases the lock of a killed process.
        """
        os.lseek(handle, 0, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Release the lock of `lock_now`."""
        os.lseek(handle, 0, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock_now(handle: int) -> bool:
        """Lock an open file for this process alone, without waiting; whether that was done.

        The system releases the lock of a killed process. Raises OSError where files have none.
        """
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(handle: int) -> None:
        """Release the lock of `lock_now`."""
        fcntl.flock(handle, fcntl.LOCK_UN)


def sync_folder(path: str | Path, flags: int = 0) -> None:
    """Put the names in a folder, opened with ``flags`` too, on the disk, where the system can."""
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
