"""What can be checked and repaired of every server."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import attrs

from triptych.records import Finding, HealthCheck
from triptych_backends.shards.listing import list_server, owned_datasets
from triptych_backends.shards.routing import Router

__all__ = ["ShardedDiagnostics"]


class ShardedDiagnostics:
    """`Diagnostics` of a store over a `Router`, for the store to inherit."""

    router: Router

    def check_health(self) -> Sequence[HealthCheck]:
        """See `Diagnostics.check_health`: of each server, named where it has something to say."""
        checks = self.router.on_every_server(
            lambda server: [
                attrs.evolve(each, detail=f"server {server.name}: {each.detail}")
                for each in server.store.chunks.check_health()
            ]
        )
        return [each for found in checks for each in found]

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """See `Diagnostics.check_integrity`."""
        for name, mine in self._by_server(dataset_ids):
            yield from self.router.server(name).store.chunks.check_integrity(mine)

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """See `Diagnostics.repair`."""
        return [
            f"server {name}: {done}"
            for name, mine in self._by_server(dataset_ids)
            for done in self.router.server(name).store.chunks.repair(checks, mine)
        ]

    def _by_server(self, dataset_ids: Collection[str]) -> Sequence[tuple[str, Collection[str]]]:
        owned, _ = owned_datasets(self.router.on_every_server(list_server))
        return [(name, sorted(has.intersection(dataset_ids))) for name, has in owned.items()]
