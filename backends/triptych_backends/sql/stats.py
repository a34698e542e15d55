"""Counts of a dataset, from the sets' own counters: no chunk is read."""

from __future__ import annotations

from sqlalchemy import and_, bindparam, case, func, or_, select

from triptych.records import DatasetStats, EmbeddingSpace

from . import tables as t
from .sqlite import Session
from .transaction import find_dataset

__all__ = ["read_stats"]

# The rule of `DerivedSig.stale_reason`, as in filters.py; a missing set is NULL, and stale.
_FRESH = and_(
    case(
        (t.derivation.c.input_sig != "", t.derivation.c.input_sig == t.document.c.input_sig),
        else_=t.derivation.c.source_version >= t.document.c.version,
    ),
    t.derivation.c.chunker_sig == bindparam("chunker"),
    or_(bindparam("embed") == "", t.derivation.c.embed_sig == bindparam("embed")),
)
_COUNTS = (
    select(
        func.count(),
        func.coalesce(func.sum(t.derivation.c.chunks), 0),
        func.coalesce(func.sum(t.derivation.c.vectors), 0),
        func.coalesce(func.sum(case((_FRESH, 0), else_=1)), 0),
        func.coalesce(func.sum(t.document.c.size), 0),
    )
    .select_from(t.document)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id, isouter=True)
    .where(t.document.c.dataset_id == bindparam("dataset"))
)
_LAYERS = (
    select(func.count()).select_from(t.layer).where(t.layer.c.dataset_id == bindparam("dataset"))
)
_SPACES = (
    select(t.space.c.embed_sig, t.space.c.dimension, func.sum(t.derivation.c.vectors))
    .select_from(t.document)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .join(
        t.space,
        and_(
            t.space.c.dataset_id == t.document.c.dataset_id,
            t.space.c.embed_sig == t.derivation.c.embed_sig,
        ),
    )
    .where(t.document.c.dataset_id == bindparam("dataset"), t.derivation.c.vectors > 0)
    .group_by(t.space.c.id)
    .order_by(t.space.c.embed_sig)
)


def read_stats(
    session: Session, dataset_id: str, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    """See `StatsReader.stats`."""
    dataset = find_dataset(session, dataset_id)
    if dataset is None or not dataset.live:
        return None
    counts = session.one(_COUNTS, dataset=dataset.id, chunker=chunker_sig, embed=embed_sig)
    layers = session.one(_LAYERS, dataset=dataset.id)
    spaces = session.all(_SPACES, dataset=dataset.id)
    assert counts is not None
    assert layers is not None
    documents, chunks, vectors, stale, size = counts
    return DatasetStats(
        dataset_id=dataset_id,
        documents=documents,
        chunks=chunks,
        vectors=vectors,
        layers=layers[0],
        stale=stale,
        size=size,
        config=dataset.config,
        spaces=tuple(
            EmbeddingSpace(embed_sig=sig, dimension=dimension, vectors=count)
            for sig, dimension, count in spaces
        ),
    )
