"""The public names of Triptych, each with the module that defines it."""

from triptych._internal.progress import Progress as Progress, ProgressCallback as ProgressCallback
from triptych._open import open as open
from triptych.aio import (
    AsyncDataset as AsyncDataset,
    AsyncService as AsyncService,
)
from triptych.answers import (
    Answer as Answer,
    AnswerPrompt as AnswerPrompt,
    AnswerStream as AnswerStream,
    Citation as Citation,
    ContextPack as ContextPack,
)
from triptych.chunking import ChunkConfig as ChunkConfig
from triptych.contracts import LLM as LLM, Embedder as Embedder, Store as Store
from triptych.deadlines import deadline as deadline
from triptych.errors import (
    CancelledError as CancelledError,
    ConflictError as ConflictError,
    DerivationError as DerivationError,
    ModelMismatchError as ModelMismatchError,
    NotAvailableError as NotAvailableError,
    NotFoundError as NotFoundError,
    ProviderError as ProviderError,
    StoreError as StoreError,
    TriptychError as TriptychError,
    ValidationError as ValidationError,
)
from triptych.events import EventReloader as EventReloader
from triptych.layers.builder.builder import LayerBuilder as LayerBuilder
from triptych.records import (
    ChangePage as ChangePage,
    DatasetStats as DatasetStats,
    DerivedLayer as DerivedLayer,
    DocumentInfo as DocumentInfo,
    Failure as Failure,
    Generation as Generation,
    Hit as Hit,
    Layer as Layer,
    Message as Message,
    Mode as Mode,
    NewDocument as NewDocument,
    PutReport as PutReport,
    Query as Query,
    RebuildReport as RebuildReport,
    RebuildScope as RebuildScope,
    Result as Result,
    Scope as Scope,
    SourceDocument as SourceDocument,
)
from triptych.search.fusion import RRFRanker as RRFRanker
from triptych.search.reranking import Rerank as Rerank
from triptych.search.result_formats import (
    format_json as format_json,
    format_text as format_text,
    format_xml as format_xml,
)
from triptych.service import (
    KnowledgeBase as KnowledgeBase,
    Service as Service,
    ServiceOptions as ServiceOptions,
)
from triptych.service.knowledge_base import Dataset as Dataset
from triptych.service.options import OpenOptions as OpenOptions
from triptych.shortcuts import (
    ingest_directory as ingest_directory,
    ingest_file as ingest_file,
    query_context as query_context,
)
from triptych.sync import (
    DirectorySync as DirectorySync,
    SyncOptions as SyncOptions,
    SyncRoot as SyncRoot,
)

__version__: str
