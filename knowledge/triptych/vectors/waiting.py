"""Documents that wait for vectors and have expired: nobody waits for their vectors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import attrs

from triptych.contracts import ChunkRepo, DocumentRepo, Store
from triptych.records import AnySpace, Condition, DatasetStats, FilterTree, SparseSpace
from triptych.records.documents import expired_by
from triptych.records.filters import NAME, all_of
from triptych.records.spaces import dense, sparse


def count_waiting(
    documents: DocumentRepo,
    chunks: ChunkRepo,
    dataset_ids: Sequence[str],
    space: AnySpace,
    moment: datetime | None = None,
) -> int:
    """`VectorRepo.count_waiting` without the documents that have expired by ``moment``, None for
    now."""
    waiting = chunks.count_waiting(dataset_ids, space)
    if not waiting:
        return 0
    now = moment or datetime.now(UTC)
    for dataset_id in documents.with_expired(list(dict.fromkeys(dataset_ids)), now):
        names = chunks.waiting(dataset_id, space)
        if names:
            waiting -= documents.count(dataset_id, where=_expired_of(names, now))
    return max(waiting, 0)


def living_stats(
    store: Store, dataset_id: str, *, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    """What a dataset holds; None where there is no such dataset.

    What waits for vectors is counted without what has expired.
    """
    stats = store.stats(dataset_id, chunker_sig=chunker_sig, embed_sig=embed_sig)
    if stats is None:
        return None
    stats = _without_expired(store, stats, embed_sig)
    if stats.config is None or not stats.config.sparse_sig:
        return stats
    space = sparse(stats.config.sparse_sig)
    return attrs.evolve(
        stats,
        sparse_spaces=tuple(
            SparseSpace(sparse_sig=each.space.sig, vectors=each.vectors, size=each.size)
            for each in store.chunks.vector_spaces(dataset_id)
            if each.space.kind == "sparse"
        ),
        sparse_pending=count_waiting(store.documents, store.chunks, [dataset_id], space),
    )


def _without_expired(store: Store, stats: DatasetStats, embed_sig: str) -> DatasetStats:
    """``stats`` with `pending` and `pending_chunks` of what has not expired by now.

    Reads the chunks of those that have expired and wait.
    """
    documents, chunks = store.documents, store.chunks
    now, dataset_id = datetime.now(UTC), stats.dataset_id
    if not stats.pending or not documents.with_expired([dataset_id], now):
        return stats
    names = chunks.waiting(dataset_id, dense(embed_sig))
    expired = documents.list(dataset_id, where=_expired_of(names, now)) if names else ()
    lacking = sum(
        chunk.vector is None or chunk.sig.embed_sig != embed_sig
        for info in expired
        for chunk in chunks.iter_chunks(dataset_id, info.name, vectors=True)
    )
    return attrs.evolve(
        stats,
        pending=max(stats.pending - len(expired), 0),
        pending_chunks=max(stats.pending_chunks - lacking, 0),
    )


def _expired_of(names: Sequence[str], moment: datetime) -> FilterTree:
    named = Condition(NAME, "in", tuple(("text", name) for name in names))
    tree = all_of(named, expired_by(moment))
    assert tree is not None
    return tree
