"""What a pipeline searches where it is: the specs, and how their chunks are signed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from triptych.contracts import Embedder
from triptych.errors import ValidationError
from triptych.records import DatasetConfig, DatasetStats
from triptych.text import get_analyzer
from triptych_backends.in_place.counts import Counts
from triptych_backends.in_place.spec import TableSpec

__all__ = ["InPlaceSource"]


class InPlaceSource:
    """Tables by the names of their datasets, and the embedder of their vectors.

    Raises ValidationError where there are none, or two have one name.
    """

    def __init__(
        self,
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
        self.embedder = embedder
        self.chunker_sig = chunker_sig
        self.language = language
        self.analyzer = get_analyzer(language)
        self.counts = Counts()
        self.specs = {spec.name: spec for spec in specs}

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

    def stats(self, dataset_id: str, rows: int) -> DatasetStats | None:
        """See `Store.stats`: rows are counted, sizes are not."""
        config = self.config(dataset_id)
        if config is None:
            return None
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
