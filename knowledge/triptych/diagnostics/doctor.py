"""The Service's doctor: checks everything, and repairs data that can be derived again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import attrs
import numpy as np

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych._internal.wording import FailureWarning
from triptych.contracts import Capabilities, Store
from triptych.contracts.pages import document_pages, pages_of
from triptych.copies.notes import abandoned_drafts, forget_copies, unfinished_copy
from triptych.derivation.folder_tree import is_folder
from triptych.derivation.layer_journal import has_source
from triptych.derivation.rebuild import RebuildRunner
from triptych.diagnostics.checks import CHECKS, FindingCollector
from triptych.diagnostics.documents import LeftOut, examine_document
from triptych.errors import CancelledError, StoreError, TriptychError
from triptych.records import DatasetStats, DoctorReport, DocumentInfo, Finding, Layer
from triptych.vectors.embedding import CoverageGate, embed_query
from triptych.vectors.lanes import ModelSet
from triptych.vectors.refused import refusals

_KINDS = (Layer.ABSTRACT, Layer.OVERVIEW)


@attrs.define(eq=False)
class Examination:
    """One look at a store: collects what is wrong, what was checked and what could not be."""

    _store: Store
    _capabilities: Capabilities
    _gate: Callable[[str], CoverageGate | None]
    _stats: Callable[[str], DatasetStats | None]
    findings: FindingCollector = attrs.field(factory=FindingCollector, init=False)
    checked: dict[str, int] = attrs.field(factory=dict, init=False)
    skipped: list[str] = attrs.field(factory=list, init=False)
    left_out: list[str] = attrs.field(factory=list, init=False)

    def count(self, what: str, count: int = 1) -> None:
        """Note that ``count`` more were checked."""
        self.checked[what] = self.checked.get(what, 0) + count

    def fail(self, check: str, dataset: str, example: str = "") -> None:
        """Note that ``check`` failed in ``dataset``."""
        self.findings.add(check, f"dataset {dataset!r}", example, dataset_id=dataset)

    def check_dataset(self, dataset: str, progress: ProgressCallback | None) -> None:
        """Put ``dataset`` to every check that three repositories allow."""
        documents, chunks = self._store.documents, self._store.chunks
        place = f"dataset {dataset!r}"
        before = self._counts(dataset)
        config = chunks.config(dataset)
        gate = None if config is None else self._gate(config.embed_sig)
        sets = _InOrder(chunks.doc_names(dataset))
        seen = {"documents": 0, "chunks": 0, "vectors": 0}
        width: int | None = None
        unjudged = 0
        unchunked = LeftOut(place, config)
        for page in document_pages(documents, dataset):
            for info in page:
                deadlines.check("the examination")
                result = examine_document(
                    info, documents, chunks, config, gate, width, self._capabilities.versions
                )
                if result is None:
                    continue
                width = result.width
                unjudged += result.unjudged
                unchunked.add(info, result.unchunked)
                seen["documents"] += 1
                seen["chunks"] += result.chunks
                seen["vectors"] += result.vectors
                for check, example in result.failed.items():
                    self.fail(check, dataset, example)
            for name in sets.without({info.name for info in page}, page[-1].name):
                self._check_set(dataset, name)
            if progress is not None:
                total = before.documents if before else None
                done = seen["documents"]
                progress(Progress(phase=f"examining {dataset}", done=done, total=total))
        self.left_out += unchunked.sentences()
        self.left_out += (
            FailureWarning(f"{place}, by meaning: {refused}, which the model refuses", words)
            for refused, words in refusals(chunks, self._capabilities.settings, dataset)
        )
        if unjudged:
            self.skipped.append(
                f"{place}: whether {unjudged} chunks without a vector should have one, which only "
                "the embedder of the dataset knows"
            )
        for name in sets.without(set()):
            self._check_set(dataset, name)
        seen["layers"] = self._check_layers(dataset)
        if before is not None and before == self._counts(dataset):
            found = tuple(seen.values())
            told = (before.documents, before.chunks, before.vectors, before.layers)
            unread = any(f.dataset_id == dataset and "unreadable" in f.check
                         for f in self.findings.findings())  # fmt: skip
            if found != told and not unread:
                self.fail("counts", dataset, f"{told} for {found}")
        for what, count in seen.items():
            self.count(what, count)

    def _counts(self, dataset: str) -> DatasetStats | None:
        try:
            return self._stats(dataset)
        except CancelledError:
            raise
        except StoreError:
            return None

    def _check_set(self, dataset: str, name: str) -> None:
        # Who deletes a document meanwhile takes its chunk set with it.
        gone = self._store.documents.get_info(dataset, name) is None
        if gone and self._store.chunks.get_doc_sig(dataset, name) is not None:
            self.fail("chunks.orphans", dataset, name)

    def _check_layers(self, dataset: str) -> int:
        documents, count = self._store.documents, 0
        try:
            for layer in chain(*(pages_of(self._store.layers, dataset, kind) for kind in _KINDS)):
                deadlines.check("the examination")
                count += 1
                name = layer.doc_name
                label = f"{name}#{layer.layer}"
                if not has_source(documents, dataset, name):
                    self.fail("layers.orphans", dataset, label)
                elif name and not is_folder(name):
                    info = documents.get_info(dataset, name)
                    if info is not None and layer.sig.source_version > info.version:
                        self.fail("layers.signature", dataset, label)
        except CancelledError:
            raise
        except StoreError:
            self.fail("layers.unreadable", dataset)
        return count


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


_DROPS = frozenset(
    check.name for check in CHECKS.values() if check.repair.startswith("the chunk set is dropped")
)
_DAMAGED = "database.pages"
_PROBE = "doctor"


def _damaged_first(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Where the file itself is damaged, that first: it may be why of all others, and a repair would
    write into it."""
    damaged = [each for each in findings if each.check == _DAMAGED]
    if not damaged:
        return tuple(findings)
    others = (each for each in findings if each.check != _DAMAGED)
    remedy = f"restore the file first, as {_DAMAGED} says"
    return (*damaged, *(attrs.evolve(each, repair="", remedy=remedy) for each in others))


class Doctor:
    """Examines and repairs; see `Service.doctor`."""

    def __init__(
        self, store: Store, capabilities: Capabilities, models: ModelSet, rebuilds: RebuildRunner
    ) -> None:
        self._store, self._capabilities = store, capabilities
        self._documents, self._chunks, self._layers = store.documents, store.chunks, store.layers
        self._settings = capabilities.settings
        self._diagnostics = capabilities.diagnostics
        self._models = models
        self._rebuilds = rebuilds

    def report(
        self,
        datasets: Callable[[], Sequence[str]],
        *,
        repair: bool,
        progress: ProgressCallback | None,
    ) -> DoctorReport:
        """Examine ``datasets``; with ``repair``, repair what was found and examine again.

        ``datasets`` is asked for each examination: a repair may bring one to light.
        """
        found = self._examine(datasets(), progress)
        if not repair or not any(finding.repairable for finding in found.findings):
            return found
        actions = tuple(self._repair(datasets(), found.findings, progress))
        left = self._examine(datasets(), progress)
        remaining = {(finding.check, finding.place) for finding in left.findings}
        return DoctorReport(
            findings=left.findings,
            repaired=tuple(f for f in found.findings if (f.check, f.place) not in remaining),
            actions=actions,
            checked=left.checked,
            skipped=left.skipped,
            left_out=left.left_out,
        )

    # Looking

    def _examine(self, datasets: Sequence[str], progress: ProgressCallback | None) -> DoctorReport:
        found = Examination(self._store, self._capabilities, self._gate, self._stats)
        self._examine_models(found)
        for draft in abandoned_drafts(self._settings, remove=False):
            found.findings.add("backups.left", "backups", str(draft))
        unfinished = unfinished_copy(self._settings)
        if unfinished is not None:
            check = CHECKS["copy.unfinished"]
            if not unfinished_copy(self._settings, self._documents.list_datasets()):
                check = attrs.evolve(check, repair="the copy is forgotten: it left no dataset")
            found.findings.add(check, "the store", str(unfinished), remedy=unfinished.hint)
        if self._diagnostics is None:
            found.skipped.append("the internals of the store: this backend has no checks")
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # damaged numbers are findings
                for finding in self._diagnostics.check_integrity(datasets):
                    deadlines.check("the examination")
                    found.findings.extend([finding])
        for dataset in datasets:
            found.count("datasets")
            try:
                found.check_dataset(dataset, progress)
            except CancelledError:
                raise
            except (TriptychError, TypeError, ValueError) as error:
                # A value of another type than the schema's ends in one of the latter two.
                found.skipped.append(
                    FailureWarning(f"dataset {dataset!r}: reading it failed", error)
                )
                found.fail("documents.unreadable", dataset)
        findings = [self._judged(each, datasets) for each in found.findings.findings()]
        return DoctorReport(
            findings=_damaged_first(findings),
            checked=dict(found.checked),
            skipped=tuple(dict.fromkeys(found.skipped)),
            left_out=tuple(found.left_out),
        )

    def _examine_models(self, found: Examination) -> None:
        for lane in self._models.lanes:
            model = lane.model
            if model is None:
                continue
            verify_weights = getattr(model, "verify_weights", None)
            if verify_weights is None:
                found.skipped.append(f"the weights of {model.signature}: it has no known files")
                continue
            try:
                verify_weights()
            except CancelledError:
                raise
            except TriptychError as error:
                place = f"the {lane.maker} {model.signature}"
                found.findings.add("embedder.weights", place, str(error))
            found.count("models")

    def _judged(self, finding: Finding, datasets: Sequence[str]) -> Finding:
        """Without a repair where the dataset was filled with other settings than those in use."""
        concerned = [finding.dataset_id] if finding.dataset_id else datasets
        if not finding.derives or all(map(self._derives, concerned)):
            return finding
        return attrs.evolve(
            finding,
            repair="",
            remedy="open the store with the chunker and the embedder that this dataset was filled "
            "with and repair then, or rebuild it with those in use: `triptych rebuild`",
        )

    def _derives(self, dataset: str) -> bool:
        """Whether this Service makes the chunk sets that the dataset is configured for."""
        config = self._chunks.config(dataset)
        ours = (self._models.chunker_sig, self._models.embed_sig)
        return config is None or (config.chunker_sig, config.embed_sig) == ours

    def _gate(self, embed_sig: str) -> CoverageGate | None:
        ours = self._models.embedder is not None and self._models.embed_sig == embed_sig
        return self._models.coverage if ours else None

    def _stats(self, dataset: str) -> DatasetStats | None:
        models = self._models
        return self._store.stats(
            dataset, chunker_sig=models.chunker_sig, embed_sig=models.embed_sig
        )

    # Repairing

    def _repair(
        self,
        datasets: Sequence[str],
        findings: Sequence[Finding],
        progress: ProgressCallback | None,
    ) -> Iterator[str]:
        """Repair what was found; yields what was done."""
        if any(finding.derives for finding in findings) and not self._embeds():
            yield "did not repair vectors: the embedder does not respond"
            findings = [finding for finding in findings if not finding.derives]
        # A check that finds something beyond repair in one dataset is not let loose on the store.
        names = {finding.check for finding in findings if finding.repairable}
        names -= {finding.check for finding in findings if not finding.repairable}
        if self._diagnostics is not None:
            yield from self._diagnostics.repair(names, datasets)
        if "backups.left" in names:
            drafts = abandoned_drafts(self._settings, remove=True)
            yield f"removed {', '.join(map(str, drafts)) or 'no drafts'}"
        if "copy.unfinished" in names and self._settings is not None:
            forget_copies(self._settings)
            yield "removed the record of a copy that has no dataset"
        for dataset in self._documents.list_datasets():
            checks = {
                finding.check
                for finding in findings
                if finding.repairable and finding.dataset_id == dataset
            }
            try:
                yield from self._repair_dataset(dataset, checks, progress)
            except CancelledError:
                raise
            except TriptychError as error:
                yield FailureWarning(f"left dataset {dataset!r} partly repaired", error)

    def _repair_dataset(
        self, dataset: str, checks: set[str], progress: ProgressCallback | None
    ) -> Iterator[str]:
        if checks & {"chunks.orphans", "layers.orphans"}:
            removed = self._rebuilds.remove_orphans(dataset).removed
            yield f"removed what {removed} names of dataset {dataset!r} left behind"
        if "layers.signature" in checks:
            yield self._drop_layers(dataset)
        if not self._derives(dataset) or not self._embeds():
            return
        if checks & _DROPS:
            yield self._drop_sets(dataset)
        report = self._rebuilds.datasets([dataset], progress)
        if report.rebuilt:
            yield f"derived {report.rebuilt} documents of dataset {dataset!r} again"
        for each in report.failed:
            yield FailureWarning(f"could not derive {each.name!r}", each.error)

    def _drop_layers(self, dataset: str) -> str:
        dropped = 0
        for layer in self._layers.list(dataset):
            info = self._documents.get_info(dataset, layer.doc_name)
            # Read again: another may have put the document, and made its layer, meanwhile.
            now = self._layers.get(dataset, layer.doc_name, layer.layer)
            if info is not None and now is not None and now.sig.source_version > info.version:
                self._layers.delete_by_doc(dataset, layer.doc_name)
                dropped += 1
        return f"dropped {dropped} layers of dataset {dataset!r}"

    def _embeds(self) -> bool:
        embedder = self._models.embedder
        try:
            return embedder is None or len(embed_query(embedder, _PROBE)) > 0
        except CancelledError:
            raise
        except TriptychError:
            return False

    def _drop_sets(self, dataset: str) -> str:
        """Drop the sets that fail a check of `_DROPS` now."""
        config = self._chunks.config(dataset)
        gate = None if config is None else self._gate(config.embed_sig)
        width: int | None = None
        dropped = 0
        for page in document_pages(self._documents, dataset):
            for info in page:
                width, bad = self._is_bad(info, gate, width)
                if bad:
                    self._chunks.delete_by_doc(dataset, info.name)
                    dropped += 1
        return f"dropped {dropped} chunk sets of dataset {dataset!r}"

    def _is_bad(
        self, info: DocumentInfo, gate: CoverageGate | None, width: int | None
    ) -> tuple[int | None, bool]:
        config = self._chunks.config(info.dataset_id)
        result = examine_document(info, self._documents, self._chunks, config, gate, width)
        if result is None:
            return width, False
        return result.width, bool(result.failed.keys() & _DROPS)
