"""The base class of `Service`: its attributes, its checks and how it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import LLM, Capabilities, ChunkRepo, DocumentRepo, LayerRepo, Ranker, Store
from triptych.contracts.rules import missing_dataset
from triptych.copies.notes import note_purge
from triptych.errors import NotFoundError, StoreError, ValidationError
from triptych.records import check_text
from triptych.search.dataset_settings import forget_settings
from triptych.search.pipeline import SearchPipeline
from triptych.search.pipeline_record import Pipeline
from triptych.service.options import ServiceOptions
from triptych.service.parts import Parts
from triptych.vectors.refused import REFUSED_SETTINGS

if TYPE_CHECKING:
    from triptych.access.view import Access, AccessView
    from triptych.records import ScrubReport
    from triptych.search.semantic_cache import CachedSearches


class ServiceBase(CloseOnExit):
    """The state that all methods of a Service share."""

    base: ServiceBase | None = None
    """The Service whose `restricted` or `pipeline` made this one; None if it was opened."""
    _view: AccessView | None = None  # what a restricted caller sees of the store

    def _build(
        self,
        parts: Parts,
        on_close: Callable[[], None] | None = None,
        base: ServiceBase | None = None,
        view: AccessView | None = None,
    ) -> None:
        self._parts, self.base, self._view = parts, base, view
        self._first: SearchPipeline | CachedSearches = parts.cached or parts.searches
        self.options: ServiceOptions = parts.options
        self.store: Store = parts.store
        self.capabilities: Capabilities = parts.capabilities
        self.documents: DocumentRepo = parts.store.documents
        self.chunks: ChunkRepo = parts.store.chunks
        self.layer_repo: LayerRepo = parts.store.layers
        self._pipelines = _by_name(parts.options.pipelines, self.lanes)
        self._on_close = on_close
        # Those that are made of this one: they close with it.
        self._restricted: WeakSet[ServiceBase] = WeakSet()
        self._by_pipeline: dict[str, ServiceBase] = {}
        self._closed = False
        self._closing, self._making = threading.Lock(), threading.Lock()

    def __repr__(self) -> str:
        embedder = self.options.embedder
        model = "no embedder" if embedder is None else embedder.signature
        where = getattr(self.store, "path", None)
        place = type(self.store).__name__ if where is None else str(where)
        access = "" if self.access is None else f", with {self.access!r}"
        return f"<Service {place}, {model}{access}{', closed' if self._closed else ''}>"

    @property
    def access(self) -> Access | None:
        """The access of the caller that this Service is restricted to; None for the owner."""
        return None if self._view is None else self._view.access

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """The pipelines by name; for a restricted caller, those whose datasets it may all use."""
        if self._view is None:
            return self._pipelines
        shows = self._view.shows
        return {
            name: each
            for name, each in self._pipelines.items()
            if each.over is not None or all(map(shows, each.datasets))
        }

    @property
    def llm(self) -> LLM | None:
        """The language model of this Service, None without one."""
        return self.options.llm

    @property
    def searches(self) -> SearchPipeline:
        """The pipeline of every search of this Service."""
        return self._parts.searches

    @property
    def ranker(self) -> Ranker:
        """The ranker that fuses the lanes of hybrid search."""
        return self._parts.engine.ranker

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes. Each is a search mode and a key of ``min_scores``."""
        return self._parts.engine.lanes

    def close(self) -> None:
        """Release files, connections and threads. Idempotent; later calls raise `StoreError`."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        for service in (*self._restricted, *self._by_pipeline.values()):
            service.close()
        self._parts.close()
        try:
            if self.base is None:
                self.store.close()
        finally:
            if self._on_close is not None:
                self._on_close()

    def _forget_elsewhere(self, dataset_id: str, name: str | None, *, existed: bool) -> int:
        """Remove a purged document or dataset from settings and syncs; return the number of answers
        to requests that were removed."""
        from triptych.derivation.erasure import forget_proposals, forget_requests

        if self.base is not None:
            # Those of all callers go, uncounted. What a filter hides was not purged.
            if self._view is not None and self._view.tree is not None and not existed:
                return 0
            found = self.base._forget_elsewhere(dataset_id, name, existed=existed)
            return found if self._view is None else 0
        settings, forget_files = self.capabilities.settings, self.options.forget_files
        note_purge(settings)
        answers = forget_requests(settings, dataset_id, name)
        forget_proposals(settings, dataset_id, name)
        forget_settings(settings, dataset_id, (REFUSED_SETTINGS,))  # the words may quote a text
        if forget_files is not None:
            others = [each for each in self.documents.list_datasets() if each != dataset_id]
            forget_files(dataset_id, name, others)
        return answers

    def _forget_proposals(self, dataset_id: str) -> None:
        from triptych.derivation.erasure import forget_proposals

        if self.base is not None:
            return self.base._forget_proposals(dataset_id)
        forget_proposals(self.capabilities.settings, dataset_id, None)

    def _forget_questions(self, dataset_id: str, name: str | None) -> int:
        """Remove a dataset's questions from the log, or that a document was found; how many it
        was of: 0 for a restricted caller."""
        from triptych.derivation.erasure import forget_questions

        if self.base is not None:
            found = self.base._forget_questions(dataset_id, name)
            return found if self._view is None else 0
        return forget_questions(self.capabilities.settings, dataset_id, name)

    def _remove_layers_above(self, dataset_id: str, name: str, *, every: bool) -> int:
        if self.base is None:
            return self._parts.layers.remove_above(dataset_id, name, every=every)
        if self._view is not None:
            self._view.check_unreviewed(dataset_id, "a purge")
        removed = self.base._remove_layers_above(dataset_id, name, every=every)
        return removed if self._view is None or self._view.tree is None else 0

    def _scrub(self) -> ScrubReport:
        from triptych.records import ScrubReport

        return self.store.scrub() or ScrubReport()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("this knowledge base is closed: open it again")
        if self.base is not None:
            self.base._require_open()

    def _require_dataset(self, dataset_id: str) -> None:
        """Raise NotFoundError: the dataset does not exist."""
        if dataset_id not in self.documents.list_datasets():
            raise self._missing(dataset_id)

    def _asked(self, dataset_id: str | None) -> Sequence[str]:
        """The ids to work on: this dataset, which must exist, or (None) all datasets."""
        if dataset_id is None:
            return self.documents.list_datasets()
        check_names(dataset_id)
        self._require_dataset(dataset_id)
        return [dataset_id]

    def _missing(self, dataset_id: str, name: str | None = None) -> NotFoundError:
        datasets = self.documents.list_datasets()
        if dataset_id not in datasets:
            return missing_dataset(dataset_id, datasets)
        return NotFoundError(f"the dataset {dataset_id!r} has no document {name!r}").hinted(
            "`triptych list` shows the documents of a dataset"
        )


def _by_name(pipelines: Sequence[Pipeline], lanes: Sequence[str]) -> Mapping[str, Pipeline]:
    """Validate the pipelines and map their names to them."""
    found: dict[str, Pipeline] = {}
    for pipeline in pipelines:
        if not isinstance(pipeline, Pipeline):
            raise ValidationError(f"{pipeline!r:.80} is not a Pipeline: give records of that class")
        if pipeline.name in found:
            raise ValidationError(f"two pipelines are called {pipeline.name!r}: rename one")
        if pipeline.over is not None and not isinstance(pipeline.over, ServiceBase):
            raise ValidationError(
                f"the pipeline {pipeline.name!r} is over {pipeline.over!r:.80}, which is not a "
                "Service"
            )
        pipeline.check(lanes if pipeline.over is None else pipeline.over.lanes)
        found[pipeline.name] = pipeline
    return found


def check_names(dataset_id: object, name: object = "") -> None:
    """Raise ValidationError if the name of a dataset or document is invalid."""
    check_text(dataset_id, "dataset_id")
    check_text(name, "a document name")
