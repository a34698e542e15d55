"""A store restricted to an access, and its capabilities."""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, cast

import attrs

from triptych.access.changes import AccessChanges
from triptych.access.chunks import AccessChunks, ReadTexts, narrow, visible_units
from triptych.access.documents import AccessDocuments, AccessVersions
from triptych.access.layers import AccessJournal, AccessLayers
from triptych.access.proposals import Proposals, unrestricted
from triptych.access.review import ReviewedDocuments
from triptych.access.view import Access, AccessView
from triptych.contracts import (
    AnswerCache,
    Capabilities,
    ChunkRepo,
    DocLevelSearcher,
    DocumentRepo,
    LayerJournal,
    LayerRepo,
    SettingsStore,
    Store,
)
from triptych.contracts.defaults import StoreBase
from triptych.errors import AccessDeniedError, ValidationError
from triptych.records import (
    Answerability,
    CachedAnswer,
    CachedQuestion,
    CacheStats,
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
from triptych.text.tokenizers import CorpusStats

if TYPE_CHECKING:
    from triptych.service import Service


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


class AccessAnswers:
    """An `AnswerCache` whose numbers are those of this access in this process.

    Answers are kept under a digest that has the access in it: none is served to another.
    """

    def __init__(self, view: AccessView, answers: AnswerCache) -> None:
        self._view = view
        self._answers = answers
        self._lock = threading.Lock()
        self._requests: dict[str, None] = {}
        self._hits = self._misses = 0

    def revisions(self, dataset_ids: Collection[str]) -> Mapping[str, str]:
        return self._answers.revisions(self._view.named(list(dataset_ids)))

    def cached_questions(self, request: str) -> Sequence[CachedQuestion]:
        return self._answers.cached_questions(request)

    def cached_answer(self, key: int) -> CachedAnswer | None:
        return self._answers.cached_answer(key)

    def keep_answer(self, answer: CachedAnswer, *, most: int) -> bool:
        kept = self._answers.keep_answer(answer, most=most)
        if kept:
            with self._lock:
                self._requests.pop(answer.request, None)
                self._requests[answer.request] = None
                while len(self._requests) > most:
                    del self._requests[next(iter(self._requests))]
        return kept

    def drop_answers(self, *, before: datetime) -> int:
        """See `AnswerCache.drop_answers`. How many there were is not shown."""
        self._answers.drop_answers(before=before)
        return 0

    def count_lookups(self, *, hits: int, misses: int) -> None:
        with self._lock:
            self._hits += hits
            self._misses += misses
        self._answers.count_lookups(hits=hits, misses=misses)

    def cache_stats(self) -> CacheStats:
        """The answers that this access has kept since it was made, and its lookups."""
        with self._lock:
            requests, hits, misses = list(self._requests), self._hits, self._misses
        entries = sum(len(self._answers.cached_questions(each)) for each in requests)
        return CacheStats(entries=entries, hits=hits, misses=misses)


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
        proposals: Proposals | None = None,
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
        found = self.view.store.scrub() if self.view.access.can_write else None
        return found and attrs.evolve(found, terms=None)  # others' words count among them

    def close(self) -> None:
        """Leave the store open: it is closed by whoever opened it."""


def store_for(service: Service, access: Access) -> AccessStore:
    """What ``access`` shows of a Service's store.

    Raises:
        ValidationError: ``access`` is not an `Access`.
    """
    if not isinstance(access, Access):
        raise ValidationError(
            f"restricted takes an Access, not {type(access).__name__}: make one with "
            "triptych.access.Access(dataset_ids=…, can_write=…, where=…)"
        )
    settings = unrestricted(service)[0].capabilities.settings if access.agent else None
    proposals = None if settings is None else Proposals(settings)
    return AccessStore(service.store, service.capabilities, access, proposals)


def _capabilities(view: AccessView, chunks: ChunkRepo) -> Capabilities:
    """What the store can do for this access.

    Its own checks speak of all that is stored, and its journal of layers of whole datasets.
    """
    has, is_filtered = view.capabilities, view.tree is not None
    searcher = has.document_search
    return Capabilities(
        versions=None if has.versions is None else AccessVersions(view),
        document_search=None if searcher is None else AccessDocumentSearch(view, searcher),
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
