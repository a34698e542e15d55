"""The JSON form of the records, as ``--json`` prints them: documented and stable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triptych.records import (
        DatasetStats,
        DerivedLayer,
        DocumentInfo,
        Failure,
        Finding,
        HealthCheck,
        ModelUsage,
        QuarantinedLayer,
        SourceDocument,
    )

__all__ = [
    "document_json",
    "failure_json",
    "finding_json",
    "health_json",
    "layer_json",
    "quarantined_json",
    "stats_json",
    "usage_json",
]


def document_json(document: SourceDocument | DocumentInfo) -> dict[str, Any]:
    """A document without its content; where a parser made that, from what and how."""
    from triptych.records import shown_metadata

    made = {"original_sha256": document.original_sha256, "parser_sig": document.parser_sig}
    return {
        "dataset": document.dataset_id,
        "name": document.name,
        "version": document.version,
        "updated_at": document.updated_at.isoformat(),
        "metadata": dict(shown_metadata(document.metadata)),
        **{key: value for key, value in made.items() if value},
    }


def layer_json(layer: DerivedLayer) -> dict[str, Any]:
    """A layer; ``name`` is "" for the dataset's own."""
    return {
        "dataset": layer.dataset_id,
        "name": layer.doc_name,
        "layer": str(layer.layer),
        "version": layer.sig.source_version,
        "prompt_sig": layer.sig.prompt_sig,
        "stale": layer.stale,
        "content": layer.content,
    }


def quarantined_json(quarantined: QuarantinedLayer) -> dict[str, Any]:
    """A layer that broke the model; ``name`` is "" for the dataset's own."""
    return {
        "dataset": quarantined.dataset_id,
        "name": quarantined.doc_name,
        "layer": str(quarantined.layer),
        "reason": quarantined.reason,
        "message": quarantined.message,
        "quarantined_at": quarantined.quarantined_at.isoformat(),
    }


def usage_json(usage: ModelUsage) -> dict[str, Any]:
    """What one model was asked, and what it cost."""
    return {
        "model": usage.model,
        "calls": usage.calls,
        "failures": usage.failures,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cost": usage.cost,
    }


def stats_json(stats: DatasetStats) -> dict[str, Any]:
    """A dataset's counts; ``size`` in bytes."""
    config = stats.config
    return {
        "dataset": stats.dataset_id,
        "documents": stats.documents,
        "chunks": stats.chunks,
        "vectors": stats.vectors,
        "layers": stats.layers,
        "stale": stats.stale,
        "size": stats.size,
        "language": None if config is None else config.language,
        "embedder": None if config is None else config.embed_sig or None,
        "chunker": None if config is None else config.chunker_sig,
        "spaces": [
            {"embedder": each.embed_sig, "dimension": each.dimension, "vectors": each.vectors}
            for each in stats.spaces
        ],
    }


def failure_json(failure: Failure) -> dict[str, Any]:
    """One document that failed."""
    return {
        "dataset": failure.dataset_id,
        "name": failure.name,
        "error": {"type": type(failure.error).__name__, "message": str(failure.error)},
    }


def health_json(check: HealthCheck) -> dict[str, Any]:
    """One thing that a health check looked at."""
    return {
        "name": check.name,
        "status": check.status,
        "detail": check.detail,
        "remedy": check.remedy,
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """One thing that a doctor found."""
    return {
        "check": finding.check,
        "dataset": finding.dataset_id or None,
        "place": finding.place,
        "detail": finding.detail,
        "why": finding.why,
        "repair": finding.repair,
        "remedy": finding.remedy,
        "count": finding.count,
        "examples": list(finding.examples),
    }
