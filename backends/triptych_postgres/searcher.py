"""Searches in the server: from a query to ranked candidates."""

from __future__ import annotations

from collections.abc import Sequence

from triptych.records import (
    NO_CHUNK,
    Candidate,
    Candidates,
    ChunkQuery,
    Filter,
    FilterTree,
    Mode,
    SparseVector,
)
from triptych.text import CorpusStats
from triptych_backends.index import Field, Owners, Scored
from triptych_backends.sql import FilterCache, PinnedDatabase, SqlFilters, find_datasets
from triptych_postgres.database import PostgresDatabase
from triptych_postgres.keyword_lane import find_by_words, read_statistics
from triptych_postgres.lanes import Asked, Predicates
from triptych_postgres.session import PostgresSession
from triptych_postgres.vector_indexes import VectorIndexes
from triptych_postgres.vector_lane import find_by_sparse_vector, find_by_vector

_OWNERS: dict[str, str] = {Mode.BM25: "u.owner", Mode.VECTOR: "c.owner"}
"""Where the statement of each lane has the owner of a unit; that of the sparse one in chunks."""


class PostgresSearcher:
    """`triptych_backends.sql.Searcher` over the search tables of a `PostgresDatabase`.

    Each search sees one state of the database, its filters included.
    """

    in_process = False

    def __init__(self, database: PostgresDatabase, *, indexes: VectorIndexes) -> None:
        self._database = database
        self._indexes = indexes
        self._filters = FilterCache()

    def search(self, unit: Field, query: ChunkQuery) -> Sequence[Candidate]:
        """See `Searcher.search`."""
        if query.mode is not Mode.BM25 and query.vector is None:
            return Candidates([], str(query.mode))
        owner = _OWNERS.get(query.mode, "c.document_id")
        held = None
        with self._database.snapshot() as session:
            asked = self._asked(session, unit, query.dataset_ids, query.filter, query.top_k, owner)
            if query.mode is Mode.BM25:
                rows, held = find_by_words(asked, query.text, wanted=self._want_index)
            elif isinstance(query.vector, SparseVector):
                rows = find_by_sparse_vector(asked, query.vector, query.embed_sig)
            else:
                assert query.vector is not None
                rows = find_by_vector(asked, query.vector, query.embed_sig, wanted=self._want_index)
            if unit == "document" and query.mode is not Mode.BM25:
                rows = _as_documents(session, rows)
        if unit != "chunk":
            rows = [row._replace(index=NO_CHUNK) for row in rows]
        return Candidates(rows, str(query.mode), matches=None if held is None else lambda: held)

    def corpus_stats(
        self,
        unit: Field,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `Searcher.corpus_stats`."""
        with self._database.snapshot() as session:
            asked = self._asked(session, unit, dataset_ids, Filter(within=within))
            return read_statistics(asked, terms)

    def renew(self) -> None:
        """See `Searcher.renew`: what was deleted left the search tables with it."""

    def _want_index(self) -> None:
        if not self._database.read_only:
            self._indexes.build_soon()

    def _asked(
        self,
        session: PostgresSession,
        unit: Field,
        datasets: Sequence[str],
        where: Filter,
        limit: int = 0,
        owner: str = "u.owner",
    ) -> Asked:
        filters = SqlFilters(PinnedDatabase(self._database, session), cache=self._filters)

        def owners(part: Filter, among: Owners | None) -> Owners:
            return filters.owners(unit, datasets, part, among)

        predicates = Predicates(unit, where, owners, owner=owner)
        known = find_datasets(session, list(dict.fromkeys(datasets)))
        return Asked(session, unit, known, predicates, limit, self._database.where)


def _as_documents(session: PostgresSession, rows: Sequence[Scored]) -> list[Scored]:
    """The documents' own keys in place of those of their best chunks."""
    keys = dict(
        session.text(
            "SELECT id, revision FROM document WHERE id = ANY(%s::bigint[])",
            ([row.owner for row in rows],),
        )
    )
    return [row._replace(key=keys[row.owner]) for row in rows]
