"""The objects that a Service uses, created for one store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from triptych.contracts import Capabilities, Postprocessor, QueryRewriter, Retriever, Store
from triptych.derivation.deriver import Deriver
from triptych.derivation.living_documents import LivingDocuments, VersionHistory, living_stats
from triptych.errors import NotAvailableError
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


@attrs.frozen
class SearchParts:
    """One way to search: its engine, its pipeline, and the cache in front of it (None without)."""

    engine: SearchEngine
    uncached: SearchPipeline
    cached: CachedSearches | None

    def close(self) -> None:
        """End the threads."""
        self.engine.close()
        if self.cached is not None:
            self.cached.close()


class Parts:
    """The objects that a Service uses. Those that only some calls need are imported and created at
    first use: most programs only search, and commands start faster.

    ``caller`` identifies the caller, for keys of the semantic cache.
    """

    def __init__(
        self,
        store: Store,
        options: ServiceOptions,
        *,
        caller: Sequence[object] = (),
    ) -> None:
        """Raises NotAvailableError: ``options`` has a sparse encoder, but the store keeps no sparse
        vectors."""
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
            can.leases,
            options.sparse_encoder,
            options.executor,
            options.next_embedder,
            can.settings,
        )
        self.engine: SearchEngine = _engine(store, can, options)
        self.judge: ResultJudge = ResultJudge(store.chunks, can.settings, can.document_search)

    def past(self) -> PastStores:
        """The builder of stores as of a past moment."""
        if self._past is None:
            from triptych.search.past.stores import PastStores

            given = self.store, self.capabilities.versions, self.deriver, self.options.scratch
            with self._making:
                self._past = self._past or PastStores(*given)
        return self._past

    def close(self) -> None:
        """Close the stores of the past."""
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

    def contexts(self, searches: SearchPipeline) -> ContextBuilder:
        """Builds contexts from the hits of ``searches``."""
        from triptych.answers.context import ContextBuilder
        from triptych.answers.retrieval import ContextParameters

        store, recipe = self.store, self.options.context or ContextParameters()
        return ContextBuilder(searches, store.documents, store.chunks, recipe)

    def answerer(self, searches: SearchPipeline) -> Answerer:
        """Answers questions from the hits of ``searches``."""
        from triptych.answers.answerer import Answerer

        return Answerer(self.contexts(searches), self.options.observer)


def _engine(store: Store, can: Capabilities, options: ServiceOptions) -> SearchEngine:
    """The built-in lanes; the vector lanes exist without an embedder too, to raise a clear
    error."""
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
        chunk=[*chunk, *options.retrievers],
        layer=[LayerRetriever(layers, Mode.BM25), LayerRetriever(layers, Mode.VECTOR, *embedders)],
        document=document,
        ranker=options.ranker,
    )


def build_search(
    parts: Parts,
    engine: SearchEngine,
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
    postprocessors: Sequence[Postprocessor],
) -> SearchParts:
    """Create the objects of one way to search.

    Raises:
        ValidationError: a lane has no signature, which the semantic cache needs.
        NotAvailableError: a semantic cache is configured, but the store keeps no answers.
    """
    options, can = parts.options, parts.capabilities
    searches = SearchPipeline(
        store=parts.store,
        living=parts.living,
        capabilities=can,
        engine=engine,
        derivation=parts.deriver,
        rewriter=one_rewriter(rewriter),
        postprocessors=(KeywordBoost(), *postprocessors),
        locate=options.locate,
        past_stores=parts.past,
        judge=parts.judge,
        observer=options.observer,
    )
    if options.semantic_cache is None:
        return SearchParts(engine, searches, None)
    if can.answers is None:
        raise NotAvailableError(
            "this store does not cache results of searches: leave semantic_cache out"
        )
    # Here, for most programs have no cache, and a command starts sooner.
    from triptych.search.cache_options import check_lanes, own_lanes
    from triptych.search.semantic_cache import CachedSearches

    check_lanes(engine.retrievers)
    decisive = (
        options.embedder,
        options.next_embedder,
        options.sparse_encoder,
        engine.ranker,
        engine.lanes,
        own_lanes(engine.retrievers),
        rewriters_of(rewriter),
        tuple(postprocessors),
        *parts.caller,
    )
    cached = CachedSearches(
        searches,
        parts.store,
        can.answers,
        searches.resolver,
        parts.deriver,
        options.semantic_cache,
        decisive,
        options.locate,
    )
    return SearchParts(engine, searches, cached)
