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
    from triptych.categories import (
        category as category,
    )
    from triptych.chunking import (
        ChunkConfig as ChunkConfig,
        ChunkerSet as ChunkerSet,
        ChunkSpec as ChunkSpec,
        DefaultChunker as DefaultChunker,
        FixedWindowChunker as FixedWindowChunker,
        MarkdownChunker as MarkdownChunker,
        SentenceWindowChunker as SentenceWindowChunker,
        chunk_config_sig as chunk_config_sig,
        chunk_text as chunk_text,
        default_chunkers as default_chunkers,
    )
    from triptych.context import (
        Citation as Citation,
        ContextPack as ContextPack,
        Piece as Piece,
        TokenCounter as TokenCounter,
        Verification as Verification,
    )
    from triptych.contracts import (
        LLM as LLM,
        Chunker as Chunker,
        ChunkRepo as ChunkRepo,
        ChunkSigReader as ChunkSigReader,
        CoverageEmbedder as CoverageEmbedder,
        DocLevelSearcher as DocLevelSearcher,
        DocumentRepo as DocumentRepo,
        DocVectorSearcher as DocVectorSearcher,
        Embedder as Embedder,
        EventNotifier as EventNotifier,
        Examiner as Examiner,
        LayerJournal as LayerJournal,
        LayerPager as LayerPager,
        LayerRepo as LayerRepo,
        Ranker as Ranker,
        Rebuilder as Rebuilder,
        Retriever as Retriever,
        VersionReader as VersionReader,
        WeightsVerifier as WeightsVerifier,
    )
    from triptych.dataset import (
        Dataset as Dataset,
    )
    from triptych.deadlines import (
        CancelScope as CancelScope,
        deadline as deadline,
    )
    from triptych.errors import (
        BudgetExceededError as BudgetExceededError,
        CancelledError as CancelledError,
        ConflictError as ConflictError,
        CorruptStoreError as CorruptStoreError,
        DerivationError as DerivationError,
        ModelMismatchError as ModelMismatchError,
        NotAvailableError as NotAvailableError,
        NotFoundError as NotFoundError,
        ParseError as ParseError,
        ProviderError as ProviderError,
        ProviderSetupError as ProviderSetupError,
        ProviderTimeoutError as ProviderTimeoutError,
        RateLimitedError as RateLimitedError,
        SchemaVersionError as SchemaVersionError,
        StoreError as StoreError,
        StoreLockedError as StoreLockedError,
        TriptychError as TriptychError,
        UnusableAnswerError as UnusableAnswerError,
        ValidationError as ValidationError,
    )
    from triptych.events import (
        EventReloader as EventReloader,
        QueueNotifier as QueueNotifier,
        RebuildRecord as RebuildRecord,
        ReloaderOptions as ReloaderOptions,
    )
    from triptych.formats import (
        format_json as format_json,
        format_text as format_text,
        format_xml as format_xml,
    )
    from triptych.helpers import (
        IngestReport as IngestReport,
        ingest_directory as ingest_directory,
        ingest_file as ingest_file,
        query_context as query_context,
    )
    from triptych.layers.building import (
        LayerBuilder as LayerBuilder,
        LayerPlan as LayerPlan,
        LayerPrompts as LayerPrompts,
        LayerReport as LayerReport,
        PlannedLayer as PlannedLayer,
        Prices as Prices,
    )
    from triptych.layers.generation import (
        generate_dataset_context as generate_dataset_context,
        generate_document_context as generate_document_context,
    )
    from triptych.layers.prompts import (
        ABSTRACT_PROMPT as ABSTRACT_PROMPT,
        DATASET_ABSTRACT_PROMPT as DATASET_ABSTRACT_PROMPT,
        DATASET_OVERVIEW_PROMPT as DATASET_OVERVIEW_PROMPT,
        DEFAULT_PROMPT_INPUT_LIMIT as DEFAULT_PROMPT_INPUT_LIMIT,
        OVERVIEW_PROMPT as OVERVIEW_PROMPT,
    )
    from triptych.opening import (
        open as open,
    )
    from triptych.progress import (
        Progress as Progress,
        ProgressCallback as ProgressCallback,
    )
    from triptych.records import (
        Candidate as Candidate,
        Candidates as Candidates,
        ChangeEvent as ChangeEvent,
        ChunkQuery as ChunkQuery,
        DatasetConfig as DatasetConfig,
        DatasetContext as DatasetContext,
        DatasetStats as DatasetStats,
        DerivedChunk as DerivedChunk,
        DerivedLayer as DerivedLayer,
        DerivedSig as DerivedSig,
        DoctorReport as DoctorReport,
        DocumentContext as DocumentContext,
        DocumentInfo as DocumentInfo,
        DocumentSummary as DocumentSummary,
        EmbeddingSpace as EmbeddingSpace,
        EventKind as EventKind,
        Failure as Failure,
        Filter as Filter,
        Finding as Finding,
        Found as Found,
        Generation as Generation,
        Health as Health,
        HealthCheck as HealthCheck,
        Hit as Hit,
        Layer as Layer,
        LayerQuery as LayerQuery,
        Message as Message,
        Mode as Mode,
        ModelUsage as ModelUsage,
        NewDocument as NewDocument,
        ParkedLayer as ParkedLayer,
        PutReport as PutReport,
        Query as Query,
        RebuildReport as RebuildReport,
        RebuildScope as RebuildScope,
        ResolvedQuery as ResolvedQuery,
        Result as Result,
        Scope as Scope,
        SourceDocument as SourceDocument,
        Usage as Usage,
        is_valid_layer as is_valid_layer,
        is_valid_mode as is_valid_mode,
    )
    from triptych.search.engine import (
        SearchEngine as SearchEngine,
    )
    from triptych.search.rankers import (
        DEFAULT_RRF_K as DEFAULT_RRF_K,
        RRFRanker as RRFRanker,
        WeightedRanker as WeightedRanker,
    )
    from triptych.search.resolution import (
        DEFAULT_THRESHOLD as DEFAULT_THRESHOLD,
        resolve_mode as resolve_mode,
    )
    from triptych.search.retrievers import (
        BM25Retriever as BM25Retriever,
        LayerRetriever as LayerRetriever,
        VectorRetriever as VectorRetriever,
    )
    from triptych.service import (
        Service as Service,
        ServiceOptions as ServiceOptions,
    )
    from triptych.sync import (
        DirectorySync as DirectorySync,
        SyncOptions as SyncOptions,
        SyncReport as SyncReport,
        SyncRoot as SyncRoot,
    )
    from triptych.text import (
        CJKTokenizer as CJKTokenizer,
        CorpusStats as CorpusStats,
        SimpleTokenizer as SimpleTokenizer,
        Tokenizer as Tokenizer,
        corpus_stats as corpus_stats,
        detect_tokenizer as detect_tokenizer,
        extract_keywords as extract_keywords,
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
        "chunk_text default_chunkers FixedWindowChunker SentenceWindowChunker"
    ),
    "context": "Citation ContextPack Piece TokenCounter Verification",
    "contracts": (
        "ChunkRepo ChunkSigReader Chunker CoverageEmbedder DocLevelSearcher "
        "DocVectorSearcher DocumentRepo Embedder LLM LayerJournal LayerPager LayerRepo Ranker "
        "Rebuilder Retriever EventNotifier Examiner VersionReader WeightsVerifier"
    ),
    "dataset": "Dataset",
    "deadlines": "CancelScope deadline",
    "errors": (
        "BudgetExceededError CancelledError ConflictError CorruptStoreError "
        "DerivationError ModelMismatchError NotAvailableError NotFoundError ParseError "
        "ProviderError ProviderTimeoutError RateLimitedError SchemaVersionError StoreError "
        "UnusableAnswerError ProviderSetupError "
        "StoreLockedError TriptychError ValidationError"
    ),
    "opening": "open",
    "progress": "Progress ProgressCallback",
    "records": (
        "Candidate Candidates ChangeEvent ChunkQuery DatasetConfig DatasetContext "
        "DatasetStats DerivedChunk DerivedLayer DerivedSig DocumentContext DocumentInfo "
        "DocumentSummary EmbeddingSpace EventKind Failure Filter Found Generation Health "
        "HealthCheck Hit Layer LayerQuery Message Mode NewDocument PutReport Query RebuildReport "
        "RebuildScope ResolvedQuery Result Scope SourceDocument "
        "Usage is_valid_layer is_valid_mode ModelUsage ParkedLayer "
        "DoctorReport Finding"
    ),
    "search.engine": "SearchEngine",
    "search.rankers": "DEFAULT_RRF_K RRFRanker WeightedRanker",
    "search.resolution": "DEFAULT_THRESHOLD resolve_mode",
    "search.retrievers": "BM25Retriever LayerRetriever VectorRetriever",
    "service": "Service ServiceOptions",
    "sync": "DirectorySync SyncOptions SyncReport SyncRoot",
    "text": (
        "CJKTokenizer CorpusStats SimpleTokenizer Tokenizer corpus_stats detect_tokenizer "
        "extract_keywords score_text"
    ),
    "categories": "category",
    "events": "EventReloader QueueNotifier RebuildRecord ReloaderOptions",
    "formats": "format_json format_text format_xml",
    "helpers": "IngestReport ingest_directory ingest_file query_context",
    "layers.building": "LayerBuilder LayerPlan LayerPrompts LayerReport PlannedLayer Prices",
    "layers.generation": "generate_dataset_context generate_document_context",
    "layers.prompts": (
        "ABSTRACT_PROMPT DATASET_ABSTRACT_PROMPT DATASET_OVERVIEW_PROMPT "
        "DEFAULT_PROMPT_INPUT_LIMIT OVERVIEW_PROMPT"
    ),
    "vectors": "cosine_similarity",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "ABSTRACT_PROMPT",
    "DATASET_ABSTRACT_PROMPT",
    "DATASET_OVERVIEW_PROMPT",
    "DEFAULT_PROMPT_INPUT_LIMIT",
    "DEFAULT_RRF_K",
    "DEFAULT_THRESHOLD",
    "LLM",
    "OVERVIEW_PROMPT",
    "AsyncService",
    "BM25Retriever",
    "BudgetExceededError",
    "CJKTokenizer",
    "CancelScope",
    "CancelledError",
    "Candidate",
    "Candidates",
    "ChangeEvent",
    "ChunkConfig",
    "ChunkQuery",
    "ChunkRepo",
    "ChunkSigReader",
    "ChunkSpec",
    "Chunker",
    "ChunkerSet",
    "Citation",
    "ConflictError",
    "ContextPack",
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
    "DirectorySync",
    "DocLevelSearcher",
    "DocVectorSearcher",
    "DoctorReport",
    "DocumentContext",
    "DocumentInfo",
    "DocumentRepo",
    "DocumentSummary",
    "Embedder",
    "EmbeddingSpace",
    "EventKind",
    "EventNotifier",
    "EventReloader",
    "Examiner",
    "Failure",
    "Filter",
    "Finding",
    "FixedWindowChunker",
    "Found",
    "Generation",
    "Health",
    "HealthCheck",
    "Hit",
    "IngestReport",
    "Layer",
    "LayerBuilder",
    "LayerJournal",
    "LayerPager",
    "LayerPlan",
    "LayerPrompts",
    "LayerQuery",
    "LayerRepo",
    "LayerReport",
    "LayerRetriever",
    "MarkdownChunker",
    "Message",
    "Mode",
    "ModelMismatchError",
    "ModelUsage",
    "NewDocument",
    "NotAvailableError",
    "NotFoundError",
    "ParkedLayer",
    "ParseError",
    "Piece",
    "PlannedLayer",
    "Prices",
    "Progress",
    "ProgressCallback",
    "ProviderError",
    "ProviderSetupError",
    "ProviderTimeoutError",
    "PutReport",
    "Query",
    "QueueNotifier",
    "RRFRanker",
    "Ranker",
    "RateLimitedError",
    "RebuildRecord",
    "RebuildReport",
    "RebuildScope",
    "Rebuilder",
    "ReloaderOptions",
    "ResolvedQuery",
    "Result",
    "Retriever",
    "SchemaVersionError",
    "Scope",
    "SearchEngine",
    "SentenceWindowChunker",
    "Service",
    "ServiceOptions",
    "SimpleTokenizer",
    "SourceDocument",
    "StoreError",
    "StoreLockedError",
    "SyncOptions",
    "SyncReport",
    "SyncRoot",
    "TokenCounter",
    "Tokenizer",
    "TriptychError",
    "UnusableAnswerError",
    "Usage",
    "ValidationError",
    "VectorRetriever",
    "Verification",
    "VersionReader",
    "WeightedRanker",
    "WeightsVerifier",
    "category",
    "chunk_config_sig",
    "chunk_text",
    "corpus_stats",
    "cosine_similarity",
    "deadline",
    "default_chunkers",
    "detect_tokenizer",
    "extract_keywords",
    "format_json",
    "format_text",
    "format_xml",
    "generate_dataset_context",
    "generate_document_context",
    "ingest_directory",
    "ingest_file",
    "is_valid_layer",
    "is_valid_mode",
    "open",
    "query_context",
    "resolve_mode",
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
