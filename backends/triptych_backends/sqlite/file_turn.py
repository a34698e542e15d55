"""Turns of several processes on one machine, by a lock on a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from triptych import deadlines
from triptych.errors import StoreError, StoreLockedError
from triptych_backends.file_locks import lock_now, unlock

__all__ = ["file_turn"]

_POLL_SECONDS = 0.005


@contextmanager
def file_turn(path: Path, wait: float) -> Iterator[None]:
    """Hold the lock of the file at ``path``, which is made if need be.

    Raises:
        StoreLockedError: another thread or process had it for longer than ``wait`` seconds.
        StoreError: the file cannot be made, or the file system has no locks.
    """
    end = time.monotonic() + wait
    try:
        file = path.open("ab")
    except OSError as error:
        raise StoreError(f"{path} cannot be opened to lock it: {error.strerror}") from error
    with file:
        while not _locked(file.fileno(), path):
            deadlines.check()
            if time.monotonic() > end:
                raise StoreLockedError(
                    f"another process has held {path} for longer than {wait:g} s: try again, or "
                    "give a longer lock_timeout"
                )
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            unlock(file.fileno())


def _locked(handle: int, path: Path) -> bool:
    try:
        return lock_now(handle)
    except OSError as error:
        raise StoreError(f"{path} cannot be locked: {error.strerror}") from error
