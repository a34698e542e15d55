"""The base class of `Service`: its attributes, its checks and how it is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

import attrs

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
from triptych.service.parts import Parts, SearchParts, build_search
from triptych.vectors.refused import REFUSED_SETTINGS

if TYPE_CHECKING:
    from triptych.access.view import Access, AccessView
    from triptych.records import ScrubReport
    from triptych.search.semantic_cache import CachedSearches


@attrs.frozen
class Restriction:
    """What a restricted caller is shown, and the Service whose `Service.restricted` showed it."""

    view: AccessView
    base: ServiceBase


class ServiceBase(CloseOnExit):
    """The state that all methods of a Service share."""

    _restriction: Restriction | None = None  # for the owner

    def _build(
        self,
        parts: Parts,
        on_close: Callable[[], None] | None = None,
        restriction: Restriction | None = None,
    ) -> None:
        self._parts, self._restriction = parts, restriction
        self._main = build_search(
            parts, parts.engine, parts.options.rewriter, parts.options.postprocessors
        )
        self._first: SearchPipeline | CachedSearches = self._main.cached or self._main.uncached
        self._by_pipeline: dict[int, tuple[Pipeline, SearchParts]] = {}
        self.options: ServiceOptions = parts.options
        self.store: Store = parts.store
        self.capabilities: Capabilities = parts.capabilities
        self.documents: DocumentRepo = parts.store.documents
        self.chunks: ChunkRepo = parts.store.chunks
        self.layer_repo: LayerRepo = parts.store.layers
        self._pipelines = _by_name(parts.options.pipelines, self.lanes)
        self._on_close = on_close
        self._others: WeakSet[ServiceBase] = WeakSet()  # those that close with this one
        self._elsewhere: dict[int, ServiceBase] = {}
        self._closed = False
        self._closing = threading.Lock()

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
        return None if self._restriction is None else self._restriction.view.access

    @property
    def base(self) -> ServiceBase | None:
        """The Service whose `restricted` made this one; None for the owner's."""
        return None if self._restriction is None else self._restriction.base

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        """The pipelines by name; for a restricted caller, those whose datasets it may all use."""
        if self._restriction is None:
            return self._pipelines
        shows = self._restriction.view.shows
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
        return self._main.uncached

    @property
    def ranker(self) -> Ranker:
        """The ranker that fuses the lanes of hybrid search."""
        return self._main.engine.ranker

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes. Each is a search mode and a key of ``min_scores``."""
        return self._main.engine.lanes

    def close(self) -> None:
        """Release files, connections and threads. Idempotent; later calls raise `StoreError`."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        for service in (*self._others, *self._elsewhere.values()):
            service.close()
        for _, searches in self._by_pipeline.values():
            searches.close()
        self._main.close()
        self._parts.close()
        try:
            self.store.close()
        finally:
            if self._on_close is not None:
                self._on_close()

    def _forget_elsewhere(self, dataset_id: str, name: str | None, *, existed: bool) -> int:
        """Remove a purged document or dataset from settings and syncs; return the number of answers
        to requests that were removed."""
        from triptych.derivation.erasure import forget_proposals, forget_requests

        if (restriction := self._restriction) is not None:
            # Those of all callers go, uncounted. What a filter hides was not purged.
            if existed or restriction.view.tree is None:
                restriction.base._forget_elsewhere(dataset_id, name, existed=existed)
            return 0
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

        if self._restriction is not None:
            return self._restriction.base._forget_proposals(dataset_id)
        forget_proposals(self.capabilities.settings, dataset_id, None)

    def _forget_questions(self, dataset_id: str, name: str | None) -> int:
        """Remove a dataset's questions from the log, or that a document was found; how many it
        was of: 0 for a restricted caller."""
        from triptych.derivation.erasure import forget_questions

        if self._restriction is not None:
            self._restriction.base._forget_questions(dataset_id, name)
            return 0
        return forget_questions(self.capabilities.settings, dataset_id, name)

    def _remove_layers_above(self, dataset_id: str, name: str, *, every: bool) -> int:
        if self._restriction is None:
            return self._parts.layers.remove_above(dataset_id, name, every=every)
        view, base = self._restriction.view, self._restriction.base
        view.check_unreviewed(dataset_id, "a purge")
        removed = base._remove_layers_above(dataset_id, name, every=every)
        return removed if view.tree is None else 0

    def _scrub(self) -> ScrubReport:
        from triptych.records import ScrubReport

        return self.store.scrub() or ScrubReport()

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("this knowledge base is closed: open it again")
        if self._restriction is not None:
            self._restriction.base._require_open()

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
