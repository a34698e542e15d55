"""What a store of one database brings, and what the repositories over it have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

import attrs

from triptych._internal.one_state import held, let_go
from triptych.errors import StoreError, StoreLockedError
from triptych.records import Candidate, ChunkQuery, FilterTree
from triptych.text import CorpusStats
from triptych_backends.index import Field
from triptych_backends.sql.deferred import Statement
from triptych_backends.sql.transaction import Reader, Session, Transaction

if TYPE_CHECKING:
    from triptych.records import ScrubReport


class WriterTurn:
    """One thread writes to a store at a time, or to a dataset; the database sees to other
    processes.

    ``wait`` is how many seconds a thread waits for its turn.
    """

    def __init__(self, where: str, *, wait: float, read_only: bool) -> None:
        self._where = where
        self._wait = wait
        self._read_only = read_only
        self._locks: dict[str | None, threading.Lock] = {}

    @contextmanager
    def held(self, dataset: str | None = None) -> Iterator[None]:
        """The turn, or that of a dataset, until the context ends.

        Raises:
            StoreLockedError: other threads wrote for longer than the wait.
            StoreError: the store was opened read-only.
        """
        if self._read_only:
            raise StoreError(f"the store {self._where} was opened read-only: open it for writing")
        let_go()  # what this call reads next sees its own write
        lock = self._locks.setdefault(dataset, threading.Lock())
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
        self._locks.clear()


D = TypeVar("D")


@attrs.define(eq=False)
class HeldReader(Generic[D]):
    """A connection in a read transaction, by which a call reads in `one_state`, one thread at a
    time. ``give_back`` ends the transaction; once it ``is_over``, nobody new reads by it."""

    driver: D
    _give_back: Callable[[D], object]
    _lock: RLock = attrs.field(factory=RLock, init=False)
    _depth: int = attrs.field(default=0, init=False)
    is_over: bool = attrs.field(default=False, init=False)
    _is_given_back: bool = attrs.field(default=False, init=False)

    @property
    def is_nested(self) -> bool:
        """Whether this thread, which reads by it, did so before."""
        return self._depth > 1

    def enter(self) -> bool:
        """Wait until no other thread reads by it; False where it was given back before."""
        self._lock.acquire()
        if self._is_given_back:
            self._lock.release()
            return False
        self._depth += 1
        return True

    def leave(self, *, ends: bool = False) -> None:
        """Let others read by it, or, where it ends, nobody."""
        self._depth -= 1
        self.is_over = self.is_over or ends
        if self.is_over and not self._depth and not self._is_given_back:
            self._is_given_back = True
            self._give_back(self.driver)
        self._lock.release()

    def end(self, *, wait: bool = True) -> None:
        """Give it back, or leave that to who reads by it; such another thread is waited for."""
        self.is_over = True
        if self._lock.acquire(blocking=wait):
            self._depth += 1
            self.leave()


def reader_of_call(owner: object, begin: Callable[[], HeldReader[D]]) -> HeldReader[D] | None:
    """Enter what this call reads by, which ``begin`` makes the first time; None outside of
    `one_state`."""
    while (reader := held(owner, begin, HeldReader.end)) is not None and not reader.enter():
        let_go()  # a statement failed, or the process was forked
    return reader


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

    @property
    def known(self) -> Reader:
        """What may answer from memory a statement that it has run before, if nothing was committed
        since. It is for what every search asks; its rows are shared, and not to be changed."""
        ...

    def snapshot(self) -> AbstractContextManager[Session]:
        """A session whose statements all see one state."""
        ...

    def writing(
        self, dataset: str | None = None, *, durable: bool = True
    ) -> AbstractContextManager[Transaction]:
        """A write transaction, committed at the end; the writers of a dataset, or another thing of
        that name, take turns, and with None all writers do.

        What it has read of the dataset holds until it is committed: the repositories decide by
        that. One that is not ``durable`` survives the process, but perhaps not a power cut.

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


class SingleReads(Reader):
    """Runs each statement in a session of its own, which ``reading`` gives."""

    def __init__(self, reading: Callable[[], AbstractContextManager[Session]]) -> None:
        self._reading = reading

    def all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
        """See `Reader.all`."""
        with self._reading() as session:
            return session.all(statement, **parameters)


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
