"""The health check: a quick test of store, index, embedder and datasets before long work.

It reads and probes, and repairs nothing: what it finds says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from shlex import quote

from triptych import deadlines
from triptych._internal.wording import counted
from triptych.contracts import Diagnostics, DocumentRepo, Embedder, SparseEncoder
from triptych.errors import CancelledError, ProviderError, StoreError, TriptychError
from triptych.records import DatasetStats, Health, HealthCheck
from triptych.vectors.embedding import embed_query, encode_sparse

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
    embedder: Embedder | None,
    stats: Callable[[], Sequence[DatasetStats]],
    *,
    probe: bool,
    sparse_encoder: SparseEncoder | None = None,
    next_embedder: Embedder | None = None,
    refused: Callable[[str], Iterator[tuple[str, str]]] = lambda each: iter(()),
) -> Health:
    """Every check, worst news included: one that fails does not keep the others from running.

    A store that does not answer in five seconds is asked nothing else.
    """
    checks = [*_guarded("store", lambda: [_store_answers(documents)])]
    if diagnostics is not None and not isinstance(checks[0].error, _SilentError):
        checks += _guarded("store", diagnostics.check_health)
    if embedder is None:
        checks.append(
            HealthCheck(name="embedder", status="ok", detail="none is in use: keyword search alone")
        )
    elif probe:
        checks += _guarded("embedder", lambda: [_embedder_answers(embedder)])
    if next_embedder is not None and probe:
        checks += _guarded("next embedder", lambda: [_embedder_answers(next_embedder, "next ")])
    if sparse_encoder is not None and probe:
        checks += _guarded("sparse encoder", lambda: [_encoder_answers(sparse_encoder)])
    if checks[0].status == "ok":
        checks += _guarded(
            "datasets",
            lambda: dataset_checks(stats(), embedder, sparse_encoder, next_embedder, refused),
        )
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


def _embedder_answers(embedder: Embedder, which: str = "") -> HealthCheck:
    width = len(embed_query(embedder, _PROBE))
    return HealthCheck(
        name=f"{which}embedder",
        status="ok",
        detail=f"{embedder.signature} answers with vectors of {width} dimensions",
    )


def _encoder_answers(encoder: SparseEncoder) -> HealthCheck:
    (vector,) = encode_sparse(encoder, [_PROBE], kind="query")
    return HealthCheck(
        name="sparse encoder",
        status="ok",
        detail=f"{encoder.signature} answers with {counted(len(vector), 'term')}",
    )


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
    embedder: Embedder | None,
    sparse_encoder: SparseEncoder | None = None,
    next_embedder: Embedder | None = None,
    refused: Callable[[str], Iterator[tuple[str, str]]] = lambda each: iter(()),
) -> list[HealthCheck]:
    """What keeps a dataset from its best answers, each with what to do about it."""
    checks = []
    first = embedder
    for each in datasets:
        name = f"dataset {each.dataset_id!r}"
        rebuild = f"`triptych rebuild --dataset {quote(each.dataset_id)}`"
        embed = f"`triptych embed --dataset {quote(each.dataset_id)}`"
        documents = counted(each.documents, "document")
        stored = "" if each.config is None else each.config.embed_sig
        swapped = next_embedder is not None and stored == next_embedder.signature
        embedder = next_embedder if swapped else first
        found: dict[str, str] = {}
        if stored and embedder is None:
            found[
                f"has vectors of {stored} and no embedder is in use: it is searched by keyword only"
            ] = "name the embedder it was filled with"
        elif stored and embedder is not None and stored != embedder.signature:
            found[f"has vectors of {stored}, not of {embedder.signature}"] = (
                f"use that embedder, or rebuild the dataset: {rebuild}"
            )
        elif not stored and embedder is not None and each.chunks:
            found["was made without an embedder"] = f"{embed} adds vectors"
        elif each.pending:
            found[
                f"has {each.pending} of {documents} without all their vectors, and "
                f"{counted(each.pending_chunks, 'chunk')} to embed"
            ] = f"{embed} adds them"
        encoded = "" if each.config is None else each.config.sparse_sig
        if sparse_encoder is not None and encoded not in ("", sparse_encoder.signature):
            found[f"has sparse vectors of {encoded}, not of {sparse_encoder.signature}"] = (
                f"use that encoder, or rebuild the dataset: {rebuild}"
            )
        elif sparse_encoder is not None and not encoded and each.chunks:
            found["was made without a sparse encoder"] = f"{embed} adds sparse vectors"
        elif each.sparse_pending:
            found[f"has {each.sparse_pending} of {documents} without all their sparse vectors"] = (
                f"{embed} adds them"
                if sparse_encoder is not None
                else f"{embed}, with the sparse encoder {encoded}, adds them"
            )
        if each.stale:
            found[f"has {each.stale} of {documents} stale"] = (
                f"{rebuild} repairs {'it' if each.stale == 1 else 'them'}"
            )
        checks += [
            HealthCheck(name=name, status="warning", detail=f"{name} {detail}", remedy=remedy)
            for detail, remedy in found.items()
        ]
        made = {space.embed_sig: space.vectors for space in each.spaces}
        uncovered = each.chunks - each.pending_chunks - made.get(stored, 0)
        if stored and uncovered > 0 and embedder is not None and stored == embedder.signature:
            checks.append(
                HealthCheck(
                    name="coverage",
                    status="warning",
                    detail=f"{name} has {counted(uncovered, 'chunk')} of {each.chunks:,} that "
                    f"will get no vector: the vocabulary of {stored} does not cover the text, "
                    "which is found by keyword only",
                    remedy=f"{rebuild[:-1]} --embedder local-multilingual` embeds all with a model "
                    "for about 100 languages",
                )
            )
        if not found:
            checks.append(HealthCheck(name=name, status="ok", detail=f"{name} is fresh"))
        if each.pending or each.sparse_pending:
            checks += _refusals(each.dataset_id, refused)
    return checks
