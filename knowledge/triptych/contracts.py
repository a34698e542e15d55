"""Every contract of Triptych, in one file: stores, capabilities, models, search, events.

A backend is a `Store`: three repositories over one place, as three objects, for some of their
methods share a name. A write of one may take part of what another keeps
(`DocumentRepo.delete`), or depend on it (`ChunkRepo.replace`), atomically. Methods that only
make an answer faster have a working default in the base classes of `triptych.repositories`.
The capabilities below the store are optional: a backend that lacks one leaves its methods out,
and `triptych.repositories.capabilities_of` finds those that are there, once, when a Service is
wired. `triptych.rules` holds the decisions these contracts ask for, as pure functions, and
`triptych.testing` the conformance kit that holds a backend to all of this.

Throughout:

- Absence is not an error for a repository: readers return None or nothing, deletes are
  idempotent. The Service turns absence into `NotFoundError` where a caller named a thing.
- Names are compared by code point; lists of names are in that order.
- A method that writes is atomic: when it raises, nothing has changed; when it returns, the
  change survives the process (memory excepted) and every later read, in any process on the
  same store, sees it. A method for many (``…_many``) is atomic for each of them. A store that
  cannot tell whether a write will last raises `StoreError` and closes itself.
- Drivers' errors are mapped to `StoreError` and its children, ``raise … from``.
- All methods may be called from any thread.
- Arguments have been validated by the Service; a repository does not judge them again. A
  query's ``dataset_ids`` may name a dataset twice: it is asked once.
- Once a store is closed every call raises `StoreError`, at once: also one that
  returns an iterator.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Hashable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, runtime_checkable

import attrs
import numpy as np
from numpy.typing import NDArray

from triptych.chunking.specs import Chunker
from triptych.records import (
    Answerability,
    CachedAnswer,
    CachedQuestion,
    CacheStats,
    Candidate,
    ChangeCursor,
    ChangeEvent,
    ChangePage,
    ChunkQuery,
    ChunkVector,
    CompleteSet,
    DatasetConfig,
    DatasetStats,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    EmbedKind,
    FilterTree,
    Finding,
    Generation,
    HealthCheck,
    Hit,
    Layer,
    LayerQuery,
    Message,
    ModelUsage,
    NameState,
    NewDocument,
    PutOutcome,
    QuarantinedLayer,
    Query,
    QueryVariant,
    RankedList,
    RebuildReport,
    RebuildScope,
    ResolvedQuery,
    Result,
    SourceDocument,
    SparseQuery,
    SparseSpace,
    SparseVector,
    StoredUnit,
    Vector,
)
from triptych.text.scoring import CorpusStats

__all__ = [
    "LLM",
    "AnswerCache",
    "AnswerabilityJudge",
    "AsyncEmbedder",
    "AsyncLLM",
    "Capabilities",
    "ChangeReader",
    "ChunkRepo",
    "ChunkSigReader",
    "Chunker",
    "Closeable",
    "CorpusStatsReader",
    "CoverageEmbedder",
    "DepthRanker",
    "Diagnostics",
    "DocLevelSearcher",
    "DocVectorSearcher",
    "DocumentRepo",
    "Embedder",
    "EventNotifier",
    "HitReader",
    "LayerJournal",
    "LayerRepo",
    "LocalRetriever",
    "Postprocessor",
    "ProbingRewriter",
    "QueryProbe",
    "QueryRewriter",
    "Ranker",
    "Rebuilder",
    "Reranker",
    "Retriever",
    "SecureEraser",
    "SettingsStore",
    "SnapshotReader",
    "SparseEncoder",
    "SparseRepo",
    "StateLoader",
    "Store",
    "StoreRetriever",
    "VersionReader",
    "WeightsVerifier",
]


# Stores


class DocumentRepo(Protocol):
    """Keeps source documents: lossless, versioned, the single truth."""

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """Store ``document`` and return what is stored, which is authoritative.

        The version is strictly greater than every version the name ever had, and than every
        version ever deleted in the dataset, under any number of threads and processes.
        ``document.metadata`` None keeps the stored document's, as it is in this write; without
        a stored document there is none. Its `SystemData` is what `triptych.rules.system_after`
        says: metadata never changes it. A document that has expired counts as none for this, and
        for ``if_version`` 0. If content, metadata (None: any) and system data are
        unchanged, nothing is written and the stored document is returned, even if
        ``original_sha256`` or ``parser_sig`` differ. The first document of a dataset creates it.

        Raises:
            ConflictError: ``document.if_version`` is given and is not the stored version
                (0 when there is no document), be the content identical or not. ``expected``
                is the version given, ``actual`` the stored one. Nothing was stored.
        """
        ...

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        """`put` for each, in order; what became of each, in the same order.

        A failure is that document's outcome and does not stop the others. A name that comes
        twice is put twice. When this raises, nothing was stored.
        """
        ...

    def load(self, document: SourceDocument) -> None:
        """Store ``document`` exactly as it is, version and time included: for copies.

        Raises:
            ConflictError: the name has, or had, this version or a greater one, or one as
                great was deleted in the dataset; but an identical document is left as it is.
                ``expected`` is ``document.version``, ``actual`` the stored one, 0 for none.
        """
        ...

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """The document, its content as it was put, or None."""
        ...

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """The document without its content, or None."""
        ...

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        """A page of documents, ordered by name: those that start with ``prefix``, come behind
        ``after`` and pass ``where``, at most ``limit``. Empty for an unknown dataset.

        A document is under the headings that any chunk of its set is under.
        """
        ...

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """How many documents pass ``where``; 0 for an unknown dataset."""
        ...

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """Those of ``dataset_ids`` with a document that has expired by ``moment``.

        Every search, list and count asks this, and filters only where there is one. Repositories
        do not hide such documents: the Service does.
        """
        ...

    def list_datasets(self) -> Sequence[str]:
        """Every dataset that was made and not deleted since, ordered by id."""
        ...

    def create_dataset(self, dataset_id: str) -> bool:
        """Make the dataset without a document; whether it did not exist before.

        It is listed from now on, empty. A configuration that it was given before stays.
        """
        ...

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """Remove the document with everything under its name; whether there was one.

        One atomic write takes the document, its old versions, its chunk set, its layers, what
        the journal holds of them, the vectors that nothing else uses, and all index entries.
        Under a name without a document it takes what is left there. What another writer puts
        afterwards is not touched. The version is never used again.

        Raises:
            ConflictError: ``if_version`` is given and is not the stored version (0 when there
                is no document). Nothing was removed.
        """
        ...

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        """`delete` each name whose document has this version; the names of those removed, ordered.

        A document of another version stays.

        Raises:
            StoreError: the store failed. What was removed before stays removed.
        """
        ...

    def delete_dataset(self, dataset_id: str) -> bool:
        """Remove the dataset with everything in it; whether there was one.

        One atomic write takes all that `delete` takes of each document, the layers of folders
        and of the dataset, the whole journal, and the configuration. The versions stay used
        up, should a dataset of this id ever come again.

        An id that was configured, or given layers of folders, but never a document, names no
        dataset; what there is of it goes all the same."""
        ...

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        """Remove what is left under those of ``names`` that have no source, as one atomic write.

        The source of a chunk set or a layer is the document of that name; of the layers of a
        folder ("name/"), any document in it; of those of the dataset (""), any document. The
        write itself checks this: what belongs to a document that another writer put meanwhile
        stays. The names under which something was removed, ordered.
        """
        ...


@runtime_checkable
class ChunkSigReader(Protocol):
    """Required of every `ChunkRepo`: what a document's chunk set was made from."""

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """The signature the set was stored with, None when the document has no set.

        A document may have a set of zero chunks: empty text derives to nothing, freshly.
        """
        ...

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """The signatures of those of ``doc_names`` that have a set."""
        ...

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """The names that have a set, ordered, whether their document exists or not: a rebuild
        compares them with the documents, and removes what has lost its source."""
        ...


class ChunkRepo(ChunkSigReader, Protocol):
    """Keeps chunk sets with their vectors, and finds chunks.

    A dataset's configuration (`DatasetConfig`) lives here: sets of another configuration
    are refused, so that no process can swap it behind the dataset's back.
    """

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """The dataset's configuration, None before `configure`."""
        ...

    def configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        """`config` for each of ``dataset_ids`` that has one."""
        ...

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """Set the configuration if it still is ``expected``; whether it was.

        The dataset need not exist yet, and does not come into being by this. Sets made under
        the old one keep serving, and are marked stale by their signatures; vectors of another
        embedding space, of chunks and of layers, are no longer searched.
        """
        ...

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[DerivedChunk], *, sig: DerivedSig
    ) -> bool:
        """Swap in a document's whole chunk set, vectors included; whether it was done.

        Atomic: a reader sees the old set or the new one, never a mixture. Compare-and-set:
        it is done only while the document exists at version ``sig.source_version`` and
        ``sig``'s chunker and embedder are the dataset's. Otherwise nothing changes and the
        answer is False: an older derivation never overwrites a newer one, nor brings back a
        deleted document. Chunks come in index order from 0.

        A ``sig`` without an embedder, in a dataset that has one, makes a set that waits for its
        vectors: it is found by keyword, and `add_vectors` brings the rest. The vectors it has are
        of the dataset's space. A chunk that comes without one gets the vector that the dataset
        has of its text, if any.

        Raises:
            ModelMismatchError: the set is not refused, but has a vector of another width than
                the dataset's other vectors in that space, those of layers and of this set
                included. The first vector in a space gives its width until the dataset is
                deleted. Nothing was stored.
        """
        ...

    def replace_many(
        self,
        dataset_id: str,
        sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]],
    ) -> Sequence[bool]:
        """`replace` for each (name, chunks, sig), in order; the answers, in the same order.

        A set that is refused does not stop the others.

        Raises:
            ModelMismatchError: as in `replace`. Neither this set nor one after it was stored.
        """
        ...

    def add_vectors(
        self,
        dataset_id: str,
        embed_sig: str,
        vectors: Sequence[ChunkVector],
        complete: Sequence[CompleteSet] = (),
    ) -> Sequence[str]:
        """Give chunks their vectors; the names of the sets that wait no longer, ordered.

        One atomic write, done only while ``embed_sig`` is the dataset's. A vector goes to the chunk
        of its document and index, in place of one of another space, if that chunk has its
        ``input_sig``: never to another text, nor to what is deleted. The set of such a chunk waits
        for vectors from then on, if it was of another space; its other vectors of that space may
        go. No other set is touched.

        A set of ``complete`` waits no longer, and is of ``embed_sig``, if it still is of the input,
        chunker and version of its ``sig``, the document is at that version, and just ``without``
        of its chunks have no vector in the space. Its vectors are searched from then on, and not
        before: all of a document or none.

        Raises:
            ModelMismatchError: as in `replace`. Nothing was stored.
        """
        ...

    def pending(self, dataset_id: str, embed_sig: str) -> Sequence[str]:
        """The names of documents with a set of chunks that is not of ``embed_sig``, ordered.

        These lack vectors of that space, in part at least. A set of no chunks lacks none.
        """
        ...

    def count_pending(self, dataset_ids: Sequence[str], embed_sig: str) -> int:
        """How many names `pending` has in all of ``dataset_ids``. Every search asks this."""
        ...

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """How many documents of all ``dataset_ids`` have a set of chunks, of no chunks too."""
        ...

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        """Move a set that is fresh under ``sig`` to ``sig.source_version``; whether it was done.

        Done only if the set's input, chunker and embedder signatures equal those of ``sig``
        and the document is at that version. No chunk is written, and their keys stay good; as
        each is read with its set's signature and its own ``input_sig``, all of them show the
        new version.
        """
        ...

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """Remove the document's chunk set, its vectors and its index entries. Idempotent."""
        ...

    def delete_by_dataset(self, dataset_id: str) -> None:
        """Remove all chunk sets of the dataset, and its configuration. Idempotent."""
        ...

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """One lane: the best ``query.top_k`` chunks that pass ``query.filter``.

        ``query.mode`` BM25 scores by Lucene's formula with statistics pooled over
        ``query.dataset_ids``, and returns only chunks that hold a query term. VECTOR scores
        by the dot product of unit vectors and returns chunks that have a vector in
        ``query.embed_sig``. Scores are rounded to 1e-6; ties come in order of document
        name, chunk index, dataset. The filter acts before the cut: the answer has
        min(top_k, matches) entries. Its ``within`` bounds the statistics too: scores are those of a
        store that holds nothing else. Unknown datasets hold nothing.
        """
        ...

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """What the candidates' keys stand for, all read in one snapshot.

        Keys whose unit has been replaced or deleted since are left out;
        `update_source_version` changes no key. A key is for the opened store that gave it: it
        need not outlive it. Vectors are not included. A chunk's ``occurrence`` is kept or counted.
        """
        ...

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """The chunks of a document or of the whole dataset, by document name and index.

        Each document's are of one state. ``sig`` is the set's, with the chunk's ``input_sig``, and
        with the ``embed_sig`` of the chunk's vector where there is one and ``vectors`` are asked
        for. A chunk's ``occurrence`` is kept or counted.
        """
        ...

    def known_vectors(
        self, dataset_id: str, embed_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, Vector]:
        """The vectors that the dataset has in this space, by the digest of what was embedded:
        those of ``input_sigs``, of its chunks at least. So nothing is embedded twice."""
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search` runs in this process, and so needs the interpreter's lock."""
        ...


class LayerRepo(Protocol):
    """Keeps layers of documents, folders ("name/") and datasets (""), and finds them."""

    def put(self, layer: DerivedLayer) -> bool:
        """Store the layer in place of the old one; whether it was done.

        For a document's layer it is done only while the document exists at version
        ``layer.sig.source_version``; layers of folders and datasets are always stored, also
        where there is no dataset of this name, and none is made by it.
        ``layer.sig.embed_sig`` need not be the dataset's.

        Raises:
            ModelMismatchError: as in `ChunkRepo.replace`; vectors of chunks and of layers count
                alike.
        """
        ...

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        """The layer, or None; with its vector only where ``vectors`` are asked for."""
        ...

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        """All layers of the dataset, by name and layer, without vectors."""
        ...

    def page(
        self,
        dataset_id: str,
        layer: Layer,
        *,
        prefix: str = "",
        after: str | None = None,
        limit: int,
    ) -> Sequence[DerivedLayer]:
        """Layers of one kind, ordered by name, without vectors: those whose name starts with
        ``prefix`` and comes after ``after`` (None: all), at most ``limit``."""
        ...

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """Remove the layers under this name with their vectors and index entries. Idempotent."""
        ...

    def delete_by_dataset(self, dataset_id: str) -> None:
        """Remove all layers of the dataset, its own included. Idempotent."""
        ...

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        """One lane over layers of one kind; the rules of `ChunkRepo.search`.

        A layer's vector counts while its ``sig.embed_sig`` is the dataset's and the query's. A
        layer passes a filter's ``headings`` by those of any chunk of its document, and
        ``metadata`` by its document's: layers of folders and datasets have neither.
        """
        ...

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """What layer keys stand for; the rules of `ChunkRepo.fetch`."""
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search` runs in this process, and so needs the interpreter's lock."""
        ...


class Store(Protocol):
    """The three repositories of one place, closed together."""

    @property
    def documents(self) -> DocumentRepo:
        """The source documents: the truth."""
        ...

    @property
    def chunks(self) -> ChunkRepo:
        """The chunk sets and the configurations."""
        ...

    @property
    def layers(self) -> LayerRepo:
        """The layers."""
        ...

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """The dataset's counts, None if it does not exist.

        Sets of other signatures than these count as stale (an empty ``embed_sig``: any will do),
        but not those that only wait for vectors. ``pending`` are those of `ChunkRepo.pending`, and
        ``pending_chunks`` their chunks without a vector in ``embed_sig``. ``spaces`` are those of
        all vectors, in order of the signature.
        """
        ...

    def close(self) -> None:
        """Release everything. Idempotent; any later call raises `StoreError`."""
        ...


# Capabilities: what other stores cannot answer at all


@runtime_checkable
class VersionReader(Protocol):
    """Capability: a `DocumentRepo` that keeps the last versions of each document.

    `put` and `load` keep the version that they replace, in the same atomic write; what replaces
    nothing keeps nothing. Of each document the newest so many old versions are kept, beside the
    current one: how many is an option of the backend when it is opened; it cuts the rest at the
    document's next change. `DocumentRepo.delete` takes a document's versions with it and
    `DocumentRepo.delete_dataset` those of all: a document that is made again begins without any.
    """

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The current version and, behind it, the kept ones, newest first: as one read.

        Each is what `DocumentRepo.get_info` returned when it was current. Empty where there is no
        document.
        """
        ...

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """The document as it was, or is, at ``version``; None if that is not kept."""
        ...

    def deleted_version(self, dataset_id: str) -> int | None:
        """The greatest version that was ever deleted in the dataset, 0 if none ever was.

        The first version of a document is at most one above it. None where it is not shown.
        """
        ...


@runtime_checkable
class DocLevelSearcher(Protocol):
    """Capability: BM25 over whole documents, with statistics of documents."""

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """The best ``top_k`` documents by their full text; the rules of `ChunkRepo.search`.

        ``index`` is `NO_CHUNK`. Documents count whether they have a chunk set or not. A
        document passes a filter's ``headings`` by those of any of its chunks, and ``fresh`` if
        it has a chunk set that passes.
        """
        ...

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """What document keys stand for, in one snapshot.

        ``opening`` is the first `OPENING` code points of the content, ``sig`` the chunk set's,
        or ``DerivedSig()`` where there is none. Keys whose document has other content now, or is
        deleted, are left out.
        """
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search_docs` runs in this process."""
        ...


@runtime_checkable
class DocVectorSearcher(Protocol):
    """Capability: vector search over whole documents."""

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """The best ``top_k`` documents by the nearest of all their chunks.

        The keys are those of `DocLevelSearcher.fetch_docs`.
        """
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search_docs_by_vector` runs in this process."""
        ...


@runtime_checkable
class CorpusStatsReader(Protocol):
    """Capability: a `ChunkRepo` that knows in how many chunks a term is."""

    def corpus_stats(
        self,
        dataset_ids: Sequence[str],
        terms: Sequence[str],
        *,
        within: FilterTree | None = None,
    ) -> CorpusStats:
        """What BM25 is made of: all chunks of these datasets, and those that hold each term.

        ``terms`` are the analyzer's; a term that no chunk holds has no entry. ``within`` is that of
        a `Filter`: only chunks of documents that pass it count.
        """
        ...


@runtime_checkable
class SparseRepo(Protocol):
    """Capability: a `ChunkRepo` that keeps sparse vectors of its chunks' texts, and finds by them.

    A dataset has sparse vectors of the encoder that `DatasetConfig.sparse_sig` names, by the digest
    of the text that was encoded: `DerivedSig.input_sig` of its chunks. A chunk has the vector of
    its digest, so an unchanged text is never encoded twice, whatever becomes of its document. A
    set of chunks waits until each of its chunks that has a digest has a vector of that encoder;
    then it is found by the lane, all of it at once.

    `ChunkRepo.replace` gives a new set the vectors that the dataset has of its texts, and whatever
    removes chunks removes the vectors that no chunk needs any more, in the same write. With another
    ``sparse_sig`` by `ChunkRepo.configure`, all sets wait that lack vectors of that encoder; those
    of the one before are removed as the sets are complete.
    """

    def add_sparse_vectors(
        self,
        dataset_id: str,
        sparse_sig: str,
        doc_names: Sequence[str],
        vectors: Mapping[str, SparseVector],
    ) -> Sequence[str]:
        """Keep those of ``vectors``, by digest, that chunks of these documents have the text of.

        One atomic write, done only while ``sparse_sig`` is the dataset's and not "". A digest that
        has a vector keeps it. Returns the names of those of ``doc_names`` that have a set of chunks
        which waits no longer, ordered.
        """
        ...

    def known_sparse_vectors(
        self, dataset_id: str, sparse_sig: str, input_sigs: Sequence[str]
    ) -> Mapping[str, SparseVector]:
        """The sparse vectors that the dataset has of this encoder, by digest: those of
        ``input_sigs``."""
        ...

    def sparse_pending(
        self, dataset_id: str, sparse_sig: str, doc_names: Collection[str] | None = None
    ) -> Sequence[str]:
        """The names of documents with a set of chunks that waits for sparse vectors, ordered: of
        ``doc_names``, or of all.

        If ``sparse_sig`` is not the dataset's, all that have a chunk wait; none for "".
        """
        ...

    def count_sparse_pending(self, dataset_ids: Sequence[str], sparse_sig: str) -> int:
        """How many names `sparse_pending` has in all of ``dataset_ids``. Every search of the lane
        asks this."""
        ...

    def sparse_spaces(self, dataset_id: str) -> Sequence[SparseSpace]:
        """How many vectors the dataset has of each encoder, ordered by signature."""
        ...

    def search_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """The best ``query.top_k`` chunks by the dot product with ``query.vector``.

        Only chunks of sets that do not wait, in datasets of ``query.sparse_sig``, that share a term
        with it. Rounding, ties, filter and order are those of `ChunkRepo.search`.
        """
        ...

    def search_docs_by_sparse(self, query: SparseQuery) -> Sequence[Candidate]:
        """The best ``top_k`` documents by the best of all their chunks.

        The keys are those of `DocLevelSearcher.fetch_docs`.
        """
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search_sparse` runs in this process."""
        ...


@runtime_checkable
class SecureEraser(Protocol):
    """Capability: make what was deleted unrecoverable from the store's own files."""

    def scrub(self) -> None:
        """Overwrite free pages, logs and index files. May take long; idempotent."""
        ...


@runtime_checkable
class SettingsStore(Protocol):
    """Capability: a store that keeps small texts under keys, such as its remembered folders.

    They are the store's, not a dataset's: deleting datasets leaves them. Keys and values are
    valid Unicode without NUL; a key has at most 1,000 code points.
    """

    def get_setting(self, key: str) -> str | None:
        """The value, None when there is none."""
        ...

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """Set the value (None: remove it) if it still is ``expected``; whether it was.

        ``expected`` None means that there is no value yet. Of several writers that expect the
        same, one succeeds.
        """
        ...

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """Every value whose key starts with ``prefix``, ordered by key: as one read."""
        ...


@runtime_checkable
class AnswerCache(Protocol):
    """Capability: a store that keeps answers of searches until a write may change them.

    Each dataset has a revision, which no two of its states share. The write that changes what a
    search of the dataset may return gives it another one and drops the answers that depend on it,
    both atomically with the write: documents, metadata, moments of expiry, chunk sets and their
    versions, vectors, layers, the configuration, deletes. What costs nothing changes nothing: a
    put of what is stored, a swap that is refused. A write that concerns no search, such as a
    setting, may change revisions too.
    """

    def revisions(self, dataset_ids: Collection[str]) -> Mapping[str, str]:
        """The revisions of those of ``dataset_ids`` that exist, in one snapshot."""
        ...

    def cached_questions(self, request: str) -> Sequence[CachedQuestion]:
        """The questions whose answers are kept for ``request``, the newest first."""
        ...

    def cached_answer(self, key: int) -> CachedAnswer | None:
        """The answer of this key, None if it is kept no longer. Keys are never used twice."""
        ...

    def keep_answer(self, answer: CachedAnswer, *, most: int) -> bool:
        """Keep ``answer`` if its revisions are those of now; whether they are.

        Atomic. The oldest answers beyond the newest ``most`` are dropped. It need not survive a
        power cut, where no earlier write is lost without it.
        """
        ...

    def drop_answers(self, *, before: datetime | None = None) -> int:
        """Drop the answers made before a moment, or all; how many there were.

        `SecureEraser.scrub` then makes them unrecoverable, as anything that was deleted.
        """
        ...

    def count_lookups(self, *, hits: int, misses: int) -> None:
        """Add to the numbers of searches that found an answer, and of those that found none."""
        ...

    def cache_stats(self) -> CacheStats:
        """How many answers are kept, and all that was counted."""
        ...


@runtime_checkable
class ChangeReader(Protocol):
    """Capability: a store with a log of what became of its documents, which others follow.

    The write that adds, changes or deletes a document logs it under a number, greater than all
    before it in the order of commits, atomically with the write. A change of metadata or expiry
    is a change; a put of what is stored is none. The log keeps the last change of each document,
    and of deleted ones at least the last 10,000. `SecureEraser.scrub` leaves no name of a deleted
    document in it. What existed before a store had a log counts as there at its beginning.
    `triptych.changes.pages.read_page` makes the pages.
    """

    def change_head(self) -> str:
        """Where the log ends: text that differs after each change of a document. Cheap."""
        ...

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """The first ``limit`` changes after ``since``, of a dataset or (None) of all; one read.

        None, or a cursor that the store cannot go on from, begins at the beginning: with every
        document that is there, as added. With a cursor the page then is a reset. That is so for a
        cursor of another store or of a state that a restored backup does not have, and where
        deletions after it are not in the log any more.
        """
        ...


@runtime_checkable
class LayerJournal(Protocol):
    """Capability: a `LayerRepo` that remembers what making layers cost, what could not be made, and
    what was made half-way.

    Names are those of layers: of a document, a folder ("name/"), the dataset (""). What stands
    under a name goes with `LayerRepo.delete_by_doc`, with the document and with
    `DocumentRepo.delete_orphans`, all of a dataset but its usage with
    `LayerRepo.delete_by_dataset`, and everything with the dataset.
    """

    def quarantine(self, quarantined: QuarantinedLayer) -> None:
        """Remember it in place of what was quarantined for this name and kind."""
        ...

    def release_quarantined(self, dataset_id: str, doc_name: str, layer: Layer) -> None:
        """Forget what was quarantined. Idempotent."""
        ...

    def quarantined(self, dataset_id: str) -> Sequence[QuarantinedLayer]:
        """All that is quarantined, by name and kind."""
        ...

    def record_usage(self, dataset_id: str, usage: ModelUsage) -> None:
        """Add ``usage`` to what the model cost so far."""
        ...

    def usage(self, dataset_id: str) -> Sequence[ModelUsage]:
        """What each model cost in this dataset, ordered by model."""
        ...

    def put_checkpoint(self, dataset_id: str, doc_name: str, key: str, content: str) -> None:
        """Keep an intermediate result under a name, in place of one of the same key."""
        ...

    def checkpoints(self, dataset_id: str, doc_name: str) -> Mapping[str, str]:
        """The intermediate results under this name, by key."""
        ...

    def prune_checkpoints(self, dataset_id: str, doc_name: str, keys: Collection[str]) -> None:
        """Forget the intermediate results under this name, but for those of ``keys``."""
        ...


@runtime_checkable
class Diagnostics(Protocol):
    """Capability: a store that can check what only it sees of itself, and repair it.

    What any store can be asked through its three repositories the Service checks by itself.
    """

    def check_health(self) -> Sequence[HealthCheck]:
        """What is wrong with the store, its index included. Quick, whatever the size; repairs
        nothing, and writes nothing."""
        ...

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """What is wrong in these datasets, and in the store as a whole. Writes nothing.

        ``dataset_ids`` are all there are, or those that were asked for. Reads all there is, in
        bounded memory. At most one finding a check and place, with a count; those that `repair`
        repairs have a ``repair``. Any number of writers may be at work meanwhile.
        """
        ...

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """Repair what the ``checks`` of these names find now; what was done, in words.

        From the truth only: derived data is dropped, and the Service makes it again; no source
        document is removed or altered. Names of other checks are skipped.
        """
        ...


@runtime_checkable
class SnapshotReader(Protocol):
    """Capability: a store that can be read as it is at one moment, while others go on writing."""

    def snapshot(self) -> AbstractContextManager[Store]:
        """The store as it is now, until the context ends; whatever is committed, it shows nothing
        of it.

        It is read: documents and versions, chunk sets and layers with their vectors, the journal,
        settings, and the log of changes where the store has one. It is not written, which raises
        `StoreError`, and searches need not work. An old version that is cut meanwhile may be
        missing.
        """
        ...


@runtime_checkable
class StateLoader(Protocol):
    """Capability: a store that takes over what another store holds, as it is there."""

    def load_states(self, dataset_id: str, states: Sequence[NameState]) -> None:
        """Store ``states`` exactly as they are; an atomic write for each, at least.

        Under the name of each the dataset then has the document at the last of its ``versions``,
        those before it as kept ones, as many as the store keeps; the chunk set, each vector in the
        space that its chunk's ``sig`` names; the layers; and no other set and no other layer. That
        is done whatever the dataset's configuration is, whatever they were made from, and whether
        versions were used by what is deleted. A version of ``versions`` that the document has or
        had stays as it is, and one older than all of them goes. The first document makes the
        dataset. The sparse vectors and the journal are given by `SparseRepo` and `LayerJournal`.

        Raises:
            ConflictError: the name has a document that is none of the ``versions``, and not older
                than all of them. This state, and those after it, were not stored.
            ModelMismatchError: as in `ChunkRepo.replace`; nothing of this state was stored.
        """
        ...

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        """Let no document that is made in the dataset from now on have ``version`` or one below it.

        The dataset need not exist, and is not made by it.
        """
        ...


@attrs.frozen(kw_only=True)
class Capabilities:
    """What a store can do that others cannot; None for what it lacks.

    `triptych.repositories.capabilities_of` finds them, once, when a Service is wired.
    """

    versions: VersionReader | None = None
    document_search: DocLevelSearcher | None = None
    document_vector_search: DocVectorSearcher | None = None
    corpus_stats: CorpusStatsReader | None = None
    eraser: SecureEraser | None = None
    journal: LayerJournal | None = None
    diagnostics: Diagnostics | None = None
    settings: SettingsStore | None = None
    sparse: SparseRepo | None = None
    answers: AnswerCache | None = None
    changes: ChangeReader | None = None
    snapshots: SnapshotReader | None = None
    loader: StateLoader | None = None


# Models


class Embedder(Protocol):
    """Turns texts into unit vectors of one embedding space."""

    @property
    def signature(self) -> str:
        """The embedding space: model, revision, dimension, prefix rules."""
        ...

    @property
    def dimension(self) -> int | None:
        """The vectors' width, None while unknown."""
        ...

    def embed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """Float32 of shape (len(texts), dimension), rows of unit length, in order.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


@runtime_checkable
class AsyncEmbedder(Protocol):
    """Capability: an embedder with a call for an event loop, beside `embed` or in its place.

    `triptych.aio.AsyncService.open` takes one that has no ``embed``.
    """

    @property
    def signature(self) -> str:
        """See `Embedder.signature`."""
        ...

    @property
    def dimension(self) -> int | None:
        """See `Embedder.dimension`."""
        ...

    async def aembed(self, texts: Sequence[str], *, kind: EmbedKind) -> NDArray[np.float32]:
        """`Embedder.embed`, awaited. Cancelling the task ends the call.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


@runtime_checkable
class CoverageEmbedder(Protocol):
    """An embedder that knows how much of a text its vocabulary covers."""

    @property
    def coverage_floor(self) -> float:
        """Below this share a text gets no vector, as a document or as a query."""
        ...

    def coverage(self, text: str) -> float:
        """The share of ``text``, 0 to 1, that the model's vocabulary covers."""
        ...


@runtime_checkable
class WeightsVerifier(Protocol):
    """An embedder or sparse encoder that can tell whether its model's files are the right ones."""

    def verify_weights(self) -> None:
        """Read the files, and compare them with the digests they are pinned to.

        Raises:
            NotAvailableError: one is missing, or another; the message names it.
        """
        ...


class SparseEncoder(Protocol):
    """Turns texts into weights of the terms of one vocabulary, such as SPLADE does."""

    @property
    def signature(self) -> str:
        """The model, its revision, and every rule that decides the weights."""
        ...

    @property
    def vocabulary_size(self) -> int | None:
        """How many terms there are: indices are below it. None while unknown."""
        ...

    def encode(self, texts: Sequence[str], *, kind: EmbedKind) -> Sequence[SparseVector]:
        """One vector for each text, in order.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class LLM(Protocol):
    """A language model that answers a conversation."""

    @property
    def signature(self) -> str:
        """The model and its revision: part of the signature of what it writes."""
        ...

    def generate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """The answer to ``messages``, at most ``max_tokens`` long, with what it cost.

        Raises:
            ProviderError: the model could not answer.
        """
        ...

    def stream(self, messages: Sequence[Message], *, max_tokens: int) -> Iterator[str]:
        """The same answer in pieces, which joined are its text.

        Raises:
            ProviderError: the model could not answer, or broke off.
        """
        ...


@runtime_checkable
class AsyncLLM(Protocol):
    """Capability: a language model with calls for an event loop, beside those of `LLM` or in their
    place.

    `triptych.aio.AsyncService.open` takes one that has no ``generate``.
    """

    @property
    def signature(self) -> str:
        """See `LLM.signature`."""
        ...

    async def agenerate(self, messages: Sequence[Message], *, max_tokens: int) -> Generation:
        """`LLM.generate`, awaited. Cancelling the task ends the call.

        Raises:
            ProviderError: the model could not answer.
        """
        ...

    def astream(self, messages: Sequence[Message], *, max_tokens: int) -> AsyncIterator[str]:
        """`LLM.stream` as an async iterator, to be closed where it is not read out.

        Raises:
            ProviderError: the model could not answer, or broke off.
        """
        ...


@runtime_checkable
class Closeable(Protocol):
    """A model that holds connections or threads until it is closed."""

    def close(self) -> None:
        """Release everything. Idempotent."""
        ...


# Search and events


class Retriever(Protocol):
    """One lane of a search. Stateless as to the query: all state lives in the repositories."""

    @property
    def name(self) -> str:
        """The lane's name: a mode of its own, and a key of ``min_scores`` and `Hit.scores`."""
        ...

    def recall(self, query: ResolvedQuery) -> Sequence[Candidate]:
        """Up to ``query.limit`` candidates, best first, ties in their defined order.

        Raises:
            NotAvailableError: this lane cannot serve this query. In hybrid mode that becomes
                a warning in the result; alone, it reaches the caller.
        """
        ...


@runtime_checkable
class LocalRetriever(Retriever, Protocol):
    """A lane over an index in this process, which needs the interpreter's lock.

    Beside each other such lanes would only wait for that lock: the engine runs them in turn,
    in the caller's thread, while other lanes run beside them.
    """

    @property
    def in_process(self) -> bool:
        """Whether the lane is one of these: False makes it a lane like any other."""
        ...

    def preparation(self, query: ResolvedQuery) -> Callable[[], ResolvedQuery] | None:
        """What must be done before `recall` and needs no index, such as embedding the query.

        The engine calls it in another thread, beside the other lanes, and gives its answer to
        `recall`. It raises as `recall` does. None when there is nothing of the kind.
        """
        ...


@runtime_checkable
class StoreRetriever(Retriever, Protocol):
    """A lane over what a store holds, which can search another store in its place.

    A search of the past (`Query.as_of`) runs these lanes only, over a store of that moment.
    """

    def over(self, store: Store) -> Retriever:
        """Return the same lane over ``store``."""
        ...


class QueryRewriter(Protocol):
    """Words a query in other ways, before the lanes see it."""

    def rewrite(self, query: Query) -> Sequence[QueryVariant]:
        """Return the variants that every lane is asked in place of ``query``, 1 to 32.

        Nothing is added: a rewriter that wants the query as it is returns that too. A `Rewriting`
        holds warnings and the usage of models besides. ``query.mode`` is the mode that the search
        runs in. When the rewriter raises, the lanes are asked the query as it is, and the result
        has a warning. A search of layers and chunks together asks once.
        """
        ...


class QueryProbe(Protocol):
    """What a rewriter may ask of the search that it rewrites for."""

    @property
    def searches_vectors(self) -> bool:
        """Whether a vector lane runs: else no text of a variant is embedded."""
        ...

    def best_vector_score(self, text: str) -> float | None:
        """Return the best score of the vector lane for ``text``; None if it finds nothing.

        The search uses the vector of ``text`` again: it is embedded once.

        Raises:
            ProviderError: the embedder failed.
        """
        ...


@runtime_checkable
class ProbingRewriter(QueryRewriter, Protocol):
    """A rewriter that looks at what the search finds without it."""

    def rewrite_probing(self, query: Query, probe: QueryProbe) -> Sequence[QueryVariant]:
        """`rewrite`, with a probe of the search: called in its place."""
        ...


class Ranker(Protocol):
    """Fuses ranked lists into one ranking. Pure: the same lists give the same ranking."""

    def rank(self, query: ResolvedQuery, ranked_lists: Sequence[RankedList]) -> Sequence[Candidate]:
        """Return every candidate of any list once, best first.

        ``ranked_lists`` holds a list for each lane and variant of the query, in the order of the
        retrievers; lanes may occur several times. ``score`` is the fused score and ``scores`` the
        score by lane. The input must not be changed. Ties come in order of document name, chunk
        index, dataset.
        """
        ...


@runtime_checkable
class DepthRanker(Ranker, Protocol):
    """A ranker that wants more candidates of each lane than fusion gives it by itself.

    That is twice the hits that are asked for, or 30. Candidates are keys and scores: only those
    that become hits are read.
    """

    @property
    def depth(self) -> int:
        """How many candidates each lane brings at least, where it has as many.

        A query with conditions on the text, such as a phrase, stays at the usual depth: there
        every candidate's text is read.
        """
        ...


class HitReader(Protocol):
    """Reads what a step on hits needs and hits do not have. It costs nothing until it is asked.

    Everything is read at the versions that the hits are of. Of a hit whose document has changed or
    vanished since the search began, and of one that is stale because its document has other text,
    there is nothing to read. Hits of layers have no neighbours, no section and no vector.
    """

    def vectors(self, hits: Sequence[Hit]) -> Sequence[Vector | None]:
        """Return the unit vector of each hit's chunk; None for a chunk that has none.

        A chunk has none while it waits for its vector, and where the embedder does not cover its
        text. The service needs no embedder for this.

        Raises:
            NotAvailableError: the dataset of a hit has no vectors.
            ModelMismatchError: the datasets of two hits have vectors of different models.
        """
        ...

    def windows(self, hits: Sequence[Hit]) -> Sequence[str | None]:
        """Return the text of each hit's window; None where the chunk has no window."""
        ...

    def source(self, hit: Hit) -> str | None:
        """Return the text of the hit's document, which the hit's span cuts its content from."""
        ...

    def neighbours(self, hit: Hit, before: int, after: int) -> Sequence[DerivedChunk]:
        """Return the chunk of ``hit`` with up to ``before`` chunks before it and ``after`` after
        it, in order; nothing where it cannot be read. They end where the search's filter excludes
        a chunk; so do those of `section`."""
        ...

    def section(self, hit: Hit) -> Sequence[DerivedChunk]:
        """Return the chunks of the section that ``hit`` is in, subsections included, in order.

        These are the chunks around it whose heading path begins with that of the hit: all of a
        document that has no headings. Nothing where it cannot be read.
        """
        ...

    def warn(self, message: str) -> None:
        """Add a warning to the result of the search."""
        ...


class Postprocessor(Protocol):
    """A step on the hits of a search: a boost, a rerank, a choice among them.

    The steps run after the threshold, in their order. A search of whole documents has none. A
    search of layers has them too.
    """

    def depth(self, query: ResolvedQuery) -> int:
        """Return how many hits the step wants to choose from, ``query.top_k`` or more."""
        ...

    def __call__(
        self, query: ResolvedQuery, hits: Sequence[Hit], reader: HitReader
    ) -> Sequence[Hit]:
        """Return the hits in their new order; the first ``query.top_k`` are the result.

        The step may leave hits out, and change their scores, spans and texts. ``hits`` must not be
        changed. Whatever the step raises ends the search: a step that can do without its model
        says so by `HitReader.warn` and returns ``hits``.
        """
        ...


@runtime_checkable
class Reranker(Protocol):
    """A model that reads a query and a text together, and says how well they match."""

    @property
    def signature(self) -> str:
        """The model and its revision."""
        ...

    def scores(self, query: str, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one score for each text, shape (len(texts),): the greater, the better.

        Raises:
            ProviderError: the model could not answer.
        """
        ...


class AnswerabilityJudge(Protocol):
    """Says whether the chunks that a search found answer its question."""

    def __call__(self, result: Result) -> Answerability:
        """Return "enough", "weak" or "nothing". `Hit.scores` are by lane; `Hit.score` is fused."""
        ...


class Rebuilder(Protocol):
    """The consumer of change events: the Service, and a directory sync, are Rebuilders."""

    def rebuild(self, scope: RebuildScope) -> RebuildReport:
        """Bring everything in ``scope`` up to date; failures are in the report."""
        ...


class EventNotifier(Protocol):
    """The producer of change events: a watcher of files, a consumer of messages.

    It is an iterator rather than a method that is asked with a timeout, because that is what
    watchers and message consumers are made of: a generator around one of them, and a `close`
    that sets its stop flag, are a whole notifier.
    """

    def events(self) -> Iterator[ChangeEvent]:
        """Every event once, as it comes; waits for the next one, and ends after `close`.

        Called once, and read by one thread of the reader's. Order does not matter. Nothing
        is lost in between: what cannot be named one by one comes as a bulk event, of a
        dataset or, with ``dataset_id`` "", of all. May raise what it likes, and ends by it.
        """
        ...

    def close(self) -> None:
        """End `events` soon, also while it waits. From any thread; idempotent.

        May be called before `events`, which then ends at once, behind what was waiting.
        """
        ...
