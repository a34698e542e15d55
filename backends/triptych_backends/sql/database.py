"""What the repositories need of a database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from triptych.records import ScrubReport
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Transaction


class Database(Protocol):
    """Where the tables are; thread-safe. Whatever a driver raises comes out as a `StoreError`."""

    @property
    def where(self) -> str:
        """What messages call it."""
        ...

    @property
    def history(self) -> int:
        """How many old versions of each document are kept."""
        ...

    def reading(self) -> AbstractContextManager[Session]:
        """A session in which each statement is a snapshot."""
        ...

    def cached(self) -> AbstractContextManager[Session]:
        """A session that may answer from memory what it has read before, if nothing was committed
        since. It is for what every search asks; its rows are shared, and not to be changed."""
        ...

    def snapshot(self) -> AbstractContextManager[Session]:
        """A session whose statements all see one state."""
        ...

    def writing(self, *, durable: bool = True) -> AbstractContextManager[Transaction]:
        """A write transaction, committed at the end; all of the database's writers take turns.

        What it has read holds until it is committed: the repositories decide by that. One that is
        not ``durable`` survives the process, but perhaps not a power cut.

        Raises:
            StoreLockedError: other writers held the database for too long.
            StoreError: it was opened read-only, or is closed.
        """
        ...

    def flush(self) -> None:
        """Put all commits on the disk, those of derived data too. Raises OSError."""
        ...

    def scrub(self) -> ScrubReport | None:
        """Leave nothing of what was deleted on the disk.

        Raises:
            StoreLockedError: another process is reading or writing; nothing is lost, try again.
        """
        ...

    def require_open(self) -> None:
        """Raise `StoreError` once the store is being closed, or is closed."""
        ...
