"""Counts of a dataset in memory."""

from __future__ import annotations

from triptych import rules
from triptych.records import DatasetStats, DerivedSig
from triptych_backends.memory.filters import fresh_sig
from triptych_backends.memory.truth import Dataset, has_vector

__all__ = ["stats_of"]


def stats_of(
    dataset: Dataset, dataset_id: str, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    """See `Store.stats`."""
    if not dataset.exists:
        return None
    want = DerivedSig(chunker_sig=chunker_sig, embed_sig=embed_sig)
    fresh = [
        name
        for name, chunks in dataset.sets.items()
        if chunks.sig.stale_reason(fresh_sig(dataset, name, want)) in (None, "vector")
    ]
    waiting = [
        chunks
        for chunks in dataset.sets.values()
        if chunks.chunks and rules.is_pending(chunks.sig, embed_sig)
    ]
    every = [chunk for chunks in dataset.sets.values() for chunk in chunks.chunks]
    return DatasetStats(
        dataset_id=dataset_id,
        documents=len(dataset.documents),
        chunks=len(every),
        vectors=sum(chunk.vector is not None for chunk in every),
        layers=len(dataset.layers),
        stale=len(dataset.documents) - len(fresh),
        size=sum(stored.info.size for stored in dataset.documents.values()),
        config=dataset.config,
        spaces=rules.embedding_spaces((chunk.sig.embed_sig, chunk.vector) for chunk in every),
        pending=len(waiting),
        pending_chunks=sum(
            not has_vector(chunk, embed_sig) for chunks in waiting for chunk in chunks.chunks
        ),
    )
