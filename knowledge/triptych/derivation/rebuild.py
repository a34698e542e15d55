"""Rebuilding datasets: deriving stale chunks and making pending vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from triptych import deadlines
from triptych._internal.progress import EmbeddingProgress, Progress, ProgressCallback
from triptych.contracts import ChunkRepo, DocumentReader, DocumentRepo, LayerRepo
from triptych.contracts.pages import document_pages
from triptych.contracts.rules import has_source
from triptych.derivation.batches import BATCH_CHARACTERS, check_progress
from triptych.derivation.deriver import Deriver, SetFiller
from triptych.derivation.folder_tree import is_folder
from triptych.derivation.layers import LayerService
from triptych.derivation.writer import Writer
from triptych.errors import CancelledError, ConflictError, ModelMismatchError, StoreAwayError
from triptych.living_documents import remove_expired
from triptych.records import (
    DatasetStats,
    DocumentInfo,
    EmbedReport,
    Failure,
    RebuildReport,
    SourceDocument,
)
from triptych.records.reports import summed
from triptych.vectors.filler import FillResult, derivation_failures
from triptych.vectors.lanes import ModelSet

_PAGE = 256


@attrs.frozen(eq=False)
class RebuildRunner:
    """The Service's rebuilds.

    Each page of documents is committed before the next is read: a rebuild that was cut off
    goes on where it stopped, for what it made is fresh by then.
    """

    _documents: DocumentRepo
    _chunks: ChunkRepo
    _layers: LayerRepo
    _models: ModelSet
    _writer: Writer
    _layer_service: LayerService

    def named(self, dataset_id: str, names: Sequence[str]) -> RebuildReport:
        """Bring these documents' sets up to date; remove what is left of those that are gone.

        Of a folder, which is named with a slash after, the layers alone.
        """
        deadlines.check("the rebuild")
        expired = remove_expired(self._documents, dataset_id, names)
        infos = {name: self._documents.get_info(dataset_id, name) for name in names}
        page = [info for info in infos.values() if info is not None]
        if page:
            self._writer.check_config(dataset_id)
        report = RebuildReport()
        with self._writer.filler(dataset_id) as filler:
            try:
                report = self._page(dataset_id, page, filler)
                filler.lacking([info.name for info in page])
                filler.finish()
            except CancelledError as error:
                error.report = _filled(report, filler)
                raise
            report = _filled(report, filler)
        report = attrs.evolve(report, expired=expired)
        gone = [
            name
            for name, info in infos.items()
            if info is None
            and not (is_folder(name) and self._documents.list(dataset_id, prefix=name, limit=1))
        ]
        report = summed(report, self._remove_orphans(dataset_id, gone))
        there = [name for name in names if name not in gone]
        return summed(report, self._layer_service.embed_again(dataset_id, there))

    def datasets(
        self, dataset_ids: Sequence[str], progress: ProgressCallback | None
    ) -> RebuildReport:
        """Bring everything in the datasets up to date, under this Service's configuration."""
        check_progress(progress)
        report = RebuildReport()
        for dataset_id in dataset_ids:
            try:
                self._writer.adopt_config(dataset_id)
                expired = remove_expired(self._documents, dataset_id)
                report = summed(report, RebuildReport(expired=expired))
                report = summed(report, self._dataset(dataset_id, progress))
                report = summed(report, self.remove_orphans(dataset_id))
                report = summed(report, self._layer_service.embed_again(dataset_id))
            except CancelledError as error:
                error.report = summed(report, error.report or RebuildReport())
                raise
        return report

    def _dataset(self, dataset_id: str, progress: ProgressCallback | None) -> RebuildReport:
        """The chunks of all documents, page by page, and then the vectors that they lack."""
        report = RebuildReport()
        meter = EmbeddingProgress(progress)
        total = len(self._documents.list(dataset_id)) if progress is not None else None
        with self._writer.filler(dataset_id, meter) as filler:
            try:
                for page in document_pages(self._documents, dataset_id):
                    deadlines.check("the rebuild")
                    report = summed(report, self._page(dataset_id, page, filler))
                    if progress is not None:
                        phase = f"rebuilding {dataset_id}"
                        progress(Progress(phase=phase, done=report.checked, total=total))
                filler.lacking()
                filler.finish()
            except CancelledError as error:
                error.report = _filled(report, filler)
                raise
            return _filled(report, filler)

    def remove_orphans(self, dataset_id: str) -> RebuildReport:
        """Remove what has lost its source: layers of folders that are empty now, for one."""
        return self._remove_orphans(dataset_id, self._orphans(dataset_id))

    def _orphans(self, dataset_id: str) -> list[str]:
        derived = dict.fromkeys(self._chunks.doc_names(dataset_id))
        derived |= dict.fromkeys(layer.doc_name for layer in self._layers.list(dataset_id))
        if not derived:
            return []
        known = {info.name for page in document_pages(self._documents, dataset_id) for info in page}
        return [name for name in derived if not has_source(name, known)]

    def _remove_orphans(self, dataset_id: str, names: Sequence[str]) -> RebuildReport:
        removed = 0
        for at in range(0, len(names), _PAGE):
            removed += len(self._documents.delete_orphans(dataset_id, names[at : at + _PAGE]))
        return RebuildReport(removed=removed)

    def _page(
        self, dataset_id: str, page: Sequence[DocumentInfo], filler: SetFiller
    ) -> RebuildReport:
        have = self._chunks.get_doc_sigs(dataset_id, [info.name for info in page])
        report = RebuildReport(checked=len(page))
        batch: list[SourceDocument] = []
        size = 0
        for info in page:
            if have.get(info.name) == self._models.expected_signature(info):
                continue
            document = self._documents.get(dataset_id, info.name)
            if document is not None:
                batch.append(document)
                size += len(document.content)
            if size > BATCH_CHARACTERS:
                report = summed(report, self._rebuilt(dataset_id, batch, filler))
                batch, size = [], 0
        report = summed(report, self._rebuilt(dataset_id, batch, filler))
        return attrs.evolve(report, fresh=report.checked - report.rebuilt - len(report.failed))

    def _rebuilt(
        self, dataset_id: str, documents: Sequence[SourceDocument], filler: SetFiller
    ) -> RebuildReport:
        try:
            filler.vectors.poll()
            done = self._writer.refresh(dataset_id, documents, filler)
        except (CancelledError, ModelMismatchError, ConflictError, StoreAwayError):
            raise
        except Exception as error:  # noqa: BLE001 - reported item by item
            return RebuildReport(failed=derivation_failures(documents, error))
        return RebuildReport(
            rebuilt=len(done.names), embedded=done.embedded, reused=done.reused, failed=done.failed
        )


def _filled(report: RebuildReport, filler: SetFiller) -> RebuildReport:
    """``report`` with the vectors that are stored by now; sets that failed are not rebuilt."""
    done = filler.result()
    # What lacks no embeddings was fresh before.
    undone = len(filler.touched.intersection(done.pending))
    return attrs.evolve(
        report,
        rebuilt=max(0, report.rebuilt - undone),
        fresh=max(0, report.fresh + undone - len(done.failed)),
        embedded=report.embedded + done.embedded,
        reused=report.reused + done.reused,
        encoded=report.encoded + done.encoded,
        failed=(*report.failed, *done.failed),
        pending=len(done.pending),
    )


# Pending vectors


@attrs.frozen(eq=False)
class PendingEmbedder:
    """See `Service.embed_pending`."""

    _documents: DocumentReader
    _chunks: ChunkRepo
    _deriver: Deriver
    _writer: Writer
    _layers: LayerService
    _stats: Callable[[str], DatasetStats | None]

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
                error.report = summed(report, error.report or EmbedReport())
                raise
            report = summed(report, more)
        return report

    def dataset(
        self, dataset_id: str, names: Sequence[str] | None, progress: ProgressCallback | None
    ) -> EmbedReport:
        """Fill one dataset, or the documents of ``names`` in it."""
        deadlines.check("embedding")
        if self._chunks.config(dataset_id) is None:
            return EmbedReport()
        self._writer.take_on_models(dataset_id)
        waiting = {
            name
            for lane in self._deriver.lanes
            for name in self._chunks.waiting(dataset_id, lane.space)
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
        """Those of ``names`` that are there, newest first."""
        infos = (self._documents.get_info(dataset_id, name) for name in names)
        found = [info for info in infos if info is not None]
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
