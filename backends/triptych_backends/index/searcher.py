"""Search of a store through its local index: a query in, ranked candidates out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from triptych._internal.one_state import one_state
from triptych.records import (
    NO_CHUNK,
    Candidate,
    Candidates,
    ChunkQuery,
    DerivedSig,
    Filter,
    FilterTree,
    Mode,
    Not,
    SparseVector,
    leaves_out_few,
)
from triptych.text import CorpusStats
from triptych_backends.index.change_log import Field, Scored
from triptych_backends.index.local import LocalIndex
from triptych_backends.index.selection import (
    OwnedBy,
    Owners,
    Selection,
    both,
    has_headings,
    select,
    without,
    without_part,
)


class Filters(Protocol):
    """What only the truth knows of the units that an index ranks."""

    def owners(
        self, unit: Field, datasets: Sequence[str], where: Filter, among: Owners | None
    ) -> Owners:
        """For each known dataset the sorted ids of the owners of ``unit`` that pass ``where``.

        With ``among``, only of these: no condition of ``where`` is evaluated on another. A document
        or layer is under the headings that any chunk of its document is under.

        Raises:
            CancelledError: the deadline has passed.
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
        with one_state():
            self.index.fresh(query.dataset_ids)
            corpus, selection = self._selections(unit, query.dataset_ids, query.filter)
            ranking = None
            by_words = partial(self.index.bm25, query.dataset_ids, unit, query.text, corpus=corpus)
            if query.mode is Mode.BM25:
                ranking = by_words(limit=query.top_k, selection=selection)
                rows = ranking.rows
            else:
                rows = self._rank(unit, query, selection)
                if unit == "document":
                    rows = self._as_documents(rows)
            matches = None if ranking is None else ranking.matches
            if unit != "chunk":
                rows = [row._replace(index=NO_CHUNK) for row in rows]
                return Candidates(rows, str(query.mode), matches=matches)
            stats = ranking.stats if ranking else lambda terms: by_words(limit=0).stats(terms)
            return Candidates(rows, str(query.mode), matches=matches, stats=stats)

    def _as_documents(self, rows: Sequence[Scored]) -> list[Scored]:
        """The documents' own keys in place of those of their best chunks."""
        keys = self._filters.document_keys(rows)
        return [row._replace(key=keys[row.owner]) for row in rows if row.owner in keys]

    def _corpus(
        self, unit: Field, datasets: Sequence[str], within: FilterTree | None
    ) -> Selection | None:
        """The units that bound the collection, None for all."""
        if leaves_out_few(within):
            return self._passing(unit, datasets, Filter(tree=within), None)
        if within is None:
            return None
        return OwnedBy(self._filters.owners(unit, datasets, Filter(tree=within), None))

    def _selections(
        self, unit: Field, datasets: Sequence[str], where: Filter
    ) -> tuple[Selection | None, Selection | None]:
        """The units that bound the collection, and those of them that pass ``where``."""
        if where.within is None and where.is_trivial:
            return None, None
        corpus = self._corpus(unit, datasets, where.within)
        tree = without_part(where.tree, where.within)
        among = corpus.owners if isinstance(corpus, OwnedBy) else None
        found = self._passing(unit, datasets, Filter(tree=tree, fresh=where.fresh), among)
        if corpus is None or found is None:
            return corpus, found or corpus
        return corpus, both(corpus, found)

    def _passing(
        self, unit: Field, datasets: Sequence[str], where: Filter, among: Owners | None
    ) -> Selection | None:
        if where.is_trivial:
            return None

        def owners(tree: FilterTree | None, fresh: DerivedSig | None = None) -> Owners:
            asked = Filter(tree=tree, fresh=fresh)
            return self._filters.owners(unit, datasets, asked, among)

        headed = unit == "chunk" and has_headings(where.tree)
        if isinstance(where.tree, Not) and where.fresh is None and not headed:
            # What does not pass is looked up: it is less than all else.
            return without(OwnedBy(owners(where.tree.part)))
        if where.tree is None or not headed:
            return OwnedBy(owners(where.tree, where.fresh))
        # The index has the headings of each chunk, the truth all else.
        found = select(where.tree, owners)
        if where.fresh is None:
            return found
        return both(found, OwnedBy(owners(None, where.fresh)))

    def _rank(self, unit: Field, query: ChunkQuery, selection: Selection | None) -> list[Scored]:
        datasets, limit = query.dataset_ids, query.top_k
        index, vector, space = self.index, query.vector, query.embed_sig
        if vector is None:
            return []
        if isinstance(vector, SparseVector):
            sparse = index.document_sparse if unit == "document" else index.sparse
            return sparse(datasets, vector, limit=limit, selection=selection, space=space)
        if unit == "document":
            return index.document_vector(
                datasets, vector, limit=limit, selection=selection, space=space
            )
        return index.vector(datasets, unit, vector, limit=limit, selection=selection, space=space)

    def corpus_stats(
        self,
        unit: Field,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `DocLevelSearcher.corpus_stats`."""
        with one_state():
            self.index.fresh(dataset_ids)
            corpus = self._corpus(unit, dataset_ids, within)
            return self.index.corpus_stats(dataset_ids, unit, terms, corpus=corpus)

    def renew(self) -> None:
        """Drop the index, which may still hold what was deleted; it is replayed when asked."""
        self.index.erase()
