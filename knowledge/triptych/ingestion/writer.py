"""The write path: commit the source, derive outside any transaction, swap the set in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from triptych import deadlines
from triptych._internal.progress import Progress, ProgressCallback
from triptych.chunking.outline import Outliner
from triptych.contracts import ChunkRepo, DocumentRepo
from triptych.errors import (
    CancelledError,
    ConflictError,
    DerivationError,
    ModelMismatchError,
    ParseError,
    TriptychError,
)
from triptych.ingestion.batches import (
    EmbeddingProgress,
    PutReportBuilder,
    RefreshResult,
    batches,
    check_documents,
    check_progress,
    new_documents,
)
from triptych.ingestion.derivation import Derivation, DerivationPipeline
from triptych.records import (
    DatasetConfig,
    Failure,
    NewDocument,
    PutOutcome,
    PutReport,
    SourceDocument,
)

__all__ = ["Writer", "derivation_error"]

_TRIES = 8
"""How often a set is swapped in while the dataset is deleted, and begun again, beneath it."""


class Writer:
    """Puts; the Service validates before and reports after."""

    def __init__(
        self,
        documents: DocumentRepo,
        chunks: ChunkRepo,
        deriver: DerivationPipeline,
        language: str,
        outliner: Outliner | None = None,
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._deriver = deriver
        self._language = language
        self._outliner = outliner

    # The dataset's configuration

    def check_config(self, dataset_id: str) -> None:
        """Make sure that the dataset is configured as this Service is, setting it if it is new.

        One that has no vectors yet takes on this Service's embedder: that is not another model.

        Raises:
            ModelMismatchError, ConflictError: it is configured otherwise, and not empty.
        """
        while True:
            stored = self._chunks.config(dataset_id)
            wanted = self._wanted(stored)
            if stored == wanted:
                return
            no_vectors_yet = attrs.evolve(wanted, embed_sig="")
            if (
                stored is not None
                and stored != no_vectors_yet
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
        return DatasetConfig(
            chunker_sig=self._deriver.chunker_sig,
            embed_sig=self._deriver.embed_sig,
            language=stored.language if stored else self._language,
        )

    def adopt_config(self, dataset_id: str) -> None:
        """Make this Service's configuration the dataset's, whatever it was."""
        while True:
            stored = self._chunks.config(dataset_id)
            wanted = self._wanted(stored)
            if stored == wanted or self._chunks.configure(dataset_id, wanted, expected=stored):
                return

    def _mismatch(
        self, dataset_id: str, stored: DatasetConfig, left: str = "nothing was written"
    ) -> TriptychError:
        remedy = (
            "rebuild the dataset to derive it again with these settings, or open the store with "
            "those it was filled with"
        )
        if stored.embed_sig != self._deriver.embed_sig:
            used = self._deriver.embed_sig
            here = f"embeds with {used!r}" if used else "was opened without an embedder"
            return ModelMismatchError(
                f"the dataset {dataset_id!r} holds vectors of {stored.embed_sig!r} and this "
                f"knowledge base {here}: {left}; {remedy}",
                stored=stored.embed_sig,
                configured=used,
            )
        return ConflictError(
            f"the dataset {dataset_id!r} was chunked as {stored.chunker_sig!r} and this "
            f"knowledge base chunks as {self._deriver.chunker_sig!r}: {left}; {remedy}"
        )

    # One document

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """Store and derive one document."""
        deadlines.check("the put")
        self.check_config(dataset_id)
        stored = self._documents.put(dataset_id, self._outlined(document))
        try:
            failed = self.refresh(dataset_id, [stored]).failed
        except CancelledError:
            raise
        except Exception as error:
            raise derivation_error(stored, error) from error
        if failed:
            raise failed[0].error
        return stored

    # Many documents

    def put_many(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        progress: ProgressCallback | None,
    ) -> PutReport:
        """Store and derive in batches."""
        check_documents(documents)
        check_progress(progress)
        self.check_config(dataset_id)
        total = len(documents) if isinstance(documents, Mapping | Sequence) else None
        tally = PutReportBuilder(dataset_id)
        meter = EmbeddingProgress(progress)
        done = 0
        for batch in batches(new_documents(documents, tally)):
            deadlines.check("the bulk put")
            outcomes = self._store(dataset_id, list(self._outline_each(batch, tally)))
            tally.stored(outcomes)
            latest = {o.name: o.document for o in outcomes if o.document is not None}
            try:
                tally.derived(self.refresh(dataset_id, list(latest.values()), meter))
            except CancelledError:
                raise
            except Exception as error:  # told for each document of the batch
                if error is meter.error:
                    raise  # the caller's own
                tally.derived(
                    RefreshResult(
                        failed=tuple(
                            Failure(
                                dataset_id=dataset_id,
                                name=document.name,
                                error=derivation_error(document, error),
                            )
                            for document in latest.values()
                        )
                    )
                )
            done += len(batch)
            if progress is not None:
                progress(Progress(phase="documents", done=done, total=total))
        return tally.report()

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
        except Exception as error:  # noqa: BLE001 - nothing was stored: the whole batch failed
            return [PutOutcome(name=d.name, change="failed", error=error) for d in batch]

    # Derivation

    def refresh(
        self,
        dataset_id: str,
        documents: Sequence[SourceDocument],
        meter: EmbeddingProgress | None = None,
    ) -> RefreshResult:
        """Bring the chunk sets of stored documents up to date: only stale ones are derived.

        A document that was deleted or put again meanwhile is left to whoever did that.
        """
        names = [document.name for document in documents]
        have = self._chunks.get_doc_sigs(dataset_id, names) if names else {}
        stale = []
        for document in documents:
            current, expected_signature = (
                have.get(document.name),
                self._deriver.expected_signature(document),
            )
            if (
                current is None
                or current.is_stale(expected_signature)
                or current.embed_sig != expected_signature.embed_sig
            ):
                stale.append(document)
            elif (
                current.source_version != document.version
                and not self._chunks.update_source_version(
                    dataset_id, document.name, expected_signature
                )
                and self._is_current(document)
            ):
                stale.append(document)  # its set was removed, or replaced, meanwhile
        if not stale:
            return RefreshResult()
        derivations = self._deriver.derive(dataset_id, stale, meter)
        failed = [
            Failure(
                dataset_id=dataset_id,
                name=derivation.document.name,
                error=derivation_error(derivation.document, derivation.error),
            )
            for derivation in derivations
            if derivation.error is not None
        ]
        made = [derivation for derivation in derivations if derivation.error is None]
        lost = self._swap_in(dataset_id, made)
        made = [each for each in made if not any(each is other for other in lost)]
        for derivation in lost:
            error = ConflictError(
                f"the dataset {dataset_id!r} was deleted again and again while the chunks were "
                "to be stored"
            )
            document = derivation.document
            failed.append(
                Failure(
                    dataset_id=dataset_id,
                    name=document.name,
                    error=derivation_error(document, error),
                )
            )
        return RefreshResult(
            rebuilt=len(made),
            chunks=sum(len(derivation.chunks) for derivation in made),
            embedded=sum(derivation.embedded for derivation in made),
            reused=sum(derivation.reused for derivation in made),
            failed=tuple(failed),
        )

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


def derivation_error(document: SourceDocument, error: Exception) -> DerivationError:
    """What a caller is told when a stored document could not be derived."""
    wrapped = DerivationError(
        f"{document.name!r} is stored as version {document.version} of {document.dataset_id!r}, "
        f"but its chunks could not be derived ({type(error).__name__}: {error}); what was "
        "derived before keeps serving: put it again or rebuild once the cause is fixed",
        document=document,
    )
    wrapped.__cause__ = error
    return wrapped
