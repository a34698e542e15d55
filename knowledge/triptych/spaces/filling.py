"""Making the vectors of the next embedder in addition to the current ones."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from triptych import deadlines, telemetry
from triptych._internal.progress import EmbeddingProgress, ProgressCallback
from triptych.contracts import Embedder, VectorRepo
from triptych.contracts.models import how_to_set
from triptych.contracts.rules import missing_dataset
from triptych.derivation.batches import check_progress
from triptych.derivation.deriver import Deriver
from triptych.derivation.folder_tree import is_folder
from triptych.errors import CancelledError, NotAvailableError, NotFoundError
from triptych.records import DatasetConfig, Failure, SpaceCount
from triptych.records.documents import has_expired
from triptych.records.spaces import dense
from triptych.service import Service
from triptych.vectors.filler import FillResult


@attrs.frozen(kw_only=True, slots=True)
class SpaceState:
    """One embedding space of one dataset.

    Attributes:
        dataset_id: the dataset.
        embed_sig: the embedder's signature.
        serves: whether searches use it.
        dimension: the dimension of the vectors; 0 before the first.
        vectors: the number of vectors: of chunks if it serves, else of distinct texts.
        lacking: the number of documents, and of folders with layers, that lack vectors.
    """

    dataset_id: str
    embed_sig: str
    serves: bool
    dimension: int
    vectors: int
    lacking: int


@attrs.frozen(kw_only=True, slots=True)
class FillReport:
    """The report of filling a space, in one dataset or in several.

    Attributes:
        embed_sig: the embedder's signature.
        documents: the number of documents, and of folders with layers, that got all vectors.
        embedded: the number of texts sent to the embedder.
        reused: the number of texts that already had vectors.
        lacking: the number of documents and folders that still lack vectors.
        failed: what failed, and why.
    """

    embed_sig: str
    documents: int = 0
    embedded: int = 0
    reused: int = 0
    lacking: int = 0
    failed: tuple[Failure, ...] = ()


@attrs.frozen(kw_only=True, slots=True)
class SwapReport:
    """The report of a swap.

    Attributes:
        dataset_id: the dataset.
        embed_sig: the signature of the new embedder.
        before: the signature of the old embedder.
        swapped: False if the dataset already used it.
        embedded: the number of texts that had to be embedded.
        pending: the number of documents that lack vectors, which only keyword search finds.
    """

    dataset_id: str
    embed_sig: str
    before: str
    swapped: bool
    embedded: int = 0
    pending: int = 0


def space_repo(service: Service) -> VectorRepo:
    """Return the store's repository of vectors in other spaces than the serving one.

    Raises:
        NotAvailableError: the store keeps only the serving space.
    """
    repo = service.capabilities.spaces
    if repo is None:
        raise NotAvailableError(
            "this store keeps only vectors of one embedder, or the access is restricted: fill a "
            "copy of it with the other embedder (`triptych copy`)"
        )
    return repo


def kept_spaces(service: Service, dataset_id: str) -> list[SpaceCount]:
    """Return the dense spaces of a dataset that do not serve, by signature.

    Raises:
        NotAvailableError: the store keeps only the serving space.
    """
    found = space_repo(service).vector_spaces(dataset_id)
    return [each for each in found if each.space.kind == "dense"]


def config_of(service: Service, dataset_id: str) -> DatasetConfig:
    """Return the configuration of a dataset.

    Raises:
        NotFoundError: the dataset does not exist.
    """
    datasets = service.list_datasets()
    config = service.chunks.config(dataset_id)
    if dataset_id not in datasets or config is None:
        raise missing_dataset(dataset_id, datasets)
    return config


def embedder_of(service: Service, embed_sig: str) -> Embedder | None:
    """Return the embedder of the Service with this signature."""
    for each in (service.options.embedder, service.options.next_embedder):
        if each is not None and each.signature == embed_sig:
            return each
    return None


def next_signature(service: Service) -> str:
    """Return the signature of the next embedder.

    Raises:
        NotAvailableError: none is set.
    """
    embedder = service.options.next_embedder
    if embedder is None:
        raise NotAvailableError(
            f"the setting next_embedder names no embedder: {how_to_set('next_embedder')}, here and "
            "on servers of this knowledge base"
        )
    return embedder.signature


def previous_signature(service: Service, dataset_id: str, serving: str) -> str:
    """Return the space to swap back to: of the Service's ``embedder``, else the only kept one.

    Raises:
        NotFoundError: there is none, or there are several.
    """
    options = service.options
    kept = [each.space.sig for each in kept_spaces(service, dataset_id)]
    first = "" if options.embedder is None else options.embedder.signature
    following = "" if options.next_embedder is None else options.next_embedder.signature
    if first in kept or (first == serving and following not in ("", serving)):
        return first
    if len(kept) != 1:
        found = ", ".join(map(repr, kept)) or "none"
        raise NotFoundError(
            f"the dataset {dataset_id!r} keeps no vectors to go back to, or of several embedders "
            f"({found}): set embedder to the one to use"
        )
    return kept[0]


_PASSES = 3
"""The maximum number of passes over texts that were written meanwhile."""


def fill_space(
    service: Service, dataset_id: str | None = None, *, progress: ProgressCallback | None = None
) -> FillReport:
    """Make the vectors of the Service's next embedder for one dataset or all; return a report.

    Searches and writes continue in the serving space. Vectors are stored as they are made, so that
    an interrupted call can be repeated and continues. Concurrent calls do not embed the same text.
    Texts that have a vector of this embedder, or were removed, are not embedded. Datasets that
    already use the next embedder are skipped.

    Raises:
        NotAvailableError: no next embedder is set, or the store keeps only one space.
        NotFoundError: the dataset does not exist.
        CancelledError: the deadline passed; stored vectors are kept, and ``report`` counts them.
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
    """Fill the space of ``embedder`` in one dataset that uses another embedder."""
    space_repo(service)
    store, options = service.store, service.options
    deriver = Deriver(
        service.chunks,
        options.chunkers,
        embedder,
        options.embed_concurrency,
        executor=options.executor,
        settings=service.capabilities.settings,
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
                left = lacking(service, dataset_id, embedder.signature)
                report = _counted(report, filler.result())
                error.report = attrs.evolve(report, lacking=len(left))
                raise
            done = filler.result()
        failed.update((each.name, each) for each in done.failed)
        stuck.update(done.pending)
        report = _counted(report, done)
    left = lacking(service, dataset_id, embedder.signature)
    return attrs.evolve(report, lacking=len(left), failed=tuple(failed.values()))


def lacking(service: Service, dataset_id: str, embed_sig: str) -> list[str]:
    """Return the names that lack vectors of a non-serving space, without expired documents."""
    found = space_repo(service).waiting(dataset_id, dense(embed_sig))
    return [name for name in found if is_folder(name) or not _is_over(service, dataset_id, name)]


def _is_over(service: Service, dataset_id: str, name: str) -> bool:
    info = service.documents.get_info(dataset_id, name)
    return info is None or has_expired(info)


def _chunks(service: Service, dataset_id: str, names: Sequence[str]) -> int | None:
    """Estimate the number of texts to embed; None if only some documents lack vectors."""
    stats = service.stats(dataset_id)[0]
    return stats.chunks + stats.layers if len(names) >= stats.documents else None


def _counted(report: FillReport, done: FillResult) -> FillReport:
    return attrs.evolve(
        report,
        documents=report.documents + len(done.complete),
        embedded=report.embedded + done.embedded,
        reused=report.reused + done.reused,
    )


def _sum(left: FillReport, right: FillReport) -> FillReport:
    return FillReport(
        embed_sig=left.embed_sig,
        documents=left.documents + right.documents,
        embedded=left.embedded + right.embedded,
        reused=left.reused + right.reused,
        lacking=left.lacking + right.lacking,
        failed=(*left.failed, *right.failed),
    )
