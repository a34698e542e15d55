"""The methods of a Service that configure, delete, rebuild and check datasets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from triptych import telemetry
from triptych._internal.wording import FailureWarning, counted
from triptych.errors import (
    CancelledError,
    CorruptStoreError,
    NotAvailableError,
    TriptychError,
    ValidationError,
)
from triptych.living_documents import remove_expired
from triptych.records import CacheStats, DatasetConfig, check_identifier, check_whole
from triptych.search.dataset_settings import forget_judgements, forget_settings
from triptych.service.base import ServiceBase, check_names, checked
from triptych.service.options import check_language
from triptych.vectors.refused import refusals

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.records import (
        DatasetStats,
        DeleteReport,
        DoctorReport,
        Health,
        PurgeReceipt,
        RebuildReport,
        RebuildScope,
    )


class Datasets(ServiceBase):
    """The methods of a Service for datasets, deletion and maintenance."""

    @checked
    def list_datasets(self) -> Sequence[str]:
        return self.documents.list_datasets()

    @checked
    def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool:
        check_identifier(dataset_id, "dataset_id")
        if language is not None:
            check_language(language)
        if self._view is not None:
            self._view.check_create(dataset_id)
        before = self.chunks.config(dataset_id)
        if dataset_id in self.documents.list_datasets():
            return False
        # First, so that no crash leaves a dataset without its language.
        self._parts.writer.offer_config(dataset_id, language, expected=before)
        return self.documents.create_dataset(dataset_id)

    @checked
    def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig:
        check_identifier(dataset_id, "dataset_id")
        check_language(language)
        if self._view is not None:
            self._view.check_whole(dataset_id, "its language")
        return self._parts.writer.set_language(dataset_id, language)

    # Deletes

    @checked
    def delete_document(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        check_names(dataset_id, name)
        if if_version is not None:
            check_whole(if_version, "if_version")
        with telemetry.operation("delete"):
            deleted = self.documents.delete(dataset_id, name, if_version=if_version)
            telemetry.note(documents=int(deleted))
            return deleted

    @checked
    def delete_documents(
        self,
        dataset_id: str,
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> DeleteReport:
        from triptych.derivation.management import which_documents

        check_names(dataset_id)
        tree, wanted = which_documents(names, where)
        if tree is None:
            raise ValidationError(
                "an empty where matches every document: to delete all, call delete_dataset or "
                "recreate"
            )
        self._require_dataset(dataset_id)
        with telemetry.operation("delete", bulk=True):
            report = self._parts.manager.delete(dataset_id, tree, wanted)
            telemetry.note(documents=len(report.deleted), failed=len(report.failed))
            return report

    @checked
    def remove_expired(self, dataset_id: str | None = None) -> int:
        return sum(remove_expired(self.documents, each) for each in self._asked(dataset_id))

    @checked
    def delete_dataset(self, dataset_id: str) -> bool:
        return self._drop_dataset(dataset_id)[0]

    def _drop_dataset(self, dataset_id: str) -> tuple[bool, int]:
        """Whether it existed, and how many questions were logged about it."""
        from triptych.derivation.erasure import forget_proposals

        check_names(dataset_id)
        existed = self.documents.delete_dataset(dataset_id)
        forget_settings(self.capabilities.settings, dataset_id)
        forget_proposals(self._opened.capabilities.settings, dataset_id, None)
        return existed, self._forget_questions(dataset_id, None)

    @checked
    def recreate(self, dataset_id: str) -> bool:
        check_names(dataset_id)
        config = self.chunks.config(dataset_id)
        existed = self.delete_dataset(dataset_id)
        if config is not None:
            self._parts.writer.set_language(dataset_id, config.language)
        return existed

    @checked
    def purge(self, dataset_id: str, name: str | None = None) -> PurgeReceipt:
        from triptych.derivation.erasure import BEYOND, DAMAGED, count_held
        from triptych.records import PurgeReceipt, ScrubReport

        check_names(dataset_id, *(() if name is None else (name,)))
        versions = self.capabilities.versions
        try:
            held = count_held(self.store, versions, dataset_id, name)
        except CorruptStoreError:  # it is erased all the same
            held = PurgeReceipt(dataset_id=dataset_id, name=name, beyond=(DAMAGED,))
        kept = self._parts.cache_stats().entries
        layers = held.layers
        if name is None:
            existed, questions = self._drop_dataset(dataset_id)
        else:
            # Before and after: a process may end in between, or another one store them again.
            layers += self._remove_layers_above(dataset_id, name, every=held.documents > 0)
            existed = self.delete_document(dataset_id, name)
            layers += self._remove_layers_above(dataset_id, name, every=existed)
            questions = self._forget_questions(dataset_id, name)
            if golden := forget_judgements(self.capabilities.settings, dataset_id, name):
                more = f"the text of {golden} golden questions about it: drop those that quote it"
                held = attrs.evolve(held, beyond=(*held.beyond, more))
        requests = self._forget_elsewhere(dataset_id, name, existed=existed)
        left = self._parts.cache_stats().entries
        scrubbed = self.store.scrub() or ScrubReport()
        return attrs.evolve(
            held,
            existed=existed,
            layers=layers,
            answers=max(kept - left, 0),
            questions=questions,
            requests=requests,
            terms=scrubbed.terms,
            beyond=(*held.beyond, *scrubbed.beyond, *BEYOND),
        )

    # Upkeep

    @checked
    def rebuild(
        self,
        scope: RebuildScope | None = None,
        *,
        dataset_id: str = "",
        doc_name: str = "",
        progress: ProgressCallback | None = None,
    ) -> RebuildReport:
        from triptych.records import RebuildScope

        if scope is not None and not isinstance(scope, RebuildScope):
            raise ValidationError(
                f"rebuild takes a RebuildScope, not {type(scope).__name__}: to name a dataset, "
                "write rebuild(dataset_id=…)"
            )
        if scope is not None and (dataset_id or doc_name):
            raise ValidationError("give rebuild a scope or a dataset_id, not both")
        scope = scope or RebuildScope(dataset_id=dataset_id, doc_name=doc_name)
        if scope.dataset_id and scope.dataset_id not in self.documents.list_datasets():
            report = self._parts.rebuilds.remove_orphans(scope.dataset_id)
            if not report.removed:
                raise self._missing(scope.dataset_id)
            return report
        with telemetry.operation("rebuild"):
            if scope.doc_names:
                report = self._parts.rebuilds.named(scope.dataset_id, scope.doc_names)
            else:
                one = scope.dataset_id
                datasets = [one] if one else self.documents.list_datasets()
                report = self._parts.rebuilds.datasets(datasets, progress)
            telemetry.note(documents=report.rebuilt, failed=len(report.failed))
            return report

    @checked
    def stats(self, dataset_id: str | None = None) -> list[DatasetStats]:
        found = map(self._parts.stats, self._asked(dataset_id))
        stats = [each for each in found if each is not None]  # None: deleted meanwhile
        if dataset_id is not None and not stats:
            raise self._missing(dataset_id)
        return stats

    @checked
    def cache_stats(self) -> CacheStats:
        if self.capabilities.changes is None:
            raise NotAvailableError("this store has no change log, which a semantic cache needs")
        return self._parts.cache_stats()

    @checked
    def health(self, *, probe: bool = True) -> Health:
        from triptych.diagnostics.health import check_health

        return check_health(
            self.documents,
            self.capabilities.diagnostics,
            self.options.models.kept,
            self.stats,
            probe=probe,
            refused=lambda each: refusals(self.chunks, self.capabilities.settings, each),
        )

    @checked
    def doctor(
        self,
        *,
        repair: bool = False,
        dataset_id: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> DoctorReport:
        from triptych.derivation.batches import check_progress
        from triptych.diagnostics.doctor import Doctor
        from triptych.search.agreement import MOST_DATASETS, disagreement

        check_progress(progress)
        datasets: Callable[[], Sequence[str]] = self.documents.list_datasets
        if dataset_id is not None:
            datasets = partial(list, self._asked(dataset_id))
        doctor = Doctor(self.store, self.capabilities, self._parts.models, self._parts.rebuilds)
        report = doctor.report(datasets, repair=repair, progress=progress)
        advice, skipped = list[str](), list(report.skipped)
        compared = datasets() if report.clean else ()
        for each in compared[:MOST_DATASETS]:
            try:
                said = disagreement(self.searches, self.chunks, self._parts.models, each)
                advice += [said] if said else []
            except CancelledError:
                raise
            except (TriptychError, TypeError, ValueError) as error:  # as the doctor's own reading
                skipped.append(FailureWarning(f"dataset {each!r}: whether its lanes agree", error))
        if rest := compared[MOST_DATASETS:]:
            skipped.append(
                f"{counted(len(rest), 'dataset')}: whether their lanes agree, which is checked for "
                f"{MOST_DATASETS} at a time: name one, such as {rest[0]!r}"
            )
        return attrs.evolve(report, advice=tuple(advice), skipped=tuple(skipped))
