"""Vectors that come after their chunks: `ChunkRepo.add_vectors`, and what waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from triptych import rules
from triptych.records import ChunkVector, CompleteSet
from triptych_backends.sql.chunk_rows import SIG_COLUMNS, sig_of
from triptych_backends.sql.deferred import bindparam, func, or_, select, tables as t, update
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Dataset, Transaction
from triptych_backends.sql.vectors import delete_unreferenced_vectors, store_vectors

__all__ = ["add_vectors", "complete_sets", "count_pending", "pending_names"]

_SETS = (
    select(t.document.c.name, t.document.c.id, t.document.c.version, *SIG_COLUMNS)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.document.c.dataset_id == bindparam("dataset"), in_list(t.document.c.name, "names"))
)
_CHUNK = select(t.chunk.c.id, t.chunk.c.input_sig, t.chunk.c.vector_id).where(
    t.chunk.c.document_id == bindparam("document"), t.chunk.c.position == bindparam("at")
)
_GIVE = (
    update(t.chunk).where(t.chunk.c.id == bindparam("chunk")).values(vector_id=bindparam("given"))
)
_WAIT = (
    update(t.derivation)
    .where(t.derivation.c.document_id == bindparam("document"))
    .values(vectors=t.derivation.c.vectors + bindparam("more"), embed_sig=bindparam("space"))
)
_END = (
    update(t.derivation)
    .where(t.derivation.c.document_id == bindparam("document"))
    .values(embed_sig=bindparam("space"))
)
_MISSING = (
    select(func.count(), func.count(t.space.c.id))
    .select_from(t.chunk)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id, isouter=True)
    .join(
        t.space,
        (t.space.c.id == t.vector.c.space_id) & (t.space.c.embed_sig == bindparam("space")),
        isouter=True,
    )
    .where(t.chunk.c.document_id == bindparam("document"))
)
# Two ranges of an index rather than an inequality, which would read all of the dataset.
_LACKING = (
    t.derivation.c.dataset_id == bindparam("pk"),
    or_(
        t.derivation.c.embed_sig < bindparam("space"), t.derivation.c.embed_sig > bindparam("space")
    ),
    t.derivation.c.chunks > 0,
)
_COUNT = select(func.count()).select_from(t.derivation).where(*_LACKING)
_NAMES = (
    select(t.document.c.name)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(*_LACKING)
    .order_by(t.document.c.name)
)


def pending_names(session: Session, dataset: Dataset | None, embed_sig: str) -> list[str]:
    """See `ChunkRepo.pending`."""
    if dataset is None or not embed_sig:
        return []
    return [row[0] for row in session.all(_NAMES, pk=dataset.id, space=embed_sig)]


def count_pending(session: Session, datasets: Iterable[Dataset], embed_sig: str) -> int:
    """See `ChunkRepo.count_pending`."""
    if not embed_sig:
        return 0
    rows = (session.one(_COUNT, pk=dataset.id, space=embed_sig) for dataset in datasets)
    return sum(row[0] for row in rows if row is not None)


def add_vectors(
    tx: Transaction, dataset: Dataset, embed_sig: str, vectors: Sequence[ChunkVector]
) -> None:
    """Give their vectors to those chunks that are there, of these texts, with none of the space."""
    vectors = list({(each.doc_name, each.index): each for each in vectors}.values())
    names = list(dict.fromkeys(each.doc_name for each in vectors))
    sets = {row[0]: (row[1], sig_of(row[3:])) for row in _rows(tx, dataset, names)}
    found: list[tuple[int, int | None, ChunkVector]] = []
    for each in vectors:
        if each.doc_name not in sets:
            continue
        document, _ = sets[each.doc_name]
        row = tx.one(_CHUNK, document=document, at=each.index)
        if row is not None and row[1] == each.input_sig:
            found.append((row[0], row[2], each))
    ids = store_vectors(
        tx, dataset.id, embed_sig, {each.input_sig: each.vector for _, _, each in found}
    )
    given, before = [], set()
    more = dict.fromkeys(names, 0)
    for chunk, old, each in found:
        new = ids[each.input_sig]
        if old == new:
            continue
        given.append((new, chunk))
        more[each.doc_name] += old is None
        if old is not None:
            before.add(old)
    tx.run_many(_GIVE, given)
    for name in dict.fromkeys(each.doc_name for _, _, each in found):
        document, sig = sets[name]
        space = sig.embed_sig if sig.embed_sig == embed_sig else ""
        if more[name] or space != sig.embed_sig:
            tx.run(_WAIT, document=document, more=more[name], space=space)
            tx.revise(dataset.id)
    delete_unreferenced_vectors(tx, before)


def complete_sets(tx: Transaction, dataset: Dataset, complete: Sequence[CompleteSet]) -> list[str]:
    """End the waiting of those sets that have all their vectors; their names, ordered."""
    sets = {row[0]: row[1:] for row in _rows(tx, dataset, [each.doc_name for each in complete])}
    done = set()
    for each in complete:
        if each.doc_name not in sets:
            continue
        document, version, *columns = sets[each.doc_name]
        space, stored = each.sig.embed_sig, sig_of(columns)
        counts = tx.one(_MISSING, document=document, space=space)
        assert counts is not None
        missing = counts[0] - counts[1]
        if not rules.can_complete(stored, version, each, missing=missing):
            continue
        done.add(each.doc_name)
        if stored.embed_sig != space:
            tx.run(_END, document=document, space=space)
            # Only now does the index read the vectors: each document's once, and all of them.
            tx.log(dataset.id, "chunk", document)
    return sorted(done)


def _rows(tx: Transaction, dataset: Dataset, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return tx.all(_SETS, dataset=dataset.id, names=list(names)) if names else []
