"""Filling what lacks vectors, in one dataset or in all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from triptych import deadlines
from triptych._internal.progress import ProgressCallback
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.derivation.deriver import Deriver
from triptych.derivation.layers import LayerService
from triptych.derivation.writer import Writer
from triptych.errors import CancelledError, ConflictError, ModelMismatchError
from triptych.records import DatasetStats, EmbedReport, Failure
from triptych.records.documents import has_expired
from triptych.vectors.filler import FillResult
from triptych.vectors.progress import EmbeddingProgress


class PendingEmbedder:
    """See `Service.embed_pending`."""

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        deriver: Deriver,
        writer: Writer,
        layers: LayerService,
        stats: Callable[[str], DatasetStats | None],
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._deriver = deriver
        self._writer = writer
        self._layers = layers
        self._stats = stats

    def datasets(
        self, dataset_ids: Sequence[str], progress: ProgressCallback | None
    ) -> EmbedReport:
        """Fill all of them; what keeps one from being filled is in the report."""
        report = EmbedReport()
        for dataset_id in dataset_ids:
            try:
                more = self.dataset(dataset_id, None, progress)
            except (ModelMismatchError, ConflictError) as error:
                more = EmbedReport(failed=(Failure(dataset_id=dataset_id, name="", error=error),))
            except CancelledError as error:
                error.report = _sum(report, error.report or EmbedReport())
                raise
            report = _sum(report, more)
        return report

    def dataset(
        self, dataset_id: str, names: Sequence[str] | None, progress: ProgressCallback | None
    ) -> EmbedReport:
        """Fill one dataset, or the documents of ``names`` in it."""
        deadlines.check("embedding")
        if self._chunks.config(dataset_id) is None:
            return EmbedReport()
        self._writer.take_on_models(dataset_id)
        deriver = self._deriver.of_config(self._chunks.config(dataset_id))
        waiting = {
            name
            for model in deriver.models
            for name in self._chunks.waiting(dataset_id, model.space)
        }
        if names is None:
            ordered = self._newest_first(dataset_id, sorted(waiting))
        else:
            asked = [name for name in dict.fromkeys(names) if name in waiting]
            there = set(self._newest_first(dataset_id, asked))
            ordered = [name for name in asked if name in there]
        stats = self._stats(dataset_id) if progress and names is None else None
        meter = EmbeddingProgress(progress, stats.pending_chunks if stats else None)
        with self._writer.filler(dataset_id, meter) as filler:
            filler.lacking(ordered, embeddings=True)
            try:
                filler.finish()
            except CancelledError as error:
                error.report = _report(filler.result())
                raise
            except Exception as error:
                if error is meter.error or not isinstance(error, ModelMismatchError):
                    raise
                filler.fail(error)
            done = filler.result()
        report = _report(done)
        if names is not None:
            return report
        layers = self._layers.embed_again(dataset_id)
        return attrs.evolve(
            report,
            embedded=report.embedded + layers.embedded,
            failed=(*report.failed, *layers.failed),
        )

    def _newest_first(self, dataset_id: str, names: Sequence[str]) -> list[str]:
        """Those of ``names`` that are there and have not expired, newest first."""
        infos = (self._documents.get_info(dataset_id, name) for name in names)
        found = [info for info in infos if info is not None and not has_expired(info)]
        found.sort(key=lambda info: info.updated_at, reverse=True)
        return [info.name for info in found]


def _report(done: FillResult) -> EmbedReport:
    return EmbedReport(
        documents=len(done.complete),
        embedded=done.embedded,
        reused=done.reused,
        encoded=done.encoded,
        pending=len(done.pending),
        failed=done.failed,
    )


def _sum(left: EmbedReport, right: EmbedReport) -> EmbedReport:
    return EmbedReport(
        documents=left.documents + right.documents,
        embedded=left.embedded + right.embedded,
        reused=left.reused + right.reused,
        encoded=left.encoded + right.encoded,
        pending=left.pending + right.pending,
        failed=(*left.failed, *right.failed),
    )
