"""What the readers of a store see: its documents without those that have expired."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs

from triptych import deadlines
from triptych.contracts import ChunkRepo, DocumentRepo, Store
from triptych.contracts.pages import document_pages
from triptych.records import AnySpace, Condition, DocumentInfo, FilterTree, SourceDocument
from triptych.records.documents import expired_by, has_expired, not_expired_by
from triptych.records.filters import NAME, all_of
from triptych.records.spaces import StoredSpace, dense, further

if TYPE_CHECKING:
    from triptych.records import DatasetStats


@attrs.frozen(eq=False)
class LivingDocuments:
    """The documents of a store as their readers see them: without those that have expired.

    A Service gives it to whoever finds, lists or shows documents, and need not think of time.
    Whoever writes, deletes or copies uses the store's own repository, ``stored``.

    Attributes:
        stored: the repository.
        timeless: whether nothing in it expires, as in the store of a moment of the past.
    """

    stored: DocumentRepo
    timeless: bool = False

    def bound(self, dataset_ids: Sequence[str]) -> FilterTree | None:
        """What those pass that have not expired; None where nothing in the datasets has."""
        if self.timeless:
            return None
        now = datetime.now(UTC)
        return not_expired_by(now) if self.stored.with_expired(dataset_ids, now) else None

    def narrow(self, dataset_ids: Sequence[str], tree: FilterTree | None) -> FilterTree | None:
        """``tree`` for what has not expired; ``tree`` itself where nothing in the datasets has."""
        return all_of(tree, self.bound(dataset_ids))

    def get(self, dataset_id: str, name: str) -> SourceDocument | None:
        found = self.stored.get(dataset_id, name)
        return None if not self.timeless and has_expired(found) else found

    def get_info(self, dataset_id: str, name: str) -> DocumentInfo | None:
        found = self.stored.get_info(dataset_id, name)
        return None if not self.timeless and has_expired(found) else found

    def list(
        self,
        dataset_id: str,
        *,
        prefix: str = "",
        after: str = "",
        limit: int | None = None,
        where: FilterTree | None = None,
    ) -> Sequence[DocumentInfo]:
        where = self.narrow([dataset_id], where)
        return self.stored.list(dataset_id, prefix=prefix, after=after, limit=limit, where=where)

    def count(self, dataset_id: str, *, where: FilterTree | None = None) -> int:
        return self.stored.count(dataset_id, where=self.narrow([dataset_id], where))

    def list_datasets(self) -> Sequence[str]:
        return self.stored.list_datasets()

    def count_waiting(self, chunks: ChunkRepo, dataset_ids: Sequence[str], space: AnySpace) -> int:
        """`VectorRepo.count_waiting` of what has not expired."""
        waiting = chunks.count_waiting(dataset_ids, space)
        if waiting and not self.timeless:
            for dataset_id in dict.fromkeys(dataset_ids):
                waiting -= len(_expired_waiting(self.stored, chunks, dataset_id, space))
        return max(waiting, 0)


def remove_expired(
    documents: DocumentRepo,
    dataset_id: str,
    names: Sequence[str] | None = None,
    *,
    kept_roots: Collection[str] = (),
) -> int:
    """Delete the documents, those of ``names`` or all, that have expired; how many.

    Those that syncs of ``kept_roots`` brought in stay. Each page is one transaction. A document
    that is put again meanwhile stays.
    """
    now = datetime.now(UTC)
    if not documents.with_expired([dataset_id], now):
        return 0
    tree = expired_by(now) if names is None else _expired_of(names, now)
    removed = 0
    for page in document_pages(documents, dataset_id, tree):
        deadlines.check("removing expired documents")
        going = [info for info in page if info.system.sync_root not in kept_roots]
        versions = {info.name: info.version for info in going}
        removed += len(documents.delete_many(dataset_id, versions)) if versions else 0
    return removed


def living_stats(
    store: Store, dataset_id: str, *, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    """What a dataset holds; None if the dataset does not exist.

    What waits for vectors is counted without what has expired, whose chunks are read.
    """
    stats = store.stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig)
    if stats is None:
        return None
    documents, chunks = store.documents, store.chunks
    if stats.pending:
        expired = _expired_waiting(documents, chunks, dataset_id, dense(embed_sig))
        lacking = sum(
            chunk.vector is None or chunk.sig.embed_sig != embed_sig
            for info in expired
            for chunk in chunks.iter_chunks(dataset_id, info.name, vectors=True)
        )
        stats = attrs.evolve(
            stats,
            pending=max(stats.pending - len(expired), 0),
            pending_chunks=max(stats.pending_chunks - lacking, 0),
        )
    spaces = further(stats.config)
    if not spaces:
        return stats
    living = LivingDocuments(documents)
    found = {(each.kind, each.sig): each for each in chunks.further_spaces(dataset_id)}
    for space in spaces:
        if waiting := living.count_waiting(chunks, [dataset_id], space):
            key = space.kind, space.sig
            there = found.get(key) or StoredSpace(kind=space.kind, sig=space.sig)
            found[key] = attrs.evolve(there, pending=waiting)
    return attrs.evolve(stats, further_spaces=tuple(found.values()))


def _expired_waiting(
    documents: DocumentRepo, chunks: ChunkRepo, dataset_id: str, space: AnySpace
) -> Sequence[DocumentInfo]:
    """Those that wait for vectors and have expired: nobody waits for their vectors."""
    now = datetime.now(UTC)
    if not documents.with_expired([dataset_id], now):
        return ()
    names = chunks.waiting(dataset_id, space)
    return documents.list(dataset_id, where=_expired_of(names, now)) if names else ()


def _expired_of(names: Sequence[str], moment: datetime) -> FilterTree:
    named = Condition(NAME, "in", tuple(("text", name) for name in names))
    tree = all_of(named, expired_by(moment))
    assert tree is not None
    return tree
