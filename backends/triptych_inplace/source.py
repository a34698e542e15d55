"""What a pipeline searches where it is: the specs, and how their chunks are signed."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from triptych.contracts import Embedder
from triptych.errors import (
    ModelMismatchError,
    NotAvailableError,
    NotFoundError,
    StoreError,
    ValidationError,
)
from triptych.records import DatasetConfig, DatasetStats, Finding
from triptych.text import AUTO, get_analyzer
from triptych_inplace.spec import TableSpec
from triptych_inplace.table import OpenTable

T = TypeVar("T")
U = TypeVar("U")
Opened = TypeVar("Opened", bound=OpenTable, covariant=True)

MANY: Final = 20_000
"""From so many rows on a search without an index takes noticeably long."""

_SECONDS: Final = 60.0
"""So long a number is used again: what is not ours changes, but its statistics hardly."""

_MOST: Final = 10_000


@contextmanager
def store_errors() -> Iterator[None]:
    """Raise what is wrong with a table as a StoreError: it is not the fault of who searches."""
    try:
        yield
    except (ModelMismatchError, NotFoundError, ValidationError) as error:
        raise StoreError(str(error)) from error


class Counts:
    """Counts of a database, kept for a minute. Thread-safe."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = seconds
        self._known: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, count: Callable[[], int]) -> int:
        """The number that is kept under ``key``, or what ``count`` gives now."""
        with self._lock:
            kept = self._known.get(key)
        if kept is not None and time.monotonic() <= kept[0]:
            return kept[1]
        number = count()
        with self._lock:
            self._known[key] = time.monotonic() + self._seconds, number
            self._known.move_to_end(key)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)
        return number


class InPlaceSource(ABC, Generic[Opened]):
    """Tables by the names of their datasets, and the embedder of their vectors.

    A driver reads them. The database is asked when something is first read.
    """

    others: Sequence[str] = ()
    """The keys of a spec that are for `other`."""

    other: str = ""
    """What another driver searches."""

    def __init__(
        self,
        database: Any,
        specs: Sequence[TableSpec],
        *,
        chunker_sig: str,
        embedder: Embedder | None = None,
        language: str = "english",
    ) -> None:
        """``embedder`` is the model that filled the vectors, ``chunker_sig`` what chunks are signed
        with. The database is closed with this.

        Raises:
            ValidationError: there are no tables, two have one name, or a key is for another driver.
            NotAvailableError: a vector is named, and there is no embedder.
        """
        for spec in specs:
            spec.refuse(self.others, self.other)
        if language == AUTO:
            raise ValidationError(
                "a table's texts are in one language, which its database stems: name it, such as "
                "language = 'german'"
            )
        names = [spec.name for spec in specs]
        for name in names:
            if names.count(name) > 1:
                raise ValidationError(
                    f"two tables are called {name!r}: give one table with several columns, or give "
                    "each a unique name"
                )
        if not specs:
            raise ValidationError("tables is empty: describe at least one table")
        if embedder is None and any(pair.vector for spec in specs for pair in spec.columns):
            raise NotAvailableError(
                "the pipeline's tables have vectors, but there is no embedder for the query: name "
                "the model that filled them, such as embedder = 'openai:text-embedding-3-small'; "
                "or leave vector out to search by keyword"
            )
        self.database = database
        self.where: str = database.where
        self.embedder = embedder
        self.chunker_sig = chunker_sig
        self.language = language
        self.analyzer = get_analyzer(language)
        self.counts = Counts()
        self.specs = {spec.name: spec for spec in specs}

    @abstractmethod
    def read(self, dataset_ids: Sequence[str], ask: Callable[[Sequence[Opened]], T]) -> T:
        """What ``ask`` reads of the tables of these datasets, each once; others are left out.

        Raises:
            StoreError: the database failed, or a table is not as its spec says.
        """

    @abstractmethod
    def examine(self, dataset_id: str) -> Iterator[Finding]:
        """What makes searches of a table slow; it is loaded again.

        Raises:
            NotFoundError: the table does not exist, or not for this user.
            ValidationError: a column does not exist, or does not serve.
            ModelMismatchError: vectors are of another width than the embedder's.
            StoreError: the database failed.
        """

    def close(self) -> None:
        """Close every connection. Idempotent."""
        self.database.close()

    def read_one(self, dataset_id: str, ask: Callable[[Opened], T], absent: U) -> T | U:
        """What ``ask`` reads of one table; ``absent`` if the dataset does not exist."""
        return self.read([dataset_id], lambda tables: ask(tables[0]) if tables else absent)

    @property
    def names(self) -> list[str]:
        """The datasets, ordered."""
        return sorted(self.specs)

    @property
    def width(self) -> int | None:
        """The width of the embedder's vectors, None without one."""
        return None if self.embedder is None else self.embedder.dimension

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """How the dataset is made, None if there is none. The database is not asked."""
        spec = self.specs.get(dataset_id)
        if spec is None:
            return None
        return DatasetConfig(
            chunker_sig=self.chunker_sig, embed_sig=self.embed_sig(spec), language=self.language
        )

    def embed_sig(self, spec: TableSpec) -> str:
        """The embedder's signature, "" for a table without vectors."""
        has_vectors = any(pair.vector for pair in spec.columns)
        return self.embedder.signature if self.embedder is not None and has_vectors else ""

    def count_rows(self, table: OpenTable) -> int:
        """How many rows there are. Kept for a minute."""
        return self.counts.get(("rows", table.spec.name), lambda: table.count(None))

    def stats(self, dataset_id: str) -> DatasetStats | None:
        """See `Store.stats`: rows are counted, sizes are not."""
        config = self.config(dataset_id)
        if config is None:
            return None
        rows = self.read_one(dataset_id, self.count_rows, 0)
        return DatasetStats(
            dataset_id=dataset_id,
            documents=rows,
            chunks=rows,
            vectors=rows if config.embed_sig else 0,
            layers=0,
            stale=0,
            size=0,
            config=config,
        )

    def embedded(self, text: str) -> NDArray[np.float32]:
        """The vector of a query."""
        assert self.embedder is not None
        vector: NDArray[np.float32] = self.embedder.embed([text], kind="query")[0]
        return vector
