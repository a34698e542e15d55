"""`NoLayers`: what is searched in place has no layers."""

from __future__ import annotations

import builtins
from collections.abc import Hashable, Mapping, Sequence

from triptych.records import Candidate, DerivedLayer, Layer, LayerQuery, StoredUnit
from triptych.repositories import LayerRepoBase
from triptych_backends.in_place.read_only import ReadOnlyLayers

__all__ = ["NoLayers"]


class NoLayers(ReadOnlyLayers, LayerRepoBase):
    """A `LayerRepo` without layers."""

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        """See `LayerRepo.get`."""
        return None

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> builtins.list[DerivedLayer]:
        """See `LayerRepo.list`."""
        return []

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        """See `LayerRepo.search`."""
        return []

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `LayerRepo.fetch`."""
        return {}
