"""Vectors of chunk sets that are not dense, by the digest of their text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from triptych.records import AnySpace, AnyVector, StoredSpace, VectorSpace
from triptych_backends.sql.deferred import (
    bindparam,
    delete,
    func,
    in_list,
    insert,
    select,
    tables as t,
)
from triptych_backends.sql.transaction import Dataset, Session, Transaction
from triptych_backends.sql.vectors import (
    delete_unreferenced_vectors,
    space_of,
    store_vectors,
    vector_ids,
)

_AT_ONCE = 256

_use = t.vector_use.c
_SPACES = select(t.space.c.id, t.space.c.kind, t.space.c.sig).where(
    t.space.c.dataset_id == bindparam("pk"), t.space.c.kind != "dense"
)
_USES = select(_use.space_id, _use.owner, _use.vector_id).where(
    _use.space_id == bindparam("space"), in_list(_use.owner, "owners")
)
_ADD_USE = insert(t.vector_use)
_DROP_USE = delete(t.vector_use).where(
    _use.space_id == bindparam("space"),
    _use.owner == bindparam("who"),
    _use.vector_id == bindparam("which"),
)
_WAITING = select(t.waiting.c.document_id).where(in_list(t.waiting.c.document_id, "documents"))
_WAIT = insert(t.waiting)
_END_WAIT = delete(t.waiting).where(in_list(t.waiting.c.document_id, "documents"))
_ALL_SETS = select(t.derivation.c.document_id).where(t.derivation.c.dataset_id == bindparam("pk"))
_SETS = (
    select(t.document.c.name, t.document.c.id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.document.c.dataset_id == bindparam("pk"), in_list(t.document.c.name, "names"))
)
_TEXTS = (
    select(t.chunk.c.document_id, t.chunk.c.input_sig)
    .where(in_list(t.chunk.c.document_id, "owners"))
    .distinct()
)
_COUNTS = (
    select(t.space.c.kind, t.space.c.sig, func.count(), func.sum(func.length(t.vector.c.data)))
    .join(t.vector, t.vector.c.space_id == t.space.c.id)
    .where(t.space.c.dataset_id == bindparam("pk"), t.space.c.kind != "dense")
    .group_by(t.space.c.kind, t.space.c.sig)
    .order_by(t.space.c.kind, t.space.c.sig)
)


def bind_sets(
    tx: Transaction,
    dataset: Dataset,
    texts: Mapping[int, Collection[str]],
    *,
    keeps_old: bool = False,
) -> set[int]:
    """Give chunk sets, by the ids of their documents, the vectors of ``texts``, and no others;
    those that wait no longer and did before.

    ``keeps_old`` says that the sets are those they were: vectors of another space stay until a set
    has all of the one that serves.
    """
    if not texts or not dataset.has_further:
        return set()
    whole = _bind(tx, dataset, texts, keeps_old=keeps_old)
    waited = {row[0] for row in tx.all(_WAITING, documents=list(texts))}
    ended = waited & whole
    if ended:
        tx.run(_END_WAIT, documents=sorted(ended))
    tx.run_many(_WAIT, [(one, dataset.id) for one in sorted(texts.keys() - whole - waited)])
    return ended


def _bind(
    tx: Transaction, dataset: Dataset, texts: Mapping[int, Collection[str]], *, keeps_old: bool
) -> set[int]:
    """The documents that have all vectors of the space that serves."""
    serving = dataset.further
    wants = {document: set(some) - {""} for document, some in texts.items()}
    wanted = sorted({digest for some in wants.values() for digest in some})
    whole = {document for document, some in wants.items() if not (serving and some)}
    before: set[tuple[int, int, int]] = set()
    after: set[tuple[int, int, int]] = set()
    old: set[tuple[int, int, int]] = set()
    for space, kind, sig in tx.all(_SPACES, pk=dataset.id):
        uses = set(tx.all(_USES, space=space, owners=list(texts)))
        before |= uses
        if VectorSpace(kind, sig) != serving:
            old |= uses
            continue
        found = vector_ids(tx, space, wanted) if wanted else {}
        after |= {
            (space, document, found[digest])
            for document, some in wants.items()
            for digest in some
            if digest in found
        }
        whole |= {document for document, some in wants.items() if found.keys() >= some}
    if keeps_old:
        after |= {use for use in old if not serving or use[1] not in whole}
    tx.run_many(_ADD_USE, sorted(after - before))
    _drop(tx, before - after)
    return whole


def bind_all(tx: Transaction, dataset: Dataset) -> None:
    """`bind_sets` for every set of a dataset whose vectors are of another space now."""
    documents = [row[0] for row in tx.all(_ALL_SETS, pk=dataset.id)]
    for at in range(0, len(documents), _AT_ONCE):
        texts = _texts(tx, documents[at : at + _AT_ONCE])
        bind_sets(tx, dataset, texts, keeps_old=True)


def forget_uses(tx: Transaction, dataset: int, documents: Sequence[int]) -> None:
    """Remove the vectors that only these sets have, and that they wait; before they go."""
    if not documents:
        return
    for space, _, _ in tx.all(_SPACES, pk=dataset):
        _drop(tx, tx.all(_USES, space=space, owners=list(documents)))
    tx.run(_END_WAIT, documents=list(documents))


def _drop(tx: Transaction, uses: Iterable[tuple[int, ...]]) -> None:
    gone = sorted(uses)
    if gone:
        tx.run_many(_DROP_USE, gone)
        delete_unreferenced_vectors(tx, [vector for _, _, vector in gone])


def _texts(tx: Transaction, documents: Sequence[int]) -> dict[int, set[str]]:
    """The digests of sets' texts; "" is that of a chunk without one."""
    texts: dict[int, set[str]] = {document: set() for document in documents}
    for document, digest in tx.all(_TEXTS, owners=list(documents)):
        texts[document].add(digest)
    return texts


def put_further(
    tx: Transaction,
    dataset: Dataset,
    space: AnySpace,
    names: Sequence[str],
    vectors: Mapping[str, AnyVector],
) -> list[str]:
    """See `VectorRepo.put_vectors`, of a space that is not dense."""
    found = tx.all(_SETS, pk=dataset.id, names=list(dict.fromkeys(names)))
    sets = {document: name for name, document in found}
    texts = _texts(tx, list(sets))
    wanted = sorted({digest for some in texts.values() for digest in some} - {""})
    new = {digest: vectors[digest] for digest in wanted if digest in vectors}
    store_vectors(tx, dataset.id, space, new)
    for document in sorted(bind_sets(tx, dataset, texts, keeps_old=True)):
        # Only now does the index read the vectors: each document's once, and all of them.
        tx.log(dataset.id, "chunk", document)
    pk = space_of(tx, dataset.id, space)
    known = {"", *(vector_ids(tx, pk, wanted) if pk and wanted else ())}
    return sorted(name for document, name in sets.items() if texts[document] <= known)


def further_spaces(session: Session, dataset: Dataset) -> list[StoredSpace]:
    """See `VectorRepo.further_spaces`."""
    return [
        StoredSpace(kind=kind, sig=sig, vectors=int(count), size=int(size))
        for kind, sig, count, size in session.all(_COUNTS, pk=dataset.id)
    ]
