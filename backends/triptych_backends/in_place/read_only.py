"""The methods that write, refused, and no layers: tables of others are read."""

from __future__ import annotations

import builtins
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NoReturn

from triptych.contracts.defaults import LayerRepoBase
from triptych.errors import NotAvailableError
from triptych.records import Candidate, DerivedLayer, Layer, LayerQuery, StoredUnit


def _refuse(*_: Any, **__: Any) -> NoReturn:
    """Raises `NotAvailableError`: nothing is written to what is searched in place."""
    raise NotAvailableError(
        "what a pipeline searches in place is only read: write to it by what it belongs to, or "
        "follow it into a dataset of your own"
    )


class ReadOnlyDocuments:
    """The writes of `DocumentRepo`."""

    put = put_many = load = create_dataset = staticmethod(_refuse)
    delete = delete_many = delete_dataset = delete_orphans = staticmethod(_refuse)


class ReadOnlyChunks:
    """The writes of `ChunkRepo`."""

    configure = replace = replace_many = put_vectors = staticmethod(_refuse)
    update_source_version = delete_by_doc = delete_by_dataset = staticmethod(_refuse)


class NoLayers(LayerRepoBase):
    """A `LayerRepo` without layers."""

    put = delete_by_doc = delete_by_dataset = staticmethod(_refuse)

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
