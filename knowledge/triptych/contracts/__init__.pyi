"""The names of `triptych.contracts`, each with the module that defines it."""

from triptych.chunking.specs import Chunker as Chunker
from triptych.contracts.capabilities import (
    AnswerCache as AnswerCache,
    Capabilities as Capabilities,
    ChangeReader as ChangeReader,
    CopyableStore as CopyableStore,
    Diagnostics as Diagnostics,
    DocLevelSearcher as DocLevelSearcher,
    LayerJournal as LayerJournal,
    SettingsStore as SettingsStore,
    Store as Store,
    VersionReader as VersionReader,
)
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
)
from triptych.contracts.repositories import (
    ChunkRepo as ChunkRepo,
    ChunkSigReader as ChunkSigReader,
    DocumentRepo as DocumentRepo,
    LayerRepo as LayerRepo,
    UpdateOrder as UpdateOrder,
    VectorRepo as VectorRepo,
)
