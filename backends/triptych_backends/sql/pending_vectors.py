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
# One statement for all chunks of a write: a server may be a network away.
_CHUNKS = select(
    t.chunk.c.document_id,
    t.chunk.c.position,
    t.chunk.c.id,
    t.chunk.c.input_sig,
    t.chunk.c.vector_id,
).where(
    in_list(t.chunk.c.document_id, "documents"),
    t.chunk.c.position >= bindparam("first"),
    t.chunk.c.position <= bindparam("last"),
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
    select(t.chunk.c.document_id, func.count(), func.count(t.space.c.id))
    .select_from(t.chunk)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id, isouter=True)
    .join(
        t.space,
        (t.space.c.id == t.vector.c.space_id) & (t.space.c.embed_sig == bindparam("space")),
        isouter=True,
    )
    .where(in_list(t.chunk.c.document_id, "documents"))
    .group_by(t.chunk.c.document_id)
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
    if not sets:
        return
    wanted = {
        (sets[each.doc_name][0], each.index): each for each in vectors if each.doc_name in sets
    }
    places = [index for _, index in wanted]
    rows = tx.all(
        _CHUNKS,
        documents=[document for document, _ in sets.values()],
        first=min(places),
        last=max(places),
    )
    found = [
        (chunk, old, each)
        for document, index, chunk, input_sig, old in rows
        if (each := wanted.get((document, index))) is not None and each.input_sig == input_sig
    ]
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
    waits = []
    for name in dict.fromkeys(each.doc_name for _, _, each in found):
        document, sig = sets[name]
        space = sig.embed_sig if sig.embed_sig == embed_sig else ""
        if more[name] or space != sig.embed_sig:
            waits.append((space, more[name], document))
            tx.revise(dataset.id)
    tx.run_many(_WAIT, waits)
    delete_unreferenced_vectors(tx, before)


def complete_sets(tx: Transaction, dataset: Dataset, complete: Sequence[CompleteSet]) -> list[str]:
    """End the waiting of those sets that have all their vectors; their names, ordered."""
    sets = {row[0]: row[1:] for row in _rows(tx, dataset, [each.doc_name for each in complete])}
    complete = [each for each in complete if each.doc_name in sets]
    missing = {
        (document, space): chunks - held
        for space in sorted({each.sig.embed_sig for each in complete})
        for document, chunks, held in tx.all(
            _MISSING, documents=[row[0] for row in sets.values()], space=space
        )
    }
    ended: dict[int, str] = {}
    done = set()
    for each in complete:
        document, version, *columns = sets[each.doc_name]
        space, stored = each.sig.embed_sig, sig_of(columns)
        lacks = missing.get((document, space), 0)
        if not rules.can_complete(stored, version, each, missing=lacks):
            continue
        done.add(each.doc_name)
        if stored.embed_sig != space:
            ended[document] = space
            # Only now does the index read the vectors: each document's once, and all of them.
            tx.log(dataset.id, "chunk", document)
    tx.run_many(_END, [(space, document) for document, space in ended.items()])
    return sorted(done)


def _rows(tx: Transaction, dataset: Dataset, names: Sequence[str]) -> list[tuple[Any, ...]]:
    return tx.all(_SETS, dataset=dataset.id, names=list(names)) if names else []
