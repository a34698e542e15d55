"""A store restricted to an access, and its capabilities."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import attrs

from triptych.access.changes import AccessChanges
from triptych.access.chunks import AccessChunks, ReadTexts, narrow, visible_units
from triptych.access.documents import AccessDocuments, AccessVersions
from triptych.access.layers import AccessLayers
from triptych.access.proposals import KeptProposals
from triptych.access.review import ReviewedDocuments
from triptych.access.view import Access, AccessView
from triptych.contracts import (
    Capabilities,
    ChunkRepo,
    DocLevelSearcher,
    DocumentRepo,
    LayerRepo,
    SettingsStore,
    Store,
)
from triptych.contracts.defaults import StoreBase
from triptych.errors import AccessDeniedError
from triptych.records import (
    Answerability,
    Candidate,
    ChunkQuery,
    DatasetStats,
    FilterTree,
    Hit,
    ScrubReport,
    StoredUnit,
)
from triptych.search.dataset_settings import dataset_of
from triptych.telemetry import AnswerObserver
from triptych.text.bm25 import CorpusStats


class AccessSettings:
    """A `SettingsStore` with what is kept of the caller's datasets, and no other setting.

    Under a filter there is no such store: calibrations and rankers come from all documents.
    """

    def __init__(self, view: AccessView, settings: SettingsStore) -> None:
        self._view = view
        self._settings = settings

    def _shows(self, key: str) -> bool:
        dataset_id = dataset_of(key)
        return dataset_id is not None and self._view.access.names(dataset_id)

    def get_setting(self, key: str) -> str | None:
        return self._settings.get_setting(key) if self._shows(key) else None

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """See `SettingsStore.set_setting`.

        Raises:
            AccessDeniedError: the access may only read, or is an agent's in a dataset that is
                reviewed; or the setting is the store's.
        """
        dataset_id = dataset_of(key)
        if not self._view.access.can_write or dataset_id is None or not self._shows(key):
            raise AccessDeniedError("this access cannot change the settings of the store")
        self._view.check_unreviewed(dataset_id, "a setting")
        return self._settings.set_setting(key, value, expected=expected)

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        found = self._settings.list_settings(prefix)
        return {key: value for key, value in found.items() if self._shows(key)}


@attrs.frozen
class AccessObserver(AnswerObserver):
    """An observer whose warnings are not shown: they may speak of others' questions."""

    _inner: AnswerObserver

    @classmethod
    def over(cls, observer: AnswerObserver | None) -> AccessObserver | None:
        """The observer of a caller, None where there is none."""
        return None if observer is None else cls(observer)

    def note(
        self,
        text: str,
        dataset_ids: Sequence[str],
        answerability: Answerability | None,
        hits: Sequence[Hit],
    ) -> str | None:
        failed = self._inner.note(text, dataset_ids, answerability, hits)
        return "the question was not logged" if failed else None

    def note_cited(self, documents: Iterable[tuple[str, str]]) -> str | None:
        return "the citations were not counted" if self._inner.note_cited(documents) else None


class AccessStore(StoreBase):
    """A `Store` that holds, to whoever reads it, what an access shows of another.

    Everything that a Service does, it does by a store: over this one it finds, counts and names
    nothing else, whatever it is asked. What a store can do beside that, and that is not listed in
    `capabilities`, it cannot do here.
    """

    def __init__(
        self,
        store: Store,
        capabilities: Capabilities,
        access: Access,
        proposals: KeptProposals | None = None,
    ) -> None:
        """``proposals`` are where writes may wait for review; None where none do."""
        if proposals is None:
            self.view: AccessView = AccessView(store, capabilities, access)
            self.documents: DocumentRepo = AccessDocuments(self.view)
        else:
            self.view = AccessView(store, capabilities, access, proposals.is_reviewed)
            self.documents = ReviewedDocuments(self.view, proposals)
        seen = ReadTexts()
        self.chunks: ChunkRepo = AccessChunks(self.view, seen)
        self.layers: LayerRepo = AccessLayers(self.view, seen)
        self._capabilities = _capabilities(self.view)

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
        found = self.view.store.scrub() if self.view.access.can_write else None
        return found and attrs.evolve(found, terms=None)  # others' words count among them

    def close(self) -> None:
        """Leave the store open: it is closed by whoever opened it."""


def _capabilities(view: AccessView) -> Capabilities:
    """What the store can do for this access.

    Its own checks speak of all that is stored.
    """
    has, is_filtered = view.capabilities, view.tree is not None
    searcher = has.document_search
    return Capabilities(
        versions=None if has.versions is None else AccessVersions(view),
        document_search=None if searcher is None else AccessDocumentSearch(view, searcher),
        settings=(
            None if has.settings is None or is_filtered else AccessSettings(view, has.settings)
        ),
        changes=None if has.changes is None else AccessChanges(view, has.changes, has.settings),
    )


@attrs.frozen(eq=False)
class AccessDocumentSearch:
    """A `DocLevelSearcher` of what an access shows."""

    _view: AccessView
    _searcher: DocLevelSearcher

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self._searcher.search_docs(narrow(self._view, query))

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        return self._searcher.search_docs_by_vector(narrow(self._view, query))

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        return visible_units(self._view, self._searcher.fetch_docs(keys))

    def corpus_stats(
        self, dataset_ids: Sequence[str], terms: Sequence[str], *, within: FilterTree | None = None
    ) -> CorpusStats:
        view = self._view
        return self._searcher.corpus_stats(
            view.named(dataset_ids), terms, within=view.where(within)
        )

    @property
    def in_process(self) -> bool:
        return self._searcher.in_process
