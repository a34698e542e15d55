"""What a store of one database brings, and what the repositories over it have in common."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from typing import TYPE_CHECKING, Protocol, Self

from triptych.errors import StoreError, StoreLockedError
from triptych.records import Candidate, ChunkQuery, FilterTree
from triptych.text import CorpusStats
from triptych_backends.index import Field
from triptych_backends.sql.transaction import Session, Transaction

if TYPE_CHECKING:
    from triptych.records import ScrubReport


class WriterTurn:
    """One thread writes to a store at a time; the database sees to other processes.

    ``wait`` is how many seconds a thread waits for its turn.
    """

    def __init__(self, where: str, *, wait: float, read_only: bool) -> None:
        self._where = where
        self._wait = wait
        self._read_only = read_only
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The turn, until the context ends.

        Raises:
            StoreLockedError: other threads wrote for longer than the wait.
            StoreError: the store was opened read-only.
        """
        if self._read_only:
            raise StoreError(f"the store {self._where} was opened read-only: open it for writing")
        lock = self._lock
        if not lock.acquire(timeout=min(self._wait, threading.TIMEOUT_MAX)):
            raise StoreLockedError(
                f"another thread wrote to the store {self._where} for longer than "
                f"{self._wait:g} s: try again, or give a longer lock_timeout"
            )
        try:
            yield
        finally:
            lock.release()

    def after_fork_in_child(self) -> None:
        """Free the turn: the thread that had it is not in this process."""
        self._lock = threading.Lock()


class Searcher(Protocol):
    """One lane over one kind of unit: in an index of this process, or in the database itself."""

    @property
    def in_process(self) -> bool:
        """Whether searches run in this process: see `ChunkRepo.in_process`."""
        ...

    def search(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        """See `ChunkRepo.search`, `DocLevelSearcher`, `LayerRepo.search`."""
        ...

    def corpus_stats(
        self,
        unit: Field,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `DocLevelSearcher.corpus_stats`, for the units of any kind."""
        ...

    def renew(self) -> None:
        """Forget what was deleted, if anything of it is still held."""
        ...


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


class HasDatabase(Protocol):
    """A store over a database."""

    @property
    def database(self) -> Database:
        """Where its tables are."""
        ...


class Repository:
    """A view of one `Database`, searched by ``searcher``."""

    def __init__(self, database: Database, searcher: Searcher) -> None:
        self.database = database
        self.searcher = searcher
        self.where = database.where

    def searched_by(self, searcher: Searcher) -> Self:
        """The same repository with another searcher."""
        other = copy(self)
        other.searcher = searcher
        return other

    @property
    def in_process(self) -> bool:
        """See `ChunkRepo.in_process`."""
        return self.searcher.in_process

    def find(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        """One lane over one kind of unit; see `Searcher.search`."""
        # A search that begins while the store is being closed would open its index again.
        self.database.require_open()
        return self.searcher.search(unit, query)
