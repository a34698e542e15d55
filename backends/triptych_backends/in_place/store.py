"""`InPlaceStore`: tables or collections that are not ours, searched where they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts.defaults import StoreBase
from triptych.errors import ModelMismatchError, NotFoundError, StoreError, ValidationError
from triptych.records import DatasetStats, Finding
from triptych_backends.in_place.chunks import InPlaceChunks
from triptych_backends.in_place.documents import InPlaceDocuments
from triptych_backends.in_place.read_only import NoLayers
from triptych_backends.in_place.source import InPlaceSource
from triptych_backends.in_place.table import OpenTable


class InPlaceStore(CloseOnExit, StoreBase):
    """A read-only `Store` whose datasets are tables.

    A row is a document whose name is the row's id; its texts are its chunks. Nothing is written,
    and the right to read is enough. The database is asked when the store is first used.
    Thread-safe, and fork-safe. Use as a context manager, or close.
    """

    def __init__(self, source: InPlaceSource[OpenTable]) -> None:
        """``source`` is a driver's, and is closed with the store."""
        self.source = source
        self.where: str = source.where
        self.documents = InPlaceDocuments(source)
        self.chunks = InPlaceChunks(source)
        self.layers = NoLayers()

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`: rows are counted, sizes are not."""
        return self.source.stats(dataset_id)

    def check(self) -> Sequence[Finding]:
        """What is wrong with the tables, and what makes their searches slow; no row is read."""
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
