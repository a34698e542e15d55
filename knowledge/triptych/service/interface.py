"""The operations of a knowledge base: what each takes, returns and raises."""

# The methods have no bodies: `operation` makes each of them a call of `Operations._run`.
# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Unpack

from triptych.records import (
    DatasetConfig,
    DerivedLayer,
    DocumentInfo,
    DocumentSummary,
    EmbedWhen,
    Explanation,
    Layer,
    Metadata,
    MetadataValue,
    NewDocument,
    Query,
    Result,
    SourceDocument,
)
from triptych.records.queries import SearchOptions
from triptych.service.operations import Effect, operation

if TYPE_CHECKING:
    from triptych._internal.progress import ProgressCallback
    from triptych.answers.options import AskOptions, ContextOptions, PrefixOptions
    from triptych.answers.pack import ContextPack, ContextReceipt
    from triptych.answers.pieces import Citation, Verification
    from triptych.answers.prefix import ContextPrefix
    from triptych.answers.records import Answer, AnswerReceipt, AnswerStream
    from triptych.answers.replay import Replay
    from triptych.records import (
        CacheStats,
        ChangePage,
        DatasetStats,
        DeleteReport,
        DoctorReport,
        EmbedReport,
        Health,
        MetadataReport,
        PurgeReceipt,
        PutReport,
        RebuildReport,
        RebuildScope,
    )


class Operations:
    """The operations of a `KnowledgeBase`. Each runs by `_run`, unless a class has its own."""

    def _run(
        self, operation: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        """Run an operation that the class does not define itself."""
        # Not abstract: a Service defines them all, and needs none.
        raise NotImplementedError(f"{type(self).__name__} has no {operation.__name__}")

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

    @operation(Effect.READS)
    def count_documents(self, dataset_id: str, *, where: Mapping[str, Any] | None = None) -> int:
        """Count the documents of a dataset, or those that match ``where``.

        Raises:
            NotFoundError: the dataset does not exist.
        """

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

    @operation(Effect.READS)
    def history(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """Return the versions of a document: the current one, then the kept old ones, newest first.

        A change keeps the version that it replaces. The setting ``history`` is the number of old
        versions kept per document. Deleting the document deletes them.

        Raises:
            NotFoundError: the document does not exist.
            NotAvailableError: the store keeps no old versions.
        """

    @operation(Effect.READS)
    def diff(self, dataset_id: str, name: str, old: int, new: int | None = None) -> str:
        """Return a unified diff from version ``old`` of a document to ``new`` (None: the current
        one).

        It covers the metadata, the time of expiry and the text, by lines; "" if nothing differs.

        Raises:
            NotFoundError, NotAvailableError: as `get_document`.
        """

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

    @operation(Effect.READS)
    def list_datasets(self) -> Sequence[str]:
        """Return the ids of all datasets, sorted."""

    @operation(Effect.WRITES, creates=True)
    def create_dataset(self, dataset_id: str, *, language: str | None = None) -> bool:
        """Create an empty dataset; return whether it is new.

        It gets this Service's configuration and can be listed and searched. ``language`` is the
        language of its text analysis (None: the Service's). An existing dataset is not changed.
        Storing a document also creates its dataset.

        Raises:
            ValidationError: the id is invalid, or the analyzer does not support the language.
        """

    @operation(Effect.WRITES)
    def configure_dataset(self, dataset_id: str, *, language: str) -> DatasetConfig:
        """Set the language in which a dataset is analysed; return its configuration.

        If the dataset has documents, its index is rebuilt at the next search.

        Raises:
            ValidationError: the analyzer does not support the language; the message lists those
                that it supports.
        """

    @operation(Effect.DESTROYS)
    def delete_document(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """Delete a document with its old versions, chunks, vectors, layers and index entries.

        Return whether the document existed; deleting is idempotent. The delete is atomic: it does
        not affect what another writer stores under this name afterwards.

        Raises:
            ConflictError: ``if_version`` is not the stored version (0: no document). Nothing was
                deleted.
        """

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

    @operation(Effect.DESTROYS)
    def remove_expired(self, dataset_id: str | None = None) -> int:
        """Delete the expired documents of a dataset, or of all datasets; return their number.

        `rebuild` does this too. A transaction deletes up to 256 documents. A document that is
        stored again meanwhile is not deleted.

        Raises:
            NotFoundError: the dataset does not exist.
            CancelledError: the deadline passed; earlier deletions remain.
        """

    @operation(Effect.DESTROYS)
    def delete_dataset(self, dataset_id: str) -> bool:
        """Delete a dataset with everything in it; return whether it existed. Idempotent.

        The delete is atomic: it does not affect what another writer stores afterwards.
        """

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

    @operation(Effect.READS)
    def search(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Search for chunks (L2), abstracts (L0) or overviews (L1).

        ``query`` is a `Query` or its text. ``options`` are the other fields of `Query`:
        ``dataset_id`` (default: the only one) or ``scope="all"``, ``mode``, ``layer``, ``top_k``
        (10), ``threshold``, ``min_scores``, ``where``, ``fresh_only``, ``keyword_boost`` and more;
        see `SearchOptions`. All hits are read in one snapshot.

        Raises:
            ValidationError: a field of the query is invalid, or it names none of several datasets.
            NotFoundError: the dataset does not exist.
            NotAvailableError: the mode is not available (hybrid mode adds a warning instead).
            ModelMismatchError: in vector mode, the dataset holds vectors of another model.
        """

    @operation(Effect.READS)
    def search_documents(self, query: Query | str, **options: Unpack[SearchOptions]) -> Result:
        """Search for whole documents, scored by their full text and by their nearest chunk.

        As `search`, but ``layer`` is ignored: hits have ``layer`` None, and their content is the
        beginning of the document.
        """

    @operation(Effect.READS, long=True)
    def search_many(
        self, queries: Iterable[Query | str], **options: Unpack[SearchOptions]
    ) -> list[Result]:
        """Run `search` for each query, in order; the texts are embedded in one batch.

        If the batch fails, each text is embedded separately. If that fails too, hybrid mode adds a
        warning and vector mode raises the error, as in `search`.
        """

    @operation(Effect.READS)
    def explain(
        self, query: Query | str, doc_name: str, **options: Unpack[SearchOptions]
    ) -> Explanation:
        """Explain why `search` finds a document for a query, or does not find it.

        The result has the document's rank in each lane and after fusion, the query's words that it
        lacks, and what excludes it: it has expired or is not indexed, the filter, a phrase, the
        threshold, a step, or better passages. Takes the arguments of `search`, and a few times as
        long.

        Raises:
            NotFoundError: no searched dataset has the document.
            ValidationError: several searched datasets have it, or the query has no words.
            TriptychError: as `search`.
        """

    @operation(Effect.READS)
    def similar(
        self,
        dataset_id: str,
        name: str,
        *,
        chunk: int | None = None,
        top_k: int = 10,
        where: Mapping[str, Any] | None = None,
    ) -> Result:
        """Find the chunks of other documents that are most like a document, or like its ``chunk``.

        They are nearest to the mean of the stored vectors of its chunks, or to the vector of the
        chunk of this index (`Hit.chunk_index`). No model is called, and no step of a search runs.

        Raises:
            NotFoundError: the document does not exist.
            NotAvailableError: it has no vectors, or there is no embedder.
            ModelMismatchError: its vectors are of another model.
        """

    @operation(Effect.READS)
    def context(
        self, query: Query | str, token_budget: int | None = None, **options: Unpack[ContextOptions]
    ) -> ContextPack:
        """Select passages and layers for a prompt within a budget of tokens.

        ``token_budget`` None is the pipeline's, and 2,800 without one.
        ``query`` is as in `search`. The ``options`` are those of `search`, ``format``, ``layers``,
        ``max_pieces``, ``counter``, ``fence`` and ``prefix_tokens``; see `ContextOptions`. If
        nothing fits the budget, the pack is empty and has a warning.

        Raises:
            ValidationError: ``token_budget`` or an option is invalid, or the counter does not
                return a number.
            TriptychError: as `search`.
        """

    @operation(Effect.READS)
    def context_prefix(self, prefix_tokens: int, **options: Unpack[PrefixOptions]) -> ContextPrefix:
        """Return the prefix that `context` has with the same options, without a question.

        It consists of abstracts (L0) and overviews (L1). Its bytes are the same for every question
        until one of its layers changes; then ``digest`` changes too. See `PrefixOptions`.

        Raises:
            TriptychError: as `context`.
        """

    @operation(Effect.READS)
    def verify(self, citation: Citation) -> Verification:
        """Check whether the cited passage is fresh, changed or gone; the result has a diff.

        A passage that only moved is fresh; the result has its new position.

        Raises:
            ValidationError: ``citation`` is not a `Citation`.
        """

    @operation(Effect.READS, long=True)
    def ask(self, question: Query | str, **options: Unpack[AskOptions]) -> Answer:
        """Answer a question from the documents, with checked citations.

        The model gets the `context` of ``question`` within ``token_budget``, each text between
        delimiters that no document can guess. Each ``[n]`` in the answer cites a piece of that
        context. A number without a piece is removed with a warning, and ``Answer.uncited`` lists
        the sentences without a citation. ``Answer.proof`` says for each quotation, figure, date,
        name and code token whether a cited passage has it; warnings name those that none has. If
        nothing is found, the answer abstains without a call of the model. It also abstains if the
        model says that its sources do not answer.

        The ``options`` are those of `search`, ``token_budget``, ``max_tokens``, ``llm``,
        ``prompt``, ``prices``, ``answerability``, ``abstain_if_weak``, ``proof``, ``layers``,
        ``max_pieces`` and ``counter``; see `AskOptions`.

        Raises:
            NotAvailableError: no language model is configured.
            ProviderError: the model failed or returned an empty text.
            UnusableAnswerError: a sentence is not proven, and ``proof`` is "refuse".
            CancelledError: the deadline passed.
            TriptychError: as `context`.
        """

    @operation(Effect.READS)
    def ask_stream(self, question: Query | str, **options: Unpack[AskOptions]) -> AnswerStream:
        """Stream the text of `ask` as the model writes it; ``stream.answer`` is the complete
        answer.

        The search runs, and raises its errors, before this returns. Citations are checked before
        they are streamed: the joined pieces equal ``answer.text``. If the model stops early,
        reading raises `ProviderError`, and the partial text is not an answer.

        Raises:
            TriptychError: as `ask`.
        """

    @operation(Effect.READS, long=True)
    def replay(
        self, receipt: ContextReceipt | AnswerReceipt, *, answer: str | None = None
    ) -> Replay:
        """Rebuild the context of a receipt from the kept versions of its documents.

        If all versions are kept, the text and the model's messages are identical byte for byte;
        ``missing`` lists the pieces that are gone and why. No search runs and no model is called.
        With ``answer``, the text of the answer, its claims are looked up again: ``proven`` says
        whether they are where the receipt says.

        Raises:
            ValidationError: ``receipt`` is not a receipt, or ``answer`` is not the text that it is
                of.
        """

    @operation(Effect.READS)
    def layer(self, dataset_id: str, name: str, layer: Layer | str) -> DerivedLayer | None:
        """Return a layer of a document with its freshness, None if it has not been made."""

    @operation(Effect.READS)
    def dataset_layer(self, dataset_id: str, layer: Layer | str) -> DerivedLayer | None:
        """Return a layer of the dataset itself with its freshness, None if it has not been made."""

    @operation(Effect.READS)
    def layers(self, dataset_id: str, *, layer: Layer | str | None = None) -> list[DerivedLayer]:
        """List the layers of a dataset with their freshness, sorted by name and layer.

        ``layer`` None lists both abstracts (L0) and overviews (L1).
        """

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
        """Store an abstract (L0) or overview (L1) of a document; return the stored layer.

        ``source_version`` is the document version that it was made from (None: the current one),
        ``prompt_sig`` the signature of the prompt and model that made it.

        Raises:
            ValidationError: the layer is L2, or the content is invalid.
            NotFoundError: the document does not exist.
            ConflictError: the document is no longer at ``source_version``.
            DerivationError: the content could not be embedded; nothing was stored.
        """

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
        """Store the abstract or overview of a dataset; return the stored layer.

        ``summaries`` are the abstracts that it was made from (None: the current ones).

        Raises:
            ValidationError, NotFoundError, DerivationError: as `put_document_layer`.
        """

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
        """Store an abstract or overview of a folder, named with a final "/"; return the layer.

        ``summaries`` are the abstracts of the documents and folders directly in it from which it
        was made (None: the current ones).

        Raises:
            ValidationError: ``folder`` does not end in "/", or as `put_document_layer`.
            NotFoundError: the folder has no document.
            DerivationError: as `put_document_layer`.
        """

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

    @operation(Effect.READS)
    def stats(self, dataset_id: str | None = None) -> list[DatasetStats]:
        """Return the counts of one dataset, or of all, with the model, dimension and count of
        vectors.

        Raises:
            NotFoundError: the dataset does not exist.
        """

    @operation(Effect.READS)
    def cache_stats(self) -> CacheStats:
        """Return the number of cached results, and of the searches that hit or missed the cache.

        A store in files has these numbers of all processes, another those of this Service.

        Raises:
            NotAvailableError: the store has no change log, which the semantic cache needs.
        """

    @operation(Effect.READS, long=True)
    def health(self, *, probe: bool = True) -> Health:
        """Check store, index, models and datasets quickly; return a report.

        Call it before long work: ``service.health().require()`` raises the first error. ``probe``
        embeds two words to check that the models answer; False calls no model.
        """

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
