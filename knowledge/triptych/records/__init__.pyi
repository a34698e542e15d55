"""The records of Triptych, each with the module that defines it."""

from triptych._internal.wording import counted as counted, did_you_mean as did_you_mean
from triptych.records.candidates import (
    IN_ORDER as IN_ORDER,
    Candidate as Candidate,
    CandidateRow as CandidateRow,
    Candidates as Candidates,
    ChunkPlace as ChunkPlace,
    RankedList as RankedList,
    StoredUnit as StoredUnit,
    TermMatches as TermMatches,
)
from triptych.records.changes import (
    ChangeCursor as ChangeCursor,
    ChangeEvent as ChangeEvent,
    ChangeKind as ChangeKind,
    ChangePage as ChangePage,
    DocumentChange as DocumentChange,
    RebuildScope as RebuildScope,
)
from triptych.records.derived import (
    DatasetConfig as DatasetConfig,
    DatasetContext as DatasetContext,
    DerivedChunk as DerivedChunk,
    DerivedLayer as DerivedLayer,
    DerivedSig as DerivedSig,
    DocumentContext as DocumentContext,
    NameState as NameState,
)
from triptych.records.documents import (
    DocumentInfo as DocumentInfo,
    DocumentSummary as DocumentSummary,
    NewDocument as NewDocument,
    PutOutcome as PutOutcome,
    SourceDocument as SourceDocument,
    SystemData as SystemData,
    document_subject as document_subject,
    expired_by as expired_by,
    not_expired_by as not_expired_by,
)
from triptych.records.explanations import (
    Explanation as Explanation,
    LaneRank as LaneRank,
    Obstacle as Obstacle,
    ObstacleKind as ObstacleKind,
)
from triptych.records.filters import (
    EXPIRES_AT as EXPIRES_AT,
    HEADING as HEADING,
    NAME as NAME,
    UPDATED_AT as UPDATED_AT,
    VERSION as VERSION,
    And as And,
    Condition as Condition,
    FilterTree as FilterTree,
    Not as Not,
    Or as Or,
    OrderOperator as OrderOperator,
    Subject as Subject,
    all_of as all_of,
    conditions_of as conditions_of,
    guard_of as guard_of,
    leaves_out_few as leaves_out_few,
)
from triptych.records.hits import (
    CacheStats as CacheStats,
    Evidence as Evidence,
    Hit as Hit,
    Result as Result,
)
from triptych.records.metadata import (
    DATE as DATE,
    ComparisonKey as ComparisonKey,
    Metadata as Metadata,
    MetadataValue as MetadataValue,
    check_metadata as check_metadata,
    comparison_key as comparison_key,
    copy_metadata as copy_metadata,
    metadata_from_plain as metadata_from_plain,
    metadata_to_plain as metadata_to_plain,
    same_metadata as same_metadata,
    text_of as text_of,
)
from triptych.records.models import (
    Generation as Generation,
    Message as Message,
    ModelUsage as ModelUsage,
    ParkedReason as ParkedReason,
    Prices as Prices,
    QuarantinedLayer as QuarantinedLayer,
    Retries as Retries,
    Usage as Usage,
)
from triptych.records.queries import (
    ChunkQuery as ChunkQuery,
    DatasetSearchOptions as DatasetSearchOptions,
    Filter as Filter,
    LayerQuery as LayerQuery,
    Query as Query,
    QuestionOptions as QuestionOptions,
    ResolvedQuery as ResolvedQuery,
    SearchOptions as SearchOptions,
    check_option_names as check_option_names,
    split_options as split_options,
)
from triptych.records.reports import (
    DatasetStats as DatasetStats,
    DeleteReport as DeleteReport,
    DoctorReport as DoctorReport,
    EmbeddingSpace as EmbeddingSpace,
    EmbedReport as EmbedReport,
    Failure as Failure,
    Finding as Finding,
    Health as Health,
    HealthCheck as HealthCheck,
    MetadataReport as MetadataReport,
    PurgeReceipt as PurgeReceipt,
    PutReport as PutReport,
    RebuildReport as RebuildReport,
    ScrubReport as ScrubReport,
    reported as reported,
    summed as summed,
)
from triptych.records.rewritings import (
    QueryVariant as QueryVariant,
    Rewriting as Rewriting,
)
from triptych.records.spaces import (
    AnySpace as AnySpace,
    AnyVector as AnyVector,
    StoredSpace as StoredSpace,
    VectorSpace as VectorSpace,
    cosine_similarity as cosine_similarity,
    dense as dense,
    sparse as sparse,
)
from triptych.records.sparse_vectors import (
    SparseVector as SparseVector,
)
from triptych.records.unread import Omission as Omission, Unread as Unread
from triptych.records.values import (
    MAX_NAME_BYTES as MAX_NAME_BYTES,
    NO_CHUNK as NO_CHUNK,
    OPENING as OPENING,
    SNIPPET_LENGTH as SNIPPET_LENGTH,
    Answerability as Answerability,
    EmbedKind as EmbedKind,
    EmbedWhen as EmbedWhen,
    EventKind as EventKind,
    Layer as Layer,
    Mode as Mode,
    Scope as Scope,
    SpaceKind as SpaceKind,
    StaleReason as StaleReason,
    Strength as Strength,
    Vector as Vector,
    check_document_name as check_document_name,
    check_identifier as check_identifier,
    check_number as check_number,
    check_text as check_text,
    check_whole as check_whole,
    is_valid_layer as is_valid_layer,
    is_valid_mode as is_valid_mode,
    number as number,
    to_event_kind as to_event_kind,
    to_layer as to_layer,
    to_mode as to_mode,
    to_scope as to_scope,
    whole as whole,
)
from triptych.records.where import parse_filter as parse_filter
