"""Documents that wait for vectors and have expired: nobody waits for their vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import attrs

from triptych.contracts import ChunkRepo, DocumentRepo, SparseRepo, Store
from triptych.ingestion.derivation import DerivationPipeline
from triptych.records import Condition, DatasetStats, FilterTree
from triptych.records.expiry import expired_by
from triptych.records.filters import NAME, all_of

__all__ = ["count_pending", "count_sparse_pending", "living_stats"]


def count_pending(
    documents: DocumentRepo,
    chunks: ChunkRepo,
    dataset_ids: Sequence[str],
    embed_sig: str,
    moment: datetime | None = None,
) -> int:
    """`ChunkRepo.count_pending` without the documents that have expired by ``moment``, None for
    now."""
    pending = chunks.count_pending(dataset_ids, embed_sig)
    return _living(
        documents, dataset_ids, pending, lambda each: chunks.pending(each, embed_sig), moment
    )


def count_sparse_pending(
    documents: DocumentRepo,
    sparse: SparseRepo,
    dataset_ids: Sequence[str],
    sparse_sig: str,
    moment: datetime | None = None,
) -> int:
    """`SparseRepo.count_sparse_pending` without the documents that have expired by ``moment``, None
    for now."""
    pending = sparse.count_sparse_pending(dataset_ids, sparse_sig)
    return _living(
        documents,
        dataset_ids,
        pending,
        lambda each: sparse.sparse_pending(each, sparse_sig),
        moment,
    )


def _living(
    documents: DocumentRepo,
    dataset_ids: Sequence[str],
    pending: int,
    names_of: Callable[[str], Sequence[str]],
    moment: datetime | None,
) -> int:
    if not pending:
        return 0
    now = moment or datetime.now(UTC)
    for dataset_id in documents.with_expired(list(dict.fromkeys(dataset_ids)), now):
        names = names_of(dataset_id)
        if names:
            pending -= documents.count(dataset_id, where=_expired_of(names, now))
    return max(pending, 0)


def living_stats(
    store: Store, sparse: SparseRepo | None, deriver: DerivationPipeline, dataset_id: str
) -> DatasetStats | None:
    """What a dataset holds, by the embedder that serves it; None where there is no such dataset.

    What waits for vectors is counted without what has expired.
    """
    if deriver.next is not None:
        deriver = deriver.of_config(store.chunks.config(dataset_id))
    space = deriver.embed_sig
    stats = store.stats(dataset_id, chunker_sig=deriver.chunker_sig, embed_sig=space)
    if stats is None:
        return None
    stats = _without_expired(store, stats, space)
    config = stats.config
    if sparse is None or config is None or not config.sparse_sig:
        return stats
    waiting = count_sparse_pending(store.documents, sparse, [dataset_id], config.sparse_sig)
    return attrs.evolve(
        stats, sparse_spaces=tuple(sparse.sparse_spaces(dataset_id)), sparse_pending=waiting
    )


def _without_expired(store: Store, stats: DatasetStats, embed_sig: str) -> DatasetStats:
    """``stats`` with `pending` and `pending_chunks` of what has not expired by now.

    Reads the chunks of those that have expired and wait.
    """
    documents, chunks = store.documents, store.chunks
    now, dataset_id = datetime.now(UTC), stats.dataset_id
    if not stats.pending or not documents.with_expired([dataset_id], now):
        return stats
    names = chunks.pending(dataset_id, embed_sig)
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
