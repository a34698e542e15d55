"""The methods of a Service for rebuilds, statistics and checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from triptych import telemetry
from triptych._internal.wording import FailureWarning, counted
from triptych.errors import CancelledError, NotAvailableError, TriptychError, ValidationError
from triptych.records import CacheStats
from triptych.service.base import ServiceBase
from triptych.service.operations import Effect, operation

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.records import DatasetStats, DoctorReport, Health, RebuildReport, RebuildScope


class Upkeep(ServiceBase):
    """The methods of a Service for maintenance."""

    @operation(Effect.WRITES, embeds=True, long=True)
    def rebuild(
        self,
        scope: RebuildScope | None = None,
        *,
        dataset_id: str = "",
        doc_name: str = "",
        progress: ProgressCallback | None = None,
    ) -> RebuildReport:
        """Derive stale chunks and vectors again; return a report.

        Rebuild one document, one dataset, or (without arguments) all datasets; ``scope`` can name
        several documents, and then ``progress`` is not called. Rebuilding a whole dataset also
        changes its chunker and embedder to this Service's, and its language if that is "auto": the
        next search then builds its keyword index again. A document that fails is in the report,
        and the others are rebuilt. Layers are not generated, but embedded again if their vectors
        are of another embedder. Derived data without a source and expired documents are deleted.

        Up to ``options.embed_concurrency`` embedding calls run concurrently. Each page is
        committed, so that an interrupted rebuild continues where it stopped.

        Raises:
            NotFoundError: the dataset does not exist.
            ModelMismatchError, ConflictError: documents are named, but their dataset has another
                configuration: rebuild the dataset.
            CancelledError: the deadline passed; what was rebuilt remains.
        """
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

    @operation(Effect.READS)
    def stats(self, dataset_id: str | None = None) -> list[DatasetStats]:
        """Return the counts of one dataset, or of all, with the model, dimension and count of
        vectors.

        Raises:
            NotFoundError: the dataset does not exist.
        """
        found = map(self._parts.stats, self._asked(dataset_id))
        stats = [each for each in found if each is not None]  # None: deleted meanwhile
        if dataset_id is not None and not stats:
            raise self._missing(dataset_id)
        return stats

    @operation(Effect.READS)
    def cache_stats(self) -> CacheStats:
        """Return the number of cached results, and of the searches that hit or missed the cache.

        The store keeps these numbers for all processes.

        Raises:
            NotAvailableError: the store has no semantic cache.
        """
        if self._parts.cached is not None:
            return self._parts.cached.stats()
        if self.capabilities.answers is None:
            raise NotAvailableError("this store does not cache results of searches")
        return self.capabilities.answers.cache_stats()

    @operation(Effect.READS, long=True)
    def health(self, *, probe: bool = True) -> Health:
        """Check store, index, models and datasets quickly; return a report.

        Call it before long work: ``service.health().require()`` raises the first error. ``probe``
        embeds two words to check that the models answer; False calls no model.
        """
        from triptych.diagnostics.health import check_health
        from triptych.vectors.refused import refusals

        return check_health(
            self.documents,
            self.capabilities.diagnostics,
            self.options.embedder,
            self.stats,
            next_embedder=self.options.next_embedder,
            probe=probe,
            sparse_encoder=self.options.sparse_encoder,
            refused=lambda each: refusals(self.chunks, self.capabilities.settings, each),
        )

    @operation(Effect.WRITES, writes_if="repair", long=True)
    def doctor(
        self,
        *,
        repair: bool = False,
        dataset_id: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> DoctorReport:
        """Check every invariant of the store; report each violation and why it matters.

        Reads everything, page by page: content and old versions against their checksums, chunks
        against their documents, signatures against configurations, vectors, layers, data without an
        owner, the database and the search index against each other, the model's files. This takes
        time proportional to the size of the store; `health` is the quick check. Others may write
        meanwhile.

        Lines of up to 20 datasets are searched in the keyword and the vector lane. If the lanes
        agree less than usual, ``advice`` suggests a remedy; this is not a finding.

        ``repair`` derives damaged data again from the source documents, and checks again: the
        report then has the remaining findings. It never deletes or changes a source document.
        ``dataset_id`` limits the check to one dataset and the store as a whole.

        Raises:
            NotFoundError: the dataset does not exist.
            StoreError: the store cannot be read at all.
            CancelledError: the deadline passed; repairs remain.
        """
        from triptych.derivation.batches import check_progress
        from triptych.diagnostics.doctor import Doctor
        from triptych.search.agreement import MOST_DATASETS, disagreement
        from triptych.search.dataset_settings import TUNED_SETTINGS, forget_settings

        check_progress(progress)
        if dataset_id is None:
            datasets: Callable[[], Sequence[str]] = self.documents.list_datasets
        else:
            only = self._asked(dataset_id)
            datasets = lambda: only  # noqa: E731 - a function of its own would say no more
        doctor = Doctor(self.store, self.capabilities, self._parts.deriver, self._parts.rebuilds)
        report = doctor.report(datasets, repair=repair, progress=progress)
        advice, skipped = list[str](), list(report.skipped)
        settings = self.capabilities.settings
        for each in datasets():
            if settings is None or settings.get_setting(TUNED_SETTINGS + each) is None:
                continue
            if repair:
                forget_settings(settings, each, [TUNED_SETTINGS])
            else:
                advice.append(
                    f"dataset {each!r} keeps a tuned ranker, which searches do not use: give a "
                    "pipeline its weights; `triptych doctor --repair` removes it"
                )
        compared = datasets() if report.clean else ()
        for each in compared[:MOST_DATASETS]:
            try:
                said = disagreement(self.searches, self.chunks, self._parts.deriver, each)
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
