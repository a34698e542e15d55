"""The methods of a Service that create, configure and delete datasets and delete documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from triptych import telemetry
from triptych.derivation.living_documents import remove_expired
from triptych.errors import CorruptStoreError, ValidationError
from triptych.records import DatasetConfig, check_identifier, check_whole
from triptych.search.dataset_settings import forget_judgements, forget_settings
from triptych.service.base import ServiceBase, check_names
from triptych.service.operations import Effect, operation
from triptych.service.options import check_language

if TYPE_CHECKING:
    from triptych.records import DeleteReport, PurgeReceipt


class Datasets(ServiceBase):
    """The methods of a Service for datasets and deletion."""

    @operation(Effect.READS)
    def list_datasets(self) -> Sequence[str]:
        """Return the ids of all datasets, sorted."""
        return self.documents.list_datasets()

    @operation(Effect.WRITES, creates=True)
    def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool:
        """Create an empty dataset; return whether it is new.

        It gets this Service's configuration and can be listed and searched. ``language`` is the
        language of its text analysis (None: the Service's). An existing dataset is not changed.
        Storing a document also creates its dataset.

        Raises:
            ValidationError: the id is invalid, or the analyzer does not support the language.
        """
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

    @operation(Effect.WRITES)
    def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig:
        """Set the language in which a dataset is analysed; return its configuration.

        If the dataset has documents, its index is rebuilt at the next search.

        Raises:
            ValidationError: the analyzer does not support the language; the message lists those
                that it supports.
        """
        check_identifier(dataset_id, "dataset_id")
        check_language(language)
        if self._view is not None:
            self._view.check_whole(dataset_id, "its language")
        return self._parts.writer.set_language(dataset_id, language)

    # Deletes

    @operation(Effect.DESTROYS)
    def delete_document(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """Delete a document with its old versions, chunks, vectors, layers and index entries.

        Return whether the document existed; deleting is idempotent. The delete is atomic: it does
        not affect what another writer stores under this name afterwards.

        Raises:
            ConflictError: ``if_version`` is not the stored version (0: no document). Nothing was
                deleted.
        """
        check_names(dataset_id, name)
        if if_version is not None:
            check_whole(if_version, "if_version")
        with telemetry.operation("delete"):
            deleted = self.documents.delete(dataset_id, name, if_version=if_version)
            telemetry.note(documents=int(deleted))
            return deleted

    @operation(Effect.DESTROYS)
    def delete_documents(
        self,
        dataset_id: str,
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> DeleteReport:
        """Delete many documents as `delete_document` does, many per transaction.

        Expired documents that match are deleted too. A document that another writer changes
        meanwhile is read again, and deleted if it still matches.

        Args:
            names: the documents to delete; with ``where``, only those that match it.
            where: a condition as in `Query`; matching documents are deleted.

        Raises:
            ValidationError: neither ``names`` nor ``where`` is given, or only an empty ``where``.
            NotFoundError: the dataset does not exist.
            StoreError: the store failed; earlier deletions remain.
        """
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

    @operation(Effect.DESTROYS)
    def remove_expired(self, dataset_id: str | None = None) -> int:
        """Delete the expired documents of a dataset, or of all datasets; return their number.

        `rebuild` does this too. A transaction deletes up to 256 documents. A document that is
        stored again meanwhile is not deleted.

        Raises:
            NotFoundError: the dataset does not exist.
            CancelledError: the deadline passed; earlier deletions remain.
        """
        return sum(remove_expired(self.documents, each) for each in self._asked(dataset_id))

    @operation(Effect.DESTROYS)
    def delete_dataset(self, dataset_id: str) -> bool:
        """Delete a dataset with everything in it; return whether it existed. Idempotent.

        The delete is atomic: it does not affect what another writer stores afterwards.
        """
        return self._drop_dataset(dataset_id)[0]

    def _drop_dataset(self, dataset_id: str) -> tuple[bool, int]:
        """Whether it existed, and how many questions were logged about it."""
        check_names(dataset_id)
        existed = self.documents.delete_dataset(dataset_id)
        forget_settings(self.capabilities.settings, dataset_id)
        self._forget_proposals(dataset_id)
        return existed, self._forget_questions(dataset_id, None)

    @operation(Effect.DESTROYS)
    def recreate(self, dataset_id: str) -> bool:
        """Empty a dataset and adopt this Service's configuration; return whether it existed.

        The language is kept, and no version number is reused. The next document creates the dataset
        again. This is a delete followed by a write. After a crash between the two the next document
        creates the dataset in this Service's language. If another writer stores documents between
        the two, they are kept, with that writer's configuration except for the language.

        Raises:
            StoreError: the store failed; call again.
        """
        check_names(dataset_id)
        config = self.chunks.config(dataset_id)
        existed = self.delete_dataset(dataset_id)
        if config is not None:
            self._parts.writer.set_language(dataset_id, config.language)
        return existed

    @operation(Effect.DESTROYS, long=True)
    def purge(self, dataset_id: str, name: str | None = None) -> PurgeReceipt:
        """Delete a document, or (``name`` None) a dataset, and erase its remains from the store's
        files.

        This also deletes the document's old versions, the layers of its folders and its dataset
        (they may quote it), the record of its file in syncs, the responses about it that a server
        keeps for repeated requests, and the proposals of agents about it. Logged questions are
        deleted with their dataset; the log no longer names a purged document.

        A delete leaves bytes in free pages, logs and index files until they are overwritten. A
        purge overwrites them, which takes time proportional to the size of the store. The receipt
        is true if anything was deleted.

        Raises:
            StoreError: deleting or erasing failed; call again.
        """
        from triptych.derivation.erasure import BEYOND, DAMAGED, count_held
        from triptych.records import PurgeReceipt

        check_names(dataset_id, *(() if name is None else (name,)))
        cache, versions = self.capabilities.answers, self.capabilities.versions
        try:
            held = count_held(self.store, versions, dataset_id, name)
        except CorruptStoreError:  # it is erased all the same
            held = PurgeReceipt(dataset_id=dataset_id, name=name, beyond=(DAMAGED,))
        kept = 0 if cache is None else cache.cache_stats().entries
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
        left = 0 if cache is None else cache.cache_stats().entries
        scrubbed = self._scrub()
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
