"""The objects that a Service uses, created for one store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from triptych.contracts import Capabilities, Retriever, Store
from triptych.derivation.deriver import Deriver
from triptych.derivation.living_documents import LivingDocuments, VersionHistory, living_stats
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import Mode
from triptych.search.answerability import ResultJudge
from triptych.search.engine import SearchEngine
from triptych.search.pipeline import SearchPipeline
from triptych.search.pipeline_record import one_rewriter, rewriters_of
from triptych.search.postprocessing import KeywordBoost
from triptych.search.retrievers import (
    BM25Retriever,
    DocumentBM25Retriever,
    DocumentSparseRetriever,
    DocumentVectorRetriever,
    LayerRetriever,
    SparseRetriever,
    VectorRetriever,
)
from triptych.service.options import ServiceOptions
from triptych.vectors.embedding import check_keeps_sparse

if TYPE_CHECKING:
    from triptych.answers.answerer import Answerer
    from triptych.answers.context import ContextBuilder
    from triptych.derivation.layers import LayerService
    from triptych.derivation.management import DocumentManager
    from triptych.derivation.rebuild import PendingEmbedder, RebuildRunner
    from triptych.derivation.writer import Writer
    from triptych.records import DatasetStats
    from triptych.search.past.stores import PastStores
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
    ) -> None:
        """Make them.

        Raises:
            ValidationError: ``options.lanes`` names a lane that there is not, or a lane has no
                signature, which the semantic cache needs.
            NotAvailableError: ``options`` has a sparse encoder, but the store keeps no sparse
                vectors; or a semantic cache, but the store keeps no answers.
        """
        self.store = store
        self.options = options
        self.capabilities: Capabilities = store.capabilities
        self.caller = caller
        can = self.capabilities
        check_keeps_sparse(can.sparse, options.sparse_encoder)
        self._past: PastStores | None = None
        self._making = threading.Lock()
        self.living: LivingDocuments = LivingDocuments(store.documents)
        self.deriver: Deriver = Deriver(
            store.chunks,
            options.chunkers,
            options.embedder,
            options.embed_concurrency,
            options.sparse_encoder,
            options.executor,
            options.next_embedder,
            can.settings,
        )
        self.engine: SearchEngine = _engine(store, can, options)
        if unknown := [each for each in options.lanes if each not in self.engine.lanes]:
            raise ValidationError(f"there is no lane {unknown[0]!r}: leave it out of lanes")
        self.searches: SearchPipeline = SearchPipeline(
            store=store,
            living=self.living,
            capabilities=can,
            engine=self.engine,
            derivation=self.deriver,
            rewriter=one_rewriter(options.rewriter),
            postprocessors=(KeywordBoost(), *options.postprocessors),
            locate=options.locate,
            past_stores=self.past,
            judge=ResultJudge(store.chunks, can.settings, can.document_search),
            observer=options.observer,
        )
        self.cached: CachedSearches | None = self._cached(options)

    def _cached(self, options: ServiceOptions) -> CachedSearches | None:
        if options.semantic_cache is None:
            return None
        if self.capabilities.answers is None:
            raise NotAvailableError(
                "this store does not cache results of searches: leave semantic_cache out"
            )
        # Here, for most programs have no cache, and a command starts sooner.
        from triptych.search.cache_options import check_lanes, own_lanes
        from triptych.search.semantic_cache import CachedSearches

        engine = self.engine
        check_lanes(engine.retrievers)
        decisive = (
            options.embedder,
            options.next_embedder,
            options.sparse_encoder,
            engine.ranker,
            engine.lanes,
            own_lanes(engine.retrievers),
            rewriters_of(options.rewriter),
            tuple(options.postprocessors),
            *self.caller,
        )
        return CachedSearches(
            self.searches,
            self.store,
            self.capabilities.answers,
            self.searches.resolver,
            self.deriver,
            options.semantic_cache,
            decisive,
            options.locate,
        )

    def past(self) -> PastStores:
        """The builder of stores as of a past moment."""
        if self._past is None:
            from triptych.search.past.stores import PastStores

            given = self.store, self.capabilities.versions, self.deriver, self.options.scratch
            with self._making:
                self._past = self._past or PastStores(*given)
        return self._past

    def close(self) -> None:
        """End the threads, and close the stores of the past."""
        self.engine.close()
        if self.cached is not None:
            self.cached.close()
        if self._past is not None:
            self._past.close()

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

        store = self.store
        return LayerService(
            self.living, store.chunks, store.layers, self.deriver, self.writer.check_config
        )

    @cached_property
    def history(self) -> VersionHistory:
        """Reads old versions."""
        return VersionHistory(self.capabilities.versions, self.living)

    @cached_property
    def rebuilds(self) -> RebuildRunner:
        """Runs rebuilds."""
        from triptych.derivation.rebuild import RebuildRunner

        store = self.store
        return RebuildRunner(store.documents, store.chunks, store.layers, self.writer, self.layers)

    @cached_property
    def embeddings(self) -> PendingEmbedder:
        """Makes pending vectors."""
        from triptych.derivation.rebuild import PendingEmbedder

        store = self.store
        return PendingEmbedder(
            store.documents, store.chunks, self.deriver, self.writer, self.layers, self.stats
        )

    def stats(self, dataset_id: str) -> DatasetStats | None:
        """The statistics of a dataset, None if it does not exist."""
        deriver = self.deriver
        if deriver.next is not None:
            deriver = deriver.of_config(self.store.chunks.config(dataset_id))
        return living_stats(
            self.store, dataset_id, chunker_sig=deriver.chunker_sig, embed_sig=deriver.embed_sig
        )

    @cached_property
    def contexts(self) -> ContextBuilder:
        """Builds contexts from the hits of searches."""
        from triptych.answers.context import ContextBuilder
        from triptych.answers.retrieval import ContextParameters

        store, recipe = self.store, self.options.context or ContextParameters()
        return ContextBuilder(self.searches, store.documents, store.chunks, recipe)

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
    embedders = (options.embedder, options.next_embedder)
    chunk: list[Retriever] = [BM25Retriever(chunks), VectorRetriever(chunks, *embedders)]
    document: list[Retriever] = []
    if whole is not None:
        document = [DocumentBM25Retriever(whole), DocumentVectorRetriever(whole, *embedders)]
    if options.sparse_encoder is not None:
        chunk.append(SparseRetriever(chunks, options.sparse_encoder))
        if whole is not None:
            document.append(DocumentSparseRetriever(whole, options.sparse_encoder))
    return SearchEngine(
        chunk=chosen(*chunk, *options.retrievers),
        layer=chosen(
            LayerRetriever(layers, Mode.BM25), LayerRetriever(layers, Mode.VECTOR, *embedders)
        ),
        document=chosen(*document),
        ranker=options.ranker,
    )
