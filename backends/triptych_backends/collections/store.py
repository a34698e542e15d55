"""`CollectionStore`: collections of a Qdrant that are not ours, searched where they are."""

from __future__ import annotations

from collections.abc import Sequence

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import Embedder
from triptych.records import DatasetStats, Finding
from triptych_backends.collections.checks import check_collections
from triptych_backends.collections.chunks import CollectionChunks
from triptych_backends.collections.connection import PointReader
from triptych_backends.collections.documents import CollectionDocuments
from triptych_backends.collections.source import CollectionSource
from triptych_backends.in_place import NoLayers, TableSpec

__all__ = ["CollectionStore"]


class CollectionStore(CloseOnExit):
    """A read-only `Store` whose datasets are collections.

    A point is a document; its texts are its chunks. Nothing is written, and a key that may read
    is enough. Qdrant is asked when the store is first used. Thread-safe, and fork-safe. Use as a
    context manager, or close.
    """

    def __init__(
        self,
        reader: PointReader,
        tables: Sequence[TableSpec],
        *,
        chunker_sig: str,
        embedder: Embedder | None = None,
        language: str = "english",
    ) -> None:
        """``embedder`` is the model that filled the vectors; without one searches are by keyword.

        Raises:
            ValidationError: two tables have one name, or a key is not for collections.
            NotAvailableError: a vector is named, and there is no embedder.
        """
        self.where: str = reader.where
        self.source = CollectionSource(
            reader, tables, chunker_sig=chunker_sig, embedder=embedder, language=language
        )
        self.documents = CollectionDocuments(self.source)
        self.chunks = CollectionChunks(self.source)
        self.layers = NoLayers()

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`: points are counted, sizes are not."""
        return self.source.stats(dataset_id, self.documents.count(dataset_id))

    def check(self) -> Sequence[Finding]:
        """What is wrong with the collections, and what makes their searches slow."""
        return list(check_collections(self.source))

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.source.close()
