"""What a purge will remove, and the layers that may quote a document."""

from __future__ import annotations

from typing import Final

from triptych.contracts import LayerRepo, Store, VersionReader
from triptych.ingestion.folder_tree import parent_of
from triptych.records import Layer, PurgeReceipt

__all__ = ["BEYOND", "count_held", "remove_layers_above"]

BEYOND: Final = (
    "copies, archives and backups of the store, and stores that follow it: purge there too",
    "logs and terminals of programs that printed it",
    "providers of models that were sent its text",
)
"""What no store can erase."""


def count_held(
    store: Store, versions: VersionReader | None, dataset_id: str, name: str | None
) -> PurgeReceipt:
    """What the store holds of a document, or of a dataset (None)."""
    if name is None:
        names = [each.name for each in store.documents.list(dataset_id)]
        layers = len(store.layers.list(dataset_id))
    else:
        names = [] if store.documents.get_info(dataset_id, name) is None else [name]
        layers = _count_layers(store.layers, dataset_id, name)
    old = chunks = vectors = 0
    if versions is not None:
        old = sum(len(versions.versions(dataset_id, each)) - 1 for each in names)
    for chunk in store.chunks.iter_chunks(dataset_id, name, vectors=True):
        chunks += 1
        vectors += chunk.vector is not None
    return PurgeReceipt(
        dataset_id=dataset_id,
        name=name,
        documents=len(names),
        versions=max(old, 0),
        chunks=chunks,
        vectors=vectors,
        layers=layers,
    )


def remove_layers_above(layers: LayerRepo, dataset_id: str, name: str) -> int:
    """Remove the layers of the folders and of the dataset that a document is in; how many."""
    removed = 0
    while name:
        name = parent_of(name)
        removed += _count_layers(layers, dataset_id, name)
        layers.delete_by_doc(dataset_id, name)
    return removed


def _count_layers(layers: LayerRepo, dataset_id: str, name: str) -> int:
    kinds = (Layer.ABSTRACT, Layer.OVERVIEW)
    return sum(layers.get(dataset_id, name, kind) is not None for kind in kinds)
