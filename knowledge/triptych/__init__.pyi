"""The public names of Triptych, each with the module that defines it."""

from triptych._internal.progress import Progress as Progress, ProgressCallback as ProgressCallback
from triptych._open import open as open
from triptych.access.records import Access as Access
from triptych.aio import (
    AsyncDataset as AsyncDataset,
    AsyncPipeline as AsyncPipeline,
    AsyncService as AsyncService,
)
from triptych.answering import (
    Answer as Answer,
    AnswerPrompt as AnswerPrompt,
    AnswerReceipt as AnswerReceipt,
    AnswerStream as AnswerStream,
    Replay as Replay,
)
from triptych.answering.options import AskOptions as AskOptions
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
from triptych.context.options import ContextOptions as ContextOptions
from triptych.contracts import (
    LLM as LLM,
    AnswerabilityJudge as AnswerabilityJudge,
    AnswerCache as AnswerCache,
    Capabilities as Capabilities,
    ChangeReader as ChangeReader,
    Chunker as Chunker,
    ChunkRepo as ChunkRepo,
    ChunkSigReader as ChunkSigReader,
    CoverageEmbedder as CoverageEmbedder,
    Diagnostics as Diagnostics,
    DocLevelSearcher as DocLevelSearcher,
    DocumentRepo as DocumentRepo,
    DocVectorSearcher as DocVectorSearcher,
    Embedder as Embedder,
    EventNotifier as EventNotifier,
    HitReader as HitReader,
    LayerJournal as LayerJournal,
    LayerRepo as LayerRepo,
    Postprocessor as Postprocessor,
    ProbingRewriter as ProbingRewriter,
    QueryProbe as QueryProbe,
    QueryRewriter as QueryRewriter,
    Ranker as Ranker,
    Rebuilder as Rebuilder,
    Reranker as Reranker,
    Retriever as Retriever,
    SecureEraser as SecureEraser,
    SparseEncoder as SparseEncoder,
    SparseRepo as SparseRepo,
    Store as Store,
    VersionReader as VersionReader,
    WeightsVerifier as WeightsVerifier,
)
from triptych.deadlines import CancelScope as CancelScope, deadline as deadline
from triptych.errors import (
    AccessDeniedError as AccessDeniedError,
    AuthenticationError as AuthenticationError,
    BudgetExceededError as BudgetExceededError,
    CancelledError as CancelledError,
    ConflictError as ConflictError,
    CorruptStoreError as CorruptStoreError,
    DeletionHeldError as DeletionHeldError,
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
    TooManyRequestsError as TooManyRequestsError,
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
from triptych.layers.builder import (
    LayerBuilder as LayerBuilder,
    LayerPlan as LayerPlan,
    LayerPrompts as LayerPrompts,
    LayerReport as LayerReport,
    PlannedLayer as PlannedLayer,
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
from triptych.records import (
    CacheStats as CacheStats,
    Candidate as Candidate,
    Candidates as Candidates,
    ChangeEvent as ChangeEvent,
    ChangePage as ChangePage,
    ChunkQuery as ChunkQuery,
    DatasetConfig as DatasetConfig,
    DatasetContext as DatasetContext,
    DatasetStats as DatasetStats,
    DerivedChunk as DerivedChunk,
    DerivedLayer as DerivedLayer,
    DerivedSig as DerivedSig,
    DoctorReport as DoctorReport,
    DocumentChange as DocumentChange,
    DocumentContext as DocumentContext,
    DocumentInfo as DocumentInfo,
    DocumentSummary as DocumentSummary,
    EmbeddingSpace as EmbeddingSpace,
    EmbedReport as EmbedReport,
    EventKind as EventKind,
    Failure as Failure,
    Filter as Filter,
    Finding as Finding,
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
    Prices as Prices,
    PutReport as PutReport,
    QuarantinedLayer as QuarantinedLayer,
    Query as Query,
    QueryVariant as QueryVariant,
    RankedList as RankedList,
    RebuildReport as RebuildReport,
    RebuildScope as RebuildScope,
    ResolvedQuery as ResolvedQuery,
    Result as Result,
    Rewriting as Rewriting,
    Scope as Scope,
    SearchOptions as SearchOptions,
    SourceDocument as SourceDocument,
    SparseQuery as SparseQuery,
    SparseSpace as SparseSpace,
    SparseVector as SparseVector,
    StoredUnit as StoredUnit,
    Usage as Usage,
    is_valid_layer as is_valid_layer,
    is_valid_mode as is_valid_mode,
)
from triptych.records.vectors import cosine_similarity as cosine_similarity
from triptych.repositories import Repositories as Repositories
from triptych.search.cache_options import SemanticCache as SemanticCache
from triptych.search.diversity import MMR as MMR, NearDuplicates as NearDuplicates
from triptych.search.engine import SearchEngine as SearchEngine
from triptych.search.expansion import Neighbours as Neighbours, Parents as Parents
from triptych.search.fusion import (
    DEFAULT_RRF_K as DEFAULT_RRF_K,
    RRFRanker as RRFRanker,
    WeightedRanker as WeightedRanker,
    ZScoreRanker as ZScoreRanker,
)
from triptych.search.model_steps import ChunkFilter as ChunkFilter, LLMReranker as LLMReranker
from triptych.search.pipeline_record import Pipeline as Pipeline
from triptych.search.postprocessing import (
    KeywordBoost as KeywordBoost,
    PerDocument as PerDocument,
)
from triptych.search.query import (
    DEFAULT_THRESHOLD as DEFAULT_THRESHOLD,
    resolve_mode as resolve_mode,
)
from triptych.search.reranking import Rerank as Rerank
from triptych.search.result_formats import (
    format_json as format_json,
    format_text as format_text,
    format_xml as format_xml,
)
from triptych.search.retrievers import (
    BM25Retriever as BM25Retriever,
    LayerRetriever as LayerRetriever,
    VectorRetriever as VectorRetriever,
)
from triptych.search.rewriters.chain import ChainRewriter as ChainRewriter
from triptych.search.rewriters.follow_up import (
    FollowUpRewriter as FollowUpRewriter,
    make_standalone as make_standalone,
)
from triptych.search.rewriters.fragments import FragmentRewriter as FragmentRewriter
from triptych.search.rewriters.hyde import HyDE as HyDE
from triptych.search.rewriters.paraphrase import ParaphraseRewriter as ParaphraseRewriter
from triptych.search.sparse_retrievers import SparseRetriever as SparseRetriever
from triptych.service import Service as Service, ServiceOptions as ServiceOptions
from triptych.service.dataset import Dataset as Dataset
from triptych.service.pipeline import PipelineView as PipelineView
from triptych.service_options import OpenOptions as OpenOptions
from triptych.shortcuts import (
    IngestReport as IngestReport,
    ingest_directory as ingest_directory,
    ingest_file as ingest_file,
    query_context as query_context,
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

__all__ = [
    "LLM",
    "Answer",
    "AnswerPrompt",
    "AnswerStream",
    "AsyncDataset",
    "AsyncPipeline",
    "AsyncService",
    "CancelledError",
    "ChangePage",
    "ChunkConfig",
    "Citation",
    "ConflictError",
    "ContextPack",
    "Dataset",
    "DatasetStats",
    "DerivationError",
    "DerivedLayer",
    "DirectorySync",
    "DocumentInfo",
    "Embedder",
    "EventReloader",
    "Failure",
    "Generation",
    "Hit",
    "Layer",
    "LayerBuilder",
    "Message",
    "Mode",
    "ModelMismatchError",
    "NewDocument",
    "NotAvailableError",
    "NotFoundError",
    "Progress",
    "ProviderError",
    "PutReport",
    "Query",
    "RRFRanker",
    "RebuildReport",
    "RebuildScope",
    "Rerank",
    "Result",
    "Scope",
    "Service",
    "ServiceOptions",
    "SourceDocument",
    "Store",
    "StoreError",
    "SyncOptions",
    "SyncRoot",
    "TriptychError",
    "ValidationError",
    "deadline",
    "format_json",
    "format_text",
    "format_xml",
    "ingest_directory",
    "ingest_file",
    "open",
    "query_context",
]

__version__: str
