"""Sparse vectors by dataset, encoder and digest of the text; and what waits."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from triptych.errors import ValidationError
from triptych.records import SpaceCount, SparseVector
from triptych.records.spaces import sparse
from triptych_backends.sql.deferred import (
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    tables as t,
)
from triptych_backends.sql.dialect import Upsert, in_list
from triptych_backends.sql.errors import damaged_chunk
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Dataset, Transaction

__all__ = [
    "add_sparse_vectors",
    "bind_all_sparse",
    "bind_sparse",
    "count_sparse_pending",
    "decode_sparse",
    "forget_sparse",
    "known_sparse_vectors",
    "sparse_pending_names",
    "sparse_spaces",
]

_AT_ONCE = 256

_SPACE = select(t.sparse_space.c.id).where(
    t.sparse_space.c.dataset_id == bindparam("pk"), t.sparse_space.c.sparse_sig == bindparam("of")
)
_ADD_SPACE = insert(t.sparse_space)
_IDS = select(t.sparse_vector.c.digest, t.sparse_vector.c.id).where(
    t.sparse_vector.c.space_id == bindparam("space"),
    in_list(t.sparse_vector.c.digest, "digests"),
)
_ADD = insert(t.sparse_vector)
_TEXTS = (
    select(t.chunk.c.document_id, t.chunk.c.input_sig)
    .where(in_list(t.chunk.c.document_id, "documents"), t.chunk.c.input_sig != "")
    .distinct()
)
_USES = select(t.sparse_use.c.document_id, t.sparse_use.c.vector_id).where(
    in_list(t.sparse_use.c.document_id, "documents")
)
_ADD_USE = insert(t.sparse_use)
_DROP_USE = delete(t.sparse_use).where(
    t.sparse_use.c.document_id == bindparam("document"),
    t.sparse_use.c.vector_id == bindparam("which"),
)
_COLLECT = delete(t.sparse_vector).where(
    in_list(t.sparse_vector.c.id, "ids"),
    ~exists().where(t.sparse_use.c.vector_id == t.sparse_vector.c.id),
)
_WAITING = select(t.sparse_pending.c.document_id).where(
    in_list(t.sparse_pending.c.document_id, "documents")
)
_WAIT = Upsert(t.sparse_pending, ("document_id",))
_END_WAIT = delete(t.sparse_pending).where(in_list(t.sparse_pending.c.document_id, "documents"))
_SETS = select(t.derivation.c.document_id).where(t.derivation.c.dataset_id == bindparam("pk"))
_NAMED = (
    select(t.document.c.name, t.document.c.id)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.document.c.dataset_id == bindparam("pk"), in_list(t.document.c.name, "names"))
    .order_by(t.document.c.name)
)
_KNOWN = (
    select(t.sparse_vector.c.digest, t.sparse_vector.c.data)
    .join(t.sparse_space, t.sparse_space.c.id == t.sparse_vector.c.space_id)
    .join(t.dataset, t.dataset.c.id == t.sparse_space.c.dataset_id)
    .where(
        t.dataset.c.name == bindparam("dataset"),
        t.sparse_space.c.sparse_sig == bindparam("of"),
        in_list(t.sparse_vector.c.digest, "digests"),
    )
)
_COUNT = (
    select(func.count())
    .select_from(t.sparse_pending)
    .where(t.sparse_pending.c.dataset_id == bindparam("pk"))
)
_NAMES = (
    select(t.document.c.name)
    .join(t.sparse_pending, t.sparse_pending.c.document_id == t.document.c.id)
    .where(t.sparse_pending.c.dataset_id == bindparam("pk"))
    .order_by(t.document.c.name)
)
_COUNT_ALL = (
    select(func.count())
    .select_from(t.derivation)
    .where(t.derivation.c.dataset_id == bindparam("pk"), t.derivation.c.chunks > 0)
)
_ALL_NAMES = (
    select(t.document.c.name)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(t.derivation.c.dataset_id == bindparam("pk"), t.derivation.c.chunks > 0)
    .order_by(t.document.c.name)
)
# By the documents' names: of many that wait, few are asked for.
_AMONG = (
    t.document.c.dataset_id == bindparam("pk"),
    in_list(t.document.c.name, "names"),
)
_NAMES_AMONG = (
    select(t.document.c.name)
    .join(t.sparse_pending, t.sparse_pending.c.document_id == t.document.c.id)
    .where(*_AMONG)
    .order_by(t.document.c.name)
)
_ALL_NAMES_AMONG = (
    select(t.document.c.name)
    .join(t.derivation, t.derivation.c.document_id == t.document.c.id)
    .where(*_AMONG, t.derivation.c.chunks > 0)
    .order_by(t.document.c.name)
)
_SPACES = (
    select(
        t.sparse_space.c.sparse_sig,
        func.count(),
        func.coalesce(func.sum(func.length(t.sparse_vector.c.data)), 0),
    )
    .join(t.sparse_vector, t.sparse_vector.c.space_id == t.sparse_space.c.id)
    .where(t.sparse_space.c.dataset_id == bindparam("pk"))
    .group_by(t.sparse_space.c.sparse_sig)
    .order_by(t.sparse_space.c.sparse_sig)
)


def decode_sparse(data: bytes, where: str) -> SparseVector:
    """The stored vector.

    Raises:
        CorruptStoreError: it is damaged.
    """
    try:
        return SparseVector.from_bytes(data)
    except (ValueError, ValidationError) as error:
        raise damaged_chunk(where, error) from error


def bind_sparse(
    tx: Transaction,
    dataset: Dataset,
    documents: Collection[int],
    new: Mapping[str, SparseVector] | None = None,
    *,
    keeps_old: bool = False,
) -> set[int]:
    """Give the sets of documents the vectors that are known or ``new``; those that wait no longer
    and did before.

    ``keeps_old`` says that the sets are those they were: vectors of another encoder stay until a
    set has all of this one.
    """
    some = list(documents)
    texts: dict[int, set[str]] = {document: set() for document in some}
    encoder = dataset.sparse_sig or ""
    if encoder:
        for document, digest in tx.all(_TEXTS, documents=some):
            texts[document].add(digest)
    ids = _stored(tx, dataset, encoder, set().union(*texts.values()), new or {})
    before: dict[int, set[int]] = {}
    for document, vector in tx.all(_USES, documents=some):
        before.setdefault(document, set()).add(vector)
    waited = {row[0] for row in tx.all(_WAITING, documents=some)}
    whole: list[int] = []
    added: list[tuple[int, int]] = []
    dropped: list[tuple[int, int]] = []
    for document, digests in texts.items():
        found = {ids[digest] for digest in digests if digest in ids}
        had = before.get(document, set())
        added += [(document, vector) for vector in sorted(found - had)]
        is_whole = len(digests) == sum(digest in ids for digest in digests)
        if is_whole:
            whole.append(document)
        if not keeps_old or (is_whole and encoder):
            dropped += [(document, vector) for vector in sorted(had - found)]
    tx.run_many(_ADD_USE, added)
    if dropped:
        tx.run_many(_DROP_USE, dropped)
        _collect(tx, {vector for _, vector in dropped})
    if ended := waited.intersection(whole):
        tx.run(_END_WAIT, documents=sorted(ended))
    lacking = set(texts).difference(whole, waited)
    tx.run_many(_WAIT, [(document, dataset.id) for document in sorted(lacking)])
    return ended


def bind_all_sparse(tx: Transaction, dataset: Dataset) -> None:
    """`bind_sparse` for every set of a dataset that was given another encoder."""
    documents = [row[0] for row in tx.all(_SETS, pk=dataset.id)]
    for at in range(0, len(documents), _AT_ONCE):
        bind_sparse(tx, dataset, documents[at : at + _AT_ONCE], keeps_old=True)


def _stored(
    tx: Transaction,
    dataset: Dataset,
    encoder: str,
    wanted: Collection[str],
    new: Mapping[str, SparseVector],
) -> dict[str, int]:
    """Row ids of the vectors under those of ``wanted`` that have one, once ``new`` is stored."""
    if not wanted:
        return {}
    row = tx.one(_SPACE, pk=dataset.id, of=encoder)
    ids: dict[str, int] = {}
    if row is not None:
        ids = dict(tx.all(_IDS, space=row[0], digests=list(wanted)))
    missing = sorted(digest for digest in wanted if digest in new and digest not in ids)
    if not missing:
        return ids
    if row is None:
        row = (tx.ticks(1),)
        tx.run_many(_ADD_SPACE, [(row[0], dataset.id, encoder)])
    first = tx.ticks(len(missing))
    rows = [
        (pk, row[0], digest, new[digest].to_bytes()) for pk, digest in enumerate(missing, first)
    ]
    tx.run_many(_ADD, rows)
    ids.update((digest, pk) for pk, _, digest, _ in rows)
    return ids


def forget_sparse(tx: Transaction, document: int) -> None:
    """Remove what a document's set needed of sparse vectors, and that it waits: before the set."""
    uses = tx.all(_USES, documents=[document])
    if uses:
        tx.run_many(_DROP_USE, uses)
        _collect(tx, {vector for _, vector in uses})
    tx.run(_END_WAIT, documents=[document])


def _collect(tx: Transaction, vectors: Iterable[int]) -> None:
    tx.run(_COLLECT, ids=sorted(vectors))


def add_sparse_vectors(
    tx: Transaction,
    dataset: Dataset,
    doc_names: Sequence[str],
    vectors: Mapping[str, SparseVector],
) -> list[str]:
    """See `VectorRepo.put_vectors`."""
    found = tx.all(_NAMED, pk=dataset.id, names=list(set(doc_names)))
    documents = [document for _, document in found]
    if not documents:
        return []
    for document in sorted(bind_sparse(tx, dataset, documents, vectors, keeps_old=True)):
        # Only now does the index read the vectors: each document's once, and all of them.
        tx.log(dataset.id, "chunk", document)
    waiting = {row[0] for row in tx.all(_WAITING, documents=documents)}
    return [name for name, document in found if document not in waiting]


def known_sparse_vectors(
    session: Session, dataset: str, sparse_sig: str, digests: Sequence[str], where: str
) -> Mapping[str, SparseVector]:
    """See `VectorRepo.known_vectors`."""
    rows = session.all(_KNOWN, dataset=dataset, of=sparse_sig, digests=list(digests))
    return {digest: decode_sparse(data, where) for digest, data in rows}


def sparse_pending_names(
    session: Session,
    dataset: Dataset,
    sparse_sig: str,
    doc_names: Collection[str] | None,
) -> list[str]:
    """See `VectorRepo.waiting`."""
    is_current = dataset.sparse_sig == sparse_sig
    if doc_names is None:
        rows = session.all(_NAMES if is_current else _ALL_NAMES, pk=dataset.id)
    else:
        among = _NAMES_AMONG if is_current else _ALL_NAMES_AMONG
        rows = session.all(among, pk=dataset.id, names=list(doc_names))
    return [row[0] for row in rows]


def count_sparse_pending(session: Session, datasets: Iterable[Dataset], sparse_sig: str) -> int:
    """See `VectorRepo.count_waiting`."""
    if not sparse_sig:
        return 0
    rows = [
        session.one(_COUNT if dataset.sparse_sig == sparse_sig else _COUNT_ALL, pk=dataset.id)
        for dataset in datasets
    ]
    return sum(row[0] for row in rows if row is not None)


def sparse_spaces(session: Session, dataset: Dataset | None) -> list[SpaceCount]:
    """See `VectorRepo.vector_spaces`."""
    if dataset is None:
        return []
    return [
        SpaceCount(space=sparse(sig), vectors=count, size=size)
        for sig, count, size in session.all(_SPACES, pk=dataset.id)
    ]
