"""The steps of a search, each with the module that defines it."""

from triptych.search.cache_options import SemanticCache as SemanticCache
from triptych.search.calibration import (
    SIGNALS as SIGNALS,
    Calibration as Calibration,
    HeldOut as HeldOut,
    LaneModel as LaneModel,
    lanes_key as lanes_key,
)
from triptych.search.code_ranking import CodeRanking as CodeRanking
from triptych.search.dataset_settings import GOLDEN_SETTINGS as GOLDEN_SETTINGS
from triptych.search.diversity import MMR as MMR, NearDuplicates as NearDuplicates
from triptych.search.engine import SearchEngine as SearchEngine
from triptych.search.expansion import Neighbours as Neighbours, Parents as Parents
from triptych.search.file_location import (
    check_sync_roots as check_sync_roots,
    synced_folders as synced_folders,
)
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
from triptych.search.pipeline import SearchPipeline as SearchPipeline
from triptych.search.pipeline_record import (
    Pipeline as Pipeline,
    find_pipeline as find_pipeline,
    one_rewriter as one_rewriter,
    rewriters_of as rewriters_of,
)
from triptych.search.postprocessing import (
    KeywordBoost as KeywordBoost,
    PerDocument as PerDocument,
)
from triptych.search.query import (
    DEFAULT_THRESHOLD as DEFAULT_THRESHOLD,
    MAX_TOP_K as MAX_TOP_K,
    check_queries as check_queries,
    names_none as names_none,
    query_of as query_of,
    resolve_mode as resolve_mode,
    validate as validate,
)
from triptych.search.reranking import Rerank as Rerank
from triptych.search.retrievers import (
    BM25Retriever as BM25Retriever,
    LayerRetriever as LayerRetriever,
    VectorRetriever as VectorRetriever,
)
from triptych.search.rewriting import (
    ChainRewriter as ChainRewriter,
    FragmentRewriter as FragmentRewriter,
)
from triptych.search.syntax import (
    ParsedQuery as ParsedQuery,
    TextConditions as TextConditions,
    is_or_holds as is_or_holds,
    parse_query as parse_query,
)
from triptych.search.trace import Stage as Stage, traced as traced
