"""The steps of a search, each with the module that defines it."""

from triptych.search.cache_options import SemanticCache as SemanticCache
from triptych.search.diversity import MMR as MMR, NearDuplicates as NearDuplicates
from triptych.search.engine import SearchEngine as SearchEngine
from triptych.search.fusion import (
    DEFAULT_RRF_K as DEFAULT_RRF_K,
    RRFRanker as RRFRanker,
    WeightedRanker as WeightedRanker,
    ZScoreRanker as ZScoreRanker,
)
from triptych.search.hyde import HyDE as HyDE
from triptych.search.model_rewriters import (
    FollowUpRewriter as FollowUpRewriter,
    ParaphraseRewriter as ParaphraseRewriter,
    make_standalone as make_standalone,
)
from triptych.search.model_steps import ChunkFilter as ChunkFilter, LLMReranker as LLMReranker
from triptych.search.pipeline_record import Pipeline as Pipeline
from triptych.search.postprocessing import (
    KeywordBoost as KeywordBoost,
    Neighbours as Neighbours,
    Parents as Parents,
    PerDocument as PerDocument,
)
from triptych.search.query import (
    DEFAULT_THRESHOLD as DEFAULT_THRESHOLD,
    resolve_mode as resolve_mode,
)
from triptych.search.reranking import Rerank as Rerank
from triptych.search.retrievers import (
    BM25Retriever as BM25Retriever,
    LayerRetriever as LayerRetriever,
    SparseRetriever as SparseRetriever,
    VectorRetriever as VectorRetriever,
)
from triptych.search.rewriting import (
    ChainRewriter as ChainRewriter,
    FragmentRewriter as FragmentRewriter,
)
