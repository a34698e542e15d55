"""Counts of a dataset, from the sets' own counters: no chunk is read."""

from __future__ import annotations

from collections import Counter

from triptych.records import DatasetStats, EmbeddingSpace
from triptych_backends.sql.deferred import and_, bindparam, case, func, or_, select, tables as t
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import find_dataset

# The rule of `DerivedSig.stale_reason`, as in filters.py; a missing set is NULL, and stale.
_FRESH = and_(
    case(
        (t.derivation.c.input_sig != "", t.derivation.c.input_sig == t.document.c.input_sig),
        else_=t.derivation.c.source_version >= t.document.c.version,
    ),
    t.derivation.c.chunker_sig == bindparam("chunker"),
    or_(bindparam("embed") == "", t.derivation.c.embed_sig.in_(("", bindparam("embed")))),
)
_COUNTS = (
    select(
        t.derivation.c.embed_sig,
        func.count(),
        func.coalesce(func.sum(t.derivation.c.chunks), 0),
        func.coalesce(func.sum(t.derivation.c.vectors), 0),
        func.coalesce(func.sum(case((_FRESH, 0), else_=1)), 0),
        func.coalesce(func.sum(t.document.c.size), 0),
        func.coalesce(func.sum(case((t.derivation.c.chunks > 0, 1), else_=0)), 0),
    )
    .select_from(t.document)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id, isouter=True)
    .where(t.document.c.dataset_id == bindparam("dataset"))
    .group_by(t.derivation.c.embed_sig)
    .order_by(t.derivation.c.embed_sig)
)
"""For each embedding space; NULL stands for documents without a set."""

_MIXED = (
    select(t.space.c.sig, func.count())
    .select_from(t.derivation)
    .join(t.chunk, t.chunk.c.document_id == t.derivation.c.document_id)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id)
    .join(t.space, t.space.c.id == t.vector.c.space_id)
    .where(t.derivation.c.dataset_id == bindparam("pk"), t.derivation.c.embed_sig == "")
    .group_by(t.space.c.sig)
)
"""The vectors of sets that wait for more, by space: the sets' own counters do not tell."""

_LAYERS = (
    select(func.count()).select_from(t.layer).where(t.layer.c.dataset_id == bindparam("dataset"))
)
_WIDTHS = select(t.space.c.sig, t.space.c.dimension).where(
    t.space.c.dataset_id == bindparam("dataset"), t.space.c.dimension > 0
)


def read_stats(
    session: Session, dataset_id: str, chunker_sig: str, embed_sig: str
) -> DatasetStats | None:
    """See `Store.stats`."""
    dataset = find_dataset(session, dataset_id)
    if dataset is None or not dataset.live:
        return None
    counts = session.all(_COUNTS, dataset=dataset.id, chunker=chunker_sig, embed=embed_sig)
    layers = session.one(_LAYERS, dataset=dataset.id)
    widths = dict(session.all(_WIDTHS, dataset=dataset.id))
    assert layers is not None
    mixed = dict(session.all(_MIXED, pk=dataset.id))
    spaces = Counter({row[0]: row[3] for row in counts if row[0]}) + Counter(mixed)
    waiting = [row for row in counts if row[0] is not None and embed_sig not in ("", row[0])]
    documents, chunks, vectors, stale, size = (
        sum(row[column] for row in counts) for column in range(1, 6)
    )
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
            EmbeddingSpace(embed_sig=sig, dimension=widths[sig], vectors=count)
            for sig, count in sorted(spaces.items())
            if sig in widths  # in a damaged store it may be missing: the doctor reports it
        ),
        pending=sum(row[6] for row in waiting),
        pending_chunks=sum(row[2] for row in waiting) - mixed.get(embed_sig, 0) * bool(waiting),
    )
