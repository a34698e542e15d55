"""All servers as they are at one moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NoReturn, TypeVar, cast

from triptych.errors import NotAvailableError, StoreError
from triptych.records import DatasetStats, DerivedChunk
from triptych_backends.postgres import PostgresStore
from triptych_backends.postgres.session import PostgresSession
from triptych_backends.shards.chunks import ShardedChunks
from triptych_backends.shards.documents import ShardedDocuments
from triptych_backends.shards.layers import ShardedLayers
from triptych_backends.shards.listing import ServerList, list_session, owned_datasets
from triptych_backends.shards.ownership import Expected
from triptych_backends.shards.placement import FIRST
from triptych_backends.shards.routing import Part, Router
from triptych_backends.shards.search import ShardedSearcher
from triptych_backends.shards.server import Server
from triptych_backends.sql.snapshot import PinnedDatabase, SqlSnapshot

__all__ = ["ShardedSnapshot", "ShardedSnapshots"]

T = TypeVar("T")

_ATTEMPTS: Final = 100
_SEEN: Final = "SELECT pg_current_snapshot()::text"
"""Which transactions a snapshot sees: the same as long as none begins or ends."""


class _SnapshotRouter:
    """What the repositories ask of a `Router`, answered by snapshots of the servers."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        snapshots: Mapping[str, SqlSnapshot],
        lists: Sequence[ServerList],
    ) -> None:
        self._servers = servers
        self._snapshots = snapshots
        self._owned, _ = owned_datasets(lists)

    def run(self, dataset_id: str, do: Callable[[PostgresStore], T], *, places: bool = False) -> T:
        return do(cast(PostgresStore, self._snapshots[self._at(dataset_id)]))

    def datasets(self) -> Sequence[str]:
        """Every dataset, ordered."""
        for snapshot in self._snapshots.values():
            snapshot.database.require_open()
        return sorted(frozenset().union(*self._owned.values()))

    def run_all(
        self, dataset_ids: Iterable[str], do: Callable[[Part, PostgresStore], T]
    ) -> list[T]:
        parts: dict[str, dict[str, Expected]] = {}
        for dataset_id in dict.fromkeys(dataset_ids):
            parts.setdefault(self._at(dataset_id), {})[dataset_id] = Expected()
        return [
            do(Part(self._servers[name], found), cast(PostgresStore, self._snapshots[name]))
            for name, found in parts.items()
        ]

    def _at(self, dataset_id: str) -> str:
        return next((name for name, has in self._owned.items() if dataset_id in has), FIRST)


class _NoSearcher:
    """A `ShardedSearcher` of a snapshot: its index would be that of now."""

    def search(self, *_: object, **__: object) -> NoReturn:
        """Refuse."""
        raise NotAvailableError("a snapshot is read, not searched: search the store itself")

    search_sparse = corpus_stats = fetch = search


class _Documents(ShardedDocuments):
    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`."""
        return cast(_SnapshotRouter, self._router).datasets()


class _Chunks(ShardedChunks):
    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """See `ChunkRepo.iter_chunks`."""
        return self._router.run(
            dataset_id,
            lambda store: store.chunks.iter_chunks(dataset_id, doc_name, vectors=vectors),
        )


class ShardedSnapshot:
    """A `Store` over snapshots of all servers, to be read."""

    def __init__(self, router: _SnapshotRouter, first: SqlSnapshot) -> None:
        shown, searcher = cast(Router, router), cast(ShardedSearcher, _NoSearcher())
        self._router = router
        self._first = first
        self.documents = _Documents(shown)
        self.chunks = _Chunks(shown, searcher)
        self.layers = ShardedLayers(shown, searcher)

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`."""
        return self._router.run(
            dataset_id,
            lambda store: store.stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig),
        )

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`."""
        return self._first.get_setting(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """Refuse to write.

        Raises:
            StoreError: always.
        """
        raise StoreError("this is a snapshot of the store: write to the store itself")

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`."""
        return self._first.list_settings(prefix)

    def close(self) -> None:
        """See `Store.close`: the snapshot ends with its context."""


class ShardedSnapshots:
    """`SnapshotReader` of a store over a `Router`, for the store to inherit."""

    router: Router

    @contextmanager
    def snapshot(self) -> Iterator[ShardedSnapshot]:
        """See `SnapshotReader.snapshot`.

        While the snapshots of the servers begin, nobody writes to any of them: no transaction is of
        two servers, so together they show one moment. A store that was opened read-only cannot stop
        writers, and tries until nobody wrote meanwhile.

        Raises:
            StoreError: somebody wrote each time.
        """
        servers = self.router.servers()
        with ExitStack() as held:
            sessions = _begin_together(servers, held, stops=not self.router.options.read_only)
            lists = [list_session(session, name) for name, session in sessions.items()]
            pinned = {
                name: PinnedDatabase(servers[name].database, session)
                for name, session in sessions.items()
            }
            snapshots = {name: SqlSnapshot(each) for name, each in pinned.items()}
            router = _SnapshotRouter(servers, snapshots, lists)
            try:
                yield ShardedSnapshot(router, snapshots[FIRST])
            finally:
                for each in pinned.values():
                    each.end()


def _begin_together(
    servers: Mapping[str, Server], held: ExitStack, *, stops: bool
) -> Mapping[str, PostgresSession]:
    """Snapshots of all servers that show one moment; they end with ``held``."""
    for _ in range(1 if stops else _ATTEMPTS):
        with ExitStack() as stopped, ExitStack() as begun:
            for name in sorted(servers):  # all in this order: nobody waits for another
                stopped.enter_context(servers[name].named())
                stopped.enter_context(servers[name].database.only_primary())
                if stops:
                    stopped.enter_context(servers[name].database.writing())
            sessions = {
                name: begun.enter_context(server.database.snapshot())
                for name, server in servers.items()
            }
            seen = {name: session.text(_SEEN) for name, session in sessions.items()}
            if stops or seen == {name: _seen_now(server) for name, server in servers.items()}:
                held.push(begun.pop_all())
                return sessions
    raise StoreError(
        "somebody wrote to the store each time that a snapshot of all servers began: open it for "
        "writing, which stops writers for that moment"
    )


def _seen_now(server: Server) -> list[tuple[object, ...]]:
    with server.database.snapshot() as session:
        return session.text(_SEEN)
