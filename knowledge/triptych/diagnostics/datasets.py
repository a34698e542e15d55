"""One dataset, page by page: its documents, their layers, and what has lost its document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych.contracts import Capabilities, DocumentRepo, Store
from triptych.derivation.folder_tree import is_folder, pages_of
from triptych.derivation.living_documents import document_pages
from triptych.diagnostics.checks import FindingCollector
from triptych.diagnostics.documents import LeftOut, examine_document
from triptych.errors import CancelledError, StoreError
from triptych.records import DatasetStats, Layer
from triptych.vectors.embedding import CoverageGate

_KINDS = (Layer.ABSTRACT, Layer.OVERVIEW)


class Counted(dict[str, int]):
    """How many of what were looked at."""

    def add(self, what: str, count: int) -> None:
        """Count ``count`` more."""
        self[what] = self.get(what, 0) + count


class DatasetExaminer:
    """Puts datasets to every check that three repositories allow."""

    def __init__(
        self,
        store: Store,
        capabilities: Capabilities,
        gate: Callable[[str], CoverageGate | None],
        stats: Callable[[str], DatasetStats | None],
    ) -> None:
        self._documents, self._chunks, self._layers = store.documents, store.chunks, store.layers
        self._versions = capabilities.versions
        self._journal = capabilities.journal
        self._gate = gate
        self._stats = stats

    def check_integrity(
        self,
        dataset: str,
        tally: FindingCollector,
        counted: Counted,
        skipped: list[str],
        progress: ProgressCallback | None,
        left_out: list[str],
    ) -> None:
        """Look at ``dataset``; what is wrong goes to ``tally``, what is in no chunk to
        ``left_out``."""
        place = f"dataset {dataset!r}"
        before = self._counts(dataset)
        config = self._chunks.config(dataset)
        gate = None if config is None else self._gate(config.embed_sig)
        sets = _InOrder(self._chunks.doc_names(dataset))
        seen = Counted(documents=0, chunks=0, vectors=0)
        width: int | None = None
        unjudged = 0
        unchunked = LeftOut(place, config)
        for page in document_pages(self._documents, dataset):
            for info in page:
                deadlines.check("the examination")
                result = examine_document(
                    info, self._documents, self._chunks, config, gate, width, self._versions
                )
                if result is None:
                    continue
                width = result.width
                unjudged += result.unjudged
                unchunked.add(info, result.unchunked)
                seen.add("documents", 1)
                seen.add("chunks", result.chunks)
                seen.add("vectors", result.vectors)
                for check, example in result.failed.items():
                    tally.add(check, place, example, dataset_id=dataset)
            for name in sets.without({info.name for info in page}, page[-1].name):
                self._orphaned_set(dataset, name, tally, place)
            if progress is not None:
                total = before.documents if before else None
                done = seen["documents"]
                progress(Progress(phase=f"examining {dataset}", done=done, total=total))
        left_out += unchunked.sentences()
        if unjudged:
            skipped.append(
                f"{place}: whether {unjudged} chunks without a vector ought to have one, which "
                "the embedder tells that it was filled with"
            )
        for name in sets.without(set()):
            self._orphaned_set(dataset, name, tally, place)
        layers = self._examine_layers(dataset, tally, place)
        self._orphaned_notes(dataset, tally, place)
        if before is not None and before == self._counts(dataset):
            found = (seen["documents"], seen["chunks"], seen["vectors"], layers)
            told = (before.documents, before.chunks, before.vectors, before.layers)
            unread = any(f.dataset_id == dataset and "unreadable" in f.check
                         for f in tally.findings())  # fmt: skip
            if found != told and not unread:
                tally.add("counts", place, f"{told} for {found}", dataset_id=dataset)
        for what, count in seen.items():
            counted.add(what, count)
        counted.add("layers", layers)

    def _counts(self, dataset: str) -> DatasetStats | None:
        try:
            return self._stats(dataset)
        except CancelledError:
            raise
        except StoreError:
            return None

    def _orphaned_set(self, dataset: str, name: str, tally: FindingCollector, place: str) -> None:
        # Who deletes a document meanwhile takes its chunk set with it.
        gone = self._documents.get_info(dataset, name) is None
        if gone and self._chunks.get_doc_sig(dataset, name) is not None:
            tally.add("chunks.orphans", place, name, dataset_id=dataset)

    def _examine_layers(self, dataset: str, tally: FindingCollector, place: str) -> int:
        count = 0
        try:
            for layer in chain(*(pages_of(self._layers, dataset, kind) for kind in _KINDS)):
                deadlines.check("the examination")
                count += 1
                name = layer.doc_name
                label = f"{name}#{layer.layer}"
                if not serves(self._documents, dataset, name):
                    tally.add("layers.orphans", place, label, dataset_id=dataset)
                elif name and not is_folder(name):
                    info = self._documents.get_info(dataset, name)
                    if info is not None and layer.sig.source_version > info.version:
                        tally.add("layers.signature", place, label, dataset_id=dataset)
        except CancelledError:
            raise
        except StoreError:
            tally.add("layers.unreadable", place, dataset_id=dataset)
        return count

    def _orphaned_notes(self, dataset: str, tally: FindingCollector, place: str) -> None:
        for quarantined in self._journal.quarantined(dataset) if self._journal else ():
            if not serves(self._documents, dataset, quarantined.doc_name):
                label = f"{quarantined.doc_name}#{quarantined.layer}"
                tally.add("journal.orphans", place, label, dataset_id=dataset)


class _InOrder:
    """Names in order, asked page by page for those that a page lacks."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._at = 0

    def without(self, page: set[str], last: str | None = None) -> Iterator[str]:
        """The names up to ``last`` (None: all that are left) that ``page`` does not have."""
        while self._at < len(self._names):
            name = self._names[self._at]
            if last is not None and name > last:
                return
            self._at += 1
            if name not in page:
                yield name


def serves(documents: DocumentRepo, dataset: str, name: str) -> bool:
    """Whether layers under ``name`` have what they are the layers of: a document, or a folder or
    dataset with one in it."""
    if not name or is_folder(name):
        return bool(documents.list(dataset, prefix=name, limit=1))
    return documents.get_info(dataset, name) is not None
