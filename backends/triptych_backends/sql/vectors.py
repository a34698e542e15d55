"""Vectors in the truth: float32, keyed by dataset, embedding space and digest of the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from triptych import rules
from triptych.records import Vector
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
from triptych_backends.sql.errors import corrupt
from triptych_backends.sql.session import Session
from triptych_backends.sql.transaction import Transaction

__all__ = [
    "decode_vector",
    "decode_vectors",
    "delete_unreferenced_vectors",
    "known_vectors",
    "space_of",
    "store_vectors",
    "vector_ids",
]

_SPACE = select(t.space.c.id, t.space.c.dimension).where(
    t.space.c.dataset_id == bindparam("pk"), t.space.c.embed_sig == bindparam("space")
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
        t.space.c.embed_sig == bindparam("space"),
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


def known_vectors(
    session: Session, dataset: str, space: str, digests: Sequence[str], where: str
) -> Mapping[str, Vector]:
    """The vectors of ``dataset`` in ``space`` under those of ``digests`` that have one."""
    rows = session.all(_KNOWN, dataset=dataset, space=space, digests=list(digests))
    return {digest: decode_vector(data, width, where) for digest, data, width in rows}


def store_vectors(
    tx: Transaction, dataset: int, space: str, vectors: Mapping[str, Vector | None]
) -> Mapping[str, int]:
    """Row ids for ``vectors`` by digest; a digest that is stored keeps its vector.

    None, for a space that is kept, says that there is no vector of this text.

    Raises:
        ModelMismatchError: a vector is not as wide as the space's others.
    """
    if not vectors:
        return {}
    row = tx.one(_SPACE, pk=dataset, space=space)
    widths = {space: row[1]} if row and row[1] else {}
    widths = rules.check_widths(widths, ((space, vector) for vector in vectors.values()))
    width = widths.get(space, 0)
    if row is None:
        row = (tx.ticks(1), width)
        tx.run_many(_ADD_SPACE, [(row[0], dataset, space, width, False)])
    elif row[1] != width:
        tx.run(_SET_WIDTH, which=row[0], width=width)
    space_id = row[0]
    ids: dict[str, int] = dict(tx.all(_IDS, space=space_id, digests=list(vectors)))
    missing = [digest for digest in vectors if digest not in ids]
    first = tx.ticks(len(missing))
    rows = []
    for pk, digest in enumerate(missing, first):
        ids[digest] = pk
        vector = vectors[digest]
        data = b"" if vector is None else np.asarray(vector, "<f4").tobytes()
        rows.append((pk, space_id, digest, data))
    tx.run_many(_ADD, rows)
    return ids


def space_of(session: Session, dataset: int, space: str) -> int:
    """The row id of a space; 0, which no row of any table has, where there is none."""
    row = session.one(_SPACE, pk=dataset, space=space)
    return 0 if row is None else int(row[0])


def vector_ids(session: Session, space: int, digests: Sequence[str]) -> Mapping[str, int]:
    """The row ids of the vectors in ``space`` under those of ``digests`` that have one."""
    return dict(session.all(_IDS, space=space, digests=list(digests)))


def delete_unreferenced_vectors(tx: Transaction, vectors: Iterable[int]) -> None:
    """Remove those of ``vectors`` that no chunk, no layer and no kept space needs any more."""
    ids = sorted(set(vectors))
    if ids:
        tx.run(_COLLECT, ids=list(ids))
