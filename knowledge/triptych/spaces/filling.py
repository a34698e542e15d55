"""Filling a space beside the one that serves."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych import deadlines, telemetry
from triptych._internal.progress import ProgressCallback
from triptych.contracts import Embedder
from triptych.derivation.batches import check_progress
from triptych.derivation.deriver import Deriver
from triptych.derivation.folder_tree import is_folder
from triptych.errors import CancelledError
from triptych.records import Failure
from triptych.records.documents import has_expired
from triptych.records.spaces import dense
from triptych.service import Service
from triptych.spaces.embedders import config_of, embedder_of, next_signature, space_repo
from triptych.spaces.records import FillReport
from triptych.vectors.progress import EmbeddingProgress

_PASSES = 3
"""How often what was written meanwhile is looked for."""


def fill_space(
    service: Service,
    dataset_id: str | None = None,
    *,
    progress: ProgressCallback | None = None,
) -> FillReport:
    """Make the vectors of the Service's next embedder, of a dataset or of all, beside those that
    serve; a report.

    Searches and writes go on in the space that serves. What is made is kept at once: killed at any
    moment and called again, this goes on. Of two that fill, neither embeds a text of the other. No
    text is embedded that has a vector of this embedder, and none is that the dataset no longer has.
    A dataset that the next embedder serves already is left alone.

    Raises:
        NotAvailableError: no next embedder is set, or the store keeps one space only.
        NotFoundError: there is no such dataset.
        CancelledError: the deadline passed; what was made is kept, and ``report`` says what.
    """
    check_progress(progress)
    space = next_signature(service)
    space_repo(service)
    datasets: Sequence[str] = [dataset_id] if dataset_id is not None else service.list_datasets()
    report = FillReport(embed_sig=space)
    with telemetry.operation("fill_space"):
        for each in datasets:
            if config_of(service, each).embed_sig == space:
                continue
            embedder = embedder_of(service, space)
            assert embedder is not None  # its signature is this one's
            try:
                report = _sum(report, fill(service, each, embedder, progress))
            except CancelledError as error:
                if isinstance(error.report, FillReport):
                    error.report = _sum(report, error.report)
                raise
    return report


def fill(
    service: Service, dataset_id: str, embedder: Embedder, progress: ProgressCallback | None = None
) -> FillReport:
    """Fill the space of ``embedder`` in one dataset, which another one serves."""
    space_repo(service)
    store, options = service.store, service.options
    deriver = Deriver(
        service.chunks,
        options.chunkers,
        embedder,
        options.embed_concurrency,
        service.capabilities.leases,
        executor=options.executor,
    )
    report = FillReport(embed_sig=embedder.signature)
    failed: dict[str, Failure] = {}
    stuck: set[str] = set()
    for _ in range(_PASSES):
        deadlines.check("filling the space")
        names = [
            name
            for name in lacking(service, dataset_id, embedder.signature)
            if name not in failed and name not in stuck
        ]
        if not names:
            break
        meter = EmbeddingProgress(progress, _chunks(service, dataset_id, names))
        with deriver.filler(
            store.documents, store.chunks, deriver.model, dataset_id, meter, store.layers
        ) as filler:
            filler.later(names)
            try:
                filler.finish()
            except CancelledError as error:
                done = filler.result()
                error.report = attrs.evolve(
                    report,
                    documents=report.documents + len(done.complete),
                    embedded=report.embedded + done.embedded,
                    reused=report.reused + done.reused,
                    lacking=len(lacking(service, dataset_id, embedder.signature)),
                )
                raise
            done = filler.result()
        failed.update((each.name, each) for each in done.failed)
        stuck.update(done.pending)
        report = attrs.evolve(
            report,
            documents=report.documents + len(done.complete),
            embedded=report.embedded + done.embedded,
            reused=report.reused + done.reused,
        )
    left = lacking(service, dataset_id, embedder.signature)
    return attrs.evolve(report, lacking=len(left), failed=tuple(failed.values()))


def lacking(service: Service, dataset_id: str, embed_sig: str) -> list[str]:
    """The names that lack vectors of a space that does not serve, without what has expired."""
    found = space_repo(service).waiting(dataset_id, dense(embed_sig))
    return [name for name in found if is_folder(name) or not _is_over(service, dataset_id, name)]


def _is_over(service: Service, dataset_id: str, name: str) -> bool:
    info = service.documents.get_info(dataset_id, name)
    return info is None or has_expired(info)


def _chunks(service: Service, dataset_id: str, names: Sequence[str]) -> int | None:
    """About how many texts are to be embedded; None where only some documents lack theirs."""
    stats = service.stats(dataset_id)[0]
    return stats.chunks + stats.layers if len(names) >= stats.documents else None


def _sum(left: FillReport, right: FillReport) -> FillReport:
    return FillReport(
        embed_sig=left.embed_sig,
        documents=left.documents + right.documents,
        embedded=left.embedded + right.embedded,
        reused=left.reused + right.reused,
        lacking=left.lacking + right.lacking,
        failed=(*left.failed, *right.failed),
    )
