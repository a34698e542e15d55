"""Datasets of a Service, and everything that deletes."""

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
    """What a Service does with datasets, and how it deletes."""

    @operation(Effect.READS)
    def list_datasets(self) -> Sequence[str]:
        """The ids of all datasets, in order."""
        return self.documents.list_datasets()

    @operation(Effect.WRITES, creates=True)
    def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool:
        """Create an empty dataset; True if it did not exist before.

        It has this Service's configuration, and is listed and searchable. ``language`` is that of
        its analysis (None: the Service's). A dataset that exists stays as it is. A put creates
        its dataset by itself.

        Raises:
            ValidationError: the id cannot be one, or the analyzer knows no such language.
        """
        check_identifier(dataset_id, "dataset_id")
        if language is not None:
            check_language(language)
        before = self.chunks.config(dataset_id)
        if dataset_id in self.documents.list_datasets():
            return False
        # First, so that no crash leaves a dataset without its language.
        self._parts.writer.offer_config(dataset_id, language, expected=before)
        return self.documents.create_dataset(dataset_id)

    @operation(Effect.WRITES)
    def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig:
        """Set the language a dataset is analysed in, before or after its first document.

        The index of an existing dataset is built again at the next search.

        Raises:
            ValidationError: the analyzer knows no such language; the message lists those it does.
        """
        check_identifier(dataset_id, "dataset_id")
        check_language(language)
        return self._parts.writer.set_language(dataset_id, language)

    # Deletes

    @operation(Effect.DESTROYS)
    def delete_document(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """Remove a document with its old versions, chunks, vectors, layers and index entries.

        Idempotent; True if the document existed. It is one atomic write: a later put of another
        writer under this name stays whole.

        Raises:
            ConflictError: ``if_version`` is given and is not the stored version (0: no
                document). Nothing was removed.
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
        """Remove many documents, each as `delete_document` does, many in one transaction.

        Expired documents are removed too. A document that another writer changes meanwhile is read
        again, and removed if it still matches.

        Args:
            names: the documents. With ``where``, those of them that pass.
            where: the documents that pass, as in `Query`.

        Raises:
            ValidationError: neither names nor where is given, or ``where`` alone is empty.
            NotFoundError: the dataset does not exist.
            StoreError: the store failed. What was removed before stays removed.
        """
        from triptych.derivation.management import which_documents

        check_names(dataset_id)
        tree, wanted = which_documents(names, where)
        if tree is None:
            raise ValidationError(
                "an empty where is every document: call delete_dataset, or recreate, for that"
            )
        self._require_dataset(dataset_id)
        with telemetry.operation("delete", bulk=True):
            report = self._parts.manager.delete(dataset_id, tree, wanted)
            telemetry.note(documents=len(report.deleted), failed=len(report.failed))
            return report

    @operation(Effect.DESTROYS)
    def remove_expired(self, dataset_id: str | None = None) -> int:
        """Delete the expired documents of a dataset, or of all; their number.

        `rebuild` does this, too. Each 256 are one transaction. A document that is put again
        meanwhile stays.

        Raises:
            NotFoundError: the dataset does not exist.
            CancelledError: the deadline passed. What was removed stays removed.
        """
        return sum(remove_expired(self.documents, each) for each in self._asked(dataset_id))

    @operation(Effect.DESTROYS)
    def delete_dataset(self, dataset_id: str) -> bool:
        """Remove a dataset with everything in it. Idempotent; True if it existed.

        It is one atomic write: a dataset that another writer begins afterwards stays whole.
        """
        check_names(dataset_id)
        existed = self.documents.delete_dataset(dataset_id)
        forget_settings(self.capabilities.settings, dataset_id)
        self._forget_proposals(dataset_id)
        self.question_log.erase(dataset_id)
        return existed

    @operation(Effect.DESTROYS)
    def recreate(self, dataset_id: str) -> bool:
        """Empty a dataset and adopt this Service's configuration; True if it existed.

        Its language stays, and no version is used twice. Its next document creates the dataset
        again. This is a delete and a write. After a crash between them there is no dataset, and
        the next put creates it in this Service's language. If another writer puts between them,
        its documents stay, and so does its configuration, except for the language.

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
        """Delete a document, or a whole dataset, and erase what the store's files still hold.

        Old versions go with their document, and so do the layers of the folders and the dataset
        above it, which may quote it, what syncs into the store remember of its file, and the
        answers that a server keeps for requests about it which are sent again, and what agents
        proposed of it. Logged questions
        go with their dataset; a document that is purged is no longer named in the log.

        Deleting leaves bytes in free pages, logs and index files until they are overwritten;
        purging overwrites them, which takes time in proportion to the store. The receipt is true
        where there was anything to delete.

        Raises:
            StoreError: the delete failed, or the erasing. Purge again.
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
            questions = self.question_log.count(dataset_id)
            existed = self.delete_dataset(dataset_id)
        else:
            # Before and after: a process may end in between, or another one store them again.
            layers += self._remove_layers_above(dataset_id, name, every=held.documents > 0)
            existed = self.delete_document(dataset_id, name)
            layers += self._remove_layers_above(dataset_id, name, every=existed)
            questions = self.question_log.erase(dataset_id, name)
            forget_judgements(self.capabilities.settings, dataset_id, name)
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
