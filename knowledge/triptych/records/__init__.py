"""The records of Triptych: frozen values that cross every boundary of the library.

Records check what can be checked without a store and raise `ValidationError`. `Query` is
the exception: it carries whatever the caller wrote, and `Service.search` validates it.
"""

from __future__ import annotations

from triptych.records.candidates import IN_ORDER, CandidateRow, Candidates
from triptych.records.checks import (
    check_document_name,
    check_identifier,
    check_metadata,
    check_text,
    check_whole,
)
from triptych.records.derived import (
    DatasetConfig,
    DatasetContext,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentContext,
)
from triptych.records.documents import (
    DocumentInfo,
    DocumentSummary,
    NewDocument,
    SourceDocument,
)
from triptych.records.events import (
    ChangeEvent,
    RebuildScope,
)
from triptych.records.findings import DoctorReport, Finding
from triptych.records.journal import ModelUsage, ParkedReason, QuarantinedLayer
from triptych.records.models import (
    Generation,
    Message,
    Usage,
)
from triptych.records.queries import (
    Candidate,
    ChunkPlace,
    ChunkQuery,
    Filter,
    Hit,
    LayerQuery,
    Query,
    QueryVariant,
    RankedList,
    ResolvedQuery,
    Result,
    StoredUnit,
)
from triptych.records.reports import (
    DatasetStats,
    EmbeddingSpace,
    Failure,
    Health,
    HealthCheck,
    PutOutcome,
    PutReport,
    RebuildReport,
)
from triptych.records.search_options import DatasetSearchOptions, SearchOptions
from triptych.records.values import (
    MAX_NAME_BYTES,
    NO_CHUNK,
    OPENING,
    RESERVED_METADATA,
    SNIPPET_LENGTH,
    EmbedKind,
    EventKind,
    Layer,
    Mode,
    Scope,
    StaleReason,
    Vector,
    is_valid_layer,
    is_valid_mode,
    shown_metadata,
    to_event_kind,
    to_layer,
    to_mode,
    to_scope,
)

__all__ = [
    "IN_ORDER",
    "MAX_NAME_BYTES",
    "NO_CHUNK",
    "OPENING",
    "RESERVED_METADATA",
    "SNIPPET_LENGTH",
    "Candidate",
    "CandidateRow",
    "Candidates",
    "ChangeEvent",
    "ChunkPlace",
    "ChunkQuery",
    "DatasetConfig",
    "DatasetContext",
    "DatasetSearchOptions",
    "DatasetStats",
    "DerivedChunk",
    "DerivedLayer",
    "DerivedSig",
    "DoctorReport",
    "DocumentContext",
    "DocumentInfo",
    "DocumentSummary",
    "EmbedKind",
    "EmbeddingSpace",
    "EventKind",
    "Failure",
    "Filter",
    "Finding",
    "Generation",
    "Health",
    "HealthCheck",
    "Hit",
    "Layer",
    "LayerQuery",
    "Message",
    "Mode",
    "ModelUsage",
    "NewDocument",
    "ParkedReason",
    "PutOutcome",
    "PutReport",
    "QuarantinedLayer",
    "Query",
    "QueryVariant",
    "RankedList",
    "RebuildReport",
    "RebuildScope",
    "ResolvedQuery",
    "Result",
    "Scope",
    "SearchOptions",
    "SourceDocument",
    "StaleReason",
    "StoredUnit",
    "Usage",
    "Vector",
    "check_document_name",
    "check_identifier",
    "check_metadata",
    "check_text",
    "check_whole",
    "is_valid_layer",
    "is_valid_mode",
    "shown_metadata",
    "to_event_kind",
    "to_layer",
    "to_mode",
    "to_scope",
]
