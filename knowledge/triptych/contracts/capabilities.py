"""The contracts of a store and of its optional capabilities."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import attrs

from triptych.contracts.repositories import ChunkRepo, DocumentRepo, LayerRepo
from triptych.records import (
    Candidate,
    ChunkQuery,
    DocumentInfo,
    FilterTree,
    NameState,
    SourceDocument,
    StoredUnit,
)
from triptych.text.bm25 import CorpusStats

if TYPE_CHECKING:
    from triptych.records import (
        ChangeCursor,
        ChangePage,
        DatasetStats,
        Finding,
        HealthCheck,
        ScrubReport,
    )


class VersionReader(Protocol):
    """Capability: a `DocumentRepo` that keeps the last versions of each document.

    `put` and `load` keep the version that they replace, in the same atomic write. How many old
    versions of a document are kept is an option of the backend; the oldest are removed at the
    document's next change. `DocumentRepo.delete` and `DocumentRepo.delete_dataset` delete the old
    versions too: a document that is stored again starts without any.
    """

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """Return the current version, then the kept ones, newest first, in one snapshot.

        Each equals what `DocumentRepo.get_info` returned while it was current. Empty without a
        document.
        """
        ...

    def get_version(self, dataset_id: str, name: str, version: int) -> SourceDocument | None:
        """Return the document at ``version``, old or current; None if it is not kept."""
        ...

    def deleted_version(self, dataset_id: str) -> int | None:
        """Return the greatest version of all deleted documents of the dataset, 0 without any.

        The first version of a new document is at most one above it. None if it is hidden from the
        caller.
        """
        ...


class DocLevelSearcher(Protocol):
    """Capability: searches of whole documents, and term statistics."""

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """Return the best ``top_k`` documents by their full text, by the rules of
        `ChunkRepo.search`.

        ``index`` is `NO_CHUNK`. Documents without a chunk set are found too. A document passes a
        filter's ``headings`` if any of its chunks does, and ``fresh`` if its chunk set does.
        """
        ...

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """Return the best ``top_k`` documents by their nearest chunk, with keys as in
        `search_docs`."""
        ...

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """Read the documents of the keys in one snapshot.

        ``opening`` is the first `OPENING` code points of the content, ``sig`` the chunk set's
        signature, or ``DerivedSig()`` without a set. Keys of documents that were changed or deleted
        are left out.
        """
        ...

    def corpus_stats(
        self, dataset_ids: Sequence[str], terms: Sequence[str], *, within: FilterTree | None = None
    ) -> CorpusStats:
        """Return the statistics for BM25: of all chunks of these datasets, and of each term.

        ``terms`` are terms of the analyzer; a term that no chunk contains has no entry. ``within``
        is as in `Filter`: only chunks of documents that pass it count. In a chunk's length a term
        of its label counts as half a term; the length is rounded down.
        """
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search_docs` runs in this process."""
        ...


class SettingsStore(Protocol):
    """Capability: a key-value store of short texts, such as the remembered folders.

    The values belong to the store: deleting datasets does not delete them. Keys and values are
    valid Unicode without NUL; a key has at most 1,000 code points.
    """

    def get_setting(self, key: str) -> str | None:
        """Return the value, None if there is none."""
        ...

    def set_setting(self, key: str, value: str | None, *, expected: str | None) -> bool:
        """Set the value (None: remove it) if it is ``expected``; return whether it was.

        ``expected`` None means that there is no value. If several writers expect the same value,
        exactly one succeeds.
        """
        ...

    def list_settings(self, prefix: str = "") -> Mapping[str, str]:
        """Return all values whose key starts with ``prefix``, sorted by key, in one snapshot."""
        ...


class ChangeReader(Protocol):
    """Capability: a store with a log of the changes of its documents.

    A write that adds, changes or deletes a document atomically logs the change under a number that
    increases in commit order. A store over several servers has a log on each, and the order holds
    within each dataset. A change of metadata or expiry is logged; a put of identical content is
    not. The log keeps the last change of each document, and at least the last 10,000 deletions.
    `Store.scrub` removes the names of deleted documents from it. Documents older than the log count
    as present at its beginning. `triptych.contracts.change_pages.read_page` makes the pages.
    """

    def change_head(self) -> str:
        """Return a text for the end of the log, which no other state of the store has. Cheap.

        It changes with each change of a document, and with each other write after which a search
        may find something else: of chunk sets, vectors, layers and the configuration.
        """
        ...

    def read_changes(
        self, since: ChangeCursor | None, *, dataset_id: str | None, limit: int
    ) -> ChangePage:
        """Return the first ``limit`` changes after ``since``, of one dataset or (None) of all.

        The page is read in one snapshot. ``since`` None starts with every document, as added. So
        does a cursor that the store cannot continue from, and the page is then a reset: the cursor
        is of another store or of a state that a restored backup lacks, or later deletions are no
        longer in the log. With a ``limit`` of 0 only ``reset`` is determined.
        """
        ...


class Diagnostics(Protocol):
    """Capability: a store that can check and repair its internals.

    The Service itself checks what is visible through the three repositories.
    """

    def check_health(self) -> Sequence[HealthCheck]:
        """Check the store and its index. Fast at any size; writes nothing."""
        ...

    def check_integrity(self, dataset_ids: Collection[str]) -> Iterator[Finding]:
        """Yield what is wrong in these datasets and in the store as a whole. Writes nothing.

        Reads all data of ``dataset_ids`` in bounded memory, possibly while others write. There is
        at most one finding for each check and place, with a count. Findings that `repair` can fix
        have a ``repair``.
        """
        ...

    def repair(self, checks: Collection[str], dataset_ids: Collection[str]) -> Sequence[str]:
        """Repair what the named ``checks`` find now; return descriptions of what was done.

        Damaged derived data is dropped, and the Service derives it again; no source document is
        deleted or changed. Names of other checks are skipped.
        """
        ...


class CopyableStore(Protocol):
    """Capability: a store that can be read at a snapshot and can import exact copies."""

    def snapshot(self) -> AbstractContextManager[Store]:
        """Return a read-only snapshot of the store, valid until the context ends.

        Documents and versions, chunk sets and layers with their vectors, settings and the change
        log (if any) can be read. Writes raise `StoreError`, and searches need not work.
        An old version that is removed meanwhile may be missing.
        """
        ...

    def load_states(
        self, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """Store ``states`` exactly, each in at least one atomic write.

        The name of each state then has the last of its ``versions`` as the document and the others
        as old versions (as many as the store keeps); its chunk set, with each vector in the space
        that the chunk's ``sig`` names; and its layers. Other chunk sets and layers of the name are
        removed. Neither the dataset's configuration, nor signatures, nor used version numbers are
        checked. Versions that the document already has or had are kept unchanged; versions older
        than all ``versions`` are removed. The first document creates the dataset. Vectors that are
        not dense are stored with `VectorRepo`.

        With ``replace``, a stored document that is not among the ``versions`` is deleted as by
        `DocumentRepo.delete` in the same write, so that readers always find a document.

        Raises:
            ConflictError: the stored document is not among the ``versions``, and ``replace`` is
                False. This state and later ones were not stored.
            ModelMismatchError: as in `ChunkRepo.replace`; nothing of this state was stored.
        """
        ...

    def use_up_versions(self, dataset_id: str, version: int) -> None:
        """Give new documents of the dataset only versions above ``version`` from now on.

        The dataset need not exist, and is not created.
        """
        ...


@attrs.frozen(kw_only=True)
class Capabilities:
    """The optional capabilities of a store; None for those it lacks.

    Each is the store itself or a part of it. A store that restricts another one should derive its
    record from the other's with ``attrs.evolve``.
    """

    document_search: DocLevelSearcher | None = None
    versions: VersionReader | None = None
    changes: ChangeReader | None = None
    copying: CopyableStore | None = None
    settings: SettingsStore | None = None
    diagnostics: Diagnostics | None = None


class Store(Protocol):
    """Three repositories over the same data, closed together."""

    @property
    def documents(self) -> DocumentRepo:
        """The source documents."""
        ...

    @property
    def chunks(self) -> ChunkRepo:
        """The chunk sets and the configurations."""
        ...

    @property
    def layers(self) -> LayerRepo:
        """The layers."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """The optional capabilities; ``Capabilities()`` if it has none."""
        ...

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """Return the dataset's counts, None if it does not exist.

        Chunk sets with other signatures than these are stale (an empty ``embed_sig`` matches any),
        except sets that only lack vectors. ``pending`` counts the names of `VectorRepo.waiting`,
        ``pending_chunks`` their chunks without a vector in ``embed_sig``. ``spaces`` lists the
        spaces of all vectors, sorted by signature.
        """
        ...

    def scrub(self) -> ScrubReport | None:
        """Erase deleted data from the store's files as far as possible: free pages, logs, index
        files. May take long; idempotent."""
        ...

    def close(self) -> None:
        """Release all resources. Idempotent; any later call raises `StoreError`."""
        ...
