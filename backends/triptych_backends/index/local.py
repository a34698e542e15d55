"""The local index: searches over what the truth says now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from . import bm25
from .dataset import DatasetIndex
from .feed import ChangeFeed, Field, Scored, TextAnalyzer
from .nearest import VanishedError, checked, nearest, nearest_documents
from .ranking import Found, parts_of, rank
from .select import best
from .snapshot import Snapshot
from .vectors import Cores

Owners = Mapping[str, NDArray[np.int64]]
TRIES = 4


class LocalIndex:
    """Keyword and vector search over a truth's change feed; see the package's docstring.

    Every search first replays the changes that it has not seen: what was committed before the
    search began is found. Thread-safe. `path` is the folder that the index may use, and that may
    be deleted at any time; None keeps all in memory.
    """

    def __init__(
        self,
        feed: ChangeFeed,
        path: Path | None = None,
        *,
        analyzers: Callable[[str], TextAnalyzer],
    ) -> None:
        self._feed = feed
        self._path = path
        self._analyzers = analyzers
        self._lock = Lock()
        self._datasets: dict[str, DatasetIndex] = {}
        self._cores = Cores()

    def bm25(
        self,
        datasets: Sequence[str],
        field: Field,
        query: str,
        *,
        limit: int,
        owners: Owners | None = None,
        headings: frozenset[str] | None = None,
    ) -> list[Scored]:
        """The units with the best BM25 scores, min(limit, matches) of them.

        Statistics are pooled over `datasets`; filters do not touch them. `owners` restricts to
        documents: a sorted int64 array for each dataset, none for a dataset that it lacks.
        `headings` restricts to units under any of these, case folded. Equal scores (rounded to
        1e-6) rank by name, index, dataset.
        """
        snapshots = self._fresh(datasets)
        repeats = {
            snapshot.language: bm25.count_terms(
                self._analyzers(snapshot.language).analyze_query(query)
            )
            for snapshot in snapshots.values()
        }
        terms = sorted({term for counted in repeats.values() for term in counted})
        views = [view for snapshot in snapshots.values() for view in snapshot.views(field)]
        if limit <= 0 or not terms or not views:
            return []
        folded = _folded(headings)
        with self._cores.one():
            statistics = bm25.statistics(views, terms)
            found = []
            for dataset, snapshot in snapshots.items():
                weights = bm25.weigh(statistics, repeats[snapshot.language])
                for part in parts_of(dataset, snapshot.views(field), owners, folded):
                    scores = bm25.score(part.view, weights)
                    if part.allowed is None:
                        units = best(scores, limit, floor=0.0)
                        found.append(Found(part, units, scores[units]))
                    else:
                        scores = scores[part.allowed]
                        places = best(scores, limit, floor=0.0)
                        found.append(Found(part, part.allowed[places], scores[places]))
            return rank(found, limit)

    def vector(
        self,
        datasets: Sequence[str],
        field: Field,
        vector: NDArray[np.float32],
        *,
        limit: int,
        owners: Owners | None = None,
        headings: frozenset[str] | None = None,
    ) -> list[Scored]:
        """The units whose vectors have the greatest dot product with `vector`.

        Filters and ties are those of `bm25`. Raises ValidationError when `vector` is not finite
        or not as wide as the datasets' vectors.
        """
        return self._nearest(nearest, datasets, field, vector, limit, owners, _folded(headings))

    def document_vector(
        self,
        datasets: Sequence[str],
        vector: NDArray[np.float32],
        *,
        limit: int,
        owners: Owners | None = None,
    ) -> list[Scored]:
        """The documents with the nearest chunks: each once, with its best chunk's key and index.

        A document's score is the maximum over all of its chunks. Raises as `vector` does.
        """
        return self._nearest(nearest_documents, datasets, "chunk", vector, limit, owners, None)

    def _nearest(
        self,
        lane: Callable[..., list[Found]],
        datasets: Sequence[str],
        field: Field,
        vector: NDArray[np.float32],
        limit: int,
        owners: Owners | None,
        headings: Sequence[str] | None,
    ) -> list[Scored]:
        for attempt in range(TRIES):
            parts = [
                part
                for dataset, snapshot in self._fresh(datasets).items()
                for part in parts_of(dataset, snapshot.views(field), owners, headings)
            ]
            query = checked(vector, parts)
            if limit <= 0:
                break
            try:
                found = lane(
                    parts,
                    query,
                    limit,
                    lambda dataset, keys: self._feed.vectors(dataset, field, keys),
                    self._cores,
                    last_try=attempt == TRIES - 1,
                )
            except VanishedError:
                continue
            return rank(found, limit)
        return []

    def _fresh(self, datasets: Sequence[str]) -> dict[str, Snapshot]:
        head = self._feed.head()
        return {name: self._dataset(name).fresh(head) for name in dict.fromkeys(datasets)}

    def _dataset(self, name: str) -> DatasetIndex:
        index = self._datasets.get(name)
        if index is None:
            with self._lock:
                index = self._datasets.setdefault(
                    name, DatasetIndex(name, self._feed, self._analyzers)
                )
        return index

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back what the index holds. Idempotent."""
        self._cores.close()


def _folded(headings: frozenset[str] | None) -> list[str] | None:
    return None if headings is None else sorted({heading.casefold() for heading in headings})
