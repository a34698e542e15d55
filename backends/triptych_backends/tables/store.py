"""`TableStore`: tables of a PostgreSQL database that are not ours, searched where they are."""

from __future__ import annotations

from collections.abc import Sequence

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import Embedder
from triptych.records import DatasetStats, Finding
from triptych_backends.in_place import NoLayers, TableSpec
from triptych_backends.tables.checks import check_tables
from triptych_backends.tables.chunks import TableChunks
from triptych_backends.tables.connections import ForeignDatabase
from triptych_backends.tables.documents import TableDocuments
from triptych_backends.tables.source import TableSource

__all__ = ["TableStore"]


class TableStore(CloseOnExit):
    """A read-only `Store` whose datasets are tables.

    A row is a document whose name is the row's id; its texts are its chunks. Nothing is written,
    and a role that may SELECT is enough. The database is asked when the store is first used.
    Thread-safe, and fork-safe. Use as a context manager, or close.
    """

    def __init__(
        self,
        url: str,
        tables: Sequence[TableSpec],
        *,
        chunker_sig: str,
        embedder: Embedder | None = None,
        language: str = "english",
    ) -> None:
        """``embedder`` is the model that filled the vector columns, ``chunker_sig`` what chunks are
        signed with.

        Raises:
            ValidationError: the URL is invalid, or two tables have one name.
            NotAvailableError: there are vector columns, and no embedder.
        """
        database = ForeignDatabase(url)
        self.where: str = database.where
        self.source = TableSource(
            database, tables, chunker_sig=chunker_sig, embedder=embedder, language=language
        )
        self.documents = TableDocuments(self.source)
        self.chunks = TableChunks(self.source)
        self.layers = NoLayers()

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`: rows are counted, sizes are not."""
        return self.source.stats(dataset_id, self.documents.count(dataset_id))

    def check(self) -> Sequence[Finding]:
        """What is wrong with the tables, and what makes their searches slow; no row is read."""
        return list(check_tables(self.source))

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.source.close()
