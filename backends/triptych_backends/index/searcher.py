"""Search of a store through its local index: a query in, ranked candidates out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs

from triptych.records import NO_CHUNK, Candidate, Candidates, ChunkQuery, Filter, Mode
from triptych_backends.index.change_log import Field, Scored
from triptych_backends.index.local import LocalIndex, Owners

__all__ = ["Filters", "LocalSearcher"]


class Filters(Protocol):
    """What only the truth knows of the units that an index ranks."""

    def owners(self, unit: Field, datasets: Sequence[str], where: Filter) -> Owners:
        """For each known dataset the sorted ids of the owners of ``unit`` that pass ``where``.

        A document or layer is under the headings that any chunk of its document is under.
        """
        ...

    def document_keys(self, found: Sequence[Scored]) -> Mapping[int, int]:
        """The keys of the documents whose best chunks were found, by owner; gone ones left out."""
        ...


class LocalSearcher:
    """Searches in this process, in ``index``; ``filters`` reads the truth."""

    in_process = True

    def __init__(self, index: LocalIndex, filters: Filters) -> None:
        self.index = index
        self._filters = filters

    def search(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        """The best units in one lane, each a candidate; none without a vector in that lane.

        Datasets whose vectors are of another space than the query's have none.
        """
        where = query.filter
        if unit == "chunk":
            where = attrs.evolve(where, headings=None)  # which the index has of each chunk
        owners = None
        if not where.is_trivial:
            owners = self._filters.owners(unit, query.dataset_ids, where)
        rows: Sequence[Scored] = self._rank(unit, query, owners)
        if unit == "document" and query.mode is not Mode.BM25:
            keys = self._filters.document_keys(rows)
            rows = [row._replace(key=keys[row.owner]) for row in rows if row.owner in keys]
        if unit != "chunk":
            rows = [row._replace(index=NO_CHUNK) for row in rows]
        return Candidates(rows, str(query.mode))

    def _rank(self, unit: Field, query: ChunkQuery, owners: Owners | None) -> list[Scored]:
        datasets, limit = query.dataset_ids, query.top_k
        headings = query.filter.headings if unit == "chunk" else None
        if query.mode is Mode.BM25:
            return self.index.bm25(
                datasets, unit, query.text, limit=limit, owners=owners, headings=headings
            )
        if query.vector is None:
            return []
        if unit == "document":
            return self.index.document_vector(
                datasets, query.vector, limit=limit, owners=owners, space=query.embed_sig
            )
        return self.index.vector(
            datasets,
            unit,
            query.vector,
            limit=limit,
            owners=owners,
            headings=headings,
            space=query.embed_sig,
        )

    def renew(self) -> None:
        """Drop the index, which may still hold what was deleted; it is replayed when asked."""
        self.index.erase()
