"""A store as an access shows it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import cast

import attrs

from triptych.access.changes import AccessChanges
from triptych.access.chunks import AccessChunks, ReadTexts, narrow, visible_units
from triptych.access.documents import AccessDocuments, AccessVersions
from triptych.access.layers import AccessJournal, AccessLayers
from triptych.access.records import Access
from triptych.access.store_settings import AccessAnswers, AccessSettings
from triptych.access.view import AccessView
from triptych.contracts import (
    Capabilities,
    ChunkRepo,
    DocLevelSearcher,
    DocumentRepo,
    LayerJournal,
    LayerRepo,
    Store,
)
from triptych.contracts.defaults import StoreBase
from triptych.records import (
    Candidate,
    ChunkQuery,
    DatasetStats,
    FilterTree,
    ScrubReport,
    StoredUnit,
)
from triptych.text.tokenizers import CorpusStats


class AccessStore(StoreBase):
    """A `Store` that holds, to whoever reads it, what an access shows of another.

    Everything that a Service does, it does by a store: over this one it finds, counts and names
    nothing else, whatever it is asked. What a store can do beside that, and that is not listed in
    `capabilities`, it cannot do here.
    """

    def __init__(self, store: Store, capabilities: Capabilities, access: Access) -> None:
        self.view: AccessView = AccessView(store, capabilities, access)
        seen = ReadTexts()
        self.documents: DocumentRepo = AccessDocuments(self.view)
        self.chunks: ChunkRepo = AccessChunks(self.view, seen)
        self.layers: LayerRepo = AccessLayers(self.view, seen)
        self._capabilities = _capabilities(self.view, self.chunks)

    @property
    def capabilities(self) -> Capabilities:
        """See `Store.capabilities`: those that keep to the access."""
        return self._capabilities

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """See `Store.stats`. Under a filter the caller's documents and chunks are counted, which
        takes time in proportion to them."""
        if not self.view.shows(dataset_id):
            return None
        if self.view.tree is None:
            return self.view.store.stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig)
        return super().stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig)

    def scrub(self) -> ScrubReport | None:
        """See `Store.scrub`. Does nothing for an access that may only read."""
        return self.view.store.scrub() if self.view.access.can_write else None

    def close(self) -> None:
        """Leave the store open: it is closed by whoever opened it."""


def _capabilities(view: AccessView, chunks: ChunkRepo) -> Capabilities:
    """What the store can do for this access.

    Its own checks speak of all that is stored, and its journal of layers of whole datasets.
    """
    has, is_filtered = view.capabilities, view.tree is not None
    searcher = has.document_search
    return Capabilities(
        versions=None if has.versions is None else AccessVersions(view),
        document_search=None if searcher is None else AccessDocumentSearch(view, searcher),
        # Whoever embeds shares them; what others have is nowhere shown.
        leases=has.leases if view.access.can_write else None,
        journal=(
            None
            if has.journal is None or is_filtered or not view.access.can_write
            else cast(LayerJournal, AccessJournal(view, has.journal))
        ),
        settings=(
            None if has.settings is None or is_filtered else AccessSettings(view, has.settings)
        ),
        sparse=None if has.sparse is None else chunks,
        answers=None if has.answers is None else AccessAnswers(view, has.answers),
        changes=None if has.changes is None else AccessChanges(view, has.changes, has.settings),
    )


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
