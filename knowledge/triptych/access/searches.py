"""Searches of whole documents, and statistics, of what an access shows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import attrs

from triptych.access.chunks import narrow, visible_units
from triptych.access.view import AccessView
from triptych.contracts import DocLevelSearcher
from triptych.records import (
    Candidate,
    ChunkQuery,
    FilterTree,
    StoredUnit,
)
from triptych.text.scoring import CorpusStats

__all__ = ["AccessDocumentSearch"]


@attrs.frozen(eq=False)
class AccessDocumentSearch:
    """A `DocLevelSearcher` of what an access shows."""

    _view: AccessView
    _searcher: DocLevelSearcher

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs`."""
        return self._searcher.search_docs(narrow(self._view, query))

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """See `DocLevelSearcher.search_docs_by_vector`."""
        return self._searcher.search_docs_by_vector(narrow(self._view, query))

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """See `DocLevelSearcher.fetch_docs`."""
        return visible_units(self._view, self._searcher.fetch_docs(keys))

    def corpus_stats(
        self,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """See `DocLevelSearcher.corpus_stats`."""
        view = self._view
        return self._searcher.corpus_stats(
            view.named(dataset_ids), terms, within=view.where(within)
        )

    @property
    def in_process(self) -> bool:
        """See `DocLevelSearcher.in_process`."""
        return self._searcher.in_process
