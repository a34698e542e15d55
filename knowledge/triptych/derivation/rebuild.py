"""Rebuilds: only what is stale is derived again, and what has lost its source is removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych.contracts import ChunkRepo, DocumentRepo, LayerRepo
from triptych.derivation.batches import BATCH_CHARACTERS, check_progress
from triptych.derivation.expiration import remove_expired
from triptych.derivation.folder_tree import is_folder
from triptych.derivation.layers import LayerService
from triptych.derivation.set_filler import SetFiller
from triptych.derivation.writer import Writer
from triptych.errors import CancelledError, ConflictError, ModelMismatchError, StoreAwayError
from triptych.records import DocumentInfo, Failure, RebuildReport, SourceDocument
from triptych.vectors.failures import derivation_error
from triptych.vectors.progress import EmbeddingProgress

_PAGE = 256


class RebuildRunner:
    """The Service's rebuilds.

    Each page of documents is committed before the next is read: a rebuild that was cut off
    goes on where it stopped, for what it made is fresh by then.
    """

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        layers: LayerRepo,
        writer: Writer,
        layer_desk: LayerService,
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._layers = layers
        self._writer = writer
        self._layer_desk = layer_desk

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
        report = _sum(report, self._remove_orphans(dataset_id, gone))
        there = [name for name in names if name not in gone]
        return _sum(report, self._layer_desk.embed_again(dataset_id, there))

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
                report = _sum(report, RebuildReport(expired=expired))
                report = _sum(report, self._dataset(dataset_id, progress))
                report = _sum(report, self.remove_orphans(dataset_id))
                report = _sum(report, self._layer_desk.embed_again(dataset_id))
            except CancelledError as error:
                error.report = _sum(report, error.report or RebuildReport())
                raise
        return report

    def _dataset(self, dataset_id: str, progress: ProgressCallback | None) -> RebuildReport:
        """The chunks of all documents, page by page, and then the vectors that they lack."""
        report = RebuildReport()
        meter = EmbeddingProgress(progress)
        total = len(self._documents.list(dataset_id)) if progress is not None else None
        with self._writer.filler(dataset_id, meter) as filler:
            try:
                for page in self._pages(dataset_id):
                    deadlines.check("the rebuild")
                    report = _sum(report, self._page(dataset_id, page, filler))
                    if progress is not None:
                        phase = f"rebuilding {dataset_id}"
                        progress(Progress(phase=phase, done=report.checked, total=total))
                filler.lacking()
                filler.finish()
            except CancelledError as error:
                error.report = _filled(report, filler)
                raise
            return _filled(report, filler)

    def remove_orphans(self, dataset_id: str, more: Iterable[str] = ()) -> RebuildReport:
        """Remove what has lost its source: layers of folders that are empty now, for one.

        ``more`` are further names to look under.
        """
        names = dict.fromkeys([*self._orphans(dataset_id), *more])
        return self._remove_orphans(dataset_id, list(names))

    def _orphans(self, dataset_id: str) -> list[str]:
        derived = dict.fromkeys(self._chunks.doc_names(dataset_id))
        derived |= dict.fromkeys(layer.doc_name for layer in self._layers.list(dataset_id))
        if not derived:
            return []
        known = {info.name for page in self._pages(dataset_id) for info in page}
        return [name for name in derived if name not in known and not self._serves(name, known)]

    def _serves(self, name: str, known: set[str]) -> bool:
        """Whether layers under ``name`` belong to the dataset, or to a folder that is not empty."""
        if not name:
            return bool(known)
        return is_folder(name) and any(each.startswith(name) for each in known)

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
            if have.get(info.name) == filler.deriver.expected_signature(info):
                continue
            document = self._documents.get(dataset_id, info.name)
            if document is not None:
                batch.append(document)
                size += len(document.content)
            if size > BATCH_CHARACTERS:
                report = _sum(report, self._rebuilt(dataset_id, batch, filler))
                batch, size = [], 0
        report = _sum(report, self._rebuilt(dataset_id, batch, filler))
        return attrs.evolve(report, fresh=report.checked - report.rebuilt - len(report.failed))

    def _rebuilt(
        self, dataset_id: str, documents: Sequence[SourceDocument], filler: SetFiller
    ) -> RebuildReport:
        try:
            filler.poll()
            done = self._writer.refresh(dataset_id, documents, filler)
        except (CancelledError, ModelMismatchError, ConflictError, StoreAwayError):
            raise
        except Exception as error:  # noqa: BLE001 - reported item by item
            return RebuildReport(
                failed=tuple(
                    Failure(dataset_id=dataset_id, name=d.name, error=derivation_error(d, error))
                    for d in documents
                )
            )
        return RebuildReport(
            rebuilt=len(done.names),
            embedded=done.embedded,
            reused=done.reused,
            failed=done.failed,
        )

    def _pages(self, dataset_id: str) -> Iterator[Sequence[DocumentInfo]]:
        after = ""
        while page := self._documents.list(dataset_id, after=after, limit=_PAGE):
            yield page
            after = page[-1].name


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


def _sum(left: RebuildReport, right: RebuildReport) -> RebuildReport:
    return RebuildReport(
        checked=left.checked + right.checked,
        fresh=left.fresh + right.fresh,
        rebuilt=left.rebuilt + right.rebuilt,
        embedded=left.embedded + right.embedded,
        reused=left.reused + right.reused,
        encoded=left.encoded + right.encoded,
        removed=left.removed + right.removed,
        expired=left.expired + right.expired,
        pending=left.pending + right.pending,
        failed=(*left.failed, *right.failed),
    )
