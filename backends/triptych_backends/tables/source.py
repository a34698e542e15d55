"""The tables of one pipeline: which there are, loaded from the catalog when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from triptych.contracts import Embedder
from triptych.errors import NotAvailableError
from triptych_backends.in_place import InPlaceSource, TableSpec
from triptych_backends.tables.catalog import Table, load_table
from triptych_backends.tables.connections import ForeignDatabase, Reader
from triptych_backends.tables.vector_lane import check_width

__all__ = ["TableSource"]

T = TypeVar("T")


class TableSource(InPlaceSource):
    """What the repositories read: the database, its tables, how their chunks are signed."""

    def __init__(
        self,
        database: ForeignDatabase,
        specs: Sequence[TableSpec],
        *,
        chunker_sig: str,
        embedder: Embedder | None,
        language: str,
    ) -> None:
        for spec in specs:
            spec.refuse(["document"], "collections of Qdrant")
        super().__init__(specs, chunker_sig=chunker_sig, embedder=embedder, language=language)
        if embedder is None and any(pair.vector for spec in specs for pair in spec.columns):
            raise NotAvailableError(
                "the pipeline's tables have vectors, and no embedder for the query: name the "
                "model that filled them, such as embedder = 'openai:text-embedding-3-small'; or "
                "leave vector out, and they are searched by keyword"
            )
        self.database = database
        self._tables: Mapping[str, Table] | None = None

    def read(self, ask: Callable[[Reader, Mapping[str, Table]], T]) -> T:
        """What ``ask`` reads in one transaction, of the tables by dataset.

        Raises:
            NotFoundError: a table does not exist, or not for this user.
            ValidationError: a column does not exist, or does not serve.
            ModelMismatchError: a vector column is of another width than the embedder.
            StoreError: the database failed.
        """

        def asked(reader: Reader) -> T:
            tables = self._tables
            if tables is None:
                tables = self.load(reader, self.names)
                self._tables = tables
            return ask(reader, tables)

        return self.database.read(asked)

    def load(self, reader: Reader, names: Sequence[str]) -> Mapping[str, Table]:
        """The tables of these datasets as the catalog has them now, checked."""
        found = {name: load_table(reader, self.specs[name], self.language) for name in names}
        width = None if self.embedder is None else self.embedder.dimension
        if width is not None:
            for table in found.values():
                for pair in table.pairs:
                    check_width(pair, table, width)
        return found

    def close(self) -> None:
        """Close every connection."""
        self.database.close()
