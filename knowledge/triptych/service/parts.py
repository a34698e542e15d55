"""The objects that a Service uses, created for one store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from triptych.contracts import Capabilities, ChangeReader, Retriever, Store
from triptych.errors import NotAvailableError, ValidationError
from triptych.living_documents import LivingDocuments, living_stats
from triptych.records import CacheStats, Mode
from triptych.search.answerability import ResultJudge
from triptych.search.code_ranking import CodeRanking
from triptych.search.engine import SearchEngine
from triptych.search.pipeline import SearchPipeline
from triptych.search.pipeline_record import one_rewriter, rewriters_of
from triptych.search.postprocessing import KeywordBoost
from triptych.search.retrievers import (
    BM25Retriever,
    DocumentBM25Retriever,
    DocumentVectorRetriever,
    LayerRetriever,
    VectorRetriever,
)
from triptych.service.options import ServiceOptions
from triptych.vectors.lanes import ModelSet, check_keeps

if TYPE_CHECKING:
    from triptych.answers.answerer import Answerer
    from triptych.answers.context import ContextBuilder
    from triptych.derivation.deriver import Deriver
    from triptych.derivation.layers import LayerService
    from triptych.derivation.management import DocumentManager
    from triptych.derivation.rebuild import PendingEmbedder, RebuildRunner
    from triptych.derivation.versions import VersionHistory
    from triptych.derivation.writer import Writer
    from triptych.records import DatasetStats, Query
    from triptych.search.past.stores import Past, PastStores
    from triptych.search.result_cache import ResultCache
    from triptych.search.semantic_cache import CachedSearches


class Parts:
    """The objects that a Service uses. Those that only some calls need are imported and created at
    first use: most programs only search, and commands start faster.

    Attributes:
        caller: identifies the caller, for keys of the semantic cache.
        searches: what every search goes through.
        cached: the cache in front of it, None without.
    """

    def __init__(
        self,
        store: Store,
        options: ServiceOptions,
        *,
        caller: Sequence[object] = (),
        base: Parts | None = None,
        timeless: bool = False,
    ) -> None:
        """Make them; ``base`` are those of the Service that these share a store with. ``timeless``
        says that the store is of a moment of the past.

        Raises:
            ValidationError: ``options.lanes`` names a lane that there is not, or a lane has no
                signature, which the semantic cache needs.
            NotAvailableError: the store keeps no vectors of a model of ``options``; or a semantic
                cache is asked for, but the store has no change log.
        """
        self._base = base
        self.store = store
        self.options = options
        self.capabilities: Capabilities = store.capabilities
        self.caller = caller
        can = self.capabilities
        self._past: PastStores[Parts] | None = None
        self._making = threading.Lock()
        self.living: LivingDocuments = LivingDocuments(store.documents, timeless)
        self.models: ModelSet = options.models
        check_keeps(store.chunks, self.models)
        if options.executor is not None:
            _ = self.deriver  # a model that cannot be sent to it is refused at once
        self.engine: SearchEngine = _engine(store, can, options)
        if unknown := [each for each in options.lanes if each not in self.engine.lanes]:
            raise ValidationError(f"there is no lane {unknown[0]!r}: leave it out of lanes")
        code = (CodeRanking(),) if options.code_ranking else ()
        self.searches: SearchPipeline = SearchPipeline(
            store=store,
            living=self.living,
            capabilities=can,
            engine=self.engine,
            models=self.models,
            rewriter=one_rewriter(options.rewriter),
            postprocessors=(KeywordBoost(), *code, *options.postprocessors),
            locate=options.locate,
            judge=ResultJudge(store.chunks, can.settings, can.document_search),
            observer=options.observer,
        )
        self.cached: CachedSearches | None = self._cached(options)

    def _cached(self, options: ServiceOptions) -> CachedSearches | None:
        if options.semantic_cache is None:
            return None
        if self.searched_log is None:
            raise NotAvailableError(
                "this store has no change log, by which the semantic cache tells whether a result "
                "still holds: leave semantic_cache out"
            )
        # Here, for most programs have no cache, and a command starts sooner.
        from triptych.search.cache_options import check_lanes, own_lanes
        from triptych.search.semantic_cache import CachedSearches

        engine = self.engine
        check_lanes(engine.retrievers)
        decisive = (
            *(lane.model for lane in self.models.lanes),
            engine.ranker,
            engine.lanes,
            own_lanes(engine.retrievers),
            rewriters_of(options.rewriter),
            (options.code_ranking, *options.postprocessors),
            *self.caller,
        )
        return CachedSearches(
            self.searches,
            self.store,
            self.searched_log,
            self.results,
            self.searches.resolver,
            self.models,
            options.semantic_cache,
            decisive,
            options.locate,
            counts_own=bool(self.caller),
        )

    @cached_property
    def searched_log(self) -> ChangeReader | None:
        """The log of what searches find: a store of files reads them for `Capabilities.changes`."""
        if self._base is not None:
            return self._base.searched_log
        log: ChangeReader | None = getattr(self.store, "searched_log", self.capabilities.changes)
        return log

    @cached_property
    def results(self) -> ResultCache:
        """What the semantic cache of this store keeps, whether this Service uses it or not."""
        if self._base is not None:
            return self._base.results
        from triptych.search.result_cache import ResultCache

        return ResultCache(getattr(self.store, "results_path", None))

    def cache_stats(self) -> CacheStats:
        """What the semantic cache keeps, and how often it was used; by the caller, if any."""
        if self.cached is not None:
            return self.cached.stats()
        if self.searched_log is None or self.caller:
            return CacheStats()
        return self.results.stats(self.searched_log.change_head())

    @contextmanager
    def at(self, query: Query, *, layers: bool) -> Iterator[Past[Parts]]:
        """What searches the moment that ``query.as_of`` names, for the length of the block;
        ``layers`` says whether layers are searched.

        Raises:
            ValidationError: the query is invalid.
            NotFoundError: there is no dataset of its name now.
            NotAvailableError, CancelledError: as `PastStores.at`.
        """
        wanted = self.searches.wants(query, layers=layers)
        if self._past is None:
            from triptych.search.past.stores import PastStores

            options = self.options
            given = self.store, self.capabilities.versions, self.deriver, options.scratch
            with self._making:
                self._past = self._past or PastStores(*given, options.retrievers, self._over)
        with self._past.at(query, *wanted) as past:
            yield past

    def _over(self, store: Store, retrievers: Sequence[Retriever]) -> Parts:
        """The same over the store of a moment."""
        options, names = self.options, {each.name for each in retrievers}
        lost = {each.name for each in options.retrievers} - names
        kinds = store.chunks.kinds
        missing: dict[str, Any] = {
            lane.option: None for lane in self.models.lanes if lane.kind not in kinds
        }
        here = attrs.evolve(
            options,
            retrievers=retrievers,
            lanes=[each for each in options.lanes if each not in lost],
            **missing,
            semantic_cache=None,
            executor=None,
            observer=None,
        )
        return Parts(store, here, timeless=True)

    def close(self) -> None:
        """End the threads, and close the stores of the past."""
        self.engine.close()
        if "deriver" in vars(self):
            self.deriver.close()
        if self.cached is not None:
            self.cached.close()
        if self._base is None and "results" in vars(self):
            self.results.close()
        if self._past is not None:
            self._past.close()

    @cached_property
    def deriver(self) -> Deriver:
        """Derives chunk sets."""
        from triptych.derivation.deriver import Deriver

        options, chunks = self.options, self.store.chunks
        how = options.embed_concurrency, options.executor, self.capabilities.settings
        return Deriver(chunks, options.chunkers, self.models, *how)

    @cached_property
    def writer(self) -> Writer:
        """Stores documents and configures datasets."""
        from triptych.derivation.writer import Writer

        store, options = self.store, self.options
        return Writer(
            store.documents, store.chunks, self.deriver, options.language, options.outliner
        )

    @cached_property
    def manager(self) -> DocumentManager:
        """Changes and deletes many documents."""
        from triptych.derivation.management import DocumentManager

        return DocumentManager(self.living, self.store.chunks, self.writer)

    @cached_property
    def layers(self) -> LayerService:
        """Reads and stores layers."""
        from triptych.derivation.layers import LayerService

        return LayerService(self.living, self.store.layers, self.models, self.writer.check_config)

    @cached_property
    def history(self) -> VersionHistory:
        """Reads old versions."""
        from triptych.derivation.versions import VersionHistory

        return VersionHistory(self.capabilities.versions, self.living)

    @cached_property
    def rebuilds(self) -> RebuildRunner:
        """Runs rebuilds."""
        from triptych.derivation.rebuild import RebuildRunner

        store = self.store
        repos = store.documents, store.chunks, store.layers
        return RebuildRunner(*repos, self.models, self.writer, self.layers)

    @cached_property
    def embeddings(self) -> PendingEmbedder:
        """Makes pending vectors."""
        from triptych.derivation.rebuild import PendingEmbedder

        parts = self.deriver, self.writer, self.layers, self.stats
        return PendingEmbedder(self.living, self.store.chunks, *parts)

    def stats(self, dataset_id: str) -> DatasetStats | None:
        """The statistics of a dataset, None if it does not exist."""
        models = self.models
        return living_stats(
            self.store, dataset_id, chunker_sig=models.chunker_sig, embed_sig=models.embed_sig
        )

    @cached_property
    def contexts(self) -> ContextBuilder:
        """Builds contexts from the hits of searches."""
        from triptych.answers.context import ContextBuilder
        from triptych.answers.retrieval import ContextParameters

        chunks, layers = self.store.chunks, self.store.layers
        recipe = self.options.context or ContextParameters()
        return ContextBuilder(self.searches, self.living, chunks, layers, self.at, recipe)

    @cached_property
    def answerer(self) -> Answerer:
        """Answers questions from the hits of searches."""
        from triptych.answers.answerer import Answerer

        return Answerer(self.contexts, self.options.observer)


def _engine(store: Store, can: Capabilities, options: ServiceOptions) -> SearchEngine:
    """The lanes that are built in and those of the options, or the named ones of both; the vector
    lanes exist without an embedder too, to raise a clear error."""

    def chosen(*lanes: Retriever) -> list[Retriever]:
        return [each for each in lanes if not options.lanes or each.name in options.lanes]

    chunks, layers, whole = store.chunks, store.layers, can.document_search
    models = [lane.model for lane in options.models.lanes]
    document: list[Retriever] = []
    if whole is not None:
        of_models = (DocumentVectorRetriever(whole, model) for model in models)
        document = [DocumentBM25Retriever(whole), *of_models]
    return SearchEngine(
        chunk=chosen(
            BM25Retriever(chunks),
            *(VectorRetriever(chunks, model) for model in models),
            *options.retrievers,
        ),
        layer=chosen(
            LayerRetriever(layers, Mode.BM25),
            LayerRetriever(layers, Mode.VECTOR, options.embedder),
        ),
        document=chosen(*document),
        ranker=options.ranker,
    )
