"""What the parts of a Service share: how it is wired, opened and closed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

import attrs

from triptych._internal.close_on_exit import CloseOnExit
from triptych.contracts import (
    LLM,
    Capabilities,
    Postprocessor,
    QueryRewriter,
    Ranker,
    Store,
)
from triptych.copies.erasures import note_purge
from triptych.errors import (
    NotAvailableError,
    NotFoundError,
    StoreError,
    ValidationError,
)
from triptych.ingestion.derivation import DerivationPipeline
from triptych.ingestion.expiration import without_expired
from triptych.ingestion.kept_requests import forget_requests
from triptych.ingestion.layers import LayerService
from triptych.ingestion.management import DocumentManager
from triptych.ingestion.pending_datasets import PendingEmbedder
from triptych.ingestion.pending_expiry import count_sparse_pending, without_expired_pending
from triptych.ingestion.rebuild import RebuildRunner
from triptych.ingestion.sparse_encoding import sparse_lane
from triptych.ingestion.versions import VersionHistory
from triptych.ingestion.writer import Writer
from triptych.records import (
    DatasetStats,
    FilterTree,
    ScrubReport,
    check_text,
)
from triptych.repositories import capabilities_of
from triptych.rules import missing_dataset
from triptych.search.answerability import ResultJudge
from triptych.search.cache_options import check_lanes, own_lanes
from triptych.search.default_engine import build_engine
from triptych.search.engine import SearchEngine
from triptych.search.hydration import Hydrator
from triptych.search.listing import FilterListing
from triptych.search.past.stores import PastStores
from triptych.search.pipeline import SearchPipeline
from triptych.search.pipeline_record import Pipeline
from triptych.search.postprocessing import KeywordBoost
from triptych.search.question_log import QuestionLog
from triptych.search.request import RequestResolver
from triptych.search.rewriters.chain import one_rewriter, rewriters_of
from triptych.service_options import ServiceOptions

if TYPE_CHECKING:
    from triptych.search.semantic_cache import CachedSearches


__all__ = ["ServiceBase", "check_names"]


class ServiceBase(CloseOnExit):
    """A Service before its methods."""

    def __init__(
        self,
        store: Store,
        engine: SearchEngine | None = None,
        options: ServiceOptions | None = None,
        *,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Wire a Service over a store; `triptych.open` does it for the built-in ones.

        Three repositories without a store of their own are one by `triptych.Repositories`.
        ``engine`` None builds the lanes that ship. Closing the Service closes the store, and
        then calls ``on_close``, which may close the models.

        Raises:
            ValidationError: ``engine`` is given, and ``options`` has a ranker or retrievers, which
                the engine has itself.
            NotAvailableError: ``options`` has a sparse encoder, and the store keeps no sparse
                vectors.
        """
        self.options: ServiceOptions = options or ServiceOptions()
        if engine is not None:
            for name in ("ranker", "retrievers"):
                if getattr(self.options, name):
                    raise ValidationError(
                        f"the options have {name}, and the engine has its own: give the {name} to "
                        "the SearchEngine, or leave the engine out"
                    )
        self.store = store
        self.capabilities: Capabilities = capabilities_of(store)
        documents, chunks, layers = store.documents, store.chunks, store.layers
        self.documents = documents
        self.chunks = chunks
        self.layer_repo = layers
        self._deriver = DerivationPipeline(
            chunks,
            self.options.chunkers,
            self.options.embedder,
            self.options.embed_concurrency,
            self.capabilities.leases,
            sparse_lane(self.capabilities.sparse, self.options.sparse_encoder),
            self.options.executor,
            self.options.next_embedder,
        )
        self._engine = engine or build_engine(
            store,
            self.capabilities,
            embedder=self.options.embedder,
            next_embedder=self.options.next_embedder,
            sparse_encoder=self.options.sparse_encoder,
            retrievers=self.options.retrievers,
            ranker=self.options.ranker,
        )
        self._hydrator = Hydrator(
            store, self._deriver, self.capabilities.document_search, self.options.locate
        )
        self._past = PastStores(
            store, self.capabilities.versions, self._deriver, self.options.scratch
        )
        self.question_log: QuestionLog = self._log()
        self._judge = ResultJudge(
            chunks, self.capabilities.settings, self.capabilities.corpus_stats
        )
        self._searches = self._pipeline(
            self._engine, self.options.rewriter, self.options.postprocessors
        )
        self._cached = self._cache(
            self._searches, self._engine, self.options.rewriter, self.options.postprocessors
        )
        self.pipelines: Mapping[str, Pipeline] = _by_name(self.options.pipelines, self.lanes)
        self._engines: dict[str, SearchEngine] = {}
        self._caches: dict[str, CachedSearches] = {}
        self._writer = Writer(
            documents, chunks, self._deriver, self.options.language, self.options.outliner
        )
        self._manager = DocumentManager(documents, chunks, self._writer)
        self._layers = LayerService(
            documents, chunks, layers, self._deriver, self._writer.check_config
        )
        self._history = VersionHistory(self.capabilities.versions)
        self._rebuilds = RebuildRunner(documents, chunks, layers, self._writer, self._layers)
        self._embeddings = PendingEmbedder(
            documents, chunks, self._deriver, self._writer, self._layers, self._stats
        )
        self._on_close = on_close
        self._restricted: WeakSet[ServiceBase] = WeakSet()
        self._closed = False
        self._closing = threading.Lock()

    def __repr__(self) -> str:
        embedder = self.options.embedder
        model = "no embedder" if embedder is None else embedder.signature
        where = getattr(self.store, "path", None)
        place = type(self.store).__name__ if where is None else str(where)
        return f"<Service {place}, {model}{', closed' if self._closed else ''}>"

    @property
    def llm(self) -> LLM | None:
        """The language model that was wired, None without one."""
        return self.options.llm

    @property
    def searches(self) -> SearchPipeline:
        """What every search of this Service goes through."""
        return self._searches

    @property
    def ranker(self) -> Ranker:
        """What fuses the lanes of hybrid search."""
        return self._engine.ranker

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes: each is a mode, and a key of ``min_scores``."""
        return self._engine.lanes

    def close(self) -> None:
        """Release files, connections and threads. Idempotent; later calls raise `StoreError`."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        for service in list(self._restricted):
            service.close()
        for engine in (self._engine, *self._engines.values()):
            engine.close()
        for cached in (self._cached, *self._caches.values()):
            if cached is not None:
                cached.close()
        self._past.close()
        try:
            self.store.close()
        finally:
            if self._on_close is not None:
                self._on_close()

    def _cache(
        self,
        searches: SearchPipeline,
        engine: SearchEngine,
        rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
        postprocessors: Sequence[Postprocessor],
    ) -> CachedSearches | None:
        """The cache before these searches, None without one."""
        chosen, answers = self.options.semantic_cache, self.capabilities.answers
        if chosen is None:
            return None
        if answers is None:
            raise NotAvailableError(
                "this store keeps no answers of searches: leave semantic_cache out"
            )
        # Here, for most programs have no cache, and a command starts sooner.
        from triptych.search.semantic_cache import CachedSearches

        check_lanes(engine.retrievers)
        parts = (
            self.options.embedder,
            self.options.next_embedder,
            self.options.sparse_encoder,
            engine.ranker,
            engine.lanes,
            own_lanes(engine.retrievers),
            rewriters_of(rewriter),
            tuple(postprocessors),
            *self._of_caller(),
        )
        resolver, locate = self._resolver(engine), self.options.locate
        return CachedSearches(
            searches, self.store, answers, resolver, self._deriver, chosen, parts, locate
        )

    def _of_caller(self) -> Sequence[object]:
        """What decides an answer beside the configuration: who asks."""
        return ()

    def _log(self) -> QuestionLog:
        """Where the pipelines note questions."""
        return QuestionLog(self.capabilities.settings)

    def _forget_requests(self) -> int:
        note_purge(self.capabilities.settings)
        return forget_requests(self.capabilities.settings)

    def _remove_layers_above(self, dataset_id: str, name: str, *, every: bool) -> int:
        return self._layers.remove_above(dataset_id, name, every=every)

    def _scrub(self) -> ScrubReport:
        eraser = self.capabilities.eraser
        return (None if eraser is None else eraser.scrub()) or ScrubReport()

    def _open(self) -> None:
        if self._closed:
            raise StoreError("this knowledge base is closed: open it again")

    def _pipeline(
        self,
        engine: SearchEngine,
        rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
        postprocessors: Sequence[Postprocessor],
    ) -> SearchPipeline:
        return SearchPipeline(
            self.store,
            self._resolver(engine),
            engine,
            self._hydrator,
            FilterListing(self.store, self._hydrator),
            self._deriver,
            one_rewriter(rewriter),
            (KeywordBoost(), *postprocessors),
            self._past,
            self._judge,
            self.question_log if self.options.question_log else None,
        )

    def _resolver(self, engine: SearchEngine) -> RequestResolver:
        return RequestResolver(self.documents, self.chunks, self._deriver, engine.lanes)

    def _living(self, dataset_id: str, tree: FilterTree | None) -> FilterTree | None:
        return without_expired(self.documents, [dataset_id], tree)

    def _missing(self, dataset_id: str, name: str | None = None) -> NotFoundError:
        datasets = self.documents.list_datasets()
        if dataset_id not in datasets:
            return missing_dataset(dataset_id, datasets)
        return NotFoundError(f"the dataset {dataset_id!r} has no document {name!r}").hinted(
            "`triptych list` shows the documents of a dataset"
        )

    def _deriver_of(self, dataset_id: str) -> DerivationPipeline:
        if self._deriver.next is None:
            return self._deriver
        return self._deriver.of_config(self.chunks.config(dataset_id))

    def _stats(self, dataset_id: str) -> DatasetStats | None:
        space = self._deriver_of(dataset_id).embed_sig
        stats = self.store.stats(dataset_id, chunker_sig=self._deriver.chunker_sig, embed_sig=space)
        if stats is None:
            return None
        stats = without_expired_pending(self.documents, self.chunks, stats, space)
        repo, config = self.capabilities.sparse, stats.config
        if repo is None or config is None or not config.sparse_sig:
            return stats
        return attrs.evolve(
            stats,
            sparse_spaces=tuple(repo.sparse_spaces(dataset_id)),
            sparse_pending=count_sparse_pending(
                self.documents, repo, [dataset_id], config.sparse_sig
            ),
        )


def _by_name(pipelines: Sequence[Pipeline], lanes: Sequence[str]) -> Mapping[str, Pipeline]:
    """The pipelines by their names, each checked."""
    found: dict[str, Pipeline] = {}
    for pipeline in pipelines:
        if not isinstance(pipeline, Pipeline):
            raise ValidationError(f"{pipeline!r:.80} is not a Pipeline: give records of that class")
        if pipeline.name in found:
            raise ValidationError(f"two pipelines are called {pipeline.name!r}: rename one")
        if pipeline.over is not None and not isinstance(pipeline.over, ServiceBase):
            raise ValidationError(
                f"the pipeline {pipeline.name!r} is over {pipeline.over!r:.80}, which is no Service"
            )
        pipeline.check(lanes if pipeline.over is None else pipeline.over.lanes)
        found[pipeline.name] = pipeline
    return found


def check_names(dataset_id: object, name: object = "") -> None:
    """Refuse what no dataset or document can be called; whether there is one is seen later."""
    check_text(dataset_id, "dataset_id")
    check_text(name, "a document name")
