"""The contracts of the three repositories of a store, and of the vectors in them."""

from __future__ import annotations

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
from triptych.records.spaces import AnySpace, SpaceCount, VectorSpace

if TYPE_CHECKING:
    from triptych.records import PutOutcome

V = TypeVar("V")


class VectorRepo(Protocol):
    """Keeps the vectors of texts, by space and digest, and knows whose texts wait for theirs.

    A `VectorSpace` serves a dataset while the dataset's configuration names it: `DatasetConfig`
    has one serving space of each kind. A chunk has the vector of its digest
    (`DerivedSig.input_sig`), and a layer that of its content (`embedding_input_sig`), so that no
    text is embedded twice in a space. A vector belongs to the chunk sets and layers that have its
    text. It goes in the write that removes, or replaces, the last of them.

    - The *dense* space that serves holds the vectors that chunks have: `ChunkRepo.replace` takes
      and gives them. A set waits while its signature is of another space. None, for a text of which
      the embedder makes no vector, is not kept: give it in the call that completes a set.
    - *Sparse* spaces: a set waits until each of its chunks that has a digest has a vector of the
      space that serves; then the lane finds it, all of it at once. `ChunkRepo.replace` gives a new
      set the vectors that the dataset has of its texts. Vectors of the encoder before are removed
      as the sets are complete.
    - Other dense spaces are kept for a swap. They hold None too,
      and entries of layers, under the names of documents, of folders ("name/") and of the dataset
      (""). No search reads them. They go with the configuration.

    `ChunkRepo.configure` with the ``embed_sig`` of a space that is kept swaps the spaces in its one
    write:

    - each chunk gets the vector of its text in the new space, or none where there is no entry;
    - a set all of whose texts have entries is of the new space at once, any other waits;
    - a layer whose text has an entry gets it, any other stays as it is;
    - what served until then is kept: the same call with the old signature swaps back.

    Of all but the dense space that serves, a store keeps those that its `Capabilities` name:
    ``sparse`` and ``spaces``. Nothing waits for vectors that it does not keep.
    """

    def put_vectors(
        self,
        dataset_id: str,
        space: VectorSpace[V],
        names: Sequence[str],
        vectors: Mapping[str, V | None],
        *,
        serves: bool = True,
    ) -> Sequence[str]:
        """Give what is under ``names`` those of ``vectors``, by digest, that are of its texts, and
        those that the dataset has; the names that wait no longer in ``space``, ordered.

        One atomic write, done only while ``space`` serves, or does not, as ``serves`` says. A
        digest that has a vector keeps it. A vector goes to no other text, nor to what is deleted.
        A chunk's vector of another space gives way to that of a dense space that serves: its set
        waits from then on, and its other vectors of that space may go. All vectors of a set are
        searched once it waits no longer; until then a store may leave out those of it.

        Raises:
            ModelMismatchError: as in `ChunkRepo.replace`. Nothing was stored.
        """
        ...

    def known_vectors(
        self, dataset_id: str, space: VectorSpace[V], digests: Sequence[str]
    ) -> Mapping[str, V]:
        """The vectors that the dataset has in this space, by digest: those of ``digests``, of its
        chunks at least. So nothing is embedded twice."""
        ...

    def waiting(
        self, dataset_id: str, space: AnySpace, names: Collection[str] | None = None
    ) -> Sequence[str]:
        """Those of ``names``, or of all, that lack vectors of the space, ordered.

        Of a space that serves, documents with a set that waits. Of a dense space that is kept,
        names with a chunk set or a layer that lacks an entry; a chunk without a digest lacks one
        always. Of any other, documents with a chunk. A set of no chunks lacks none, and nothing
        lacks vectors of "".
        """
        ...

    def count_waiting(self, dataset_ids: Sequence[str], space: AnySpace) -> int:
        """How many documents of all ``dataset_ids`` have a set that lacks vectors of the space.

        Every search of its lane asks this, of datasets that the space serves."""
        ...

    def vector_spaces(self, dataset_id: str) -> Sequence[SpaceCount]:
        """What is kept of each space that has entries, ordered by kind and signature; without the
        dense one that serves, whose vectors `Store.stats` counts."""
        ...

    def drop_space(self, dataset_id: str, space: AnySpace) -> bool:
        """Remove the entries of a dense space that does not serve; whether there were any."""
        ...


class DocumentRepo(Protocol):
    """Keeps source documents: lossless, versioned, the single truth."""

    def put(self, dataset_id: str, document: NewDocument) -> SourceDocument:
        """Store ``document`` and return what is stored, which is authoritative.

        The version is strictly greater than every version the name ever had, and than every
        version ever deleted in the dataset, under any number of threads and processes.
        ``document.metadata`` None keeps the stored document's, as it is in this write; without
        a stored document there is none. Its `SystemData` is what `rules.system_after`
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
        """A page of documents, ordered by name: those that start with ``prefix``, come after
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


class ChunkRepo(ChunkSigReader, VectorRepo, Protocol):
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
        vectors: it is found by keyword, and `put_vectors` brings the rest. The vectors it has are
        of the dataset's space. A chunk that comes without one gets the vector that the dataset
        has of its text, if any. The vectors that it then has are searched at once.

        Raises:
            ModelMismatchError: the set is not refused, but has a vector of another width than
                the dataset's other vectors in that space, those of layers and of this set
                included. The first vector in a space gives its width until the dataset is
                deleted. Nothing was stored.
        """
        ...

    def replace_many(
        self, dataset_id: str, sets: Sequence[tuple[str, Sequence[DerivedChunk], DerivedSig]]
    ) -> Sequence[bool]:
        """`replace` for each (name, chunks, sig), in order; the answers, in the same order.

        A set that is refused does not stop the others.

        Raises:
            ModelMismatchError: as in `replace`. Neither this set nor one after it was stored.
        """
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
        ``query.dataset_ids``, and returns only chunks that hold a query term, as
        `Candidates` whose ``matches`` tell how often each holds them. A chunk holds the
        terms of its content, and those of its label as halves (`triptych.text.label_of` of
        its document's name, title and the chunk's heading path); a new title counts at the
        latest with the next chunk set. VECTOR scores by the dot product of unit vectors and
        returns chunks that have a vector in ``query.embed_sig``. "sparse", in a store that
        keeps such vectors, scores by the dot product with ``query.vector`` and returns only
        chunks of sets that do not wait, in datasets that the space serves, that share a
        term with it. Scores are rounded to 1e-6; ties come in order of document name, chunk
        index, dataset. The filter acts before the cut: the answer has min(top_k, matches)
        entries. Its ``within`` bounds the statistics too: scores are those of a store that
        holds nothing else. Unknown datasets hold nothing.
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
