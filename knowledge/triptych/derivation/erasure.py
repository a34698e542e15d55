"""What a purge will remove, and what it cannot."""

from __future__ import annotations

from typing import Final

from triptych.contracts import Store, VersionReader
from triptych.records import PurgeReceipt

BEYOND: Final = (
    "copies, backups, archives, snapshots of Qdrant, Git's history: purge there too",
    "a file that it was synced from: delete it, or the next sync puts it back",
    "what syncs from other machines remember of it, until their next one",
    "stores that follow this one, until their next round repeats the purge",
    "free memory and free blocks of the disk, until they are overwritten",
    "logs and terminals of programs that printed it",
    "providers of models that were sent its text",
)
"""What no store can erase."""

DAMAGED: Final = "counts of what could not be read: it was damaged"


def count_held(
    store: Store, versions: VersionReader | None, dataset_id: str, name: str | None
) -> PurgeReceipt:
    """What the store holds of a document, or of a dataset (None)."""
    names = [name] if name is not None and store.documents.get_info(dataset_id, name) else []
    if name is None:
        names = [each.name for each in store.documents.list(dataset_id)]
    found = store.chunks.iter_chunks(dataset_id, name, vectors=True)
    has_vector = [each.vector is not None for each in found]
    old = 0 if versions is None else sum(len(versions.versions(dataset_id, n)) - 1 for n in names)
    layers = sum(name in (None, each.doc_name) for each in store.layers.list(dataset_id))
    return PurgeReceipt(
        dataset_id=dataset_id,
        name=name,
        documents=len(names),
        versions=old,
        chunks=len(has_vector),
        vectors=sum(has_vector),
        layers=layers,
    )
