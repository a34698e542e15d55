"""Long work of the work list: layers, chunks and vectors, made at once or while it is watched."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from triptych.errors import ValidationError
from triptych.layers import ExtractiveSummarizer, LayerBuilder, LayerPlan, LayerReport
from triptych.records import EmbedReport, RebuildReport, counted
from triptych_adapters.wire import check_may_build
from triptych_server.console.progress import Task
from triptych_server.console.visit import Visit

_DONE: Final = {
    "layers": ("{} layer was made", "{} layers were made"),
    "rebuild": (
        "the chunks and vectors of {} document were made again",
        "the chunks and vectors of {} documents were made again",
    ),
    "embed": ("{} document has all its vectors now", "{} documents have all their vectors now"),
}
_STOPPED: Final = {
    "max_calls": "the limit of calls ended it, so build again to go on",
    "provider": "the model kept failing, which ended it",
    "time": "the time limit of a request ended it: what was made is kept, so start again to go on",
}
_COUNTS: Final = ("n", "calls", "quarantined", "failed", "skipped", "pending")

Report = LayerReport | RebuildReport | EmbedReport


def planned(visit: Visit, dataset_id: str) -> tuple[LayerBuilder, LayerPlan]:
    """A builder and its plan; of one document or folder, and of quarantined layers, if asked for.

    Without a model, sentences of the documents are taken.
    """
    check_may_build(visit.service)
    summarizer = None if visit.service.llm is not None else ExtractiveSummarizer()
    builder = LayerBuilder(visit.service, summarizer)
    name = visit.one("name")
    retry = visit.one("retry") == "1"
    return builder, builder.plan(
        dataset_id, names=[name] if name else None, retry_quarantined=retry
    )


def task_of(visit: Visit) -> Task[Report]:
    """The task that a form asks for.

    Raises:
        ValidationError: it is none.
    """
    service, dataset_id = visit.service, visit.one("dataset")
    match visit.one("do"):
        case "rebuild" as name:
            return Task(
                name=name,
                run=lambda progress: service.rebuild(dataset_id=dataset_id, progress=progress),
            )
        case "embed" as name:
            return Task(
                name=name, run=lambda progress: service.embed_pending(dataset_id, progress=progress)
            )
        case "layers" as name:
            builder, plan = planned(visit, dataset_id)
            most = visit.number("max_calls", 100, most=1_000_000)
            return Task(
                name=name,
                run=lambda progress: builder.apply(plan, max_calls=most, progress=progress),
                total=plan.artifacts + plan.conditional,
                used=partial(_used, builder, dataset_id, _usage(builder, dataset_id)),
            )
        case unknown:
            raise ValidationError(f"there is no action {unknown!r:.60}")


def _usage(builder: LayerBuilder, dataset_id: str) -> tuple[int, int]:
    """How many calls of the model, and how many tokens, the layers of a dataset took."""
    found = [each for each in builder.ledger(dataset_id) if each.model == builder.model]
    return sum(each.calls for each in found), sum(
        each.input_tokens + each.output_tokens for each in found
    )


def _used(builder: LayerBuilder, dataset_id: str, before: tuple[int, int]) -> str:
    calls, tokens = (
        now - then for now, then in zip(_usage(builder, dataset_id), before, strict=True)
    )
    return f"{calls:,} calls of the model with retries, {tokens:,} tokens" if calls else ""


# Its result


def outcome(name: str, report: Report, stopped: str = "") -> dict[str, Any]:
    """The result of a task, as fields of a URL that `said` reads."""
    found: dict[str, Any] = {"did": name, "failed": len(report.failed), "stopped": stopped}
    if isinstance(report, LayerReport):
        found |= {
            "n": report.made,
            "calls": report.calls,
            "quarantined": len(report.quarantined),
            "skipped": report.skipped,
        }
        found["stopped"] = stopped or report.stopped or ""
    else:
        found["n"] = report.rebuilt if isinstance(report, RebuildReport) else report.documents
        found["pending"] = report.pending
    return {name: value for name, value in found.items() if value or name == "n"}


def said(fields: Mapping[str, Any]) -> str:
    """The result of a task in words; "" where the fields are of none."""
    if fields.get("did") not in _DONE:
        return ""
    count = {name: fields.get(name, 0) for name in _COUNTS}
    one, several = _DONE[fields["did"]]
    parts = [(one if count["n"] == 1 else several).format(f"{count['n']:,}")]
    if count["calls"]:
        calls = counted(count["calls"], "call")
        parts.append(f"that took {calls} of the model, retries included")
    if (parked := count["quarantined"]) > 0:
        were = "was" if parked == 1 else "were"
        parts.append(f"{parked:,} {were} quarantined, as the model’s answer could not be stored")
    if count["failed"]:
        parts.append(f"{count['failed']:,} failed, and are tried again by the next run")
    if count["skipped"]:
        parts.append(f"{count['skipped']:,} did not fit the limit")
    if (pending := count["pending"]) > 0:
        lack = "lacks" if pending == 1 else "lack"
        parts.append(f"{counted(pending, 'document')} still {lack} vectors")
    parts += [_STOPPED[fields["stopped"]]] if fields.get("stopped") in _STOPPED else []
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def said_of(visit: Visit) -> str:
    """The result of the task that led to this page."""
    numbers = {name: visit.number(name, 0) for name in _COUNTS}
    return said({**numbers, "did": visit.one("did"), "stopped": visit.one("stopped")})
