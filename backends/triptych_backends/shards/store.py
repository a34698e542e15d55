"""`ShardedStore`: datasets spread over several PostgreSQL servers, each whole on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

from triptych._internal.close_on_exit import CloseOnExit
from triptych.records import DatasetStats, NameState, check_whole
from triptych_backends.shards.administration import ShardedAdministration
from triptych_backends.shards.changes import ShardedChanges
from triptych_backends.shards.chunks import ShardedChunks
from triptych_backends.shards.diagnostics import ShardedDiagnostics
from triptych_backends.shards.documents import ShardedDocuments
from triptych_backends.shards.layers import ShardedLayers
from triptych_backends.shards.listening import listen_to_all
from triptych_backends.shards.location import first_url
from triptych_backends.shards.routing import Router
from triptych_backends.shards.search import ShardedSearcher
from triptych_backends.shards.server import OpenOptions
from triptych_backends.shards.snapshot import ShardedSnapshots

__all__ = ["ShardedStore"]


class ShardedStore(
    CloseOnExit, ShardedChanges, ShardedDiagnostics, ShardedSnapshots, ShardedAdministration
):
    """Documents, chunks, vectors and layers on several PostgreSQL servers.

    The first server keeps the map and the settings. Every transaction is of one server. A search
    over datasets of several has the scores of one store with all of them. While a server is away,
    what needs it raises `StoreError`, which names it, and all else goes on.

    Thread-safe, and fork-safe; any number of processes on any machines may have it open. Use as a
    context manager, or close.
    """

    def __init__(self, router: Router) -> None:
        self.router = router
        searcher = ShardedSearcher(router)
        self.documents = ShardedDocuments(router)
        self.chunks = ShardedChunks(router, searcher)
        self.layers = ShardedLayers(router, searcher)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        read_only: bool = False,
        lock_timeout: float = 30.0,
        create: bool = True,
        history: int = 10,
    ) -> ShardedStore:
        """Open the store whose first server is at ``url``, ``postgresql+shards://user@host/db``.

        The options are those of `PostgresStore.open`, for every server.

        Raises:
            ValidationError: ``url`` is invalid, or ``history`` is below 0.
            StoreError: the first server cannot be reached, or the store cannot be opened there.
            SchemaVersionError: another version of Triptych made it.
        """
        check_whole(history, "history")
        options = OpenOptions(
            read_only=read_only, lock_timeout=lock_timeout, create=create, history=history
        )
        return cls(Router(first_url(url), options))

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`."""
        return self.router.run(
            dataset_id,
            lambda store: store.stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig),
        )

    def get_setting(self, key: str) -> str | None:
        """See `SettingsStore.get_setting`: the first server's."""
        with self.router.first.named():
            return self.router.first.store.get_setting(key)

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """See `SettingsStore.set_setting`."""
        with self.router.first.named():
            return self.router.first.store.set_setting(key, value, expected=expected)

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """See `SettingsStore.list_settings`."""
        with self.router.first.named():
            return self.router.first.store.list_settings(prefix)

    def hold_leases(
        self,
        queue: str,
        names: Sequence[str],
        *,
        holder: str,
        seconds: float,
        limit: int | None = None,
    ) -> Sequence[str]:
        """See `WorkLeases.hold_leases`: rows on the first server."""
        with self.router.first.named():
            return self.router.first.store.hold_leases(
                queue, names, holder=holder, seconds=seconds, limit=limit
            )

    def listen_for_changes(self) -> AbstractContextManager[Callable[[float], bool]]:
        """See `ChangeListener.listen_for_changes`: every server is listened to."""
        return listen_to_all(self.router)

    def load_states(
        self, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """See `StateLoader.load_states`."""
        self.router.run(
            dataset_id,
            lambda store: store.load_states(dataset_id, states, replace=replace),
            places=True,
        )

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        """See `StateLoader.use_up_versions`."""
        self.router.run(
            dataset_id, lambda store: store.use_up_versions(dataset_id, version), places=True
        )

    def build_indexes(self) -> None:
        """See `PostgresStore.build_indexes`, on every server."""
        self.router.on_every_server(lambda server: server.store.build_indexes())

    def scrub(self) -> None:
        """See `SecureEraser.scrub`, on every server."""
        self.router.on_every_server(lambda server: server.store.scrub())

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.router.close()
