"""Documents of a Service: put, read, changed and followed."""

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
from triptych.service.base import ServiceBase, check_names
from triptych.service.operations import Effect, operation

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.records import ChangePage, EmbedReport, MetadataReport, PutReport


class Documents(ServiceBase):
    """What a Service does with documents."""

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
        """Store a document and derive its chunks and vectors; the stored document.

        ``metadata`` None keeps the document's metadata, ``{}`` removes it. If the name is that of
        source code, JSON or YAML, the text is cut as a file of that name is
        (`ServiceOptions.outliner`), and its outline is kept with the document. Identical content
        and metadata change nothing and cost nothing. When this returns, every search that starts
        afterwards sees the document. Layers are not touched.

        If vectors take longer than a second, the document is found by keyword before they are
        stored. ``embed="later"`` makes no vectors: call `embed_pending`.

        From ``expires_at`` on, which is in UTC if it has no offset, nothing finds the document, and
        the next rebuild deletes it. None keeps the document's moment, "never" removes it. Another
        moment makes a version, and embeds nothing. A put over an expired document keeps nothing
        of it.

        Raises:
            ValidationError: dataset, name, content or metadata cannot be stored.
            ConflictError: ``if_version`` is not the stored version (0: no document); or the
                dataset is chunked under another configuration: rebuild it first.
            ModelMismatchError: the dataset holds vectors of another model. Nothing was stored.
            DerivationError: the document is stored, but could not be chunked or swapped in: the
                old chunks keep serving, marked stale. Or it could not be embedded: its new
                chunks are found by keyword, and by meaning those whose text the dataset has a
                vector for; the other vectors are pending. Put again, or rebuild.
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
        """Store many documents, streamed and batched; a report, item by item.

        ``documents`` is an iterable of `NewDocument`, or maps names to contents, which keeps
        the metadata that the documents have. One document's failure is in the report and
        does not stop the others. An error that ``documents`` itself raises passes through:
        earlier batches are stored, the current one is not. So does the error for a value that is
        no document; for a list or a mapping, before anything is stored. The first batch
        has up to 256 documents, each may have twice as many as the one before it, up to 2,048; none
        has more than a million code points, or than what came in a second.

        Each batch is found by keyword as soon as it is stored. If the embedder is quick, its
        vectors are stored with it; otherwise they follow when all documents are stored, in small
        transactions that each last. ``pending`` counts the chunks without vectors, because the
        embedder failed or ``embed`` is "later".

        Raises:
            ValidationError: something in ``documents`` is not a document.
            ModelMismatchError, ConflictError: as `put_document`, before anything is stored.
            StoreAwayError: the store's server does not answer; the batches that were committed
                stay, and the one under way may. Put all again: what is there costs nothing.
            CancelledError: the deadline passed; the batches that were committed stay.
        """
        check_identifier(dataset_id, "dataset_id")
        later = _is_later(embed)
        return self._parts.writer.put_many(dataset_id, documents, progress, later=later)

    @operation(Effect.WRITES, embeds=True, long=True)
    def embed_pending(
        self,
        dataset_id: str | None = None,
        *,
        doc_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        """Make the vectors that documents of a dataset, or of all, still lack; a report.

        Only texts without a vector are embedded: those of documents that were put without an
        embedder or to be embedded later, and the rest of an interrupted call. Layers are embedded
        too. The newest documents come first, or those of ``doc_names`` in their order, without
        layers.

        A dataset without vectors adopts this embedder. With a sparse encoder, documents get their
        sparse vectors in the same way. Documents whose text is stale are left to `rebuild`.

        Raises:
            NotAvailableError: there is neither an embedder nor a sparse encoder.
            NotFoundError: the dataset does not exist.
            ModelMismatchError, ConflictError: the dataset holds vectors of another model, or is
                chunked otherwise: rebuild it. Of several datasets, it is in the report.
            CancelledError: the deadline passed; the vectors that were made are kept.
        """
        from triptych.derivation.batches import check_progress

        check_progress(progress)
        if doc_names is not None:
            if dataset_id is None:
                raise ValidationError("doc_names are of one dataset: give its dataset_id")
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
        """The document as it was put, code point for code point.

        ``version`` is an old version (None: the current one).

        Raises:
            NotFoundError: there is none of this name; or that version is not kept, and the
                message names those that are.
            NotAvailableError: a version is asked for, and the store keeps none.
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
        """A page of documents without their contents.

        Args:
            after: the last document of the page before, or its name.
            where: only those that pass, as in `Query`.
            sort: "$name", "$version", "$updated_at", "$expires_at" or a metadata key;
                "-$updated_at" is the newest first. Ties come by name, and what lacks the key
                last. Another order than by name reads all documents that match.

        Raises:
            NotFoundError: the dataset does not exist.
            ConflictError: in another order than by name, ``after`` names a document that is gone.
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
        """How many documents there are, or how many of them pass ``where``.

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

        Other keys stay. Each document that changes gets a new version. Nothing is chunked or
        embedded, unless the document's title or kind changes. A document that another writer
        changes meanwhile is read again, and changed if it still matches.

        Args:
            names: the documents. With ``where``, those of them that pass.
            where: the documents that pass, as in `Query`. All documents are
                ``{"$name": {"$exists": True}}``.

        Raises:
            ValidationError: neither names nor where is given, ``where`` alone is empty, or a value
                is invalid.
            NotFoundError: the dataset does not exist.
        """
        from triptych.derivation.management import which_documents

        check_names(dataset_id)
        if not isinstance(changes, Mapping):
            raise ValidationError(f"changes map keys to values, not {changes!r:.60}")
        tree, wanted = which_documents(names, where)
        if tree is None:
            raise ValidationError(
                "an empty where is every document: to change all of them, write "
                '{"$name": {"$exists": true}}'
            )
        self._require_dataset(dataset_id)
        return self._parts.manager.update_metadata(dataset_id, changes, tree, wanted)

    @operation(Effect.READS)
    def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The versions of a document, newest first: the current one, then those that are kept.

        A change keeps the version that it replaces. The setting ``history`` is the number of
        versions kept per document. Deleting the document deletes them.

        Raises:
            NotFoundError: there is no such document.
            NotAvailableError: the store keeps no old versions.
        """
        check_names(dataset_id, name)
        versions = self._parts.history.versions(dataset_id, name)
        if not versions:
            raise self._missing(dataset_id, name)
        return versions

    @operation(Effect.READS)
    def diff(self, dataset_id: str, name: str, old: int, new: int | None = None) -> str:
        """How version ``new`` of a document (None: the current one) differs from ``old``.

        A unified diff of the lines of metadata, if they differ, and of the texts; "" if nothing
        differs.

        Raises:
            NotFoundError, NotAvailableError: as `get_document`.
        """
        before = self.get_document(dataset_id, name, old)
        return unified_diff(before, self.get_document(dataset_id, name, new))

    @operation(Effect.WRITES)
    def restore(
        self, dataset_id: str, name: str, version: int, *, if_version: int | None = None
    ) -> SourceDocument:
        """Put a document's content and metadata of ``version`` back; the stored document.

        This is a put: it makes a new version, and keeps the one that it replaces. If the document
        already is the same, nothing changes. Text that still has its vector is not embedded
        again.

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
        """List the changes of documents since a cursor: added, updated or deleted.

        For caches, copies and indexes elsewhere that follow this knowledge base. Each document
        comes once, with its last change, in the order in which these were committed. A change that
        was committed before the call is in it, whichever process made it. Pass the page's cursor
        to read on, at once while ``more`` is true. Apply "added" and "updated" alike: read the
        document and replace what you have.

        If ``reset`` is true the store could not continue from ``since``: the cursor is of another
        store, newer than a restored backup, or older than deletions that the store has
        forgotten, as after `purge`. Drop what you have; the page begins at the beginning.

        A document that has expired is deleted when it is removed (`remove_expired`, `rebuild`).

        Args:
            since: the cursor of a page or a change; None begins with every document, as added.
            dataset_id: only changes of this dataset, which need not exist (any more).
            limit: the most changes of the page, 1 to 10,000.

        Raises:
            ValidationError: ``since`` is no cursor, or the limit is out of range.
            NotAvailableError: the store has no log of its changes.
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
        """Yield pages of `changes` as they come, without an end; no page is empty.

        ``poll`` is the number of seconds between two checks of the store. They are cheap while
        nothing is written; in a store of files each looks through the folders. A deadline around
        the loop ends it with `CancelledError`, closing the Service with `StoreError`.

        Raises:
            ValidationError, NotAvailableError: as `changes`; ``poll`` is not above 0.
        """
        from triptych.contracts.change_pages import check_poll, follow_changes

        check_poll(poll)
        reader = self.capabilities.changes
        if reader is None:
            raise NotAvailableError("this store has no log of its changes")

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
