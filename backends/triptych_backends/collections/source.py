"""The collections of one pipeline: which there are, loaded when they are first used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from qdrant_client.models import HasIdCondition

from triptych import deadlines
from triptych.contracts import Embedder
from triptych.errors import NotAvailableError
from triptych.records import FilterTree
from triptych_backends.collections.catalog import Collection, Passing, load_collection
from triptych_backends.collections.connection import FoundPoint, PointId, PointReader
from triptych_backends.in_place import InPlaceSource, Row, TableSpec

__all__ = ["CollectionSource"]

PAGE: Final = 500

NAMES: Final = 5_000

COUNTED: Final = 5_000
"""Up to so many points are read to count those that are rows."""


class CollectionSource(InPlaceSource):
    """What the repositories read: the connection, its collections, how chunks are signed."""

    def __init__(
        self,
        reader: PointReader,
        specs: Sequence[TableSpec],
        *,
        chunker_sig: str,
        embedder: Embedder | None,
        language: str,
    ) -> None:
        for spec in specs:
            spec.refuse(["text_search", "text_config", "distance"], "tables of PostgreSQL")
        super().__init__(specs, chunker_sig=chunker_sig, embedder=embedder, language=language)
        if embedder is None and any(pair.vector for spec in specs for pair in spec.columns):
            raise NotAvailableError(
                "the pipeline names vectors of a collection, and no embedder for the query: name "
                "the model that filled them, such as embedder = 'openai:text-embedding-3-small'"
            )
        self.reader = reader
        self._collections: dict[str, Collection] = {}

    def embed_sig(self, spec: TableSpec) -> str:
        """The embedder's signature, "" without one."""
        return "" if self.embedder is None else self.embedder.signature

    def load(self, dataset_id: str) -> Collection:
        """The collection as Qdrant has it now, checked: see `load_collection`."""
        width = None if self.embedder is None else self.embedder.dimension
        return load_collection(self.reader, self.specs[dataset_id], width)

    def collection(self, dataset_id: str) -> Collection | None:
        """The collection of the dataset as it was when it was first used; None: no dataset."""
        if dataset_id not in self.specs:
            return None
        found = self._collections.get(dataset_id)
        if found is None:
            found = self._collections.setdefault(dataset_id, self.load(dataset_id))
        return found

    def of(self, dataset_ids: Sequence[str]) -> list[Collection]:
        """Those of these datasets that are there, each once."""
        found = map(self.collection, dict.fromkeys(dataset_ids))
        return [each for each in found if each is not None]

    def count_rows(self, collection: Collection) -> int:
        """How many rows there are: of large collections, how many points. Kept for a minute."""
        passing = Passing.of(collection, None)

        def count() -> int:
            if passing.conditions is None:
                return 0
            points = self.reader.count(collection.name, passing.filter())
            return points if points > COUNTED else sum(1 for _ in self.scan(passing))

        return self.counts.get(("rows", collection.spec.name), count)

    def scan(self, passing: Passing) -> Iterator[tuple[FoundPoint, Row]]:
        """All rows that pass, in the order of the points' ids, each name once."""
        if passing.conditions is None:
            return
        collection, after = passing.collection, None
        seen: set[str] = set()
        while True:
            deadlines.check("reading a collection")
            points, after = self.reader.scroll(
                collection.name,
                passing.filter(),
                limit=PAGE,
                fields=collection.row_fields,
                after=after,
            )
            for point in points:
                row = passing.row(point)
                if row is not None and row.name not in seen:
                    seen.add(row.name)
                    yield point, row
            if after is None:
                return

    def row_names(self, collection: Collection) -> Iterator[str]:
        """The names of all rows, without their texts, in the order of the points' ids."""
        passing = Passing.of(collection, None)
        after: PointId | None = None
        while passing.conditions is not None:
            deadlines.check("reading a collection")
            points, after = self.reader.scroll(
                collection.name,
                passing.filter(collection.has_text()),
                limit=NAMES,
                fields=collection.judged_fields,
                after=after,
            )
            for point in points:
                name = collection.point_name(point)
                if name is not None and passing.admits(point):
                    yield name
            if after is None:
                return

    def by_ids(self, passing: Passing, ids: Sequence[PointId]) -> list[tuple[FoundPoint, Row]]:
        """The rows of these points that pass."""
        if passing.conditions is None:
            return []
        found = []
        for start in range(0, len(ids), PAGE):
            some: list[int | str | UUID] = [*ids[start : start + PAGE]]
            points, _ = self.reader.scroll(
                passing.collection.name,
                passing.filter(HasIdCondition(has_id=some)),
                limit=len(some),
                fields=passing.collection.row_fields,
            )
            for point in points:
                row = passing.row(point)
                if row is not None:
                    found.append((point, row))
        return found

    def by_names(
        self, collection: Collection, names: Sequence[str], tree: FilterTree | None = None
    ) -> list[tuple[FoundPoint, Row]]:
        """The rows of these names that pass ``tree``, each name once."""
        wanted = set(names)
        found: dict[str, tuple[FoundPoint, Row]] = {}
        passing = Passing.of(collection, tree)
        for start in range(0, len(names), PAGE):
            named = collection.has_name(list(names[start : start + PAGE]))
            if named is False or passing.conditions is None:
                continue
            several = [*passing.conditions, *([] if named is True else [named])]
            for point, row in self.scan(Passing(collection, tree, several)):
                if row.name in wanted:
                    found.setdefault(row.name, (point, row))
        return list(found.values())

    def close(self) -> None:
        """Close the connection."""
        self.reader.close()
