"""A store, and what only some stores can do: a contract for each capability, and their record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import attrs

from triptych.contracts.repositories import ChunkRepo, DocumentRepo, LayerRepo, VectorRepo
from triptych.records import (
    CachedAnswer,
    CachedQuestion,
    CacheStats,
    Candidate,
    ChunkQuery,
    DocumentInfo,
    FilterTree,
    Layer,
    ModelUsage,
    NameState,
    QuarantinedLayer,
    SourceDocument,
    StoredUnit,
)
from triptych.text.tokenizers import CorpusStats

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

    `put` and `load` keep the version that they replace, in the same atomic write; what replaces
    nothing keeps nothing. Of each document the newest so many old versions are kept, beside the
    current one: how many is an option of the backend when it is opened; it cuts the rest at the
    document's next change. `DocumentRepo.delete` takes a document's versions with it and
    `DocumentRepo.delete_dataset` those of all: a document that is made again begins without any.
    """

    def versions(self, dataset_id: str, name: str) -> Sequence[DocumentInfo]:
        """The current version and, after it, the kept ones, newest first: as one read.

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


class DocLevelSearcher(Protocol):
    """Capability: searches of whole documents, and in how many chunks a term is."""

    def search_docs(self, query: ChunkQuery) -> Sequence[Candidate]:
        """The best ``top_k`` documents by their full text; the rules of `ChunkRepo.search`.

        ``index`` is `NO_CHUNK`. Documents count whether they have a chunk set or not. A
        document passes a filter's ``headings`` by those of any of its chunks, and ``fresh`` if
        it has a chunk set that passes.
        """
        ...

    def search_docs_by_vector(self, query: ChunkQuery) -> Sequence[Candidate]:
        """The best ``top_k`` documents by the nearest of all their chunks; keys as `search_docs`
        has them."""
        ...

    def fetch_docs(self, keys: Sequence[Hashable]) -> Mapping[Hashable, StoredUnit]:
        """What document keys stand for, in one snapshot.

        ``opening`` is the first `OPENING` code points of the content, ``sig`` the chunk set's,
        or ``DerivedSig()`` where there is none. Keys whose document has other content now, or is
        deleted, are left out.
        """
        ...

    def corpus_stats(
        self, dataset_ids: Sequence[str], terms: Sequence[str], *, within: FilterTree | None = None
    ) -> CorpusStats:
        """What BM25 is made of: all chunks of these datasets, and those that hold each term.

        ``terms`` are the analyzer's; a term that no chunk holds has no entry. ``within`` is that of
        a `Filter`: only chunks of documents that pass it count. A term of a label is half a term of
        the length, which is rounded down.
        """
        ...

    @property
    def in_process(self) -> bool:
        """Whether `search_docs` runs in this process."""
        ...


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

    def drop_answers(self, *, before: datetime) -> int:
        """Drop the answers made before a moment; how many there were."""
        ...

    def count_lookups(self, *, hits: int, misses: int) -> None:
        """Add to the numbers of searches that found an answer, and of those that found none."""
        ...

    def cache_stats(self) -> CacheStats:
        """How many answers are kept, and all that was counted."""
        ...


class ChangeReader(Protocol):
    """Capability: a store with a log of what became of its documents, which others follow.

    The write that adds, changes or deletes a document logs it under a number, greater than all
    before it in the order of commits, atomically with the write. A store over several servers has
    such a log on each, and the order is that of each dataset. A change of metadata or expiry
    is a change; a put of what is stored is none. The log keeps the last change of each document,
    and of deleted ones at least the last 10,000. `Store.scrub` leaves no name of a deleted
    document in it. What existed before a store had a log counts as there at its beginning.
    `triptych.contracts.change_pages.read_page` makes the pages.
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
        deletions after it are not in the log any more. A ``limit`` of 0 asks for ``reset`` only.
        """
        ...


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


class CopyableStore(Protocol):
    """Capability: a store that can be read as it is at one moment, and takes over what another
    store holds, as it is there."""

    def snapshot(self) -> AbstractContextManager[Store]:
        """The store as it is now, until the context ends; whatever is committed, it shows nothing
        of it.

        It is read: documents and versions, chunk sets and layers with their vectors, the journal,
        settings, and the log of changes where the store has one. It is not written, which raises
        `StoreError`, and searches need not work. An old version that is cut meanwhile may be
        missing.
        """
        ...

    def load_states(
        self, dataset_id: str, states: Sequence[NameState], *, replace: bool = False
    ) -> None:
        """Store ``states`` exactly as they are; an atomic write for each, at least.

        Under the name of each the dataset then has the document at the last of its ``versions``,
        those before it as kept ones, as many as the store keeps; the chunk set, each vector in the
        space that its chunk's ``sig`` names; the layers; and no other set and no other layer. That
        is done whatever the dataset's configuration is, whatever they were made from, and whether
        versions were used by what is deleted. A version of ``versions`` that the document has or
        had stays as it is, and one older than all of them goes. The first document makes the
        dataset. Sparse vectors and the journal are given by `VectorRepo` and `LayerJournal`.

        With ``replace``, a document that is none of the ``versions`` is removed as by
        `DocumentRepo.delete`, in the same write: no reader finds the name without a document.

        Raises:
            ConflictError: the name has a document that is none of the ``versions``, and
                ``replace`` is False. This state, and those after it, were not stored.
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
    """What a store says that it can do beside the contract of `Store`; None for what it lacks.

    Each is a part of the store, or the store itself. A store that shows part of another evolves
    the other's record.
    """

    document_search: DocLevelSearcher | None = None
    sparse: VectorRepo | None = None
    spaces: VectorRepo | None = None
    versions: VersionReader | None = None
    journal: LayerJournal | None = None
    changes: ChangeReader | None = None
    copying: CopyableStore | None = None
    settings: SettingsStore | None = None
    leases: WorkLeases | None = None
    answers: AnswerCache | None = None
    diagnostics: Diagnostics | None = None


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

    @property
    def capabilities(self) -> Capabilities:
        """What this store can do beside: ``Capabilities()`` where there is nothing."""
        ...

    def stats(self, dataset_id: str, *, chunker_sig: str, embed_sig: str) -> DatasetStats | None:
        """The dataset's counts, None if it does not exist.

        Sets of other signatures than these count as stale (an empty ``embed_sig``: any will do),
        but not those that only wait for vectors. ``pending`` are those of `VectorRepo.waiting`, and
        ``pending_chunks`` their chunks without a vector in ``embed_sig``. ``spaces`` are those of
        all vectors, in order of the signature.
        """
        ...

    def scrub(self) -> ScrubReport | None:
        """Make what was deleted unrecoverable from the store's own files, as far as it can: free
        pages, logs, index files. May take long; idempotent."""
        ...

    def close(self) -> None:
        """Release everything. Idempotent; any later call raises `StoreError`."""
        ...


class WorkLeases(Protocol):
    """Capability: which worker has which piece of work, among all that have the store open.

    A worker that ends without a release has its names until their time has passed. Every store
    with a `SettingsStore` can have this: ``leases=SettingsLeases(self)``, of `triptych.leases`.
    """

    def hold_leases(
        self,
        queue: str,
        names: Sequence[str],
        *,
        holder: str,
        seconds: float,
        limit: int | None = None,
    ) -> Sequence[str]:
        """Let ``holder`` have those of ``names`` that nobody else has, and release all others.

        They are the holder's for ``seconds`` from now, at most the first ``limit`` of them; returns
        them in the order of ``names``. So the same names again renew them, and none release all.
        The names of two queues have nothing to do with each other. Atomic: of several holders that
        ask at once each name goes to one. A name whose time has passed is nobody's. The leases need
        not survive a crash of the machine.
        """
        ...

    def listen_for_changes(self) -> AbstractContextManager[Callable[[float], bool]] | None:
        """Within the context, a function that waits for a write of another process or thread.

        It waits up to so many seconds for one that was committed after the context began, or after
        the last wait returned; whether there was one. It may report a write that changed no
        document. Where the store cannot be reached it raises `StoreError`. None where the store
        does not report writes, and has to be looked at.
        """
        ...
