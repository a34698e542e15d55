"""Records as JSON: the forms that ``--json`` prints, documented and stable.

The converter is `triptych.records.serialization`; here are the views of it. A record without a
view is shown by its fields.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from triptych.records.serialization import to_dict
from triptych.search.result_formats import hit_json
from triptych_adapters.wire.errors import error_json

if TYPE_CHECKING:
    from triptych.answering import Answer
    from triptych.context import ContextPack, Piece
    from triptych.events import RebuildRecord
    from triptych.layers import LayerPlan, LayerReport
    from triptych.records import (
        DatasetConfig,
        DatasetStats,
        DeleteReport,
        DocumentInfo,
        EmbedReport,
        Failure,
        Finding,
        MetadataReport,
        PutReport,
        RebuildReport,
        Result,
        SourceDocument,
    )
    from triptych.sync import HeldDeletions, SyncPlan, SyncReport
    from triptych_adapters.wire.layer_build import LayerBuild

__all__ = ["VIEWS", "to_json"]

_Fields = dict[str, Any]


def to_json(value: Any) -> Any:
    """``value``, a record or a list of them, as JSON's types.

    Raises:
        TypeError: it is, or holds, something that has no JSON form.
    """
    return to_dict(value, _view)


def _fields(*fields: str) -> Callable[[Any], _Fields]:
    """A view of these attributes in their order; ``"name=doc_name"`` gives one another name."""
    paths = [(key, attrgetter(path or key)) for key, _, path in (f.partition("=") for f in fields)]
    return lambda record: {key: read(record) for key, read in paths}


# Documents and layers


def _document(document: SourceDocument) -> _Fields:
    return _about(document) | {"content": document.content}


def _document_info(document: DocumentInfo) -> _Fields:
    return _about(document) | {"size": document.size}


def _about(document: SourceDocument | DocumentInfo) -> _Fields:
    from triptych.records.metadata import metadata_to_plain

    made = {
        "original_sha256": document.original_sha256,
        "parser_sig": document.parser_sig,
        "sync_root": document.system.sync_root,
        "expires_at": document.system.expires_at,
    }
    return {
        "dataset": document.dataset_id,
        "name": document.name,
        "version": document.version,
        "updated_at": document.updated_at,
        "metadata": metadata_to_plain(document.metadata),
        **{key: value for key, value in made.items() if value},
    }


# Answers


def _result(result: Result) -> _Fields:
    return {
        "hits": result.hits,
        "warnings": result.warnings,
        "exhausted": result.exhausted,
        "answerability": result.answerability,
        **_as_of(result),
    }


def _as_of(answer: Result | ContextPack) -> _Fields:
    return {} if answer.as_of is None else {"as_of": answer.as_of}


def _pack(pack: ContextPack) -> _Fields:
    return {
        "query": pack.query,
        "budget": pack.budget,
        "tokens": pack.tokens,
        "counter": pack.counter,
        "exact": pack.exact,
        "format": pack.format,
        "pieces": pack.pieces,
        "text": pack.render(),
        "warnings": pack.warnings,
        **_as_of(pack),
    }


def _piece(piece: Piece) -> _Fields:
    from triptych.context.rendering import piece_json

    signs = piece.signs
    return piece_json(piece) | ({"signs": signs} if signs else {})


def _answer(answer: Answer) -> _Fields:
    return {
        "question": answer.question,
        "standalone": answer.standalone,
        "text": answer.text,
        "abstained": answer.abstained,
        "reason": answer.reason,
        "sentences": answer.sentences,
        "citations": answer.citations,
        "uncited": [sentence.text for sentence in answer.uncited],
        "removed": answer.removed,
        "truncated": answer.truncated,
        "usage": answer.usage,
        "usage_estimated": answer.usage_estimated,
        "search_usage": answer.search_usage,
        "cost": answer.cost,
        "conversation": answer.conversation,
        "receipt": answer.receipt,
        "warnings": answer.warnings,
    }


# Reports


def _counts(report: Any, *names: str) -> dict[str, int | None]:
    """The counts of a report; of a tuple, how many are in it; None stays None: it is not known."""
    values = {name: getattr(report, name) for name in names}
    return {
        name: len(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def _failure(failure: Failure) -> _Fields:
    return {
        "dataset": failure.dataset_id,
        "name": failure.name,
        "error": error_json(failure.error),
    }


def _put_report(report: PutReport) -> _Fields:
    names = ("added", "updated", "unchanged", "failed", "chunks", "embedded", "reused", "encoded")
    return {"counts": _counts(report, *names, "pending"), "failures": report.failed}


def _delete_report(report: DeleteReport) -> _Fields:
    names = ("deleted", "missing", "failed")
    return {
        "counts": _counts(report, *names),
        "deleted": report.deleted,
        "missing": report.missing,
        "failures": report.failed,
    }


def _metadata_report(report: MetadataReport) -> _Fields:
    names = ("updated", "unchanged", "missing", "failed")
    return {
        "counts": _counts(report, *names),
        "missing": report.missing,
        "failures": report.failed,
    }


def _rebuild_report(report: RebuildReport) -> _Fields:
    names = (
        "checked",
        "fresh",
        "rebuilt",
        "removed",
        "expired",
        "failed",
        "embedded",
        "reused",
        "encoded",
        "pending",
    )
    return {"counts": _counts(report, *names), "failures": report.failed}


def _embed_report(report: EmbedReport) -> _Fields:
    names = ("documents", "failed", "embedded", "reused", "encoded", "pending")
    return {"counts": _counts(report, *names), "failures": report.failed}


def _rebuild_record(record: RebuildRecord) -> _Fields:
    scope, report, error = record.scope, record.report, record.error
    return {
        "dataset": scope.dataset_id or None,
        "name": scope.doc_name or None,
        "names": scope.doc_names or None,
        "events": record.events,
        "attempt": record.attempt,
        "seconds": round(record.duration, 3),
        "retry_in": None if record.retry_in is None else round(record.retry_in, 3),
        "error": None if error is None else error_json(error),
        **({"counts": None, "failures": []} if report is None else _rebuild_report(report)),
    }


_SYNC = (
    *("added", "updated", "renamed", "deleted", "unchanged", "repaired", "failed", "skipped"),
    *("chunks", "embedded"),
)


def _sync_report(report: SyncReport) -> _Fields:
    return _synced(report, "reused", "pending", "expired")


def _sync_plan(plan: SyncPlan) -> _Fields:
    return _synced(plan, "model_calls") | {"added": plan.added, "updated": plan.updated}


def _synced(report: SyncPlan | SyncReport, *cost: str) -> _Fields:
    return {
        "counts": _counts(report, *_SYNC, *cost),
        "renamed": report.renamed,
        "deleted": report.deleted,
        "held": report.held,
        "failures": report.failed,
        "notes": report.notes,
        "skipped": report.skipped,
    }


def _held(held: HeldDeletions) -> _Fields:
    return {
        "root": str(held.root),
        "dataset": held.dataset_id,
        "documents": held.documents,
        "names": held.names,
    }


def _layer_plan(plan: LayerPlan) -> _Fields:
    names = ("artifacts", "conditional", "quarantined", "gone", "kept")
    return {
        "dataset": plan.dataset_id,
        "model": plan.model,
        "counts": _counts(plan, *names),
        "reasons": plan.reasons,
        "cost": plan.cost,
        "conditional_cost": plan.conditional_cost,
        "warnings": plan.warnings,
    }


def _layer_report(report: LayerReport) -> _Fields:
    names = ("made", "unchanged", "removed", "quarantined", "failed", "calls")
    return {
        "counts": _counts(report, *names),
        "stopped": report.stopped,
        "least": report.least,
        "usage": report.usage,
        "quarantined": report.quarantined,
        "failures": report.failed,
    }


# The state of a store


def _stats(stats: DatasetStats) -> _Fields:
    config = stats.config
    return {
        "dataset": stats.dataset_id,
        "documents": stats.documents,
        "chunks": stats.chunks,
        "vectors": stats.vectors,
        "layers": stats.layers,
        "stale": stats.stale,
        "pending": stats.pending,
        "pending_chunks": stats.pending_chunks,
        "size": stats.size,
        "language": None if config is None else config.language,
        "embedder": None if config is None else config.embed_sig or None,
        "chunker": None if config is None else config.chunker_sig,
        "spaces": stats.spaces,
        "sparse_encoder": None if config is None else config.sparse_sig or None,
        "sparse_vectors": sum(space.vectors for space in stats.sparse_spaces),
        "sparse_pending": stats.sparse_pending,
    }


def _config(config: DatasetConfig) -> _Fields:
    return {
        "language": config.language,
        "embedder": config.embed_sig or None,
        "chunker": config.chunker_sig,
    }


def _finding(finding: Finding) -> _Fields:
    return {
        "check": finding.check,
        "dataset": finding.dataset_id or None,
        "place": finding.place,
        "detail": finding.detail,
        "why": finding.why,
        "repair": finding.repair,
        "remedy": finding.remedy,
        "count": finding.count,
        "examples": finding.examples,
    }


def _layer_build(build: LayerBuild) -> _Fields:
    return {
        "dataset": build.dataset_id,
        "model": build.model,
        **_layer_report(build.report),
        "kept": build.kept_names,
    }


VIEWS: Final[Mapping[str, Callable[[Any], _Fields]]] = {
    "triptych.answering.records.Answer": _answer,
    "triptych.answering.records.CitedSource": _fields("number", "citation"),
    "triptych.context.pack.ContextPack": _pack,
    "triptych.context.records.Piece": _piece,
    "triptych.events.record.RebuildRecord": _rebuild_record,
    "triptych.layers.builder.records.LayerPlan": _layer_plan,
    "triptych.layers.builder.records.LayerReport": _layer_report,
    "triptych.layers.builder.records.PlannedLayer": _fields(
        "name=doc_name", "layer", "reason", "conditional", "cost"
    ),
    "triptych.records.changes.DocumentChange": _fields(
        "dataset=dataset_id", "name", "kind", "version", "cursor"
    ),
    "triptych.records.derived.DatasetConfig": _config,
    "triptych.records.derived.DerivedLayer": _fields(
        "dataset=dataset_id",
        "name=doc_name",
        "layer",
        "version=sig.source_version",
        "prompt_sig=sig.prompt_sig",
        "stale",
        "content",
    ),
    "triptych.records.documents.DocumentInfo": _document_info,
    "triptych.records.documents.SourceDocument": _document,
    "triptych.records.findings.DoctorReport": _fields(
        "clean", "findings", "repaired", "actions", "checked", "skipped"
    ),
    "triptych.records.findings.Finding": _finding,
    "triptych.records.journal.QuarantinedLayer": _fields(
        "dataset=dataset_id", "name=doc_name", "layer", "reason", "message", "quarantined_at"
    ),
    "triptych.records.queries.Hit": hit_json,
    "triptych.records.queries.Result": _result,
    "triptych.records.reports.DatasetStats": _stats,
    "triptych.records.reports.EmbedReport": _embed_report,
    "triptych.records.reports.EmbeddingSpace": _fields(
        "embedder=embed_sig", "dimension", "vectors"
    ),
    "triptych.records.reports.Failure": _failure,
    "triptych.records.reports.DeleteReport": _delete_report,
    "triptych.records.reports.Health": _fields("ok", "checks"),
    "triptych.records.reports.HealthCheck": _fields("name", "status", "detail", "remedy"),
    "triptych.records.reports.MetadataReport": _metadata_report,
    "triptych.records.reports.PutReport": _put_report,
    "triptych.records.reports.RebuildReport": _rebuild_report,
    "triptych.sync.report.HeldDeletions": _held,
    "triptych.sync.report.SyncPlan": _sync_plan,
    "triptych.sync.report.SyncReport": _sync_report,
    "triptych_adapters.wire.layer_build.LayerBuild": _layer_build,
}
"""The records whose form is not that of their fields, by class: named, so that none is imported
before there is one to show."""


@functools.cache
def _view_of(kind: Any) -> Callable[[Any], _Fields] | None:
    return VIEWS.get(f"{kind.__module__}.{kind.__qualname__}")


def _view(record: Any) -> Any:
    kind: Any = type(record)
    view = _view_of(kind)
    return record if view is None else view(record)
