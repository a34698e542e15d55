"""`InPlaceStore`: searches existing tables or collections."""

from __future__ import annotations

import builtins
from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import attrs

from triptych.contracts import HitReader
from triptych.contracts.defaults import DocumentRepoBase, LayerRepoBase, StoreBase
from triptych.errors import ModelMismatchError, NotFoundError, StoreError, ValidationError
from triptych.records import (
    NAME,
    Candidate,
    Condition,
    DatasetStats,
    DerivedLayer,
    DocumentInfo,
    FilterTree,
    Finding,
    Hit,
    Layer,
    LayerQuery,
    ResolvedQuery,
    SourceDocument,
    StoredUnit,
    all_of,
)
from triptych.runtime import CloseOnExit
from triptych.search import MAX_TOP_K
from triptych_inplace.chunks import InPlaceChunks, refuse
from triptych_inplace.source import InPlaceSource
from triptych_inplace.table import OpenTable, Row


class NoLayers(LayerRepoBase):
    """A `LayerRepo` without layers."""

    put = delete_by_doc = delete_by_dataset = staticmethod(refuse)

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        return None

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> builtins.list[DerivedLayer]:
        return []

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        return []

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        return {}


@attrs.frozen(eq=False)
class InPlaceDocuments(DocumentRepoBase):
    """A `DocumentRepo` over tables, which it reads."""

    put = put_many = load = create_dataset = staticmethod(refuse)
    delete = delete_many = delete_dataset = delete_orphans = staticmethod(refuse)

    _source: InPlaceSource[OpenTable]

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        row = self._row(dataset_id, name)
        return None if row is None else row.document

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        row = self._row(dataset_id, name)
        return None if row is None else row.info

    def _row(self, dataset_id: str, name: str) -> Row | None:
        found = self._source.read_one(dataset_id, lambda table: table.rows_named([name]), ())
        return next(iter(found), None)

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        tree = all_of(
            where,
            Condition(NAME, "starts", (("text", prefix),)) if prefix else None,
            Condition(NAME, "gt", (("text", after),)) if after else None,
        )
        most = None if limit is None else max(limit, 0)
        rows = self._source.read_one(dataset_id, lambda table: table.rows_in_order(tree, most), ())
        return [row.info for row in rows]

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """See `DocumentRepo.count`. Without ``where`` the number may be a minute old, and that of
        a large collection is of its points."""
        if where is None:
            return self._source.read_one(dataset_id, self._source.count_rows, 0)
        return self._source.read_one(dataset_id, lambda table: table.count(where), 0)

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """See `DocumentRepo.with_expired`: rows of a table do not expire."""
        return []

    def list_datasets(self) -> Sequence[str]:
        """See `DocumentRepo.list_datasets`: the tables, whether they are there or not."""
        return self._source.names


_OVERSAMPLED: Final = 3


@attrs.frozen
class DistinctRows:
    """Keeps only the best hit of each row, over all its columns, and of each text.

    ``homes`` maps each dataset to its table: two datasets may use the same table. Texts that differ
    only in white space are equal. There are three times as many candidates as requested hits.
    """

    homes: Mapping[str, str] = attrs.field(factory=dict)

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits it chooses from."""
        return min(_OVERSAMPLED * query.top_k, MAX_TOP_K)

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits in order, without duplicates of earlier ones."""
        rows: set[tuple[str, str]] = set()
        texts: set[str] = set()
        kept = []
        for hit in hits:
            row = self.homes.get(hit.dataset_id, hit.dataset_id), hit.doc_name
            text = " ".join(hit.content.split())
            if row not in rows and text not in texts:
                kept.append(hit)
            rows.add(row)
            texts.add(text)
        return kept


class InPlaceStore(CloseOnExit, StoreBase):
    """A read-only `Store` whose datasets are tables.

    A row is a document whose name is the row's id; its texts are its chunks. Nothing is written,
    and read access is enough. It connects at first use. Thread-safe and fork-safe. Use it as a
    context manager, or close it.
    """

    def __init__(self, source: InPlaceSource[OpenTable]) -> None:
        """``source`` is the driver's; the store closes it."""
        self.source = source
        self.where: str = source.where
        self.documents = InPlaceDocuments(source)
        self.chunks = InPlaceChunks(source)
        self.layers = NoLayers()

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`: rows are counted, sizes are not."""
        return self.source.stats(dataset_id)

    def check(self) -> Sequence[Finding]:
        """Return problems of the tables, including slow searches, without reading rows."""
        return [finding for name in self.source.names for finding in self._examined(name)]

    def _examined(self, name: str) -> Iterator[Finding]:
        try:
            yield from self.source.examine(name)
        except (ValidationError, NotFoundError, ModelMismatchError) as error:
            yield Finding(
                check="tables.columns",
                place=f"table {self.source.specs[name].table}",
                detail=str(error),
                why="searches of the pipeline fail",
                remedy="correct the pipeline's tables in triptych.toml",
                dataset_id=name,
            )
        except StoreError as error:
            yield Finding(
                check="tables.database",
                place=self.where,
                detail=str(error),
                why="searches of the pipeline fail",
                remedy="correct the pipeline's url, or the rights of its user",
                dataset_id=name,
            )

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.source.close()
