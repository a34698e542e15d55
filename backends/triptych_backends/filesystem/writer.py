"""Who may write: one at a time, over files that are whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from triptych.errors import StoreError
from triptych_backends.filesystem.change_set import ChangeSet
from triptych_backends.filesystem.disk import disk_errors
from triptych_backends.filesystem.layout import LOCK
from triptych_backends.filesystem.lock import WritersLock
from triptych_backends.filesystem.reconcile import reconcile
from triptych_backends.filesystem.workspace import Workspace


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
        with disk_errors(workspace.where), self.lock.held():
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
