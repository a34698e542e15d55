"""The base class of `Service`: its attributes, its checks and how it is closed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

import attrs

from triptych.access.view import Access, AccessView
from triptych.contracts import Capabilities, ChunkRepo, DocumentRepo, LayerRepo, Ranker, Store
from triptych.contracts.rules import missing_dataset
from triptych.copies.notes import note_purge
from triptych.derivation.layer_journal import LayerJournal
from triptych.errors import (
    AccessDeniedError,
    CancelledError,
    NotFoundError,
    StoreError,
    ValidationError,
)
from triptych.records import check_text
from triptych.search.dataset_settings import forget_settings
from triptych.search.pipeline import SearchPipeline
from triptych.search.pipeline_record import Pipeline
from triptych.service.interface import Operations
from triptych.service.knowledge_base import KnowledgeBase
from triptych.service.operations import TRAITS, Effect, OperationTraits
from triptych.service.options import ServiceOptions
from triptych.service.parts import Parts
from triptych.vectors.refused import REFUSED_SETTINGS

if TYPE_CHECKING:
    from triptych.search.semantic_cache import CachedSearches

_Method = TypeVar("_Method", bound=Callable[..., Any])


class ServiceBase(KnowledgeBase):
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
        self.store: Store = parts.store
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
        return None if self._view is None else self._view.access

    @property
    def _opened(self) -> ServiceBase:
        """The Service that was opened, of which this one is made."""
        return self if self.base is None else self.base._opened

    @property
    def pipelines(self) -> Mapping[str, Pipeline]:
        if self._view is None:
            return self._pipelines
        shows = self._view.shows
        return {
            name: each
            for name, each in self._pipelines.items()
            if each.over is not None or all(map(shows, each.datasets))
        }

    @property
    def options(self) -> ServiceOptions:
        return self._parts.options

    @property
    def capabilities(self) -> Capabilities:
        return self._parts.capabilities

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
        return self._parts.engine.lanes

    def close(self) -> None:
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
        to requests that were removed: those of all callers go, uncounted for a restricted one."""
        from triptych.derivation.erasure import forget_proposals, forget_requests

        if self.base is not None:
            # What a filter hides was not purged.
            if self._view is not None and self._view.tree is not None and not existed:
                return 0
            found = self.base._forget_elsewhere(dataset_id, name, existed=existed)
            return found if self._view is None else 0
        settings, forget_files = self.capabilities.settings, self.options.forget_files
        self._parts.results.erase()
        note_purge(settings)
        answers = forget_requests(settings, dataset_id, name)
        forget_proposals(settings, dataset_id, name)
        forget_settings(settings, dataset_id, (REFUSED_SETTINGS,))  # the words may quote a text
        if settings is not None and name is not None:
            LayerJournal(settings).forget_document(dataset_id, name)
        if forget_files is not None:
            others = [each for each in self.documents.list_datasets() if each != dataset_id]
            forget_files(dataset_id, name, others)
        return answers

    def _forget_questions(self, dataset_id: str, name: str | None) -> int:
        """Remove a dataset's questions from the log, or that a document was found; how many it
        was of: 0 for a restricted caller."""
        from triptych.derivation.erasure import forget_questions

        found = forget_questions(self._opened.capabilities.settings, dataset_id, name)
        return found if self._view is None else 0

    def _remove_layers_above(self, dataset_id: str, name: str, *, every: bool) -> int:
        if self.base is None:
            return self._parts.layers.remove_above(dataset_id, name, every=every)
        if self._view is not None:
            self._view.check_unreviewed(dataset_id, "a purge")
        removed = self.base._remove_layers_above(dataset_id, name, every=every)
        return removed if self._view is None or self._view.tree is None else 0

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


def checked(method: _Method) -> _Method:
    """Make a method of a Service from its body: the operation of this name in `Operations`.

    The method raises `StoreError` if the Service is closed. For a restricted caller it does what
    the access allows.
    """
    declared = getattr(Operations, method.__name__)
    traits: OperationTraits = getattr(declared, TRAITS)

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._require_open()
        if traits.effect is Effect.READS or self._view is None:
            return method(self, *args, **kwargs)
        return _performed(self._view, traits, method, (self, *args), kwargs)

    call.__doc__ = declared.__doc__
    setattr(call, TRAITS, traits)
    return cast(_Method, call)


def _performed(
    view: AccessView,
    traits: OperationTraits,
    method: Callable[..., Any],
    args: Sequence[Any],
    options: Mapping[str, Any],
) -> Any:
    """Call a method of a Service that writes, as the access of ``view`` allows it.

    Where the access may only read, all that writes is refused, whatever it is asked; what is
    written, and of which documents, the store of the access decides. A store keeps one vector of a
    text, whoever's document it is in: under a filter, how much had to be embedded would say which
    texts others have. So nothing is left to be embedded later, no progress is reported, and the
    report counts no texts.
    """
    if not traits.writes_if or options.get(traits.writes_if):
        view.access.check_can_write()
    if not traits.embeds or view.tree is None:
        return method(*args, **options)
    if options.get("embed", "now") == "later":
        raise AccessDeniedError(
            "this access is to some documents of a dataset, and must embed them at once: leave "
            "out embed='later'"
        )
    silent = {"progress": None} if "progress" in options else {}
    try:
        return _uncounted(method(*args, **{**options, **silent}))
    except CancelledError as error:
        error.report = _uncounted(error.report)
        raise


def _uncounted(found: Any) -> Any:
    """A report without its counts of texts."""
    from triptych.records import EmbedReport, PutReport, RebuildReport

    if isinstance(found, PutReport | EmbedReport | RebuildReport):
        return attrs.evolve(found, embedded=0, reused=0, encoded=0)
    return found
