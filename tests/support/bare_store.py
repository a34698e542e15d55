"""A store with the methods that every backend has to write, and no more."""

from __future__ import annotations

from typing import Any

from triptych.contracts import Store
from triptych.contracts.defaults import ChunkRepoBase, DocumentRepoBase, LayerRepoBase, StoreBase


def _lend(bare: object, inner: object, names: str) -> None:
    for name in names.split():
        setattr(bare, name, getattr(inner, name))


class BareDocuments(DocumentRepoBase):
    """Documents of another store: one at a time, and without their old versions."""

    def __init__(self, inner: object) -> None:
        _lend(
            self,
            inner,
            "put load get get_info list list_datasets create_dataset delete delete_dataset "
            "delete_orphans",
        )


class BareChunks(ChunkRepoBase):
    """Chunks of another store: one set at a time; whole documents are not searched."""

    def __init__(self, inner: object) -> None:
        _lend(
            self,
            inner,
            "config configure replace update_source_version delete_by_doc delete_by_dataset "
            "search fetch iter_chunks get_doc_sig get_doc_sigs doc_names",
        )


class BareLayers(LayerRepoBase):
    """Layers of another store, without their journal."""

    def __init__(self, inner: object) -> None:
        _lend(self, inner, "put get list delete_by_doc delete_by_dataset search fetch")


class BareStore(StoreBase):
    """Another store by the defaults of the base classes, without a capability."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.documents: Any = BareDocuments(inner.documents)
        self.chunks: Any = BareChunks(inner.chunks)
        self.layers: Any = BareLayers(inner.layers)

    def close(self) -> None:
        self.inner.close()
