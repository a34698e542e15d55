"""Vectors in the truth, keyed by dataset, space and digest of the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from triptych.contracts import rules
from triptych.errors import ValidationError
from triptych.records import AnySpace, AnyVector, SparseVector, Vector
from triptych_backends.index.change_log import Rows
from triptych_backends.sql.deferred import (
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    tables as t,
    update,
)
from triptych_backends.sql.dialect import in_list
from triptych_backends.sql.errors import corrupt, damaged_chunk
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Transaction

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
        func.length(t.vector.c.data) > 0,
    )
)
_COLLECT = delete(t.vector).where(
    in_list(t.vector.c.id, "ids"),
    ~exists().where(t.chunk.c.vector_id == t.vector.c.id),
    ~exists().where(t.layer.c.vector_id == t.vector.c.id),
    ~exists().where(t.vector_use.c.vector_id == t.vector.c.id),
)


def decode_vector(data: bytes, dimension: int, where: str) -> Vector:
    """The stored ``data`` as a read-only array of shape (dimension,).

    Raises:
        CorruptStoreError: it has another width.
    """
    if len(data) != 4 * dimension:
        raise corrupt(where, f"a vector has {len(data)} bytes where {4 * dimension} belong")
    return np.frombuffer(data, np.dtype("<f4"))


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
    flat = np.frombuffer(joined, np.dtype("<f4"))
    return Rows(keys, flat.reshape(len(rows), width // 4))


def decode_sparse(data: bytes, where: str) -> SparseVector:
    """The stored sparse vector.

    Raises:
        CorruptStoreError: it is damaged.
    """
    try:
        return SparseVector.from_bytes(data)
    except (ValueError, ValidationError) as error:
        raise damaged_chunk(where, error) from error


def known_vectors(
    session: Session, dataset: str, space: AnySpace, digests: Sequence[str], where: str
) -> Mapping[str, Any]:
    """The vectors of ``dataset`` in ``space`` under those of ``digests`` that have one."""
    rows = session.all(
        _KNOWN, dataset=dataset, kind=space.kind, sig=space.sig, digests=list(digests)
    )
    if space.kind == "sparse":
        return {digest: decode_sparse(data, where) for digest, data, _ in rows}
    return {digest: decode_vector(data, width, where) for digest, data, width in rows}


def store_vectors(
    tx: Transaction, dataset: int, space: AnySpace, vectors: Mapping[str, AnyVector | None]
) -> Mapping[str, int]:
    """Row ids for ``vectors`` by digest; a digest that is stored keeps its vector.

    None, for a space that is kept, says that there is no vector of this text.

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
        tx.run_many(_ADD_SPACE, [(row[0], dataset, space.kind, space.sig, width, False)])
    elif row[1] != width:
        tx.run(_SET_WIDTH, which=row[0], width=width)
    space_id = row[0]
    ids: dict[str, int] = dict(tx.all(_IDS, space=space_id, digests=list(vectors)))
    missing = [digest for digest in vectors if digest not in ids]
    first = tx.ticks(len(missing))
    rows = [
        (pk, space_id, digest, _encoded(vectors[digest]))
        for pk, digest in enumerate(missing, first)
    ]
    ids.update((digest, pk) for pk, _, digest, _ in rows)
    tx.run_many(_ADD, rows)
    return ids


def _encoded(vector: AnyVector | None) -> bytes:
    if isinstance(vector, SparseVector):
        return vector.to_bytes()
    return b"" if vector is None else np.asarray(vector, "<f4").tobytes()


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
