"""Vectors that chunks get after they are stored (`VectorRepo.put_vectors`), and what waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from triptych.records import Vector
from triptych_backends.sql.deferred import bindparam, func, or_, select, tables as t, update
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Dataset, Transaction
from triptych_backends.sql.vectors import (
    delete_unreferenced_vectors,
    space_of,
    store_vectors,
    vector_ids,
)

__all__ = ["count_pending", "give_vectors", "pending_names"]

_SETS = (
    select(t.document.c.id, t.document.c.name, t.derivation.c.embed_sig)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.document.c.dataset_id == bindparam("dataset"), in_list(t.document.c.name, "names"))
)
# One statement for all chunks of a write: a server may be a network away.
_BARE = (
    select(t.chunk.c.document_id, t.chunk.c.id, t.chunk.c.input_sig, t.chunk.c.vector_id)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id, isouter=True)
    .where(
        in_list(t.chunk.c.document_id, "documents"),
        or_(t.chunk.c.vector_id.is_(None), t.vector.c.space_id != bindparam("space")),
    )
)
_GIVE = (
    update(t.chunk).where(t.chunk.c.id == bindparam("chunk")).values(vector_id=bindparam("given"))
)
_STAMP = (
    update(t.derivation)
    .where(t.derivation.c.document_id == bindparam("document"))
    .values(vectors=t.derivation.c.vectors + bindparam("more"), embed_sig=bindparam("space"))
)
# Two ranges of an index rather than an inequality, which would read all of the dataset.
_LACKING = (
    t.derivation.c.dataset_id == bindparam("pk"),
    or_(
        t.derivation.c.embed_sig < bindparam("space"), t.derivation.c.embed_sig > bindparam("space")
    ),
    t.derivation.c.chunks > 0,
)
_SETS_AMONG = (
    select(t.document.c.name, t.derivation.c.embed_sig, t.derivation.c.chunks)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.document.c.dataset_id == bindparam("dataset"), in_list(t.document.c.name, "names"))
)
_COUNT = select(func.count()).select_from(t.derivation).where(*_LACKING)
_NAMES = (
    select(t.document.c.name)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(*_LACKING)
    .order_by(t.document.c.name)
)


def pending_names(
    session: Session, dataset: Dataset, embed_sig: str, names: Collection[str] | None
) -> list[str]:
    """The documents with a set that is not of ``embed_sig``, ordered; of ``names``, or of all."""
    if names is not None:
        rows = session.all(_SETS_AMONG, dataset=dataset.id, names=list(names))
        return sorted(name for name, sig, chunks in rows if chunks and sig != embed_sig)
    return [row[0] for row in session.all(_NAMES, pk=dataset.id, space=embed_sig)]


def count_pending(session: Session, datasets: Iterable[Dataset], embed_sig: str) -> int:
    """How many documents of all ``datasets`` have such a set."""
    if not embed_sig:
        return 0
    rows = (session.one(_COUNT, pk=dataset.id, space=embed_sig) for dataset in datasets)
    return sum(row[0] for row in rows if row is not None)


def give_vectors(
    tx: Transaction, dataset: Dataset, names: Sequence[str], vectors: Mapping[str, Vector | None]
) -> list[str]:
    """Give the sets of ``names`` the vectors of the space that serves, ``vectors`` or known ones;
    the names of those that wait no longer, ordered."""
    serving = dataset.embed_sig or ""
    sets = {
        document: (name, sig)
        for document, name, sig in tx.all(_SETS, dataset=dataset.id, names=list(set(names)))
    }
    waiting = [document for document, (_, sig) in sets.items() if sig != serving]
    if waiting:
        space = space_of(tx, dataset.id, serving)
        bare = tx.all(_BARE, documents=waiting, space=space)
        digests = {digest for _, _, digest, _ in bare} - {""}
        ids = store_vectors(
            tx,
            dataset.id,
            serving,
            {digest: vectors[digest] for digest in digests if vectors.get(digest) is not None},
        )
        others = sorted(digests - ids.keys())
        if others and space:
            ids = {**ids, **vector_ids(tx, space, others)}
        # A text without a vector on purpose lacks none.
        left = {document for document, _, digest, _ in bare if digest not in {*ids, *vectors}}
        given = [row for row in bare if row[2] in ids]
        tx.run_many(_GIVE, [(ids[digest], chunk) for _, chunk, digest, _ in given])
        more = Counter(document for document, _, _, old in given if old is None)
        touched = {document for document, _, _, _ in given}
        for document in waiting:
            if document not in left:
                sets[document] = (sets[document][0], serving)
                # Only now does the index read the vectors: each document's once, and all of them.
                tx.log(dataset.id, "chunk", document)
            elif document in touched:
                tx.revise(dataset.id)
        stamps = [
            (serving if document not in left else "", more[document], document)
            for document in waiting
            if document not in left or document in touched
        ]
        tx.run_many(_STAMP, stamps)
        delete_unreferenced_vectors(tx, {old for _, _, _, old in given if old is not None})
    return sorted(name for name, sig in sets.values() if sig == serving)
