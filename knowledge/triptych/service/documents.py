"""The methods of a Service that store, read, change and follow documents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from triptych import telemetry
from triptych.contracts.models import how_to_set
from triptych.derivation.living_documents import put_again, unified_diff
from triptych.errors import NotAvailableError, ValidationError
from triptych.records import (
    DocumentInfo,
    EmbedWhen,
    Metadata,
    MetadataValue,
    NewDocument,
    SourceDocument,
    check_identifier,
    check_text,
    check_whole,
    parse_filter,
)
from triptych.search.dataset_settings import forget_settings
from triptych.service.base import ServiceBase, check_names
from triptych.service.operations import Effect, operation
from triptych.vectors.refused import REFUSED_SETTINGS

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.records import ChangePage, EmbedReport, MetadataReport, PutReport


class Documents(ServiceBase):
    """The methods of a Service for documents."""

    @operation(Effect.WRITES, embeds=True, creates=True)
    def put_document(
        self,
        dataset_id: str,
        name: str,
        content: str,
        metadata: Metadata | None = None,
        *,
        if_version: int | None = None,
        expires_at: datetime | Literal["never"] | None = None,
        embed: EmbedWhen = "now",
    ) -> SourceDocument:
        """Store a document and derive its chunks and vectors; return the stored document.

        Every search that starts after this call returns sees the document. Storing identical
        content and metadata changes nothing. Layers are not updated.

        If embedding takes longer than a second, keyword search finds the document before its
        vectors are stored.

        Args:
            metadata: None keeps the document's metadata, ``{}`` removes it.
            if_version: the version that must be stored (0: no document).
            expires_at: when the document expires, in UTC if it has no offset: searches no longer
                find it, and the next rebuild deletes it. None keeps the stored time, "never"
                removes it. A new time makes a new version and embeds nothing. A document stored
                over an expired one keeps nothing of it.
            embed: "later" makes no vectors; `embed_pending` makes them.

        If ``name`` has the extension of source code, JSON or YAML, the text is chunked by its
        structure, as such a file is (`ServiceOptions.outliner`).

        Raises:
            ValidationError: the dataset id, name, content or metadata is invalid.
            ConflictError: ``if_version`` is not the stored version; or the dataset was chunked with
                another configuration: rebuild it first.
            ModelMismatchError: the dataset holds vectors of another model. Nothing was stored.
            DerivationError: the document is stored, but chunking failed: searches find its old
                chunks, marked stale. Or embedding failed: keyword search finds the new chunks,
                vector search only those whose text already has a vector. Store the document again,
                or rebuild.
        """
        check_identifier(dataset_id, "dataset_id")
        later = _is_later(embed)
        document = NewDocument(
            name=name,
            content=content,
            metadata=metadata,
            if_version=if_version,
            expires_at=expires_at,
        )
        return self._parts.writer.put(dataset_id, document, later=later)

    @operation(Effect.WRITES, embeds=True, creates=True, long=True)
    def put_documents(
        self,
        dataset_id: str,
        documents: Iterable[NewDocument] | Mapping[str, str],
        *,
        progress: ProgressCallback | None = None,
        embed: EmbedWhen = "now",
    ) -> PutReport:
        """Store many documents in batches; return a report with an outcome for each document.

        ``documents`` is an iterable of `NewDocument`, or a mapping of names to contents, which
        keeps the documents' metadata. A document that fails is in the report, and the others are
        stored. If every document fails for one cause, such as an embedder that does not work, the
        cause is raised as `put_document` raises it. An error raised by the iterable itself
        propagates: earlier batches are stored, the current one is not. The first batch has up to
        256 documents; each further batch may be twice as large, up to 2,048 documents. A batch ends
        early at a million code points or after a second of reading.

        Keyword search finds a batch as soon as it is stored. The vectors of a fast embedder are
        stored with the batch; others follow after the last document, in small transactions.
        ``pending`` counts the chunks without vectors: the embedder failed, or ``embed`` is "later".

        Raises:
            ValidationError: an item is not a document. In a list or mapping this is checked before
                anything is stored.
            ModelMismatchError, ConflictError: as `put_document`, before anything is stored.
            DerivationError, StoreError: every document failed for one cause; ``report`` is the
                `PutReport`. After a DerivationError all documents are stored.
            StoreAwayError: the store's server does not answer; committed batches remain, and the
                current one may. Store all again: what is unchanged costs nothing.
            CancelledError: the deadline passed; committed batches remain.
        """
        check_identifier(dataset_id, "dataset_id")
        later = _is_later(embed)
        report = self._parts.writer.put_many(dataset_id, documents, progress, later=later)
        return report.unless_all_failed()

    @operation(Effect.WRITES, embeds=True, long=True)
    def embed_pending(
        self,
        dataset_id: str | None = None,
        *,
        doc_names: Iterable[str] | None = None,
        retry: bool = False,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        """Make the missing vectors of a dataset, or (None) of all datasets; return a report.

        Vectors are missing if documents were stored without an embedder or with ``embed="later"``,
        or if a call was interrupted. The newest documents are embedded first, then layers. With
        ``doc_names`` only these documents are embedded, in this order, and no layers.

        Texts that the model has refused are not sent again, and their documents are in ``failed``.
        ``retry`` sends them again.

        A dataset without vectors adopts this embedder. A sparse encoder makes missing sparse
        vectors in the same way. Documents with stale chunks are skipped: `rebuild` embeds them.

        Raises:
            NotAvailableError: there is neither an embedder nor a sparse encoder.
            NotFoundError: the dataset does not exist.
            ModelMismatchError, ConflictError: the dataset holds vectors of another model, or was
                chunked differently: rebuild it. If ``dataset_id`` is None, the report has this
                error instead.
            CancelledError: the deadline passed; the vectors made so far are kept.
        """
        from triptych.derivation.batches import check_progress

        check_progress(progress)
        if doc_names is not None:
            if dataset_id is None:
                raise ValidationError("doc_names need a dataset: give its dataset_id")
            if isinstance(doc_names, str):
                raise ValidationError("doc_names takes several names: give a list")
            doc_names = [check_text(name, "a document name") for name in doc_names]
        options = self.options
        if not options.has_embedder and options.sparse_encoder is None:
            raise NotAvailableError(
                f"there is no embedder to make vectors with: {how_to_set('embedder')}"
            )
        if dataset_id is not None:
            check_names(dataset_id)
            self._require_dataset(dataset_id)
        with telemetry.operation("embed_pending"):
            for each in self._asked(dataset_id) if retry else ():
                forget_settings(self.capabilities.settings, each, (REFUSED_SETTINGS,))
            if dataset_id is None:
                report = self._parts.embeddings.datasets(self.documents.list_datasets(), progress)
            else:
                report = self._parts.embeddings.dataset(dataset_id, doc_names, progress)
            telemetry.note(documents=report.documents, failed=len(report.failed))
            return report

    # Documents out

    @operation(Effect.READS)
    def get_document(
        self, dataset_id: str, name: str, version: int | None = None
    ) -> SourceDocument:
        """Return a document exactly as it was stored.

        ``version`` is an old version (None: the current one).

        Raises:
            NotFoundError: the document does not exist, or the version is not kept; the message
                names the kept versions.
            NotAvailableError: ``version`` is given, but the store keeps no old versions.
        """
        check_names(dataset_id, name)
        document = (
            self._parts.living.get(dataset_id, name)
            if version is None
            else self._parts.history.get(dataset_id, name, version)
        )
        if document is None:
            raise self._missing(dataset_id, name)
        return document

    @operation(Effect.READS)
    def list_documents(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str | DocumentInfo = "",
        limit: int | None = None,
        where: Mapping[str, Any] | None = None,
        sort: str = "$name",
    ) -> Sequence[DocumentInfo]:
        """Return a page of documents, without their contents.

        Args:
            prefix: only documents whose name starts with it.
            after: the last document of the previous page, or its name.
            limit: the maximum number of documents; None for all.
            where: only documents that match, as in `Query`.
            sort: "$name", "$version", "$updated_at", "$expires_at" or a metadata key; a leading "-"
                reverses the order. Ties are sorted by name; documents without the key come last.
                Any order but "$name" reads all documents that match. SQLite and PostgreSQL sort
                a page by "$updated_at" themselves if there is no ``where``.

        Raises:
            NotFoundError: the dataset does not exist.
            ConflictError: ``sort`` is not "$name", and ``after`` names a deleted document.
        """
        check_names(dataset_id)
        check_text(prefix, "prefix")
        if not isinstance(after, DocumentInfo):
            check_text(after, "after")
        if limit is not None:
            limit = min(check_whole(limit, "limit"), sys.maxsize)
        tree = None if where is None else parse_filter(where)
        page = self._parts.manager.page(
            dataset_id, tree, prefix=prefix, sort=sort, after=after, limit=limit
        )
        if not page:
            self._require_dataset(dataset_id)
        return page

    @operation(Effect.READS)
    def count_documents(self, dataset_id: str, *, where: Mapping[str, Any] | None = None) -> int:
        """Count the documents of a dataset, or those that match ``where``.

        Raises:
            NotFoundError: the dataset does not exist.
        """
        check_names(dataset_id)
        tree = None if where is None else parse_filter(where)
        found = self._parts.living.count(dataset_id, where=tree)
        if not found:
            self._require_dataset(dataset_id)
        return found

    @operation(Effect.WRITES)
    def update_metadata(
        self,
        dataset_id: str,
        changes: Mapping[str, MetadataValue | None],
        *,
        names: Iterable[str] | str | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> MetadataReport:
        """Set the keys of ``changes`` in the metadata of many documents; None removes a key.

        Other keys are kept. Each changed document gets a new version. A document is chunked and
        embedded again only if its title or kind changes. A document that another writer changes
        meanwhile is read again, and changed if it still matches.

        Args:
            names: the documents to change; with ``where``, only those that match it.
            where: a condition as in `Query`; matching documents are changed. ``{"$name":
                {"$exists": True}}`` matches all.

        Raises:
            ValidationError: neither ``names`` nor ``where`` is given, only an empty ``where`` is
                given, or a value is invalid.
            NotFoundError: the dataset does not exist.
        """
        from triptych.derivation.management import which_documents

        check_names(dataset_id)
        if not isinstance(changes, Mapping):
            raise ValidationError(f"changes map keys to values, not {changes!r:.60}")
        tree, wanted = which_documents(names, where)
        if tree is None:
            raise ValidationError(
                "an empty where matches every document: to change all of them, write "
                '{"$name": {"$exists": true}}'
            )
        self._require_dataset(dataset_id)
        return self._parts.manager.update_metadata(dataset_id, changes, tree, wanted)

    @operation(Effect.READS)
    def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """Return the versions of a document: the current one, then the kept old ones, newest first.

        A change keeps the version that it replaces. The setting ``history`` is the number of old
        versions kept per document. Deleting the document deletes them.

        Raises:
            NotFoundError: the document does not exist.
            NotAvailableError: the store keeps no old versions.
        """
        check_names(dataset_id, name)
        versions = self._parts.history.versions(dataset_id, name)
        if not versions:
            raise self._missing(dataset_id, name)
        return versions

    @operation(Effect.READS)
    def diff(self, dataset_id: str, name: str, old: int, new: int | None = None) -> str:
        """Return a unified diff from version ``old`` of a document to ``new`` (None: the current
        one).

        It covers the metadata, the time of expiry and the text, by lines; "" if nothing differs.

        Raises:
            NotFoundError, NotAvailableError: as `get_document`.
        """
        before = self.get_document(dataset_id, name, old)
        return unified_diff(before, self.get_document(dataset_id, name, new))

    @operation(Effect.WRITES)
    def restore(
        self, dataset_id: str, name: str, version: int, *, if_version: int | None = None
    ) -> SourceDocument:
        """Store the content and metadata of an old ``version`` again; return the stored document.

        This makes a new version and keeps the one that it replaces. If nothing differs, nothing
        changes. Text that still has its vector is not embedded again.

        Raises:
            NotFoundError, NotAvailableError: as `get_document`.
            TriptychError: as `put_document`.
        """
        old = self.get_document(dataset_id, name, version)
        return self._parts.writer.put(dataset_id, put_again(old, if_version))

    # Changes

    @operation(Effect.READS)
    def changes(
        self, since: str | None = None, *, dataset_id: str | None = None, limit: int = 1000
    ) -> ChangePage:
        """Return a page of the documents that were added, updated or deleted since a cursor.

        Caches, copies and external indexes follow a knowledge base with it. Each document is listed
        once, with its last change, in commit order. All changes committed before the call are
        included, from any process. To continue, pass the page's cursor; do so at once while
        ``more`` is true. Treat "added" and "updated" alike: read the document and replace your
        copy.

        If ``reset`` is true, the store could not continue from ``since``: the cursor belongs to
        another store, is newer than a restored backup, or older than deletions that the store has
        forgotten, as after `purge`. Drop all copies; the page starts from the beginning.

        An expired document counts as deleted when it is removed (`remove_expired`, `rebuild`).

        Args:
            since: the cursor of a page or a change; None starts with every document, as added.
            dataset_id: only changes of this dataset, which need not exist.
            limit: the maximum number of changes in the page, 1 to 10,000.

        Raises:
            ValidationError: ``since`` is not a cursor, or ``limit`` is out of range.
            NotAvailableError: the store has no change log.
        """
        from triptych.contracts.change_pages import read_changes

        return read_changes(self.capabilities.changes, since, dataset_id, limit)

    @operation(Effect.READS)
    def follow(
        self,
        since: str | None = None,
        *,
        dataset_id: str | None = None,
        limit: int = 1000,
        poll: float = 0.5,
    ) -> Iterator[ChangePage]:
        """Yield pages of `changes` as they are committed, endlessly; no page is empty.

        ``poll`` is the number of seconds between two checks of the store. A check is cheap while
        nothing is written, but lists the folders in a store of files. A deadline around the loop
        ends it with `CancelledError`, closing the Service with `StoreError`.

        Raises:
            ValidationError: as `changes`, or ``poll`` is not above 0.
            NotAvailableError: as `changes`.
        """
        from triptych.contracts.change_pages import check_poll, follow_changes

        check_poll(poll)
        reader = self.capabilities.changes
        if reader is None:
            raise NotAvailableError("this store has no change log")

        def page_after(cursor: str | None) -> ChangePage:
            return self.changes(cursor, dataset_id=dataset_id, limit=limit)

        def head() -> str:
            self._require_open()
            return reader.change_head()

        return follow_changes(page_after, head, since, poll)


def _is_later(embed: object) -> bool:
    if embed not in ("now", "later") or not isinstance(embed, str):
        raise ValidationError(f"embed is 'now' or 'later', not {embed!r}")
    return embed == "later"
