"""The names of `triptych.contracts`, each with the module that defines it."""

from triptych._internal.wording import (
    FailureWarning as FailureWarning,
    public_warning as public_warning,
)
from triptych.chunking.specs import Chunker as Chunker
from triptych.contracts.capabilities import (
    Capabilities as Capabilities,
    ChangeReader as ChangeReader,
    CopyableStore as CopyableStore,
    Diagnostics as Diagnostics,
    DocLevelSearcher as DocLevelSearcher,
    SettingsStore as SettingsStore,
    Store as Store,
    VersionReader as VersionReader,
)
from triptych.contracts.change_pages import check_poll as check_poll, next_wait as next_wait
from triptych.contracts.lane_warnings import collected_warnings as collected_warnings, warn as warn
from triptych.contracts.models import (
    LLM as LLM,
    AnswerabilityJudge as AnswerabilityJudge,
    AsyncEmbedder as AsyncEmbedder,
    AsyncLLM as AsyncLLM,
    Embedder as Embedder,
    EventNotifier as EventNotifier,
    HitReader as HitReader,
    Postprocessor as Postprocessor,
    QueryProbe as QueryProbe,
    QueryRewriter as QueryRewriter,
    Ranker as Ranker,
    Rebuilder as Rebuilder,
    Reranker as Reranker,
    Retriever as Retriever,
    SparseEncoder as SparseEncoder,
    check_llm as check_llm,
    how_to_set as how_to_set,
)
from triptych.contracts.pages import (
    documents_of as documents_of,
    pages_of as pages_of,
    unread_of as unread_of,
)
from triptych.contracts.repositories import (
    ChunkRepo as ChunkRepo,
    DocumentReader as DocumentReader,
    DocumentRepo as DocumentRepo,
    LayerRepo as LayerRepo,
    UpdateOrder as UpdateOrder,
    VectorRepo as VectorRepo,
)
