"""A store over a database, whichever it is: as it is now, and as it was at one moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import Capabilities
from triptych.errors import NotAvailableError, StoreError
from triptych.resources.files import delete_results
from triptych_backends.sql.chunks import SqlChunks
from triptych_backends.sql.database import Database, Searcher, SingleReads
from triptych_backends.sql.deferred import (
    bindparam,
    case,
    func,
    select,
    tables as t,
)
from triptych_backends.sql.document_changes import SqlChanges
from triptych_backends.sql.documents import SqlDocuments
from triptych_backends.sql.filters import FRESH
from triptych_backends.sql.layers import SqlLayers
from triptych_backends.sql.settings import SqlSettings
from triptych_backends.sql.state_loader import SqlStateLoader
from triptych_backends.sql.transaction import Reader, Session, Transaction, find_dataset

if TYPE_CHECKING:
    from triptych.records import DatasetStats, ScrubReport

_COUNTS = (
    select(
        t.derivation.c.embed_sig,
        func.count(),
        func.coalesce(func.sum(t.derivation.c.chunks), 0),
        func.coalesce(func.sum(t.derivation.c.vectors), 0),
        func.coalesce(func.sum(case((FRESH, 0), else_=1)), 0),
        func.coalesce(func.sum(t.document.c.size), 0),
        func.coalesce(func.sum(case((t.derivation.c.chunks > 0, 1), else_=0)), 0),
    )
    .select_from(t.document)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id, isouter=True)
    .where(t.document.c.dataset_id == bindparam("dataset"))
    .group_by(t.derivation.c.embed_sig)
    .order_by(t.derivation.c.embed_sig)
)
"""For each embedding space; NULL stands for documents without a set."""

_MIXED = (
    select(t.space.c.sig, func.count())
    .select_from(t.derivation)
    .join(t.chunk, t.chunk.c.document_id == t.derivation.c.document_id)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id)
    .join(t.space, t.space.c.id == t.vector.c.space_id)
    .where(t.derivation.c.dataset_id == bindparam("pk"), t.derivation.c.embed_sig == "")
    .group_by(t.space.c.sig)
)
"""The vectors of sets that wait for more, by space: the sets' own counters do not tell."""

_LAYERS = (
    select(func.count()).select_from(t.layer).where(t.layer.c.dataset_id == bindparam("dataset"))
)
_WIDTHS = select(t.space.c.sig, t.space.c.dimension).where(
    t.space.c.dataset_id == bindparam("dataset"), t.space.c.dimension > 0
)


def read_stats(
    session: Session, dataset_id: str, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    """See `Store.stats`."""
    from triptych.records import DatasetStats, EmbeddingSpace

    dataset = find_dataset(session, dataset_id)
    if dataset is None or not dataset.live:
        return None
    counts = session.all(_COUNTS, dataset=dataset.id, chunker=chunker_sig, embed=embed_sig)
    layers = session.one(_LAYERS, dataset=dataset.id)
    widths = dict(session.all(_WIDTHS, dataset=dataset.id))
    assert layers is not None
    mixed = dict(session.all(_MIXED, pk=dataset.id))
    spaces = Counter({row[0]: row[3] for row in counts if row[0]}) + Counter(mixed)
    waiting = [row for row in counts if row[0] is not None and embed_sig not in ("", row[0])]
    documents, chunks, vectors, stale, size = (
        sum(row[column] for row in counts) for column in range(1, 6)
    )
    return DatasetStats(
        dataset_id=dataset_id,
        documents=documents,
        chunks=chunks,
        vectors=vectors,
        layers=layers[0],
        stale=stale,
        size=size,
        config=dataset.config,
        spaces=tuple(
            EmbeddingSpace(embed_sig=sig, dimension=widths[sig], vectors=count)
            for sig, count in sorted(spaces.items())
            if sig in widths  # in a damaged store it may be missing: the doctor reports it
        ),
        pending=sum(row[6] for row in waiting),
        pending_chunks=sum(row[2] for row in waiting) - mixed.get(embed_sig, 0) * bool(waiting),
    )


class PinnedDatabase:
    """A `Database` whose every session is the one it is given: of one snapshot, in any thread."""

    def __init__(self, database: Database, session: Session) -> None:
        self.where = database.where
        self.history = database.history
        self._session: Session | None = session
        self._lock = threading.RLock()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """See `Database.reading`."""
        with self._lock:
            if self._session is None:
                raise StoreError(f"this snapshot of the store {self.where} has ended: take another")
            yield self._session

    snapshot = reading

    @property
    def known(self) -> Reader:
        """See `Database.known`."""
        return SingleReads(self.reading)

    def writing(
        self, dataset: str | None = None, *, durable: bool = True
    ) -> AbstractContextManager[Transaction]:
        """Refuse to write.

        Raises:
            StoreError: always.
        """
        self._refuse()

    def flush(self) -> None:
        """See `Database.flush`: there is nothing to flush."""

    def scrub(self) -> None:
        """Refuse to write."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreError(f"this is a snapshot of the store {self.where}: write to the store itself")

    def require_open(self) -> None:
        """Raise `StoreError` once the snapshot has ended."""
        with self.reading():
            pass

    def end(self) -> None:
        """Let go of the session, once nobody reads by it."""
        with self._lock:
            self._session = None


class _NoSearcher:
    """A `Searcher` of a snapshot: its index would be that of now."""

    in_process = True

    def search(self, *_: object, **__: object) -> NoReturn:
        """Refuse."""
        raise NotAvailableError("a snapshot is read, not searched: search the store itself")

    corpus_stats = search

    def renew(self) -> None:
        """There is nothing to forget."""


class SqlReads(SqlChanges, SqlSettings):
    """What a store over a `Database` can be asked, as it is now or as it was, but for searches."""

    database: Database
    documents: SqlDocuments
    chunks: SqlChunks
    layers: SqlLayers

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`."""
        return Capabilities(
            versions=self.documents,
            changes=self,
            settings=self,
        )

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`."""
        with self.database.snapshot() as session:
            return read_stats(session, dataset_id, chunker_sig, embed_sig)


class SqlSnapshot(SqlReads):
    """A `Store` over a `PinnedDatabase`, to be read."""

    def __init__(self, database: PinnedDatabase) -> None:
        searcher = _NoSearcher()
        self.database = database
        self.documents = SqlDocuments(database, searcher)
        self.chunks = SqlChunks(database, searcher)
        self.layers = SqlLayers(database, searcher)
        self.scrub = database.scrub
        self.close = database.end


class SqlStore(CloseOnExit, SqlReads, SqlStateLoader):
    """What the stores over a `Database` share, for each to inherit.

    Use it as a context manager, or close it.
    """

    searcher: Searcher

    @property
    def results_path(self) -> Path | None:
        """The file of the semantic cache; None to keep results in memory."""
        return None

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: every one but `Diagnostics`, which is a database's own."""
        return attrs.evolve(
            super().capabilities,
            document_search=self.chunks,
            copying=self,
        )

    @contextmanager
    def snapshot(self) -> Iterator[SqlSnapshot]:
        """See `CopyableStore.snapshot`: one read transaction, which others' writes do not wait
        for. The log of writes grows while it is held."""
        with self.database.snapshot() as session:
            pinned = PinnedDatabase(self.database, session)
            shown = SqlSnapshot(pinned)
            shown.documents.list_datasets()  # a transaction begins with its first read
            try:
                yield shown
            finally:
                pinned.end()

    def scrub(self) -> ScrubReport | None:
        """See `Store.scrub`: rewrite the tables, and forget what is searched and what was found.

        Raises:
            StoreLockedError: another process is reading or writing; nothing is lost, try again.
        """
        if self.results_path is not None:
            delete_results(self.results_path)
        with self.database.writing() as tx:
            tx.renew()
            tx.forget_deletions()
        try:
            self.searcher.renew()
        finally:  # also where the searches run elsewhere, and nobody answers there
            report = self.database.scrub()
        return report
