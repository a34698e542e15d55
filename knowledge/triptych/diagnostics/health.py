"""The health check: a quick test of store, index, embedder and datasets before long work.

It reads and probes, and repairs nothing: what it finds says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from shlex import quote
from typing import Any

from triptych import deadlines
from triptych._internal.wording import counted
from triptych.contracts import Diagnostics, DocumentRepo
from triptych.errors import CancelledError, ProviderError, StoreError, TriptychError
from triptych.records import DatasetStats, Health, HealthCheck
from triptych.vectors.lanes import Lane

_PROBE = "health check"
_PATIENCE = 5.0
_NAMED = 5


class _SilentError(StoreError):
    """A store did not answer in time."""


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Bound the wait for ``what``, a store or a server of it.

    Raises:
        StoreError: it did not answer in five seconds.
        CancelledError: the deadline around the call passed.
    """
    try:
        with deadlines.deadline(_PATIENCE) as scope:
            yield
    except CancelledError as error:
        deadlines.check("the health check")
        if scope.remaining:  # it was cancelled
            raise
        raise _SilentError(
            f"{what} did not answer within {_PATIENCE:g} seconds: check its server and the network"
        ) from error


def check_health(
    documents: DocumentRepo,
    diagnostics: Diagnostics | None,
    lanes: Sequence[Lane[Any]],
    stats: Callable[[], Sequence[DatasetStats]],
    *,
    probe: bool,
    refused: Callable[[str], Iterator[tuple[str, str]]] = lambda each: iter(()),
) -> Health:
    """Every check, worst news included: one that fails does not keep the others from running.

    A store that does not answer in five seconds is asked nothing else.
    """
    checks = [*_guarded("store", lambda: [_store_answers(documents)])]
    if diagnostics is not None and not isinstance(checks[0].error, _SilentError):
        checks += _guarded("store", diagnostics.check_health)
    for lane in lanes:
        if lane.model is not None and probe:
            checks += _guarded(lane.maker, partial(_model_answers, lane))
        elif lane.model is None and lane.kind == "dense":
            none = "none is in use"
            if all(each.model is None for each in lanes):
                none += ": keyword search alone"
            checks.append(HealthCheck(name=lane.maker, status="ok", detail=none))
    if checks[0].status == "ok":
        checks += _guarded("datasets", lambda: dataset_checks(stats(), lanes, refused))
    return Health(checks=tuple(checks))


def _guarded(name: str, check: Callable[[], Sequence[HealthCheck]]) -> Sequence[HealthCheck]:
    try:
        return check()
    except CancelledError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what the check found
        said = str(error)  # of ours, it says what to do
        if not isinstance(error, TriptychError):
            said = f"{type(error).__name__}: {said}"
        return [HealthCheck(name=name, status="failed", detail=said, error=error)]


def _store_answers(documents: DocumentRepo) -> HealthCheck:
    with answering("the store"):
        count = len(documents.list_datasets())
    return HealthCheck(
        name="store", status="ok", detail=f"answers, with {counted(count, 'dataset')}"
    )


def _model_answers(lane: Lane[Any]) -> Sequence[HealthCheck]:
    (vector,) = lane.encode([_PROBE], kind="query")
    size = counted(len(vector), "term")
    if lane.kind == "dense":
        size = f"vectors of {len(vector)} dimensions"
    detail = f"{lane.sig} answers with {size}"
    return [HealthCheck(name=lane.maker, status="ok", detail=detail)]


def _refusals(
    dataset_id: str, refused: Callable[[str], Iterator[tuple[str, str]]]
) -> Iterator[HealthCheck]:
    """What the model refused of a dataset; the first documents are named."""
    if found := list(refused(dataset_id)):
        more = f" and {rest} more" if (rest := len(found) - _NAMED) > 0 else ""
        named = ", ".join(chunks for chunks, _ in found[:_NAMED])
        error = ProviderError(found[0][1])
        yield HealthCheck(
            name="refused texts",
            status="warning",
            detail=f"dataset {dataset_id!r}: the model refuses {named}{more}: {error}",
            remedy=f"`triptych embed --dataset {quote(dataset_id)} --retry` sends them again",
            error=error,
        )


def dataset_checks(
    datasets: Sequence[DatasetStats],
    lanes: Sequence[Lane[Any]],
    refused: Callable[[str], Iterator[tuple[str, str]]] = lambda each: iter(()),
) -> list[HealthCheck]:
    """What keeps a dataset from its best answers, each with what to do about it."""
    checks: list[HealthCheck] = []
    for each in datasets:
        name = f"dataset {each.dataset_id!r}"
        found = [*_lacks_vectors(each, lanes), *_is_stale(each)]
        checks += [
            HealthCheck(name=name, status="warning", detail=f"{name} {detail}", remedy=remedy)
            for detail, remedy in found
        ]
        checks += _uncovered(each, lanes[0].sig)
        if not found:
            checks.append(HealthCheck(name=name, status="ok", detail=f"{name} is fresh"))
        if each.pending or each.further_pending:
            checks += _refusals(each.dataset_id, refused)
    return checks


def _rebuild(dataset: DatasetStats) -> str:
    return f"triptych rebuild --dataset {quote(dataset.dataset_id)}"


def _embed(dataset: DatasetStats) -> str:
    return f"`triptych embed --dataset {quote(dataset.dataset_id)}`"


def _lacks_vectors(dataset: DatasetStats, lanes: Sequence[Lane[Any]]) -> Iterator[tuple[str, str]]:
    for lane in lanes:
        stored = "" if dataset.config is None else dataset.config.sigs[lane.kind]
        if stored and lane.model is None:
            how = "without them" if any(each.sig for each in lanes) else "by keyword only"
            yield (
                f"has {lane.vectors} of {stored} and no {lane.maker} is in use: it is searched "
                f"{how}",
                f"name the {lane.maker} it was filled with",
            )
        elif stored and stored != lane.sig:
            yield (
                f"has {lane.vectors} of {stored}, not of {lane.sig}",
                f"use that {lane.maker}, or rebuild the dataset: `{_rebuild(dataset)}`",
            )
        elif lane.model is not None and not stored and dataset.chunks:
            yield f"has no {lane.vectors} yet", f"{_embed(dataset)} adds them"
        elif waiting := dataset.pending_in(lane.kind):
            more = f", and {counted(dataset.pending_chunks, 'chunk')} to embed"
            yield (
                f"has {waiting} of {counted(dataset.documents, 'document')} without all their "
                f"{lane.vectors}{more if lane.kind == 'dense' else ''}",
                f"{_embed(dataset)} adds them",
            )


def _is_stale(dataset: DatasetStats) -> Iterator[tuple[str, str]]:
    if dataset.stale:
        yield (
            f"has {dataset.stale} of {counted(dataset.documents, 'document')} stale",
            f"`{_rebuild(dataset)}` repairs {'it' if dataset.stale == 1 else 'them'}",
        )


def _uncovered(dataset: DatasetStats, embed_sig: str) -> Iterator[HealthCheck]:
    """Chunks of no word that the embedder knows."""
    stored = "" if dataset.config is None else dataset.config.embed_sig
    made = {space.embed_sig: space.vectors for space in dataset.spaces}
    uncovered = dataset.chunks - dataset.pending_chunks - made.get(stored, 0)
    if stored and stored == embed_sig and uncovered > 0:
        yield HealthCheck(
            name="coverage",
            status="warning",
            detail=f"dataset {dataset.dataset_id!r} has {counted(uncovered, 'chunk')} of "
            f"{dataset.chunks:,} that will get no vector: the vocabulary of {stored} does not "
            "cover the text, which is found by keyword only",
            remedy=f"`{_rebuild(dataset)} --embedder local-multilingual` embeds all with a model "
            "for about 100 languages",
        )
