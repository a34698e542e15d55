"""The write path: store the document, derive outside a transaction, swap in the chunk set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from triptych import deadlines, telemetry
from triptych._internal.progress import EmbeddingProgress, Progress, ProgressCallback
from triptych.chunking.outline import Outliner
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.contracts.rules import CHANGE_MODEL
from triptych.derivation.batches import (
    PutReportBuilder,
    RefreshResult,
    batches,
    check_documents,
    check_progress,
    new_documents,
    paused_collector,
)
from triptych.derivation.deriver import Derivation, Deriver, SetFiller
from triptych.errors import (
    CancelledError,
    ConflictError,
    ModelMismatchError,
    ParseError,
    StoreAwayError,
    TriptychError,
)
from triptych.records import (
    DatasetConfig,
    DerivedSig,
    NewDocument,
    PutOutcome,
    PutReport,
    SourceDocument,
)
from triptych.text import AUTO
from triptych.vectors.filler import derivation_error, derivation_failures

_TRIES = 8
"""How often a set is swapped in while the dataset is deleted, and begun again, beneath it."""


@attrs.frozen(eq=False)
class Writer:
    """Puts; the Service validates before and reports after."""

    _documents: DocumentRepo
    _chunks: ChunkRepo
    _deriver: Deriver
    _language: str
    _outliner: Outliner | None = None

    # The dataset's configuration

    def check_config(self, dataset_id: str) -> None:
        """Make sure that the dataset is configured as this Service is, setting it if it is new.

        One without vectors of a lane takes on this Service's model: that is not another model.

        Raises:
            ModelMismatchError, ConflictError: it is configured otherwise, and not empty.
        """
        while True:
            stored = self._chunks.config(dataset_id)
            wanted = self._wanted(stored)
            if stored == wanted:
                return
            if (
                stored is not None
                and not _takes_on(stored, wanted)
                and self._documents.list(dataset_id, limit=1)
            ):
                raise self._mismatch(dataset_id, stored)
            if self._chunks.configure(dataset_id, wanted, expected=stored):
                return

    def set_language(self, dataset_id: str, language: str) -> DatasetConfig:
        """Give the dataset another language, leaving the rest of its configuration."""
        while True:
            stored = self._chunks.config(dataset_id)
            wanted = attrs.evolve(stored or self._wanted(None), language=language)
            if stored == wanted or self._chunks.configure(dataset_id, wanted, expected=stored):
                return wanted

    def offer_config(
        self, dataset_id: str, language: str | None, *, expected: DatasetConfig | None
    ) -> None:
        """Give the dataset this Service's configuration while it still has ``expected``."""
        wanted = self._wanted(expected)
        if language is not None:
            wanted = attrs.evolve(wanted, language=language)
        if wanted != expected:
            self._chunks.configure(dataset_id, wanted, expected=expected)

    def _wanted(self, stored: DatasetConfig | None) -> DatasetConfig:
        models = self._deriver.models
        config = stored or DatasetConfig(chunker_sig="", language=self._language)
        # Vectors of a lane that this Service does not have stay as they are.
        return attrs.evolve(config, chunker_sig=models.chunker_sig).with_sigs(models.sigs)

    def adopt_config(self, dataset_id: str) -> None:
        """Make this Service's configuration the dataset's, whatever it was, but for a language that
        the dataset has of its own."""
        while True:
            stored = self._chunks.config(dataset_id)
            wanted = self._wanted(stored)
            if wanted.language == AUTO:
                wanted = attrs.evolve(wanted, language=self._language)
            if stored == wanted or self._chunks.configure(dataset_id, wanted, expected=stored):
                return

    def take_on_models(self, dataset_id: str) -> None:
        """Make this Service's models those of a dataset which has none.

        Raises:
            ModelMismatchError, ConflictError: the dataset is configured otherwise.
        """
        while True:
            stored = self._chunks.config(dataset_id)
            wanted = self._wanted(stored)
            if stored is None or stored == wanted:
                return
            if not _takes_on(stored, wanted):
                raise self._mismatch(dataset_id, stored)
            if self._chunks.configure(dataset_id, wanted, expected=stored):
                return

    def _mismatch(
        self, dataset_id: str, stored: DatasetConfig, left: str = "nothing was written"
    ) -> TriptychError:
        """The error of a dataset that is configured otherwise."""
        models = self._deriver.models
        remedy = (
            "rebuild the dataset to derive it again with these settings, or open the store with "
            "those it was filled with"
        )
        for lane in models.lanes:
            if (sig := stored.sigs[lane.kind]) != lane.sig:
                used = f"embeds with {lane.sig!r}"
                if not lane.sig:
                    used = f"was opened without an {lane.maker}"
                return ModelMismatchError(
                    f"the dataset {dataset_id!r} holds {lane.vectors} of {sig!r} and this "
                    f"knowledge base {used}: {left}; {CHANGE_MODEL if lane.sig else remedy}",
                    stored=sig,
                    configured=lane.sig,
                )
        return ConflictError(
            f"the dataset {dataset_id!r} was chunked as {stored.chunker_sig!r} and this "
            f"knowledge base chunks as {models.chunker_sig!r}: {left}; {remedy}"
        )

    # One document

    def put(self, dataset_id: str, document: NewDocument, *, later: bool = False) -> SourceDocument:
        """Store and derive one document; its vectors too, unless they are to come ``later``."""
        with telemetry.operation("put"):
            deadlines.check("the put")
            self.check_config(dataset_id)
            stored = self._documents.put(dataset_id, self._outlined(document))
            with self.filler(dataset_id) as filler:
                try:
                    refreshed = self.refresh(dataset_id, [stored], filler, later=later)
                    telemetry.note(documents=1, chunks=refreshed.chunks)
                    if not later:
                        filler.finish()
                except CancelledError:
                    raise
                except Exception as error:
                    raise derivation_error(stored, error) from error
                failed = (*refreshed.failed, *filler.result().failed)
            if failed:
                raise failed[0].error
            return stored

    # Many documents

    def put_many(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        progress: ProgressCallback | None,
        *,
        later: bool = False,
    ) -> PutReport:
        """Store and chunk in batches; then their vectors, unless they are to come ``later``."""
        check_documents(documents)
        check_progress(progress)
        with telemetry.operation("put", bulk=True):
            self.check_config(dataset_id)
            tally = PutReportBuilder(dataset_id)
            meter = EmbeddingProgress(progress)
            with self.filler(dataset_id, meter) as filler:
                try:
                    self._put_batches(dataset_id, documents, tally, filler, meter, progress, later)
                except CancelledError as error:
                    error.report = _tallied(tally, filler)
                    raise
                report = _tallied(tally, filler)
            telemetry.note(
                documents=report.added + report.updated + report.unchanged,
                failed=len(report.failed),
                chunks=report.chunks,
            )
            return report

    def _put_batches(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        tally: PutReportBuilder,
        filler: SetFiller,
        meter: EmbeddingProgress,
        progress: ProgressCallback | None,
        later: bool,
    ) -> None:
        total = len(documents) if isinstance(documents, Mapping | Sequence) else None
        done = 0
        for batch in batches(new_documents(documents, tally)):
            deadlines.check("the bulk put")
            with paused_collector():
                self._put_batch(dataset_id, batch, tally, filler, meter, later)
            done += len(batch)
            if progress is not None:
                progress(Progress(phase="documents", done=done, total=total))
        if not later:
            try:
                filler.finish()
            except (CancelledError, StoreAwayError):
                raise
            except Exception as error:  # reported for each document that still waits
                if error is meter.error:
                    raise
                filler.fail(error)

    def _put_batch(
        self,
        dataset_id: str,
        batch: Sequence[NewDocument],
        tally: PutReportBuilder,
        filler: SetFiller,
        meter: EmbeddingProgress,
        later: bool,
    ) -> None:
        outcomes = self._store(dataset_id, list(self._outline_each(batch, tally)))
        tally.stored(outcomes)
        latest = {o.name: o.document for o in outcomes if o.document is not None}
        try:
            filler.vectors.poll()
            stored = list(latest.values())
            sigs = {outcome.name: outcome.input_sig for outcome in outcomes}
            tally.derived(self._refresh(dataset_id, stored, filler, sigs, later=later))
            filler.vectors.check()
        except (CancelledError, StoreAwayError):
            raise
        except Exception as error:  # reported for each document of the batch
            if error is meter.error:
                raise  # the caller's own
            failed = derivation_failures(latest.values(), error)
            tally.derived(RefreshResult(failed=failed))

    def _outline_each(
        self, batch: Sequence[NewDocument], tally: PutReportBuilder
    ) -> Iterator[NewDocument]:
        """The documents with their outlines; one whose outliner fails is reported instead."""
        for document in batch:
            try:
                yield self._outlined(document)
            except CancelledError:
                raise
            except TriptychError as error:
                tally.refused(document.name, error)

    def _outlined(self, document: NewDocument) -> NewDocument:
        """``document`` with the outline of its text, unless it brings one."""
        if self._outliner is None or document.outline is not None:
            return document
        try:
            outline = self._outliner(document.name, document.content)
        except TriptychError:
            raise
        except Exception as error:  # an outliner of somebody else's may fail in any way
            raise ParseError(
                f"the outliner failed on {document.name!r} ({type(error).__name__}: "
                f"{str(error)[:200]}): correct it, or open the store without one"
            ) from error
        return document if outline is None else attrs.evolve(document, outline=outline)

    def _store(self, dataset_id: str, batch: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        try:
            return self._documents.put_many(dataset_id, batch)
        except (CancelledError, StoreAwayError):
            raise
        except Exception as error:  # noqa: BLE001 - nothing was stored: the whole batch failed
            return [PutOutcome(name=d.name, change="failed", error=error) for d in batch]

    # Derivation

    def filler(self, dataset_id: str, meter: EmbeddingProgress | None = None) -> SetFiller:
        """What gives the sets of a dataset their vectors; to be closed."""
        return SetFiller(self._documents, self._chunks, self._deriver, dataset_id, meter)

    def refresh(
        self,
        dataset_id: str,
        documents: Sequence[SourceDocument],
        filler: SetFiller,
        *,
        later: bool = False,
    ) -> RefreshResult:
        """Bring the chunk sets of stored documents up to date: only stale ones are derived.

        An embedder that is quick enough, unless vectors are to come ``later``, fills the sets
        before they are stored. What lacks vectors of any kind then is given to ``filler``. A
        document that was deleted or put again meanwhile is left to whoever did that.
        """
        refreshed = self._refresh(dataset_id, documents, filler, {}, later=later)
        filler.vectors.check()
        return refreshed

    def _refresh(
        self,
        dataset_id: str,
        documents: Sequence[SourceDocument],
        filler: SetFiller,
        input_sigs: Mapping[str, str],
        *,
        later: bool,
    ) -> RefreshResult:
        """`refresh`; where its deadline passed, `Filler.check` raises that. ``input_sigs`` are
        those of the documents, by name, as far as they are known."""
        stale, behind = self._judged(dataset_id, documents, input_sigs)
        filler.vectors.later(behind)
        if not stale:
            filler.touched.update(behind)
            filler.lacking([document.name for document in documents])
            return RefreshResult(names=tuple(behind))
        waits = later or filler.vectors.slow
        at_once = None if waits else filler.vectors.at_once
        derivations = self._deriver.derive(dataset_id, stale, at_once)
        lost = self._swap_in(dataset_id, derivations)
        made = [each for each in derivations if not any(each is other for other in lost)]
        for derivation in made:
            if derivation.missing and waits:
                filler.vectors.later([derivation.document.name])
            elif derivation.missing:
                filler.vectors.adopt(
                    derivation.document.name, derivation.chunks, derivation.missing
                )
        filler.touched.update(behind, (derivation.document.name for derivation in made))
        filler.lacking([document.name for document in documents])
        error = ConflictError(
            f"the dataset {dataset_id!r} was deleted repeatedly while its chunks were stored, or "
            "documents and chunks are in two stores: they must share one and its transactions"
        )
        return RefreshResult(
            names=(*behind, *(derivation.document.name for derivation in made)),
            chunks=sum(len(derivation.chunks) for derivation in made),
            embedded=sum(derivation.embedded for derivation in made),
            reused=sum(derivation.reused for derivation in made),
            failed=derivation_failures((each.document for each in lost), error),
        )

    def _judged(
        self,
        dataset_id: str,
        documents: Sequence[SourceDocument],
        input_sigs: Mapping[str, str],
    ) -> tuple[list[tuple[SourceDocument, DerivedSig]], list[str]]:
        """Those whose chunks are stale, each with the signature that fresh ones carry, and the
        names of those that only lack vectors."""
        names = [document.name for document in documents]
        have = self._chunks.get_doc_sigs(dataset_id, names) if names else {}
        stale: list[tuple[SourceDocument, DerivedSig]] = []
        behind: list[str] = []
        for document in documents:
            current = have.get(document.name)
            input_sig = input_sigs.get(document.name, "")
            want = self._deriver.models.expected_signature(document, input_sig)
            given_up = not want.embed_sig and current is not None and current.embed_sig
            if current is None or not current.has_text_of(want) or given_up:
                stale.append((document, want))
                continue
            moved = attrs.evolve(want, embed_sig=current.embed_sig)
            if (
                current.source_version != document.version
                and not self._chunks.update_source_version(dataset_id, document.name, moved)
                and self._is_current(document)
            ):
                stale.append((document, want))  # its set was removed, or replaced, meanwhile
            elif current.embed_sig != want.embed_sig:
                behind.append(document.name)
        return stale, behind

    def _swap_in(self, dataset_id: str, made: Sequence[Derivation]) -> Sequence[Derivation]:
        """Store the sets; those that could not be, though their documents are as they were.

        A set whose document was deleted or put again is refused: the newer derivation serves.
        Where a delete took the dataset's configuration before the document was put, the document
        is there and nobody else would store its set: the dataset is configured again.

        Raises:
            ModelMismatchError, ConflictError: the dataset has another configuration by now.
        """
        left = made
        for _ in range(_TRIES):
            done = self._replace(dataset_id, left)
            refused = [each for each, is_done in zip(left, done, strict=True) if not is_done]
            left = [each for each in refused if self._is_current(each.document)]
            if not left:
                break
            stored = self._chunks.config(dataset_id)
            wanted = self._wanted(stored)
            if stored is None:
                self._chunks.configure(dataset_id, wanted, expected=None)
            elif stored != wanted:
                raise self._mismatch(dataset_id, stored, "its chunks were not stored")
        return left

    def _replace(self, dataset_id: str, made: Sequence[Derivation]) -> Sequence[bool]:
        if len(made) == 1:
            (only,) = made
            name = only.document.name
            return [self._chunks.replace(dataset_id, name, only.chunks, sig=only.sig)]
        return self._chunks.replace_many(
            dataset_id, [(d.document.name, d.chunks, d.sig) for d in made]
        )

    def _is_current(self, document: SourceDocument) -> bool:
        info = self._documents.get_info(document.dataset_id, document.name)
        return info is not None and info.version == document.version


def _takes_on(stored: DatasetConfig, wanted: DatasetConfig) -> bool:
    """Whether ``stored`` only lacks models that ``wanted`` has."""
    sigs = {kind: sig and wanted.sigs[kind] for kind, sig in stored.sigs.items()}
    return stored == wanted.with_sigs(sigs)


def _tallied(tally: PutReportBuilder, filler: SetFiller) -> PutReport:
    """The report of a bulk put, with what its filler has stored by now."""
    filled = filler.result()
    tally.derived(
        RefreshResult(
            embedded=filled.embedded,
            reused=filled.reused,
            encoded=filled.encoded,
            failed=filled.failed,
        )
    )
    return tally.report(pending=len(filled.pending))
