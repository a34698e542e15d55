"""What waits for vectors, and the vectors that chunks get in the dense space that serves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from triptych.records import AnySpace, Vector
from triptych.records.spaces import dense
from triptych_backends.sql.deferred import bindparam, func, or_, select, tables as t, update
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Dataset, Transaction
from triptych_backends.sql.vector_uses import lacking_names
from triptych_backends.sql.vectors import (
    delete_unreferenced_vectors,
    space_of,
    store_vectors,
    vector_ids,
)

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
    or_(t.derivation.c.embed_sig < bindparam("sig"), t.derivation.c.embed_sig > bindparam("sig")),
    t.derivation.c.chunks > 0,
)
_WITH_CHUNKS = (t.derivation.c.dataset_id == bindparam("pk"), t.derivation.c.chunks > 0)
_COUNT_LACKING = select(func.count()).select_from(t.derivation).where(*_LACKING)
_COUNT_ALL = select(func.count()).select_from(t.derivation).where(*_WITH_CHUNKS)
_COUNT_WAITING = (
    select(func.count()).select_from(t.waiting).where(t.waiting.c.dataset_id == bindparam("pk"))
)
_LACKING_NAMES, _ALL_NAMES = (
    select(t.document.c.name)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(*conditions)
    .order_by(t.document.c.name)
    for conditions in (_LACKING, _WITH_CHUNKS)
)
_WAITING_NAMES = (
    select(t.document.c.name)
    .join(t.waiting, t.waiting.c.document_id == t.document.c.id)
    .where(t.waiting.c.dataset_id == bindparam("pk"))
    .order_by(t.document.c.name)
)
# By the documents' names: of many that wait, few are asked for.
_AMONG = (
    select(t.document.c.name, t.derivation.c.embed_sig, t.waiting.c.document_id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .join(t.waiting, t.waiting.c.document_id == t.document.c.id, isouter=True)
    .where(
        t.document.c.dataset_id == bindparam("pk"),
        in_list(t.document.c.name, "names"),
        t.derivation.c.chunks > 0,
    )
    .order_by(t.document.c.name)
)


def waiting_names(
    session: Session, dataset: Dataset, space: AnySpace, names: Collection[str] | None
) -> list[str]:
    """See `VectorRepo.waiting`."""
    serves = space.serves(dataset.config)
    if space.kind == "dense" and not serves:
        return lacking_names(session, dataset, space, names)
    if names is not None:
        rows = session.all(_AMONG, pk=dataset.id, names=list(names))
        if space.kind == "dense":
            return [name for name, sig, _ in rows if sig != space.sig]
        return [name for name, _, waits in rows if waits is not None or not serves]
    if space.kind == "dense":
        rows = session.all(_LACKING_NAMES, pk=dataset.id, sig=space.sig)
    else:
        rows = session.all(_WAITING_NAMES if serves else _ALL_NAMES, pk=dataset.id)
    return [row[0] for row in rows]


def count_waiting(session: Session, datasets: Iterable[Dataset], space: AnySpace) -> int:
    """See `VectorRepo.count_waiting`."""
    if not space.sig:
        return 0
    total = 0
    for dataset in datasets:
        if space.kind == "dense":
            found = session.one(_COUNT_LACKING, pk=dataset.id, sig=space.sig)
        else:
            serves = space.serves(dataset.config)
            found = session.one(_COUNT_WAITING if serves else _COUNT_ALL, pk=dataset.id)
        total += found[0] if found is not None else 0
    return total


def give_vectors(
    tx: Transaction, dataset: Dataset, names: Sequence[str], vectors: Mapping[str, Vector | None]
) -> list[str]:
    """Give the sets of ``names`` the vectors of the space that serves, ``vectors`` or known ones;
    the names of those that wait no longer, ordered."""
    serving = dataset.embed_sig or ""
    of = dense(serving)
    sets = {
        document: (name, sig)
        for document, name, sig in tx.all(_SETS, dataset=dataset.id, names=list(set(names)))
    }
    waiting = [document for document, (_, sig) in sets.items() if sig != serving]
    if waiting:
        space = space_of(tx, dataset.id, of)
        bare = tx.all(_BARE, documents=waiting, space=space)
        digests = {digest for _, _, digest, _ in bare} - {""}
        ids = store_vectors(
            tx,
            dataset.id,
            of,
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
