"""Triptych: a layered knowledge base that a Python program embeds.

Start with `open`, which gives a `Service`. Names are imported when they are first used, so
that ``import triptych`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych.aio import (
        AsyncService as AsyncService,
    )
    from triptych.chunking import (
        ChunkConfig as ChunkConfig,
    )
    from triptych.chunking import (
        ChunkerSet as ChunkerSet,
    )
    from triptych.chunking import (
        ChunkSpec as ChunkSpec,
    )
    from triptych.chunking import (
        DefaultChunker as DefaultChunker,
    )
    from triptych.chunking import (
        MarkdownChunker as MarkdownChunker,
    )
    from triptych.chunking import (
        chunk_config_sig as chunk_config_sig,
    )
    from triptych.chunking import (
        chunk_text as chunk_text,
    )
    from triptych.chunking import (
        default_chunkers as default_chunkers,
    )
    from triptych.contracts import (
        Chunker as Chunker,
    )
    from triptych.contracts import (
        ChunkRepo as ChunkRepo,
    )
    from triptych.contracts import (
        ChunkSigReader as ChunkSigReader,
    )
    from triptych.contracts import (
        CoverageEmbedder as CoverageEmbedder,
    )
    from triptych.contracts import (
        DocLevelSearcher as DocLevelSearcher,
    )
    from triptych.contracts import (
        DocumentRepo as DocumentRepo,
    )
    from triptych.contracts import (
        DocVectorSearcher as DocVectorSearcher,
    )
    from triptych.contracts import (
        Embedder as Embedder,
    )
    from triptych.contracts import (
        LayerRepo as LayerRepo,
    )
    from triptych.contracts import (
        Ranker as Ranker,
    )
    from triptych.contracts import (
        Rebuilder as Rebuilder,
    )
    from triptych.contracts import (
        Retriever as Retriever,
    )
    from triptych.dataset import (
        Dataset as Dataset,
    )
    from triptych.deadlines import (
        CancelScope as CancelScope,
    )
    from triptych.deadlines import (
        deadline as deadline,
    )
    from triptych.errors import (
        BudgetExceededError as BudgetExceededError,
    )
    from triptych.errors import (
        CancelledError as CancelledError,
    )
    from triptych.errors import (
        ConflictError as ConflictError,
    )
    from triptych.errors import (
        CorruptStoreError as CorruptStoreError,
    )
    from triptych.errors import (
        DerivationError as DerivationError,
    )
    from triptych.errors import (
        ModelMismatchError as ModelMismatchError,
    )
    from triptych.errors import (
        NotAvailableError as NotAvailableError,
    )
    from triptych.errors import (
        NotFoundError as NotFoundError,
    )
    from triptych.errors import (
        ProviderError as ProviderError,
    )
    from triptych.errors import (
        ProviderTimeoutError as ProviderTimeoutError,
    )
    from triptych.errors import (
        RateLimitedError as RateLimitedError,
    )
    from triptych.errors import (
        SchemaVersionError as SchemaVersionError,
    )
    from triptych.errors import (
        StoreError as StoreError,
    )
    from triptych.errors import (
        StoreLockedError as StoreLockedError,
    )
    from triptych.errors import (
        TriptychError as TriptychError,
    )
    from triptych.errors import (
        ValidationError as ValidationError,
    )
    from triptych.opening import (
        open as open,
    )
    from triptych.progress import (
        Progress as Progress,
    )
    from triptych.progress import (
        ProgressCallback as ProgressCallback,
    )
    from triptych.records import (
        Candidate as Candidate,
    )
    from triptych.records import (
        ChangeEvent as ChangeEvent,
    )
    from triptych.records import (
        ChunkQuery as ChunkQuery,
    )
    from triptych.records import (
        DatasetConfig as DatasetConfig,
    )
    from triptych.records import (
        DatasetContext as DatasetContext,
    )
    from triptych.records import (
        DatasetStats as DatasetStats,
    )
    from triptych.records import (
        DerivedChunk as DerivedChunk,
    )
    from triptych.records import (
        DerivedLayer as DerivedLayer,
    )
    from triptych.records import (
        DerivedSig as DerivedSig,
    )
    from triptych.records import (
        DocumentContext as DocumentContext,
    )
    from triptych.records import (
        DocumentInfo as DocumentInfo,
    )
    from triptych.records import (
        DocumentSummary as DocumentSummary,
    )
    from triptych.records import (
        EventKind as EventKind,
    )
    from triptych.records import (
        Failure as Failure,
    )
    from triptych.records import (
        Filter as Filter,
    )
    from triptych.records import (
        Found as Found,
    )
    from triptych.records import (
        Hit as Hit,
    )
    from triptych.records import (
        Layer as Layer,
    )
    from triptych.records import (
        LayerQuery as LayerQuery,
    )
    from triptych.records import (
        Mode as Mode,
    )
    from triptych.records import (
        NewDocument as NewDocument,
    )
    from triptych.records import (
        PutReport as PutReport,
    )
    from triptych.records import (
        Query as Query,
    )
    from triptych.records import (
        RebuildReport as RebuildReport,
    )
    from triptych.records import (
        RebuildScope as RebuildScope,
    )
    from triptych.records import (
        ResolvedQuery as ResolvedQuery,
    )
    from triptych.records import (
        Result as Result,
    )
    from triptych.records import (
        Scope as Scope,
    )
    from triptych.records import (
        SourceDocument as SourceDocument,
    )
    from triptych.search.engine import (
        SearchEngine as SearchEngine,
    )
    from triptych.search.rankers import (
        DEFAULT_RRF_K as DEFAULT_RRF_K,
    )
    from triptych.search.rankers import (
        RRFRanker as RRFRanker,
    )
    from triptych.search.rankers import (
        WeightedRanker as WeightedRanker,
    )
    from triptych.search.retrievers import (
        BM25Retriever as BM25Retriever,
    )
    from triptych.search.retrievers import (
        LayerRetriever as LayerRetriever,
    )
    from triptych.search.retrievers import (
        VectorRetriever as VectorRetriever,
    )
    from triptych.service import (
        Service as Service,
    )
    from triptych.service import (
        ServiceOptions as ServiceOptions,
    )
    from triptych.text import (
        CJKTokenizer as CJKTokenizer,
    )
    from triptych.text import (
        CorpusStats as CorpusStats,
    )
    from triptych.text import (
        SimpleTokenizer as SimpleTokenizer,
    )
    from triptych.text import (
        Tokenizer as Tokenizer,
    )
    from triptych.text import (
        corpus_stats as corpus_stats,
    )
    from triptych.text import (
        detect_tokenizer as detect_tokenizer,
    )
    from triptych.text import (
        extract_keywords as extract_keywords,
    )
    from triptych.text import (
        score_text as score_text,
    )
    from triptych.vectors import (
        cosine_similarity as cosine_similarity,
    )

__version__ = "0.1.0"

_HOMES = {
    "aio": "AsyncService",
    "chunking": (
        "ChunkConfig ChunkSpec ChunkerSet DefaultChunker MarkdownChunker chunk_config_sig "
        "chunk_text default_chunkers"
    ),
    "contracts": (
        "ChunkRepo ChunkSigReader Chunker CoverageEmbedder DocLevelSearcher "
        "DocVectorSearcher DocumentRepo Embedder LayerRepo Ranker Rebuilder Retriever"
    ),
    "dataset": "Dataset",
    "deadlines": "CancelScope deadline",
    "errors": (
        "BudgetExceededError CancelledError ConflictError CorruptStoreError "
        "DerivationError ModelMismatchError NotAvailableError NotFoundError ProviderError "
        "ProviderTimeoutError RateLimitedError SchemaVersionError StoreError "
        "StoreLockedError TriptychError ValidationError"
    ),
    "opening": "open",
    "progress": "Progress ProgressCallback",
    "records": (
        "Candidate ChangeEvent ChunkQuery DatasetConfig DatasetContext DatasetStats "
        "DerivedChunk DerivedLayer DerivedSig DocumentContext DocumentInfo "
        "DocumentSummary EventKind Failure Filter Found Hit Layer LayerQuery Mode "
        "NewDocument PutReport Query RebuildReport RebuildScope ResolvedQuery Result "
        "Scope SourceDocument"
    ),
    "search.engine": "SearchEngine",
    "search.rankers": "DEFAULT_RRF_K RRFRanker WeightedRanker",
    "search.retrievers": "BM25Retriever LayerRetriever VectorRetriever",
    "service": "Service ServiceOptions",
    "text": (
        "CJKTokenizer CorpusStats SimpleTokenizer Tokenizer corpus_stats detect_tokenizer "
        "extract_keywords score_text"
    ),
    "vectors": "cosine_similarity",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "DEFAULT_RRF_K",
    "AsyncService",
    "BM25Retriever",
    "BudgetExceededError",
    "CJKTokenizer",
    "CancelScope",
    "CancelledError",
    "Candidate",
    "ChangeEvent",
    "ChunkConfig",
    "ChunkQuery",
    "ChunkRepo",
    "ChunkSigReader",
    "ChunkSpec",
    "Chunker",
    "ChunkerSet",
    "ConflictError",
    "CorpusStats",
    "CorruptStoreError",
    "CoverageEmbedder",
    "Dataset",
    "DatasetConfig",
    "DatasetContext",
    "DatasetStats",
    "DefaultChunker",
    "DerivationError",
    "DerivedChunk",
    "DerivedLayer",
    "DerivedSig",
    "DocLevelSearcher",
    "DocVectorSearcher",
    "DocumentContext",
    "DocumentInfo",
    "DocumentRepo",
    "DocumentSummary",
    "Embedder",
    "EventKind",
    "Failure",
    "Filter",
    "Found",
    "Hit",
    "Layer",
    "LayerQuery",
    "LayerRepo",
    "LayerRetriever",
    "MarkdownChunker",
    "Mode",
    "ModelMismatchError",
    "NewDocument",
    "NotAvailableError",
    "NotFoundError",
    "Progress",
    "ProgressCallback",
    "ProviderError",
    "ProviderTimeoutError",
    "PutReport",
    "Query",
    "RRFRanker",
    "Ranker",
    "RateLimitedError",
    "RebuildReport",
    "RebuildScope",
    "Rebuilder",
    "ResolvedQuery",
    "Result",
    "Retriever",
    "SchemaVersionError",
    "Scope",
    "SearchEngine",
    "Service",
    "ServiceOptions",
    "SimpleTokenizer",
    "SourceDocument",
    "StoreError",
    "StoreLockedError",
    "Tokenizer",
    "TriptychError",
    "ValidationError",
    "VectorRetriever",
    "WeightedRanker",
    "chunk_config_sig",
    "chunk_text",
    "corpus_stats",
    "cosine_similarity",
    "deadline",
    "default_chunkers",
    "detect_tokenizer",
    "extract_keywords",
    "open",
    "score_text",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'triptych' has no attribute {name!r}")
    value = getattr(import_module(f"triptych.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
