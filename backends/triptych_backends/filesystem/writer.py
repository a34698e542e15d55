"""Locking writers: one at a time, across threads and processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from triptych._internal.one_state import let_go
from triptych.errors import StoreError, StoreLockedError
from triptych_backends.file_locks import lock_now, unlock
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.disk import disk_errors
from triptych_backends.filesystem.layout import LOCK
from triptych_backends.filesystem.reconcile import reconcile
from triptych_backends.filesystem.workspace import Workspace

_FIRST_PAUSE, _LAST_PAUSE = 0.0005, 0.01


class WritersLock:
    """A lock on a file. The system releases that of a killed process."""

    def __init__(self, path: str, where: str, wait: float) -> None:
        self._path = path
        self._where = where
        self._wait = wait
        self._handle = -1
        self._threads = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it.

        Raises:
            StoreLockedError: others held it for longer than the wait.
        """
        deadline = time.monotonic() + self._wait
        if not self._threads.acquire(timeout=min(self._wait, threading.TIMEOUT_MAX)):
            raise self._too_long("thread")
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            self._handle = os.open(self._path, flags, 0o666)
            try:
                self._wait_for(self._handle, deadline)
                yield
                unlock(self._handle)
            finally:
                # Closeable releases the lock too, whatever happened.
                handle, self._handle = self._handle, -1
                os.close(handle)
        finally:
            self._threads.release()

    def _wait_for(self, handle: int, deadline: float) -> None:
        pause = _FIRST_PAUSE
        while not lock_now(handle):
            if time.monotonic() > deadline:
                raise self._too_long("process")
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)

    def _too_long(self, who: str) -> StoreLockedError:
        return StoreLockedError(
            f"another {who} wrote to the store {self._where} for longer than {self._wait:g} s: "
            "try again, or give a longer lock_timeout"
        )

    def before_fork(self, patience: float) -> bool:
        """Let no write of this process go on over a fork; whether that was reached."""
        return self._threads.acquire(timeout=patience)

    def after_fork_in_parent(self, acquired: bool) -> None:
        """Let writes go on."""
        if acquired:
            self._threads.release()

    def after_fork_in_child(self) -> None:
        """Begin again. What a thread of the parent holds stays the parent's."""
        self._threads = threading.Lock()
        if self._handle >= 0:
            with suppress(OSError):
                os.close(self._handle)
            self._handle = -1


class Writer:
    """The writers' lock over a workspace; each of its holders finds what was begun finished."""

    def __init__(self, workspace: Workspace, *, wait: float) -> None:
        self.workspace = workspace
        self.lock = WritersLock(workspace.disk.real(LOCK), workspace.where, wait)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writers' lock over files that are whole.

        Raises:
            StoreLockedError: others held it for too long.
            StoreError: the store is read-only, or the disk failed.
        """
        workspace = self.workspace
        if workspace.database.read_only:
            raise StoreError(
                f"the store {workspace.where} was opened read-only: open it for writing"
            )
        let_go()  # who holds the lock may wait for those that read
        with disk_errors(workspace.where), self.lock.held():
            let_go()  # what is decided here is of now
            with workspace.database.reading():
                pass  # a store that is closed says so before anything is written
            left = workspace.journal.recover()
            if left is not None:
                for dataset in sorted(left):
                    reconcile(workspace, dataset)
                workspace.journal.finish()
            yield

    def change(self, dataset: str) -> ChangeSet:
        """A change of ``dataset``, which need not exist. For who holds the lock."""
        return ChangeSet.of(self.workspace, dataset)
