"""The store whose searches run in Qdrant: what is read of it, its places there, and its turns."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from attrs import frozen

from triptych import deadlines
from triptych.contracts import Capabilities
from triptych.errors import CancelledError, StoreLockedError
from triptych.records import DatasetStats
from triptych_backends.index import LogPosition
from triptych_backends.sql import (
    Database,
    Searcher,
    SqlChangeLog,
    SqlChunks,
    SqlDocuments,
    SqlLayers,
    and_,
    bindparam,
    find_datasets,
    let_go,
    select,
    tables as t,
)
from triptych_qdrant.points import BusyError

_DIMENSION = (
    select(t.space.c.dimension)
    .join(
        t.dataset,
        and_(
            t.dataset.c.id == t.space.c.dataset_id,
            t.space.c.kind == "dense",
            t.dataset.c.embed_sig == t.space.c.sig,
        ),
    )
    .where(t.dataset.c.name == bindparam("dataset"))
)


class SharedDatabase(Database, Protocol):
    """A database that lets one process at a time follow its log."""

    @property
    def lock_timeout(self) -> float:
        """Seconds that it waits for another writer."""
        ...

    def turn(self, name: str, *, wait: float | None = None) -> AbstractContextManager[None]:
        """The turn of one among all threads and processes that ask for that name.

        It waits ``wait`` seconds, `lock_timeout` by default. The turn of a killed process ends
        with it.

        Raises:
            StoreLockedError: another had it for longer.
        """
        ...


class TruthStore(Protocol):
    """A store over a SQL database, such as `SqliteStore` and `PostgresStore`."""

    @property
    def database(self) -> SharedDatabase: ...
    @property
    def searcher(self) -> Searcher: ...
    @property
    def documents(self) -> SqlDocuments: ...
    @property
    def chunks(self) -> SqlChunks: ...
    @property
    def layers(self) -> SqlLayers: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def results_path(self) -> Path | None: ...

    def stats(
        self, dataset_id: str, *, chunker_sig: str, embed_sig: str
    ) -> DatasetStats | None: ...

    def get_setting(self, key: str) -> str | None: ...

    def list_settings(self, prefix: str = "") -> Mapping[str, str]: ...

    def close(self) -> None: ...


@frozen(kw_only=True)
class Layout:
    """How a dataset lies in Qdrant: in which space.

    ``dimension`` is 0 and ``space`` "" while the dataset has no vectors. What was laid out
    otherwise is laid out again.
    """

    space: str
    dimension: int


class Truth:
    """The change log of a database, and how its datasets are to be laid out."""

    def __init__(self, database: SharedDatabase) -> None:
        self.database = database
        self.log = SqlChangeLog(database)

    def layout(self, dataset: str) -> Layout:
        """How the dataset is to be laid out now."""
        space = self.log.profile(dataset).space
        dimension = 0
        if space:
            with self.database.reading() as session:
                row = session.one(_DIMENSION, dataset=dataset)
            dimension = row[0] if row else 0
        return Layout(space=space if dimension else "", dimension=dimension)

    def has(self, position: LogPosition, head: LogPosition) -> bool:
        """Whether the log, whose newest entry is ``head``, has what a reader saw at ``position``.

        It has not when the truth went back in time, however far it has grown since.
        """
        if position.nonce != head.nonce or position.seq > head.seq:
            return False
        if position.seq == head.seq:
            return position.epoch == head.epoch
        return position.seq == 0 or self.log.epoch(position.seq) == position.epoch

    def live_datasets(self, names: Sequence[str]) -> set[str]:
        """Those of ``names`` that are there."""
        with self.database.reading() as session:
            return {found.name for found in find_datasets(session, names) if found.live}


_REST = re.compile(r"text|[0-9a-f]{12}-\d+")


@frozen(kw_only=True)
class Place:
    """Where a dataset's points are, and how they were made.

    ``made`` says which points they are: those that are made from the beginning have another. Points
    of the states ``cut`` do not count: see `Position`. ``state`` is the newest that was written.
    """

    collection: str
    layout: Layout
    made: str = ""
    cut: tuple[int, ...] = ()
    state: int = 0


def place_of(prefix: str, layout: Layout) -> Place:
    """The collection of the layout's embedding space, or the one for datasets without vectors."""
    if not layout.dimension:
        return Place(collection=f"{prefix}-text", layout=layout)
    space = hashlib.sha256(layout.space.encode()).hexdigest()[:12]
    return Place(collection=f"{prefix}-{space}-{layout.dimension}", layout=layout)


def is_of_store(prefix: str, name: str) -> bool:
    """Whether a collection is of the store with this prefix, not of one whose prefix is longer."""
    rest = name.removeprefix(f"{prefix}-")
    return rest != name and _REST.fullmatch(rest) is not None


_POLL = 0.1
"""Seconds after which a thread that waits for another looks whether it was cancelled."""


class Turns:
    """The turns to write to Qdrant, which messages call ``where``. Thread-safe."""

    def __init__(self, database: SharedDatabase, where: str) -> None:
        self._database = database
        self._where = where
        self._lock = threading.Lock()

    @contextmanager
    def held(self, wait: float | None = None) -> Iterator[None]:
        """Hold the turn; wait for it ``wait`` seconds, by default as long as the database does.

        What is read in it is of now: a search goes on in that state.

        Raises:
            BusyError: another thread or process had it for longer.
            CancelledError: the deadline has passed.
        """
        wait = self._database.lock_timeout if wait is None else wait
        left = deadlines.remaining()
        if left is not None:
            wait = min(wait, left)
        end = time.monotonic() + wait
        let_go()  # who waits holds no connection
        # First among the threads: a turn may take a connection while it waits.
        while not self._lock.acquire(timeout=min(_POLL, max(end - time.monotonic(), 0))):
            deadlines.check("the search")
            if time.monotonic() >= end:
                raise self._busy(wait)
        try:
            with ExitStack() as held:
                left = max(end - time.monotonic(), 0)
                try:
                    held.enter_context(self._database.turn("qdrant", wait=left))
                except StoreLockedError as error:
                    raise self._busy(wait) from error
                let_go()
                yield
        finally:
            self._lock.release()

    def _busy(self, wait: float) -> BusyError:
        deadlines.check("the search")
        return BusyError(
            f"another thread or process has been writing to Qdrant at {self._where} for longer "
            f"than {wait:g} s: try again when it is done, or give a longer lock_timeout"
        )


def is_over(end: float) -> bool:
    """Whether the time is ``end``, or the deadline has passed."""
    try:
        deadlines.check()
    except CancelledError:
        return True
    return time.monotonic() >= end
