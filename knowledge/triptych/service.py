"""The Service: every public call goes through here, so the guarantees live in one place."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack
from weakref import WeakSet

import attrs

from triptych import telemetry
from triptych._internal.close_on_exit import CloseOnExit
from triptych._internal.progress import ProgressCallback
from triptych._internal.shared_docs import share_docs
from triptych.answering.prompt import AnswerPrompt
from triptych.answering.records import Answer, AnswerReceipt
from triptych.answering.replay import Replay
from triptych.answering.streaming import AnswerStream
from triptych.changes.follow import check_poll, follow_changes, read_changes
from triptych.context.pack import ContextPack
from triptych.context.receipt import ContextReceipt
from triptych.context.records import Citation, Verification
from triptych.contracts import (
    LLM,
    AnswerabilityJudge,
    Capabilities,
    Postprocessor,
    QueryRewriter,
    Ranker,
    Store,
)
from triptych.copies.erasures import note_purge
from triptych.errors import (
    CorruptStoreError,
    NotAvailableError,
    NotFoundError,
    StoreError,
    ValidationError,
)
from triptych.ingestion.batches import check_progress
from triptych.ingestion.derivation import DerivationPipeline
from triptych.ingestion.erasure import BEYOND, DAMAGED, count_held
from triptych.ingestion.expiration import remove_expired, without_expired
from triptych.ingestion.kept_requests import forget_requests
from triptych.ingestion.layers import LayerService
from triptych.ingestion.management import DocumentManager, which_documents
from triptych.ingestion.pending_datasets import PendingEmbedder
from triptych.ingestion.pending_expiry import count_sparse_pending, without_expired_pending
from triptych.ingestion.rebuild import RebuildRunner
from triptych.ingestion.sparse_encoding import sparse_lane
from triptych.ingestion.versions import VersionHistory, restored, unified_diff
from triptych.ingestion.writer import Writer
from triptych.operations import Effect, operation
from triptych.records import (
    CacheStats,
    ChangePage,
    DatasetConfig,
    DatasetStats,
    DeleteReport,
    DerivedLayer,
    DoctorReport,
    DocumentInfo,
    DocumentSummary,
    EmbedReport,
    EmbedWhen,
    FilterTree,
    Health,
    Layer,
    Metadata,
    MetadataReport,
    MetadataValue,
    NewDocument,
    Prices,
    PurgeReceipt,
    PutReport,
    Query,
    RebuildReport,
    RebuildScope,
    Result,
    ScrubReport,
    SourceDocument,
    check_identifier,
    check_text,
    check_whole,
    parse_filter,
)
from triptych.records.expiry import has_expired
from triptych.records.search_options import SearchOptions
from triptych.repositories import capabilities_of
from triptych.rules import missing_dataset
from triptych.search.answerability import ResultJudge
from triptych.search.cache_options import check_lanes, own_lanes
from triptych.search.calibration import forget_calibration
from triptych.search.default_engine import build_engine
from triptych.search.engine import SearchEngine
from triptych.search.hydration import Hydrator
from triptych.search.listing import FilterListing
from triptych.search.past.stores import PastStores
from triptych.search.pipeline import SearchPipeline
from triptych.search.pipeline_record import Pipeline, find_pipeline
from triptych.search.postprocessing import KeywordBoost
from triptych.search.query import check_queries, query_of
from triptych.search.question_log import QuestionLog
from triptych.search.request import RequestResolver
from triptych.search.rewriters.chain import one_rewriter, rewriters_of
from triptych.service_options import ServiceOptions, check_language
from triptych.text.tokens import TokenCounter
from triptych.views.dataset import Dataset
from triptych.views.pipeline import PipelineView

if TYPE_CHECKING:
    from triptych.access import Access
    from triptych.answering.answerer import Answerer, AskRequest
    from triptych.search.semantic_cache import CachedSearches

__all__ = ["Service", "ServiceOptions"]


class Service(CloseOnExit):
    """A knowledge base: documents in, versioned and derived; the right text out.

    Thread-safe. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        store: Store,
        engine: SearchEngine | None = None,
        options: ServiceOptions | None = None,
        *,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Wire a Service over a store; `triptych.open` does it for the built-in ones.

        Three repositories without a store of their own are one by `triptych.Repositories`.
        ``engine`` None builds the lanes that ship. Closing the Service closes the store, and
        then calls ``on_close``, which may close the models.

        Raises:
            ValidationError: ``engine`` is given, and ``options`` has a ranker or retrievers, which
                the engine has itself.
            NotAvailableError: ``options`` has a sparse encoder, and the store keeps no sparse
                vectors.
        """
        self.options: ServiceOptions = options or ServiceOptions()
        if engine is not None:
            for name in ("ranker", "retrievers"):
                if getattr(self.options, name):
                    raise ValidationError(
                        f"the options have {name}, and the engine has its own: give the {name} to "
                        "the SearchEngine, or leave the engine out"
                    )
        self.store = store
        self.capabilities: Capabilities = capabilities_of(store)
        documents, chunks, layers = store.documents, store.chunks, store.layers
        self.documents = documents
        self.chunks = chunks
        self.layer_repo = layers
        self._deriver = DerivationPipeline(
            chunks,
            self.options.chunkers,
            self.options.embedder,
            self.options.embed_concurrency,
            self.capabilities.leases,
            sparse_lane(self.capabilities.sparse, self.options.sparse_encoder),
            self.options.executor,
            self.options.next_embedder,
        )
        self._engine = engine or build_engine(
            store,
            self.capabilities,
            embedder=self.options.embedder,
            next_embedder=self.options.next_embedder,
            sparse_encoder=self.options.sparse_encoder,
            retrievers=self.options.retrievers,
            ranker=self.options.ranker,
        )
        self._hydrator = Hydrator(
            store, self._deriver, self.capabilities.document_search, self.options.locate
        )
        self._past = PastStores(
            store, self.capabilities.versions, self._deriver, self.options.scratch
        )
        self.question_log: QuestionLog = self._log()
        self._judge = ResultJudge(
            chunks, self.capabilities.settings, self.capabilities.corpus_stats
        )
        self._searches = self._pipeline(
            self._engine, self.options.rewriter, self.options.postprocessors
        )
        self._cached = self._cache(
            self._searches, self._engine, self.options.rewriter, self.options.postprocessors
        )
        self.pipelines: Mapping[str, Pipeline] = _by_name(self.options.pipelines, self.lanes)
        self._engines: dict[str, SearchEngine] = {}
        self._caches: dict[str, CachedSearches] = {}
        self._writer = Writer(
            documents, chunks, self._deriver, self.options.language, self.options.outliner
        )
        self._manager = DocumentManager(documents, chunks, self._writer)
        self._layers = LayerService(
            documents, chunks, layers, self._deriver, self._writer.check_config
        )
        self._history = VersionHistory(self.capabilities.versions)
        self._rebuilds = RebuildRunner(documents, chunks, layers, self._writer, self._layers)
        self._embeddings = PendingEmbedder(
            documents, chunks, self._deriver, self._writer, self._layers, self._stats
        )
        self._on_close = on_close
        self._restricted: WeakSet[Service] = WeakSet()
        self._closed = False
        self._closing = threading.Lock()

    def __repr__(self) -> str:
        embedder = self.options.embedder
        model = "no embedder" if embedder is None else embedder.signature
        where = getattr(self.store, "path", None)
        place = type(self.store).__name__ if where is None else str(where)
        return f"<Service {place}, {model}{', closed' if self._closed else ''}>"

    @property
    def llm(self) -> LLM | None:
        """The language model that was wired, None without one."""
        return self.options.llm

    @property
    def searches(self) -> SearchPipeline:
        """What every search of this Service goes through."""
        return self._searches

    @property
    def ranker(self) -> Ranker:
        """What fuses the lanes of hybrid search."""
        return self._engine.ranker

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes: each is a mode, and a key of ``min_scores``."""
        return self._engine.lanes

    @operation(Effect.READS)
    def pipeline(self, name: str) -> PipelineView:
        """This Service, searching and answering by the pipeline of this name.

        Raises:
            NotFoundError: there is no pipeline of this name.
        """
        self._open()
        pipeline = find_pipeline(self.pipelines, name)
        other = pipeline.over
        return (self._over(other) if isinstance(other, Service) else self)._view(pipeline)

    def _over(self, other: Service) -> Service:
        """The Service that a pipeline searches in place of this one, as its caller may see it."""
        return other

    def _view(self, pipeline: Pipeline) -> PipelineView:
        name = pipeline.name
        engine = self._engines.get(name)
        if engine is None:
            made = self._engine.derive(lanes=pipeline.lanes, ranker=pipeline.ranker)
            engine = self._engines.setdefault(name, made)
        searches = self._pipeline(engine, pipeline.rewriter, pipeline.postprocessors)
        cached = self._caches.get(name)
        if cached is None:
            own = self._cache(searches, engine, pipeline.rewriter, pipeline.postprocessors)
            cached = None if own is None else self._caches.setdefault(name, own)
        return PipelineView(self, pipeline, searches, cached)

    @operation(Effect.READS)
    def restricted(self, access: Access) -> Service:
        """This Service as a caller with ``access`` sees it: a Service of its own.

        What the access does not show is answered as what does not exist: it is not found, not
        counted, not suggested, has no part in a score, and no error names it. It shares the store
        and the models, and is closed with this Service, or before. To restrict it again narrows it.

        Raises:
            ValidationError: ``access`` is none.
        """
        from triptych.access.service import RestrictedService

        self._open()
        made = RestrictedService(self, access)
        self._restricted.add(made)
        return made

    # Documents in

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

        ``metadata`` None keeps what the document has, ``{}`` empties it. Where the name is that of
        source code, JSON or YAML, the text is cut as a file of that name is
        (`ServiceOptions.outliner`); its outline is kept with the document. Identical content and
        metadata change nothing and cost nothing. When this returns, every search that starts
        afterwards sees the document. Layers are not touched.

        Where vectors take longer than a second, the document is found by keyword before they are
        there. ``embed="later"`` does not make them at all: `embed_pending` does.

        From ``expires_at`` on, which is in UTC if it has no offset, nothing finds the document, and
        the next rebuild deletes it. None keeps the moment that the document has, "never" takes it
        away. Another moment makes a version, and embeds nothing. A put over a document that has
        expired keeps nothing of it.

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
        self._open()
        check_identifier(dataset_id, "dataset_id")
        later = _is_later(embed)
        document = NewDocument(
            name=name,
            content=content,
            metadata=metadata,
            if_version=if_version,
            expires_at=expires_at,
        )
        return self._writer.put(dataset_id, document, later=later)

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
        does not stop the others. What ``documents`` itself raises passes through: the batches
        before it (256 documents, a million code points, or what came in a second) are stored, the
        one it was being gathered for is not. So does the error for what is not a document at all:
        of a list or a mapping, before anything is stored.

        Each batch is found by keyword as soon as it is stored. Its vectors are stored with it
        where the embedder is quick; else they follow when all documents are stored, in small
        transactions that are kept whatever happens. What lacks vectors in the end, because the
        embedder failed or ``embed`` is "later", is counted as ``pending``.

        Raises:
            ValidationError: something in ``documents`` is not a document.
            ModelMismatchError, ConflictError: as `put_document`, before anything is stored.
            CancelledError: the deadline passed; the batches that were committed stay.
        """
        self._open()
        check_identifier(dataset_id, "dataset_id")
        later = _is_later(embed)
        return self._writer.put_many(dataset_id, documents, progress, later=later)

    @operation(Effect.WRITES, embeds=True, long=True)
    def embed_pending(
        self,
        dataset_id: str | None = None,
        *,
        doc_names: Iterable[str] | None = None,
        progress: ProgressCallback | None = None,
    ) -> EmbedReport:
        """Make the vectors that documents of a dataset, or of all, still lack; a report.

        Documents that were put without an embedder, or to be embedded later, get their vectors, and
        so does what an earlier call was cut off from: what it made is kept, and only texts without
        a vector are embedded. Layers get theirs too. The newest documents come first, or those of
        ``doc_names`` in their order; the latter leaves layers alone.

        A dataset without vectors takes on this embedder. With a sparse encoder, documents get their
        sparse vectors in the same way. Documents whose text is stale are left to `rebuild`.

        Raises:
            NotAvailableError: there is neither an embedder nor a sparse encoder.
            NotFoundError: there is no such dataset.
            ModelMismatchError, ConflictError: the dataset holds vectors of another model, or is
                chunked otherwise: rebuild it. Of several datasets, it is in the report.
            CancelledError: the deadline passed; the vectors that were made are kept.
        """
        self._open()
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
                "there is no embedder to make vectors with: open the knowledge base with one"
            )
        if dataset_id is not None:
            _check_names(dataset_id)
            if dataset_id not in self.documents.list_datasets():
                raise self._missing(dataset_id)
        with telemetry.operation("embed_pending"):
            if dataset_id is None:
                report = self._embeddings.datasets(self.documents.list_datasets(), progress)
            else:
                report = self._embeddings.dataset(dataset_id, doc_names, progress)
            telemetry.note(documents=report.documents, failed=len(report.failed))
            return report

    # Documents out

    @operation(Effect.READS)
    def get_document(
        self, dataset_id: str, name: str, version: int | None = None
    ) -> SourceDocument:
        """The document as it was put, code point for code point.

        ``version`` asks for the document as it was then (None: as it is).

        Raises:
            NotFoundError: there is none of this name; or that version is not kept, and the
                message names those that are.
            NotAvailableError: a version is asked for, and the store keeps none.
        """
        self._open()
        _check_names(dataset_id, name)
        document = (
            self.documents.get(dataset_id, name)
            if version is None
            else self._history.get(dataset_id, name, version)
        )
        now = document if version is None else self.documents.get_info(dataset_id, name)
        if document is None or has_expired(now):
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
            NotFoundError: there is no such dataset.
            ConflictError: in another order than by name, ``after`` names a document that is gone.
        """
        self._open()
        _check_names(dataset_id)
        check_text(prefix, "prefix")
        if not isinstance(after, DocumentInfo):
            check_text(after, "after")
        if limit is not None:
            limit = min(check_whole(limit, "limit"), sys.maxsize)
        tree = self._living(dataset_id, None if where is None else parse_filter(where))
        page = self._manager.page(
            dataset_id, tree, prefix=prefix, sort=sort, after=after, limit=limit
        )
        if not page and dataset_id not in self.documents.list_datasets():
            raise self._missing(dataset_id)
        return page

    @operation(Effect.READS)
    def count_documents(self, dataset_id: str, *, where: Mapping[str, Any] | None = None) -> int:
        """How many documents there are, or how many of them pass ``where``.

        Raises:
            NotFoundError: there is no such dataset.
        """
        self._open()
        _check_names(dataset_id)
        tree = self._living(dataset_id, None if where is None else parse_filter(where))
        found = self.documents.count(dataset_id, where=tree)
        if not found and dataset_id not in self.documents.list_datasets():
            raise self._missing(dataset_id)
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
            NotFoundError: there is no such dataset.
        """
        self._open()
        _check_names(dataset_id)
        if not isinstance(changes, Mapping):
            raise ValidationError(f"changes map keys to values, not {changes!r:.60}")
        tree, wanted = which_documents(names, where)
        if tree is None:
            raise ValidationError(
                "an empty where is every document: to change all of them, write "
                '{"$name": {"$exists": true}}'
            )
        if dataset_id not in self.documents.list_datasets():
            raise self._missing(dataset_id)
        tree = self._living(dataset_id, tree)
        return self._manager.update_metadata(dataset_id, changes, tree, wanted)

    @operation(Effect.READS)
    def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The versions of a document, newest first: the current one, then those that are kept.

        A change keeps the version it replaces; of each document the last so many are kept as the
        setting ``history`` says. Deleting the document deletes them.

        Raises:
            NotFoundError: there is no such document.
            NotAvailableError: the store keeps no old versions.
        """
        self._open()
        _check_names(dataset_id, name)
        versions = self._history.versions(dataset_id, name)
        if not versions or has_expired(versions[0]):
            raise self._missing(dataset_id, name)
        return versions

    @operation(Effect.READS)
    def diff(self, dataset_id: str, name: str, old: int, new: int | None = None) -> str:
        """How version ``new`` of a document (None: the current one) differs from ``old``.

        A unified diff of the lines of metadata, where they differ, and of the texts; "" where
        nothing does.

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

        This is a put like any other: it makes a new version, and keeps the one it replaces. Where
        the document is the same now it changes nothing. Text that still has its vector is not
        embedded again.

        Raises:
            NotFoundError, NotAvailableError: as `get_document`.
            TriptychError: as `put_document`.
        """
        old = self.get_document(dataset_id, name, version)
        return self._writer.put(dataset_id, restored(old, if_version))

    # Changes

    @operation(Effect.READS)
    def changes(
        self, since: str | None = None, *, dataset_id: str | None = None, limit: int = 1000
    ) -> ChangePage:
        """What became of the documents since a cursor: added, updated or deleted.

        For caches, copies and indexes elsewhere that follow this knowledge base. Each document
        comes once, with its last change, in the order in which these were committed. A change that
        was committed before the call is in it, whichever process made it. Pass the page's cursor
        to read on, at once while ``more`` is true. Apply "added" and "updated" alike: read the
        document and replace what you have.

        Where ``reset`` is true the store could not go on from ``since``: it is the cursor of
        another store, or of what a restored backup does not have, or deletions after it are
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
        self._open()
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
        """Pages of `changes` as they come, without an end: none of them says nothing.

        ``poll`` is how many seconds pass between two looks at the store, which are cheap while
        nothing is written; in a store of files each looks through the folders. A deadline around
        the loop ends it with `CancelledError`, closing the Service with `StoreError`.

        Raises:
            ValidationError, NotAvailableError: as `changes`; ``poll`` is not above 0.
        """
        check_poll(poll)
        self._open()
        reader = self.capabilities.changes
        if reader is None:
            raise NotAvailableError("this store has no log of its changes")

        def page_after(cursor: str | None) -> ChangePage:
            return self.changes(cursor, dataset_id=dataset_id, limit=limit)

        def head() -> str:
            self._open()
            return reader.change_head()

        return follow_changes(page_after, head, since, poll)

    # Datasets

    @operation(Effect.READS)
    def list_datasets(self) -> Sequence[str]:
        """The ids of all datasets, in order."""
        self._open()
        return self.documents.list_datasets()

    @operation(Effect.READS)
    def dataset(self, dataset_id: str) -> Dataset:
        """A view of one dataset, with this Service's methods and the id filled in.

        The dataset comes into being with its first document, or by `create_dataset`.
        """
        check_identifier(dataset_id, "dataset_id")
        return Dataset(self, dataset_id)

    @operation(Effect.WRITES, creates=True)
    def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool:
        """Bring an empty dataset into being; whether it did not exist before.

        It is listed, and can be searched, with this Service's configuration. ``language`` is
        what it is analysed in (None: the Service's). A dataset that exists stays as it is. A
        put needs no dataset that was created.

        Raises:
            ValidationError: the id cannot be one, or the analyzer knows no such language.
        """
        self._open()
        check_identifier(dataset_id, "dataset_id")
        if language is not None:
            check_language(language)
        before = self.chunks.config(dataset_id)
        if dataset_id in self.documents.list_datasets():
            return False
        # First, so that no crash leaves a dataset without its language.
        self._writer.offer_config(dataset_id, language, expected=before)
        return self.documents.create_dataset(dataset_id)

    @operation(Effect.WRITES)
    def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig:
        """Set the language a dataset is analysed in, before or after its first document.

        The index of an existing dataset is built again at the next search.

        Raises:
            ValidationError: the analyzer knows no such language; the message lists those it does.
        """
        self._open()
        check_identifier(dataset_id, "dataset_id")
        check_language(language)
        return self._writer.set_language(dataset_id, language)

    # Deletes

    @operation(Effect.DESTROYS)
    def delete_document(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """Remove a document with its old versions, chunks, vectors, layers and index entries.

        Idempotent: whether there was one. It is one atomic write: what another writer puts
        under this name afterwards stays whole.

        Raises:
            ConflictError: ``if_version`` is given and is not the stored version (0: no
                document). Nothing was removed.
        """
        self._open()
        _check_names(dataset_id, name)
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

        What matches when it is looked at is removed, whether it has expired or not. A document that
        another writer changes meanwhile is read again, and removed if it still matches.

        Args:
            names: the documents. With ``where``, those of them that pass.
            where: the documents that pass, as in `Query`.

        Raises:
            ValidationError: neither names nor where is given, or ``where`` alone is empty.
            NotFoundError: there is no such dataset.
            StoreError: the store failed. What was removed before stays removed.
        """
        self._open()
        _check_names(dataset_id)
        tree, wanted = which_documents(names, where)
        if tree is None:
            raise ValidationError(
                "an empty where is every document: call delete_dataset, or recreate, for that"
            )
        if dataset_id not in self.documents.list_datasets():
            raise self._missing(dataset_id)
        with telemetry.operation("delete", bulk=True):
            report = self._manager.delete(dataset_id, tree, wanted)
            telemetry.note(documents=len(report.deleted), failed=len(report.failed))
            return report

    @operation(Effect.DESTROYS)
    def remove_expired(self, dataset_id: str | None = None) -> int:
        """Delete the documents of a dataset, or of all, that have expired; how many.

        `rebuild` does this, too. Each 256 are one transaction. A document that is put again
        meanwhile stays.

        Raises:
            NotFoundError: there is no such dataset.
            CancelledError: the deadline passed. What was removed stays removed.
        """
        self._open()
        datasets = self.documents.list_datasets()
        if dataset_id is not None:
            _check_names(dataset_id)
            if dataset_id not in datasets:
                raise self._missing(dataset_id)
            datasets = [dataset_id]
        return sum(remove_expired(self.documents, each) for each in datasets)

    @operation(Effect.DESTROYS)
    def delete_dataset(self, dataset_id: str) -> bool:
        """Remove a dataset with everything in it. Idempotent: whether there was one.

        It is one atomic write: a dataset that another writer begins afterwards stays whole.
        """
        self._open()
        _check_names(dataset_id)
        existed = self.documents.delete_dataset(dataset_id)
        forget_calibration(self.capabilities.settings, dataset_id)
        self.question_log.erase(dataset_id)
        return existed

    @operation(Effect.DESTROYS)
    def recreate(self, dataset_id: str) -> bool:
        """Empty a dataset and take this Service's configuration on; whether there was one.

        Its language stays, and so do the versions that were used up. The dataset comes into
        being again with its next document. This is a delete and a write. A crash between them
        leaves no dataset, and the next put makes it in this Service's language. Another writer
        who puts between them begins the dataset: its documents stay, and if it has configured
        the dataset, the configuration stays its own, but for the language.

        Raises:
            StoreError: the store failed; call again.
        """
        self._open()
        _check_names(dataset_id)
        config = self.chunks.config(dataset_id)
        existed = self.delete_dataset(dataset_id)
        if config is not None:
            self._writer.set_language(dataset_id, config.language)
        return existed

    @operation(Effect.DESTROYS, long=True)
    def purge(self, dataset_id: str, name: str | None = None) -> PurgeReceipt:
        """Delete a document, or a whole dataset, and erase what the store's files still hold.

        Old versions go with their document, and so do the layers of the folders and the dataset
        above it, which may quote it, and all answers that a server keeps for requests which are
        sent again. Logged questions go with their dataset; a document that is purged is no longer
        named in the log.

        Deleting leaves bytes in free pages, logs and index files until they are overwritten;
        purging overwrites them, which takes time in proportion to the store. The receipt is true
        where there was anything to delete.

        Raises:
            StoreError: the delete failed, or the erasing. Purge again.
        """
        self._open()
        _check_names(dataset_id, *(() if name is None else (name,)))
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
        requests = self._forget_requests()
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

    # Search

    @operation(Effect.READS)
    def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Find chunks (L2), abstracts (L0) or overviews (L1).

        ``query`` is a `Query`, or its text. ``options`` are the other fields of `Query`:
        ``dataset_id`` (or ``scope="all"``), ``mode``, ``layer``, ``top_k`` (10), ``threshold``,
        ``min_scores``, ``where``, ``fresh_only`` and ``keyword_boost``; see `SearchOptions`. All
        hits are read in one snapshot.

        Raises:
            ValidationError: a field of the query is invalid.
            NotFoundError: there is no such dataset.
            NotAvailableError: the mode cannot be served (in hybrid mode a warning).
            ModelMismatchError: vector mode over vectors of another model.
        """
        self._open()
        return (self._cached or self._searches).search(query_of(query, options))

    @operation(Effect.READS)
    def search_documents(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Find whole documents: scored over their full text, and by the nearest of their chunks.

        As `search`, but ``layer`` plays no role: hits have ``layer`` None, and their content
        is the document's opening.
        """
        self._open()
        return (self._cached or self._searches).search_documents(query_of(query, options))

    @operation(Effect.READS, long=True)
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """`search` for each query, in order; their texts are embedded in one batch.

        When the batch fails, each text is embedded by itself, and a query whose text still
        fails ends as it does in `search`: with a warning in hybrid mode, else with the error.
        """
        self._open()
        several = check_queries(queries)
        searches = self._cached or self._searches
        return searches.search_many([query_of(query, options) for query in several])

    # Context

    @operation(Effect.READS)
    def context(
        self,
        query: Query | str,
        token_budget: int,
        *,
        format: str = "text",
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        fence: bool = False,
        **options: Unpack[SearchOptions],
    ) -> ContextPack:
        """The best mixture of passages and layers for a prompt, under a budget of tokens.

        ``query`` and ``options`` are those of `search`; ``layer`` and ``top_k`` play no role.
        ``format`` is the one that the pack will be rendered in: "text", "markdown", "xml" or
        "json"; headers and citations are counted.
        ``layers`` may leave some out; those that are not there are done without. ``max_pieces`` is
        the most pieces, the best; None for any number. ``counter``
        counts tokens: a function from text to their number; None is tiktoken where it is
        installed, else an estimate, as ``ContextPack.counter`` says. ``fence`` puts each text
        between delimiters that are drawn at random, and that no document can guess.

        A budget too small for anything gives an empty pack with a warning.

        Raises:
            ValidationError: budget, format, layers or counter is invalid, or the counter
                answers no number.
            TriptychError: as `search`.
        """
        # Here, as `doctor` and `health` do: most programs search only, and a command starts sooner.
        from triptych.context.builder import ContextBuilder, ContextSettings

        self._open()
        settings = ContextSettings.of(
            token_budget,
            format=format,
            layers=layers,
            max_pieces=max_pieces,
            counter=counter,
            fence=fence,
        )
        contexts = ContextBuilder(self._searches, self.documents, self.chunks, self.options.context)
        return contexts.build(query_of(query, options), settings)

    @operation(Effect.READS)
    def verify(self, citation: Citation) -> Verification:
        """What became of a citation: fresh, changed or gone, with the difference.

        A passage that only moved is fresh, and told where it stands now.

        Raises:
            ValidationError: ``citation`` is none.
        """
        from triptych.context.citation_check import verify

        self._open()
        return verify(citation, self.documents, self._layers)

    # Answers

    @operation(Effect.READS, long=True)
    def ask(
        self,
        question: Query | str,
        *,
        token_budget: int = 2800,
        max_tokens: int = 1024,
        llm: LLM | None = None,
        prompt: AnswerPrompt | None = None,
        prices: Prices | None = None,
        answerability: AnswerabilityJudge | None = None,
        abstain_if_weak: bool = False,
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        **options: Unpack[SearchOptions],
    ) -> Answer:
        """Answer a question from the documents, with citations that are checked.

        What `context` finds for ``question`` under ``token_budget`` is what the model is shown,
        each text between delimiters that no document can guess. Each ``[n]`` of the answer names
        a piece of it; a number that names none is taken out, with a warning, and
        ``Answer.uncited`` lists the sentences that cite nothing. Where nothing was found the
        answer abstains, and the model is not asked. It abstains too where the model says that its
        sources do not answer.

        Args:
            question: a `Query` or its text; ``options`` are those of `context`. Their
                ``conversation`` is the turns before, of user and assistant, such as
                ``Answer.conversation`` of the last answer: the model first makes the question
                whole by them (`make_standalone`), and sees the last 1,500 tokens of them.
            token_budget: the maximum number of tokens of the context.
            max_tokens: the maximum number of tokens of the answer.
            llm: the model; None is ``options.llm`` of the Service.
            prompt: the instructions for the model; None is `AnswerPrompt()`.
            prices: of a million tokens, for ``Answer.cost``.
            answerability: judges the chunks that were found: "nothing" abstains, "weak" warns;
                None is ``options.answerability`` of the Service, else what the dataset's
                calibration says (`Result.answerability`).
            abstain_if_weak: whether "weak" abstains, too.
            layers, max_pieces, counter: as in `context`.

        Raises:
            NotAvailableError: there is no language model.
            ProviderError: the model failed, or answered with an empty text.
            CancelledError: the deadline passed.
            TriptychError: as `context`.
        """
        return self._answerer().ask(
            self._ask_request(
                question,
                options,
                token_budget=token_budget,
                max_tokens=max_tokens,
                llm=llm,
                prompt=prompt,
                prices=prices,
                answerability=answerability,
                abstain_if_weak=abstain_if_weak,
                layers=layers,
                max_pieces=max_pieces,
                counter=counter,
            )
        )

    @operation(Effect.READS)
    def ask_stream(
        self,
        question: Query | str,
        *,
        token_budget: int = 2800,
        max_tokens: int = 1024,
        llm: LLM | None = None,
        prompt: AnswerPrompt | None = None,
        prices: Prices | None = None,
        answerability: AnswerabilityJudge | None = None,
        abstain_if_weak: bool = False,
        layers: Iterable[Layer | str] = ("L0", "L1", "L2"),
        max_pieces: int | None = None,
        counter: TokenCounter | Callable[[str], int] | None = None,
        **options: Unpack[SearchOptions],
    ) -> AnswerStream:
        """`ask` in pieces, as the model writes them; ``stream.answer`` is the whole at the end.

        The search is done, and its errors are raised, before this returns. What may still become
        a citation is held back until it was checked: the pieces joined are ``answer.text``. When
        the model breaks off, reading raises `ProviderError`, and what came before is no answer.

        Raises:
            TriptychError: as `ask`.
        """
        return self._answerer().stream(
            self._ask_request(
                question,
                options,
                token_budget=token_budget,
                max_tokens=max_tokens,
                llm=llm,
                prompt=prompt,
                prices=prices,
                answerability=answerability,
                abstain_if_weak=abstain_if_weak,
                layers=layers,
                max_pieces=max_pieces,
                counter=counter,
            )
        )

    @operation(Effect.READS, long=True)
    def replay(self, receipt: ContextReceipt | AnswerReceipt) -> Replay:
        """Make the context of a receipt again, from the versions of documents that are kept.

        Where all are, the text is the same, byte for byte, and so is what the model was sent;
        ``missing`` says which pieces are gone, and why. Nothing is searched and no model asked.

        Raises:
            ValidationError: ``receipt`` is none.
        """
        from triptych.answering.replay import replay

        self._open()
        return replay(receipt, self.documents, self.layer_repo, self.capabilities.versions)

    # Layers

    @operation(Effect.READS)
    def layer(self, dataset_id: str, name: str, layer: Layer | str) -> DerivedLayer | None:
        """A document's layer with its freshness, None when it was not made yet."""
        self._open()
        _check_names(dataset_id, name)
        return self._layers.get(dataset_id, name, layer)

    @operation(Effect.READS)
    def dataset_layer(self, dataset_id: str, layer: Layer | str) -> DerivedLayer | None:
        """The dataset's own layer with its freshness, None when it was not made yet."""
        self._open()
        _check_names(dataset_id)
        return self._layers.get(dataset_id, "", layer)

    @operation(Effect.READS)
    def layers(self, dataset_id: str, *, layer: Layer | str | None = None) -> list[DerivedLayer]:
        """All layers of a dataset with their freshness, by name and layer."""
        self._open()
        _check_names(dataset_id)
        return self._layers.list(dataset_id, layer)

    @operation(Effect.WRITES)
    def put_document_layer(
        self,
        dataset_id: str,
        name: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        source_version: int | None = None,
    ) -> DerivedLayer:
        """Store an abstract (L0) or overview (L1) of a document; the stored layer.

        ``source_version`` is the version it was made from (None: the current one) and
        ``prompt_sig`` the signature of its maker.

        Raises:
            ValidationError: the layer is L2, or the content cannot be stored.
            NotFoundError: there is no such document.
            ConflictError: the document is no longer at ``source_version``.
            DerivationError: the content could not be embedded; nothing was stored.
        """
        self._open()
        _check_names(dataset_id, name)
        _check_layer(content, prompt_sig)
        if source_version is not None:
            check_whole(source_version, "source_version")
        return self._layers.put_document_layer(
            dataset_id, name, layer, content, prompt_sig, source_version
        )

    @operation(Effect.WRITES)
    def put_dataset_layer(
        self,
        dataset_id: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """Store a dataset's own abstract or overview; the stored layer.

        ``summaries`` are the documents' abstracts it was made from (None: the current ones).

        Raises:
            ValidationError, NotFoundError, DerivationError: as `put_document_layer`.
        """
        self._open()
        _check_names(dataset_id)
        _check_layer(content, prompt_sig)
        return self._layers.put_folder_layer(dataset_id, "", layer, content, prompt_sig, summaries)

    @operation(Effect.WRITES)
    def put_folder_layer(
        self,
        dataset_id: str,
        folder: str,
        layer: Layer | str,
        content: str,
        *,
        prompt_sig: str = "",
        summaries: Iterable[DocumentSummary] | None = None,
    ) -> DerivedLayer:
        """Store an abstract or overview of a folder, whose name ends in "/"; the stored layer.

        ``summaries`` are the abstracts of what is directly in it, documents and folders, that it
        was made from (None: the current ones).

        Raises:
            ValidationError: ``folder`` does not end in "/", or as `put_document_layer`.
            NotFoundError: no document is in this folder.
            DerivationError: as `put_document_layer`.
        """
        self._open()
        _check_names(dataset_id, folder)
        _check_layer(content, prompt_sig)
        if not folder.endswith("/"):
            raise ValidationError(f"{folder!r} names no folder: the name of one ends in a slash")
        return self._layers.put_folder_layer(
            dataset_id, folder, layer, content, prompt_sig, summaries
        )

    # Upkeep

    @operation(Effect.WRITES, embeds=True, long=True)
    def rebuild(
        self,
        scope: RebuildScope | None = None,
        *,
        dataset_id: str = "",
        doc_name: str = "",
        progress: ProgressCallback | None = None,
    ) -> RebuildReport:
        """Bring chunks and vectors up to date: only what is stale is derived again.

        The rebuild of a dataset, or of everything, is also how a new chunker or embedder is
        taken on: the dataset's configuration becomes this Service's. ``scope`` can name several
        documents, which ``doc_name`` cannot; ``progress`` is not called then. A document that fails
        is in the report, and the others are rebuilt. Layers are not made here, but those of another
        embedder are embedded again, unchanged. What has lost its source is removed,
        and so are documents that have expired.

        What is stale is embedded by up to ``options.embed_concurrency`` calls at a time, and
        committed page by page: a rebuild that was cut off goes on where it stopped.

        Raises:
            NotFoundError: there is no such dataset.
            ModelMismatchError, ConflictError: documents are to be rebuilt by name, and their
                dataset has another configuration: rebuild the dataset.
            CancelledError: the deadline passed; what was rebuilt stays.
        """
        self._open()
        if scope is not None and not isinstance(scope, RebuildScope):
            raise ValidationError(
                f"rebuild takes a RebuildScope, not {type(scope).__name__}: to name a dataset, "
                "write rebuild(dataset_id=…)"
            )
        if scope is not None and (dataset_id or doc_name):
            raise ValidationError("give rebuild a scope or a dataset_id, not both")
        scope = scope or RebuildScope(dataset_id=dataset_id, doc_name=doc_name)
        if scope.dataset_id and scope.dataset_id not in self.documents.list_datasets():
            report = self._rebuilds.remove_orphans(scope.dataset_id)
            if not report.removed:
                raise self._missing(scope.dataset_id)
            return report
        with telemetry.operation("rebuild"):
            if scope.doc_names:
                report = self._rebuilds.named(scope.dataset_id, scope.doc_names)
            else:
                one = scope.dataset_id
                datasets = [one] if one else self.documents.list_datasets()
                report = self._rebuilds.datasets(datasets, progress)
            telemetry.note(documents=report.rebuilt, failed=len(report.failed))
            return report

    @operation(Effect.READS)
    def stats(self, dataset_id: str | None = None) -> list[DatasetStats]:
        """Counts of one dataset, or of all; also the model, width and count of the vectors.

        Raises:
            NotFoundError: there is no such dataset.
        """
        self._open()
        datasets = self.documents.list_datasets()
        if dataset_id is not None:
            _check_names(dataset_id)
            if dataset_id not in datasets:
                raise self._missing(dataset_id)
            datasets = [dataset_id]
        # None: deleted meanwhile.
        stats = [found for each in datasets if (found := self._stats(each)) is not None]
        if dataset_id is not None and not stats:
            raise self._missing(dataset_id)
        return stats

    @operation(Effect.READS)
    def cache_stats(self) -> CacheStats:
        """How many answers the semantic cache keeps, how many searches found one or found none.

        The numbers are the store's: of every process that ever used it.

        Raises:
            NotAvailableError: the store keeps no answers.
        """
        self._open()
        if self._cached is not None:
            return self._cached.stats()
        if self.capabilities.answers is None:
            raise NotAvailableError("this store keeps no answers of searches")
        return self.capabilities.answers.cache_stats()

    @operation(Effect.READS, long=True)
    def health(self, *, probe: bool = True) -> Health:
        """Look at store, index, models and datasets, and say what is wrong.

        Meant to run before long work: ``service.health().require()`` raises what would fail.
        ``probe`` embeds two words, to see that the models answer; False calls no model.
        """
        from triptych.diagnostics.health import check_health

        self._open()
        return check_health(
            self.documents,
            self.capabilities.diagnostics,
            self.options.embedder,
            self.stats,
            next_embedder=self.options.next_embedder,
            probe=probe,
            sparse_encoder=self.options.sparse_encoder,
        )

    @operation(Effect.WRITES, long=True)
    def doctor(
        self,
        *,
        repair: bool = False,
        dataset_id: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> DoctorReport:
        """Check every invariant of the store, and say what is wrong and why it matters.

        Reads everything, page by page: content and old versions against their checksums, chunks
        against their documents, signatures against configurations, vectors, layers, what has
        lost its owner, the database and the search index against each other, the model's files.
        That takes time in proportion to the store; `health` is the quick look. Others may write
        meanwhile.

        ``repair`` repairs what can be made again from the truth, and examines once more: the
        report then says what is left. It never removes or alters a source document.
        ``dataset_id`` names the one dataset to look at, beside the store as a whole.

        Raises:
            NotFoundError: there is no such dataset.
            StoreError: the store cannot be read at all.
            CancelledError: the deadline passed; what was repaired stays.
        """
        from triptych.diagnostics import Doctor

        self._open()
        check_progress(progress)
        if dataset_id is None:
            datasets: Callable[[], Sequence[str]] = self.documents.list_datasets
        else:
            only = (dataset_id,)
            _check_names(dataset_id)
            if dataset_id not in self.documents.list_datasets():
                raise self._missing(dataset_id)
            datasets = lambda: only  # noqa: E731 - a function of its own would say no more
        doctor = Doctor(self.store, self.capabilities, self._deriver, self._rebuilds)
        return doctor.report(datasets, repair=repair, progress=progress)

    def close(self) -> None:
        """Release files, connections and threads. Idempotent; later calls raise `StoreError`."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        for service in list(self._restricted):
            service.close()
        for engine in (self._engine, *self._engines.values()):
            engine.close()
        for cached in (self._cached, *self._caches.values()):
            if cached is not None:
                cached.close()
        self._past.close()
        try:
            self.store.close()
        finally:
            if self._on_close is not None:
                self._on_close()

    def _answerer(self) -> Answerer:
        from triptych.answering.answerer import Answerer
        from triptych.context.builder import ContextBuilder

        self._open()
        return Answerer(
            ContextBuilder(self._searches, self.documents, self.chunks, self.options.context)
        )

    def _ask_request(
        self,
        question: Query | str,
        options: SearchOptions,
        *,
        llm: LLM | None,
        answerability: AnswerabilityJudge | None,
        **given: Any,
    ) -> AskRequest:
        from triptych.answering.answerer import AskRequest

        return AskRequest.of(
            query_of(question, options),
            llm=self.options.llm if llm is None else llm,
            answerability=self.options.answerability if answerability is None else answerability,
            **given,
        )

    def _cache(
        self,
        searches: SearchPipeline,
        engine: SearchEngine,
        rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
        postprocessors: Sequence[Postprocessor],
    ) -> CachedSearches | None:
        """The cache before these searches, None without one."""
        chosen, answers = self.options.semantic_cache, self.capabilities.answers
        if chosen is None:
            return None
        if answers is None:
            raise NotAvailableError(
                "this store keeps no answers of searches: leave semantic_cache out"
            )
        # Here, for most programs have no cache, and a command starts sooner.
        from triptych.search.semantic_cache import CachedSearches

        check_lanes(engine.retrievers)
        parts = (
            self.options.embedder,
            self.options.next_embedder,
            self.options.sparse_encoder,
            engine.ranker,
            engine.lanes,
            own_lanes(engine.retrievers),
            rewriters_of(rewriter),
            tuple(postprocessors),
            *self._of_caller(),
        )
        resolver, locate = self._resolver(engine), self.options.locate
        return CachedSearches(
            searches, self.store, answers, resolver, self._deriver, chosen, parts, locate
        )

    def _of_caller(self) -> Sequence[object]:
        """What decides an answer beside the configuration: who asks."""
        return ()

    def _log(self) -> QuestionLog:
        """Where the pipelines note questions."""
        return QuestionLog(self.capabilities.settings)

    def _forget_requests(self) -> int:
        note_purge(self.capabilities.settings)
        return forget_requests(self.capabilities.settings)

    def _remove_layers_above(self, dataset_id: str, name: str, *, every: bool) -> int:
        return self._layers.remove_above(dataset_id, name, every=every)

    def _scrub(self) -> ScrubReport:
        eraser = self.capabilities.eraser
        return (None if eraser is None else eraser.scrub()) or ScrubReport()

    def _open(self) -> None:
        if self._closed:
            raise StoreError("this knowledge base is closed: open it again")

    def _pipeline(
        self,
        engine: SearchEngine,
        rewriter: QueryRewriter | Sequence[QueryRewriter] | None,
        postprocessors: Sequence[Postprocessor],
    ) -> SearchPipeline:
        return SearchPipeline(
            self.store,
            self._resolver(engine),
            engine,
            self._hydrator,
            FilterListing(self.store, self._hydrator),
            self._deriver,
            one_rewriter(rewriter),
            (KeywordBoost(), *postprocessors),
            self._past,
            self._judge,
            self.question_log if self.options.question_log else None,
        )

    def _resolver(self, engine: SearchEngine) -> RequestResolver:
        return RequestResolver(self.documents, self.chunks, self._deriver, engine.lanes)

    def _living(self, dataset_id: str, tree: FilterTree | None) -> FilterTree | None:
        return without_expired(self.documents, [dataset_id], tree)

    def _missing(self, dataset_id: str, name: str | None = None) -> NotFoundError:
        datasets = self.documents.list_datasets()
        if dataset_id not in datasets:
            return missing_dataset(dataset_id, datasets)
        return NotFoundError(f"the dataset {dataset_id!r} has no document {name!r}").hinted(
            "`triptych list` shows the documents of a dataset"
        )

    def _deriver_of(self, dataset_id: str) -> DerivationPipeline:
        if self._deriver.next is None:
            return self._deriver
        return self._deriver.of_config(self.chunks.config(dataset_id))

    def _stats(self, dataset_id: str) -> DatasetStats | None:
        space = self._deriver_of(dataset_id).embed_sig
        stats = self.store.stats(dataset_id, chunker_sig=self._deriver.chunker_sig, embed_sig=space)
        if stats is None:
            return None
        stats = without_expired_pending(self.documents, self.chunks, stats, space)
        repo, config = self.capabilities.sparse, stats.config
        if repo is None or config is None or not config.sparse_sig:
            return stats
        return attrs.evolve(
            stats,
            sparse_spaces=tuple(repo.sparse_spaces(dataset_id)),
            sparse_pending=count_sparse_pending(
                self.documents, repo, [dataset_id], config.sparse_sig
            ),
        )


share_docs(Dataset, Service)
share_docs(PipelineView, Service)


def _by_name(pipelines: Sequence[Pipeline], lanes: Sequence[str]) -> Mapping[str, Pipeline]:
    """The pipelines by their names, each checked."""
    found: dict[str, Pipeline] = {}
    for pipeline in pipelines:
        if not isinstance(pipeline, Pipeline):
            raise ValidationError(f"{pipeline!r:.80} is not a Pipeline: give records of that class")
        if pipeline.name in found:
            raise ValidationError(f"two pipelines are called {pipeline.name!r}: rename one")
        if pipeline.over is not None and not isinstance(pipeline.over, Service):
            raise ValidationError(
                f"the pipeline {pipeline.name!r} is over {pipeline.over!r:.80}, which is no Service"
            )
        pipeline.check(lanes if pipeline.over is None else pipeline.over.lanes)
        found[pipeline.name] = pipeline
    return found


def _check_names(dataset_id: object, name: object = "") -> None:
    """Refuse what no dataset or document can be called; whether there is one is seen later."""
    check_text(dataset_id, "dataset_id")
    check_text(name, "a document name")


def _is_later(embed: object) -> bool:
    if embed not in ("now", "later") or not isinstance(embed, str):
        raise ValidationError(f"embed is 'now' or 'later', not {embed!r}")
    return embed == "later"


def _check_layer(content: object, prompt_sig: object) -> None:
    check_text(content, "a layer's content")
    check_text(prompt_sig, "prompt_sig")
