"""Layers, and what is noted of making them, each on the server of its dataset."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from triptych.records import (
    Candidate,
    DerivedLayer,
    Layer,
    LayerQuery,
    ModelUsage,
    QuarantinedLayer,
    StoredUnit,
)
from triptych_backends.shards.routing import Router
from triptych_backends.shards.search import ShardedSearcher
from triptych_backends.sql.transaction import FIELD_OF_LAYER

__all__ = ["ShardedLayers"]


class ShardedLayers:
    """`LayerRepo` and `LayerJournal` over the servers of a `Router`."""

    in_process = False

    def __init__(self, router: Router, searcher: ShardedSearcher) -> None:
        self._router = router
        self._searcher = searcher

    def put(self, layer: DerivedLayer) -> bool:
        """See `LayerRepo.put`."""
        return self._router.run(
            layer.dataset_id, lambda store: store.layers.put(layer), places=True
        )

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        """See `LayerRepo.get`."""
        return self._router.run(
            dataset_id,
            lambda store: store.layers.get(dataset_id, doc_name, layer, vectors=vectors),
        )

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        """See `LayerRepo.list`."""
        return self._router.run(
            dataset_id, lambda store: store.layers.list(dataset_id, layer=layer)
        )

    def page(
        self,
        dataset_id: str,
        layer: Layer,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int,
    ) -> Sequence[DerivedLayer]:
        """See `LayerRepo.page`."""
        return self._router.run(
            dataset_id,
            lambda store: store.layers.page(
                dataset_id, layer, prefix=prefix, after=after, limit=limit
            ),
        )

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """See `LayerRepo.delete_by_doc`."""
        self._router.run(dataset_id, lambda store: store.layers.delete_by_doc(dataset_id, doc_name))

    def delete_by_dataset(self, dataset_id: str) -> None:
        """See `LayerRepo.delete_by_dataset`."""
        self._router.run(dataset_id, lambda store: store.layers.delete_by_dataset(dataset_id))

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        """See `LayerRepo.search`."""
        return self._searcher.search(FIELD_OF_LAYER[query.layer], query)

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `LayerRepo.fetch`."""
        return self._searcher.fetch(keys, lambda store, mine: store.layers.fetch(mine))

    def quarantine(self, quarantined: QuarantinedLayer) -> None:
        """See `LayerJournal.quarantine`."""
        self._router.run(
            quarantined.dataset_id,
            lambda store: store.layers.quarantine(quarantined),
            places=True,
        )

    def release_quarantined(self, dataset_id: str, doc_name: str, layer: Layer) -> None:
        """See `LayerJournal.release_quarantined`."""
        self._router.run(
            dataset_id, lambda store: store.layers.release_quarantined(dataset_id, doc_name, layer)
        )

    def quarantined(self, dataset_id: str) -> Sequence[QuarantinedLayer]:
        """See `LayerJournal.quarantined`."""
        return self._router.run(dataset_id, lambda store: store.layers.quarantined(dataset_id))

    def record_usage(self, dataset_id: str, usage: ModelUsage) -> None:
        """See `LayerJournal.record_usage`."""
        self._router.run(
            dataset_id, lambda store: store.layers.record_usage(dataset_id, usage), places=True
        )

    def usage(self, dataset_id: str) -> Sequence[ModelUsage]:
        """See `LayerJournal.usage`."""
        return self._router.run(dataset_id, lambda store: store.layers.usage(dataset_id))

    def put_checkpoint(self, dataset_id: str, doc_name: str, key: str, content: str) -> None:
        """See `LayerJournal.put_checkpoint`."""
        self._router.run(
            dataset_id,
            lambda store: store.layers.put_checkpoint(dataset_id, doc_name, key, content),
            places=True,
        )

    def checkpoints(self, dataset_id: str, doc_name: str) -> Mapping[str, str]:
        """See `LayerJournal.checkpoints`."""
        return self._router.run(
            dataset_id, lambda store: store.layers.checkpoints(dataset_id, doc_name)
        )

    def prune_checkpoints(self, dataset_id: str, doc_name: str, keys: Collection[str]) -> None:
        """See `LayerJournal.prune_checkpoints`."""
        self._router.run(
            dataset_id, lambda store: store.layers.prune_checkpoints(dataset_id, doc_name, keys)
        )
