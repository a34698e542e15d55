"""Vectors in the truth, keyed by dataset, space and digest of the text; what waits for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from triptych.contracts import rules
from triptych.errors import ValidationError
from triptych.records import AnySpace, AnyVector, SpaceKind, Vector
from triptych.records.spaces import CODECS, dense
from triptych_backends.index.change_log import Rows
from triptych_backends.sql.deferred import (
    bindparam,
    delete,
    exists,
    func,
    in_list,
    insert,
    or_,
    select,
    tables as t,
    update,
)
from triptych_backends.sql.errors import corrupt, damaged_chunk
from triptych_backends.sql.transaction import Dataset, Reader, Session, Transaction

_SPACE = select(t.space.c.id, t.space.c.dimension).where(
    t.space.c.dataset_id == bindparam("pk"),
    t.space.c.kind == bindparam("kind"),
    t.space.c.sig == bindparam("sig"),
)
_ADD_SPACE = insert(t.space)
_SET_WIDTH = (
    update(t.space).where(t.space.c.id == bindparam("which")).values(dimension=bindparam("width"))
)
_IDS = select(t.vector.c.digest, t.vector.c.id).where(
    t.vector.c.space_id == bindparam("space"), in_list(t.vector.c.digest, "digests")
)
_ADD = insert(t.vector)
_KNOWN = (
    select(t.vector.c.digest, t.vector.c.data, t.space.c.dimension)
    .join(t.space, t.space.c.id == t.vector.c.space_id)
    .join(t.dataset, t.dataset.c.id == t.space.c.dataset_id)
    .where(
        t.dataset.c.name == bindparam("dataset"),
        t.space.c.kind == bindparam("kind"),
        t.space.c.sig == bindparam("sig"),
        in_list(t.vector.c.digest, "digests"),
    )
)
_COLLECT = delete(t.vector).where(
    in_list(t.vector.c.id, "ids"),
    ~exists().where(t.chunk.c.vector_id == t.vector.c.id),
    ~exists().where(t.layer.c.vector_id == t.vector.c.id),
    ~exists().where(t.vector_use.c.vector_id == t.vector.c.id),
)


_FLOATS = np.dtype("<f4")


def decode_vector(data: bytes, dimension: int, where: str) -> Vector:
    """The stored ``data`` as a read-only array of shape (dimension,).

    Raises:
        CorruptStoreError: it has another width.
    """
    if len(data) != 4 * dimension:
        raise corrupt(where, f"a vector has {len(data)} bytes where {4 * dimension} belong")
    return np.frombuffer(data, _FLOATS)


def decode_vectors(rows: Sequence[tuple[int, bytes]], where: str) -> Rows:
    """Stored vectors of one space, given as (id, data), as one array.

    Raises:
        CorruptStoreError: they are not all of one width.
    """
    keys = [key for key, _ in rows]
    width = len(rows[0][1]) if rows else 0
    joined = b"".join([data for _, data in rows])
    if width % 4 or len(joined) != width * len(rows):
        raise corrupt(where, "vectors of one embedding space differ in width")
    flat = np.frombuffer(joined, _FLOATS)
    return Rows(keys, flat.reshape(len(rows), width // 4))


def decode_further(kind: SpaceKind, data: bytes, where: str) -> Any:
    """The stored vector of a kind that is not dense.

    Raises:
        CorruptStoreError: it is damaged.
    """
    try:
        return CODECS[kind].from_bytes(data)
    except (ValueError, ValidationError) as error:
        raise damaged_chunk(where, error) from error


def known_vectors(
    session: Session, dataset: str, space: AnySpace, digests: Sequence[str], where: str
) -> Mapping[str, Any]:
    """The vectors of ``dataset`` in ``space`` under those of ``digests`` that have one."""
    rows = session.all(
        _KNOWN, dataset=dataset, kind=space.kind, sig=space.sig, digests=list(digests)
    )
    if space.kind != "dense":
        return {digest: decode_further(space.kind, data, where) for digest, data, _ in rows}
    return {digest: decode_vector(data, width, where) for digest, data, width in rows}


def store_vectors(
    tx: Transaction, dataset: int, space: AnySpace, vectors: Mapping[str, AnyVector]
) -> Mapping[str, int]:
    """Row ids for ``vectors`` by digest; a digest that is stored keeps its vector.

    Raises:
        ModelMismatchError: a vector is not as wide as the space's others.
    """
    if not vectors:
        return {}
    row = tx.one(_SPACE, pk=dataset, kind=space.kind, sig=space.sig)
    width = row[1] if row else 0
    if space.kind == "dense":
        widths = {space.sig: width} if width else {}
        arrays: list[Any] = [(space.sig, vector) for vector in vectors.values()]
        width = rules.check_widths(widths, arrays).get(space.sig, 0)
    if row is None:
        row = (tx.ticks(1), width)
        tx.run_many(_ADD_SPACE, [(row[0], dataset, space.kind, space.sig, width)])
    elif row[1] != width:
        tx.run(_SET_WIDTH, which=row[0], width=width)
    space_id = row[0]
    ids: dict[str, int] = dict(tx.all(_IDS, space=space_id, digests=list(vectors)))
    missing = [digest for digest in vectors if digest not in ids]
    first = tx.ticks(len(missing))
    rows = [
        (pk, space_id, digest, _encoded(space.kind, vectors[digest]))
        for pk, digest in enumerate(missing, first)
    ]
    ids.update((digest, pk) for pk, _, digest, _ in rows)
    tx.run_many(_ADD, rows)
    return ids


def _encoded(kind: SpaceKind, vector: Any) -> bytes:
    if kind != "dense":
        return bytes(vector.to_bytes())
    return np.asarray(vector, _FLOATS).tobytes()


def space_of(session: Session, dataset: int, space: AnySpace) -> int:
    """The row id of a space; 0, which no row of any table has, where there is none."""
    row = session.one(_SPACE, pk=dataset, kind=space.kind, sig=space.sig)
    return 0 if row is None else int(row[0])


def vector_ids(session: Session, space: int, digests: Sequence[str]) -> Mapping[str, int]:
    """The row ids of the vectors in ``space`` under those of ``digests`` that have one."""
    return dict(session.all(_IDS, space=space, digests=list(digests)))


def delete_unreferenced_vectors(tx: Transaction, vectors: Iterable[int]) -> None:
    """Remove those of ``vectors`` that nothing needs any more."""
    ids = sorted(set(vectors))
    if ids:
        tx.run(_COLLECT, ids=list(ids))


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


def count_waiting(session: Reader, datasets: Iterable[Dataset], space: AnySpace) -> int:
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
            {digest: vector for digest in digests if (vector := vectors.get(digest)) is not None},
        )
        others = sorted(digests - ids.keys())
        if others and space:
            ids = {**ids, **vector_ids(tx, space, others)}
        # A text without a vector on purpose lacks none.
        known = ids.keys() | vectors.keys()
        left = {document for document, _, digest, _ in bare if digest not in known}
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
                tx.revise()
        stamps = [
            (serving if document not in left else "", more[document], document)
            for document in waiting
            if document not in left or document in touched
        ]
        tx.run_many(_STAMP, stamps)
        delete_unreferenced_vectors(tx, {old for _, _, _, old in given if old is not None})
    return sorted(name for name, sig in sets.values() if sig == serving)
