"""The contracts of a store's three repositories and of their vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from triptych.records import (
    Candidate,
    ChunkQuery,
    DatasetConfig,
    DerivedChunk,
    DerivedLayer,
    DerivedSig,
    DocumentInfo,
    FilterTree,
    Layer,
    LayerQuery,
    NewDocument,
    SourceDocument,
    StoredUnit,
)
from triptych.records.spaces import AnySpace, StoredSpace, VectorSpace
from triptych.records.values import SpaceKind

if TYPE_CHECKING:
    from triptych.records import PutOutcome

V = TypeVar("V")


class VectorRepo(Protocol):
    """Keeps the vectors of texts by space and digest, and knows which names lack vectors.

    The *serving* spaces of a dataset are the ones in its configuration: `DatasetConfig` names one
    of each kind. A vector is identified by the digest of its text: for a chunk
    `DerivedSig.input_sig`, for a layer `embedding_input_sig` of its content. So no text is embedded
    twice in a space. A vector belongs to all chunk sets and layers with its text, and is removed in
    the write that removes or replaces the last of them. A chunk set *waits* while it lacks vectors:

    - The serving *dense* space has the vectors of the chunks themselves, which `ChunkRepo.replace`
      stores. A set waits while its signature names another space. None (the embedder makes no
      vector of a text) is not kept: pass it in the call that completes a set.
    - *Other* spaces: a set waits until each of its chunks with a digest has a vector of the
      serving space; from then on the lane finds the whole set. `ChunkRepo.replace` gives a new set
      the vectors that the dataset has for its texts. Vectors of the previous model are removed as
      sets become complete.

    Nothing waits for vectors that the store does not keep: those of other ``kinds``.
    """

    @property
    def kinds(self) -> Collection[SpaceKind]:
        """The kinds of spaces whose vectors the store keeps: dense ones at least."""
        ...

    def put_vectors(
        self,
        dataset_id: str,
        space: VectorSpace[V],
        names: Sequence[str],
        vectors: Mapping[str, V | None],
    ) -> Sequence[str]:
        """Store ``vectors``, by digest, for the texts of ``names``, with vectors that the dataset
        already has; return the sorted names that no longer wait in ``space``.

        One atomic write, done only if ``space`` serves. A digest that
        has a vector keeps it. Vectors of other texts and of deleted names are ignored. In the
        serving dense space a new vector replaces a chunk's vector of another space: the set then
        waits, and its other vectors of the old space may be removed. Once a set no longer waits all
        of its vectors are searched; before that a store may omit them.

        Raises:
            ModelMismatchError: as in `ChunkRepo.replace`. Nothing was stored.
        """
        ...

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """Return the dataset's vectors in this space for ``digests``, at least those of its chunks,
        so that no text is embedded twice."""
        ...

    def waiting(
        self, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """Return those of ``names`` (None: all names) that lack vectors of the space, sorted.

        Of a dense space, these are documents whose set has another signature; of another space that
        serves those with a waiting set, and of one that does not all. An empty set lacks no
        vectors, and nothing lacks vectors of the space "".
        """
        ...

    def count_waiting(self, dataset_ids: Sequence[str], space: AnySpace) -> int:
        """Count the documents of all ``dataset_ids`` whose set lacks vectors of the space.

        Every search of the space's lane calls this, for datasets that the space serves."""
        ...

    def further_spaces(self, dataset_id: str) -> Sequence[StoredSpace]:
        """Return the counts of each space with vectors that is not dense, sorted by kind and
        signature; ``pending`` is 0."""
        ...


class DocumentReader(Protocol):
    """Reads the source documents: those of a `DocumentRepo`, or as many as a reader sees."""

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        """Return the document with its exact content, or None."""
        ...

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        """Return the document without its content, or None."""
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
        """Return at most ``limit`` documents sorted by name, whose names start with ``prefix`` and
        come after ``after``, and that pass ``where``. Empty for an unknown dataset.

        The headings of a document are those of all chunks of its set.
        """
        ...

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        """Count the documents that pass ``where``; 0 for an unknown dataset."""
        ...

    def list_datasets(self) -> Sequence[str]:
        """Return the ids of all datasets, sorted."""
        ...


class DocumentRepo(DocumentReader, Protocol):
    """Stores the source documents, unchanged and versioned."""

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """Store ``document``; return the stored document.

        Its version is greater than every earlier version of this name and every version ever
        deleted in the dataset, under any number of concurrent threads and processes.
        ``document.metadata`` None keeps the metadata that is stored at the time of this write.
        `rules.system_after` determines the `SystemData`. An expired document counts as missing:
        its ``if_version`` is 0. If content, metadata (None: any) and system data are unchanged,
        nothing is written and the stored document is returned, even if ``original_sha256`` or
        ``parser_sig`` differ. The first document of a dataset creates the dataset.

        Raises:
            ConflictError: ``document.if_version`` is given and is not the stored version (0: no
                document), even if the content is identical. ``expected`` is the given version,
                ``actual`` the stored one. Nothing was stored.
        """
        ...

    def put_many(self, dataset_id: str, documents: Sequence[NewDocument]) -> Sequence[PutOutcome]:
        """`put` each document in order; return the outcomes in the same order.

        A failure is that document's outcome and does not stop the others. A name that occurs twice
        is stored twice. If this raises, nothing was stored.
        """
        ...

    def load(self, document: SourceDocument) -> None:
        """Store ``document`` exactly, with its version and time, for copies of a store.

        An identical stored document is left unchanged.

        Raises:
            ConflictError: the name has or had this version or a later one, or one as late was
                deleted in the dataset. ``expected`` is ``document.version``, ``actual`` the stored
                version, 0 for none.
        """
        ...

    def with_expired(self, dataset_ids: Sequence[str], moment: datetime) -> Sequence[str]:
        """Return those of ``dataset_ids`` with a document that has expired at ``moment``.

        Every search, list and count calls this, and filters only these datasets. Repositories do
        not hide expired documents: the Service does.
        """
        ...

    def create_dataset(self, dataset_id: str) -> bool:
        """Create an empty dataset; return whether it did not exist before.

        It is listed from now on. An existing configuration of this id is kept.
        """
        ...

    def delete(self, dataset_id: str, name: str, *, if_version: int | None = None) -> bool:
        """Delete the document with everything under its name; return whether it existed.

        One atomic write deletes the document, its old versions, its chunk set, its layers, the
        vectors that nothing else uses, and all index entries. Data left under a name without a
        document is deleted too. Later writes of other writers are not affected. The version is
        never reused.

        Raises:
            ConflictError: ``if_version`` is given and is not the stored version (0: no document).
                Nothing was deleted.
        """
        ...

    def delete_many(self, dataset_id: str, versions: Mapping[str, int]) -> Sequence[str]:
        """`delete` each name whose document has the given version; return the deleted names,
        sorted.

        Raises:
            StoreError: the store failed; earlier deletions remain.
        """
        ...

    def delete_dataset(self, dataset_id: str) -> bool:
        """Delete the dataset with everything in it; return whether it existed.

        One atomic write deletes each document as `delete` does, the layers of folders and of the
        dataset, and the configuration. A new dataset with this id does not reuse the versions.

        An id that has only a configuration or layers of folders is not a dataset; its data is
        deleted too."""
        ...

    def delete_orphans(self, dataset_id: str, names: Collection[str]) -> Sequence[str]:
        """Delete derived data under those of ``names`` without a source, in one atomic write;
        return the names under which something was deleted, sorted.

        The source of a chunk set or a layer is the document of that name; of layers of a folder
        ("name/"), any document in it; of layers of the dataset (""), any document. The write checks
        this itself: data of a document that another writer stored meanwhile is kept.
        """
        ...


class UpdateOrder(ABC):
    """A `DocumentRepo` that reads a page in the order of the last update, and only that.

    Of others all documents are read and sorted.
    """

    @abstractmethod
    def list_by_update(
        self,
        dataset_id: str,
        *,
        prefix: str,
        descending: bool,
        after: DocumentInfo | None,
        limit: int,
    ) -> Sequence[DocumentInfo]:
        """Return at most ``limit`` documents whose names start with ``prefix``, sorted by
        ``updated_at``, ties by name in both directions, that come after ``after``."""


class ChunkRepo(VectorRepo, Protocol):
    """Stores chunk sets with their vectors, and searches chunks.

    It also stores each dataset's `DatasetConfig`, and refuses sets of another configuration, so
    that a process with other settings cannot store its chunks.
    """

    def get_doc_sig(self, dataset_id: str, doc_name: str) -> DerivedSig | None:
        """Return the signature of the document's chunk set, None without a set.

        An empty document may have a set without chunks, which can be fresh.
        """
        ...

    def get_doc_sigs(self, dataset_id: str, doc_names: Sequence[str]) -> Mapping[str, DerivedSig]:
        """Return the signatures of those of ``doc_names`` that have a set."""
        ...

    def doc_names(self, dataset_id: str) -> Sequence[str]:
        """Return the sorted names with a set, whether or not the document exists: a rebuild deletes
        the sets without a document."""
        ...

    def config(self, dataset_id: str) -> DatasetConfig | None:
        """Return the dataset's configuration, None before `configure`."""
        ...

    def configs(self, dataset_ids: Sequence[str]) -> Mapping[str, DatasetConfig]:
        """Return `config` for each of ``dataset_ids`` that has one."""
        ...

    def configure(
        self, dataset_id: str, config: DatasetConfig, *, expected: DatasetConfig | None
    ) -> bool:
        """Set the configuration if it is ``expected``; return whether it was.

        The dataset need not exist, and is not created. Searches still find sets of the old
        configuration, which are stale by their signatures; vectors of another embedding space, of
        chunks and of layers, are no longer searched.
        """
        ...

    def replace(
        self, dataset_id: str, doc_name: str, chunks: Sequence[DerivedChunk], *, sig: DerivedSig
    ) -> bool:
        """Replace a document's whole chunk set with its vectors; return whether it was done.

        Atomic: a reader sees the old set or the new one, never a mixture. Compare-and-set: it is
        done only while the document has version ``sig.source_version`` and the chunker and embedder
        of ``sig`` are the dataset's. Otherwise nothing changes and the result is False: an older
        derivation never overwrites a newer one or restores a deleted document. Chunks are in index
        order from 0.

        If ``sig`` has no embedder, but the dataset has one, the set waits for vectors: keyword
        search finds it, and `put_vectors` adds them. Vectors in such a set are of the dataset's
        space. A chunk without one gets the vector that the dataset already has for its text. These
        vectors are searched at once.

        Raises:
            ModelMismatchError: a vector of the set has another dimension than the dataset's vectors
                in that space (of chunks, layers and this set). The first vector determines it until
                the dataset is deleted. Nothing was stored. A refused set is not checked.
        """
        ...

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        """`replace` for each (name, chunks, sig) in order; return the results in the same order.

        A refused set does not stop the others.

        Raises:
            ModelMismatchError: as in `replace`. This set and later ones were not stored.
        """
        ...

    def count_sets(self, dataset_ids: Sequence[str]) -> int:
        """Count the documents of all ``dataset_ids`` with a chunk set, including empty sets."""
        ...

    def update_source_version(self, dataset_id: str, doc_name: str, sig: DerivedSig) -> bool:
        """Set the version of a set that is fresh under ``sig``; return whether it was done.

        Done only if the set's input, chunker and embedder signatures equal those of ``sig`` and the
        document has version ``sig.source_version``. No chunk is written and keys remain valid;
        chunks are read with the signature of their set, so that all show the new version.
        """
        ...

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """Delete the document's chunk set, its vectors and its index entries. Idempotent."""
        ...

    def delete_by_dataset(self, dataset_id: str) -> None:
        """Delete all chunk sets of the dataset and its configuration. Idempotent."""
        ...

    def search(self, query: ChunkQuery) -> Sequence[Candidate]:
        """Return the best ``query.top_k`` chunks of one lane that pass ``query.filter``.

        ``query.mode`` BM25 scores by Lucene's formula with statistics pooled over
        ``query.dataset_ids``. It returns only chunks with a term of the query, as `Candidates`
        whose ``matches`` tell how often each contains them. The terms of a chunk are those of its
        content and, counted as halves, those of its label (`triptych.text.label_of` of its
        document's name, title and the chunk's heading path); a new title may count only from the
        next chunk set on. VECTOR scores by the dot product of unit vectors and returns chunks with
        a vector in ``query.embed_sig``. "sparse", in a store that keeps sparse vectors, scores by
        the dot product with ``query.vector``. It returns only chunks that share a term with it, of
        sets that do not wait, in datasets that the space serves.

        Scores are rounded to 1e-6; ties are sorted by document name, chunk index and dataset. The
        filter applies before the limit: the result has min(top_k, matches) entries. Its ``within``
        also restricts the statistics: scores are as in a store without the other documents. Unknown
        datasets are empty.
        """
        ...

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """Return the units of the candidates' keys, all read in one snapshot, without vectors.

        Keys of units that were replaced or deleted are left out; `update_source_version` changes no
        key. A key need only be valid in the open store that returned it. A chunk's ``occurrence``
        is stored or counted.
        """
        ...

    def iter_chunks(
        self, dataset_id: str, doc_name: str | None = None, *, vectors: bool = False
    ) -> Iterator[DerivedChunk]:
        """Yield the chunks of a document or of the whole dataset, sorted by document name and
        index.

        The chunks of each document are of one state. ``sig`` is the signature of the set with the
        chunk's ``input_sig``; with ``vectors`` its ``embed_sig`` is the space of the chunk's
        vector, if any. A chunk's ``occurrence`` is stored or counted.
        """
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search` runs in this process, and so needs the interpreter's lock."""
        ...


class LayerRepo(Protocol):
    """Stores and searches layers of documents, folders ("name/") and datasets ("")."""

    def put(self, layer: DerivedLayer) -> bool:
        """Store the layer, replacing the old one; return whether it was done.

        A document's layer is stored only while the document has version
        ``layer.sig.source_version``. Layers of folders and datasets are always stored, even if the
        dataset does not exist, and do not create it. ``layer.sig.embed_sig`` need not be the
        dataset's.

        Raises:
            ModelMismatchError: as in `ChunkRepo.replace`.
        """
        ...

    def get(
        self, dataset_id: str, doc_name: str, layer: Layer, *, vectors: bool = False
    ) -> DerivedLayer | None:
        """Return the layer or None; its vector is included only with ``vectors``."""
        ...

    def list(self, dataset_id: str, *, layer: Layer | None = None) -> Sequence[DerivedLayer]:
        """Return all layers of the dataset, sorted by name and layer, without vectors."""
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
        """Return at most ``limit`` layers of one kind, sorted by name, without vectors, whose names
        start with ``prefix`` and come after ``after`` (None: all)."""
        ...

    def delete_by_doc(self, dataset_id: str, doc_name: str) -> None:
        """Delete the layers of this name with their vectors and index entries. Idempotent."""
        ...

    def delete_by_dataset(self, dataset_id: str) -> None:
        """Delete all layers of documents and folders in the dataset and of itself. Idempotent."""
        ...

    def search(self, query: LayerQuery) -> Sequence[Candidate]:
        """Search layers of one kind in one lane, by the rules of `ChunkRepo.search`.

        A layer's vector is searched if its ``sig.embed_sig`` is the dataset's and the query's. A
        layer has the metadata of its document and the headings of all its chunks; layers of folders
        and datasets have neither.
        """
        ...

    def fetch(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """Return the layers of the keys, by the rules of `ChunkRepo.fetch`."""
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search` runs in this process, and so needs the interpreter's lock."""
        ...
