"""What a Service works with, wired over one store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from triptych.contracts import Capabilities, Postprocessor, QueryRewriter, Store
from triptych.derivation.deriver import Deriver
from triptych.derivation.expiration import LivingDocuments
from triptych.derivation.layers import LayerService
from triptych.derivation.management import DocumentManager
from triptych.derivation.pending_datasets import PendingEmbedder
from triptych.derivation.rebuild import RebuildRunner
from triptych.derivation.versions import VersionHistory
from triptych.derivation.writer import Writer
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import DatasetStats, Mode
from triptych.search.answerability import ResultJudge
from triptych.search.cache_options import check_lanes, own_lanes
from triptych.search.engine import SearchEngine
from triptych.search.past.stores import PastStores
from triptych.search.pipeline import SearchPipeline
from triptych.search.postprocessing import KeywordBoost
from triptych.search.question_log import QuestionLog
from triptych.search.retrievers import (
    BM25Retriever,
    DocumentBM25Retriever,
    DocumentSparseRetriever,
    DocumentVectorRetriever,
    LayerRetriever,
    SparseRetriever,
    VectorRetriever,
)
from triptych.search.rewriting import one_rewriter, rewriters_of
from triptych.service.options import ServiceOptions
from triptych.vectors.sparse_encoding import check_keeps_sparse
from triptych.vectors.waiting import living_stats

if TYPE_CHECKING:
    from triptych.answers.answerer import Answerer
    from triptych.answers.context import ContextBuilder
    from triptych.search.semantic_cache import CachedSearches


@attrs.frozen
class SearchParts:
    """One way to search: the engine, what every search goes through, and the cache before it."""

    engine: SearchEngine
    uncached: SearchPipeline
    cached: CachedSearches | None

    @property
    def first(self) -> SearchPipeline | CachedSearches:
        """What a search is asked of."""
        return self.cached or self.uncached

    def close(self) -> None:
        """Let the threads end."""
        self.engine.close()
        if self.cached is not None:
            self.cached.close()


@attrs.frozen(kw_only=True)
class Parts:
    """What a Service works with: see `build`.

    ``caller`` decides an answer beside the configuration: who asks.
    """

    store: Store
    options: ServiceOptions
    capabilities: Capabilities
    caller: Sequence[object]
    log: QuestionLog
    living: LivingDocuments
    deriver: Deriver
    engine: SearchEngine
    past: PastStores
    judge: ResultJudge
    writer: Writer
    manager: DocumentManager
    layers: LayerService
    history: VersionHistory
    rebuilds: RebuildRunner
    embeddings: PendingEmbedder
    stats: Callable[[str], DatasetStats | None]

    def contexts(self, searches: SearchPipeline) -> ContextBuilder:
        """What makes contexts of what ``searches`` find."""
        # Here, as in `answerer`: most programs search only, and a command starts sooner.
        from triptych.answers.context import ContextBuilder

        store = self.store
        return ContextBuilder(searches, store.documents, store.chunks, self.options.context)

    def answerer(self, searches: SearchPipeline) -> Answerer:
        """What answers questions from what ``searches`` find."""
        from triptych.answers.answerer import Answerer

        return Answerer(self.contexts(searches))


def build(
    store: Store,
    options: ServiceOptions,
    engine: SearchEngine | None = None,
    *,
    log: QuestionLog | None = None,
    caller: Sequence[object] = (),
) -> Parts:
    """Wire everything that a Service over ``store`` works with.

    ``engine`` None builds the lanes that ship, and ``log`` None keeps questions in the store.

    Raises:
        ValidationError: ``engine`` is given, and ``options`` has a ranker or retrievers.
        NotAvailableError: ``options`` has a sparse encoder, and the store keeps no sparse vectors.
    """
    for name in ("ranker", "retrievers"):
        if engine is not None and getattr(options, name):
            raise ValidationError(
                f"the options have {name}, and the engine has its own: give the {name} to "
                "the SearchEngine, or leave the engine out"
            )
    can = store.capabilities
    log = QuestionLog(can.settings) if log is None else log
    documents, chunks = store.documents, store.chunks
    check_keeps_sparse(can.sparse, options.sparse_encoder)
    deriver = Deriver(
        chunks,
        options.chunkers,
        options.embedder,
        options.embed_concurrency,
        can.leases,
        options.sparse_encoder,
        options.executor,
        options.next_embedder,
    )
    writer = Writer(documents, chunks, deriver, options.language, options.outliner)
    living = LivingDocuments(documents)
    layers = LayerService(living, chunks, store.layers, deriver, writer.check_config)
    stats = partial(_stats, store, deriver)
    return Parts(
        store=store,
        options=options,
        capabilities=can,
        caller=caller,
        log=log,
        living=living,
        deriver=deriver,
        engine=engine or _engine(store, can, options),
        past=PastStores(store, can.versions, deriver, options.scratch),
        judge=ResultJudge(
            chunks, can.settings, can.document_search, log if options.question_log else None
        ),
        writer=writer,
        manager=DocumentManager(living, chunks, writer),
        layers=layers,
        history=VersionHistory(can.versions, living),
        rebuilds=RebuildRunner(documents, chunks, store.layers, writer, layers),
        embeddings=PendingEmbedder(documents, chunks, deriver, writer, layers, stats),
        stats=stats,
    )


def _stats(store: Store, deriver: Deriver, dataset_id: str) -> DatasetStats | None:
    """What a dataset holds, by the embedder that serves it; None where there is no such dataset."""
    if deriver.next is not None:
        deriver = deriver.of_config(store.chunks.config(dataset_id))
    return living_stats(
        store, dataset_id, chunker_sig=deriver.chunker_sig, embed_sig=deriver.embed_sig
    )


def _engine(store: Store, can: Capabilities, options: ServiceOptions) -> SearchEngine:
    """The lanes that ship; those by vector are there even without an embedder, to say why not."""
    chunks, layers, embedders = (
        store.chunks,
        store.layers,
        (options.embedder, options.next_embedder),
    )
    whole = can.document_search
    encoder = options.sparse_encoder
    return SearchEngine(
        chunk=[
            BM25Retriever(chunks),
            VectorRetriever(chunks, *embedders),
            *([] if encoder is None else [SparseRetriever(chunks, encoder)]),
            *options.retrievers,
        ],
        layer=[
            LayerRetriever(layers, Mode.BM25),
            LayerRetriever(layers, Mode.VECTOR, *embedders),
        ],
        document=[
            *([] if whole is None else [DocumentBM25Retriever(whole)]),
            *([] if whole is None else [DocumentVectorRetriever(whole, *embedders)]),
            *(
                []
                if whole is None or encoder is None
                else [DocumentSparseRetriever(whole, encoder)]
            ),
        ],
        ranker=options.ranker,
    )


def build_search(
    parts: Parts,
    engine: SearchEngine,
    rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
    postprocessors: Sequence[Postprocessor],
) -> SearchParts:
    """Wire one way to search.

    Raises:
        ValidationError: a lane has no signature, which the semantic cache needs.
        NotAvailableError: there is to be a semantic cache, and the store keeps no answers.
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
    )
    if options.semantic_cache is None:
        return SearchParts(engine, searches, None)
    if can.answers is None:
        raise NotAvailableError("this store keeps no answers of searches: leave semantic_cache out")
    # Here, for most programs have no cache, and a command starts sooner.
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
