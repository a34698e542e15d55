"""The tables of one pipeline: which there are, loaded from the catalog when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from triptych.contracts import Embedder
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import DatasetConfig
from triptych.text import get_analyzer
from triptych_backends.tables.catalog import Table, load_table
from triptych_backends.tables.connections import ForeignDatabase, Reader
from triptych_backends.tables.keyword_lane import KeywordSearch
from triptych_backends.tables.spec import TableSpec
from triptych_backends.tables.statistics import Statistics
from triptych_backends.tables.vector_lane import check_width

__all__ = ["TableSource"]

T = TypeVar("T")


class TableSource:
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
        names = [spec.name for spec in specs]
        for name in names:
            if names.count(name) > 1:
                raise ValidationError(
                    f"two tables are called {name!r}: give one table with several columns, or "
                    "give each a name of its own"
                )
        if not specs:
            raise ValidationError("tables is empty: describe at least one table")
        if embedder is None and any(pair.vector for spec in specs for pair in spec.columns):
            raise NotAvailableError(
                "the pipeline's tables have vectors, and no embedder for the query: name the "
                "model that filled them, such as embedder = 'openai:text-embedding-3-small'; or "
                "leave vector out, and they are searched by keyword"
            )
        self.database = database
        self.embedder = embedder
        self.chunker_sig = chunker_sig
        self.language = language
        self.statistics = Statistics()
        self.keywords = KeywordSearch(get_analyzer(language), self.statistics)
        self.specs: Mapping[str, TableSpec] = {spec.name: spec for spec in specs}
        self._tables: Mapping[str, Table] | None = None

    @property
    def names(self) -> list[str]:
        """The datasets, ordered."""
        return sorted(self.specs)

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """How the dataset is made, None if there is none. The database is not asked."""
        spec = self.specs.get(dataset_id)
        if spec is None:
            return None
        return DatasetConfig(
            chunker_sig=self.chunker_sig,
            embed_sig=self.embed_sig(spec),
            language=self.language,
        )

    def embed_sig(self, spec: TableSpec) -> str:
        """The embedder's signature, "" for a table without vectors."""
        has_vectors = any(pair.vector for pair in spec.columns)
        return self.embedder.signature if self.embedder is not None and has_vectors else ""

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

    def embedded(self, text: str) -> NDArray[np.float32]:
        """The vector of a query."""
        assert self.embedder is not None
        vector: NDArray[np.float32] = self.embedder.embed([text], kind="query")[0]
        return vector

    def close(self) -> None:
        """Close every connection."""
        self.database.close()
