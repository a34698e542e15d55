"""Two logs of changes: of units, for a local index, and of documents, for who follows the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from triptych.text import label_of
from triptych_backends.index import Change, Field, IndexConfig, LogPosition, Rows, Unit
from triptych_backends.sql.chunk_rows import headings_of, title_in
from triptych_backends.sql.database import Database
from triptych_backends.sql.deferred import (
    and_,
    bindparam,
    exists,
    in_list,
    select,
    tables as t,
)
from triptych_backends.sql.errors import DAMAGE, corrupt
from triptych_backends.sql.transaction import LAYER_OF_FIELD, Reader, find_dataset
from triptych_backends.sql.vectors import decode_further, decode_vector, decode_vectors

if TYPE_CHECKING:
    pass

_OWNERS_AT_ONCE = 64

_NEWEST = select(t.epoch.c.mark).order_by(t.epoch.c.first.desc()).limit(1).scalar_subquery()
_HEAD = select(t.clock.c.nonce, t.clock.c.tick, _NEWEST)
EPOCH_AT = (
    select(t.epoch.c.mark)
    .where(t.epoch.c.first <= bindparam("seq"))
    .order_by(t.epoch.c.first.desc())
    .limit(1)
)
"""The mark of the epoch that a number is in."""
_OF_DATASET = t.dataset.c.name == bindparam("dataset")
_CHANGES = (
    select(t.change.c.seq, t.change.c.field, t.change.c.owner)
    .join(t.dataset, t.dataset.c.id == t.change.c.dataset_id)
    .where(_OF_DATASET, t.change.c.seq > bindparam("after"))
    .order_by(t.change.c.seq)
)
_OWNERS = (
    select(t.change.c.owner)
    .join(t.dataset, t.dataset.c.id == t.change.c.dataset_id)
    .where(_OF_DATASET, t.change.c.field == bindparam("of"), t.change.c.owner > bindparam("after"))
    .order_by(t.change.c.owner)
    .limit(bindparam("most"))
)
# Ids are unique over all datasets, so that none of these statements names one: a condition on the
# dataset's name makes SQLite begin there and walk through all of it.
# A vector serves only while its space is the one the dataset is configured for.
_CURRENT_SPACE = and_(t.space.c.id == t.vector.c.space_id, t.space.c.sig == t.dataset.c.embed_sig)
_CHUNKS = (
    select(
        t.chunk.c.document_id,
        t.chunk.c.id,
        t.document.c.name,
        t.chunk.c.position,
        t.chunk.c.content,
        t.chunk.c.heading_path,
        t.vector.c.data,
        t.space.c.dimension,
        t.vector.c.id,
        t.dataset.c.sparse_sig,
    )
    .join(t.document, t.document.c.id == t.chunk.c.document_id)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .join(t.vector, t.vector.c.id == t.chunk.c.vector_id, isouter=True)
    # A set that waits for vectors serves those that it was stored with; the others do not come one
    # by one: the log names the set again when it has them all.
    .join(t.space, _CURRENT_SPACE, isouter=True)
    .where(in_list(t.chunk.c.document_id, "owners"))
    .order_by(t.chunk.c.document_id, t.chunk.c.position)
)
# Of a set that waits none is served, as for vectors.
_SPARSE = (
    select(t.chunk.c.id, t.vector.c.data)
    .join(t.document, t.document.c.id == t.chunk.c.document_id)
    .join(
        t.space,
        and_(
            t.space.c.dataset_id == t.document.c.dataset_id,
            t.space.c.kind == "sparse",
            t.space.c.sig == bindparam("of"),
        ),
    )
    .join(
        t.vector,
        and_(t.vector.c.space_id == t.space.c.id, t.vector.c.digest == t.chunk.c.input_sig),
    )
    .where(
        in_list(t.chunk.c.document_id, "owners"),
        ~exists().where(t.waiting.c.document_id == t.chunk.c.document_id),
    )
)
_TITLED = select(t.document.c.id, t.document.c.metadata).where(
    in_list(t.document.c.id, "owners"), t.document.c.metadata.contains('"title"')
)
_DOCUMENTS = (
    select(t.document.c.id, t.document.c.revision, t.document.c.name, t.document.c.content)
    .where(in_list(t.document.c.id, "owners"))
    .order_by(t.document.c.id)
)
_LAYERS = (
    select(
        t.layer.c.id,
        t.layer.c.revision,
        t.layer.c.doc_name,
        t.layer.c.content,
        t.vector.c.data,
        t.space.c.dimension,
        t.vector.c.id,
    )
    .join(t.dataset, t.dataset.c.id == t.layer.c.dataset_id)
    .join(t.vector, t.vector.c.id == t.layer.c.vector_id, isouter=True)
    .join(t.space, _CURRENT_SPACE, isouter=True)
    .where(in_list(t.layer.c.id, "owners"), t.layer.c.layer == bindparam("layer"))
    .order_by(t.layer.c.id)
)
_VECTORS = select(t.vector.c.id, t.vector.c.data).where(in_list(t.vector.c.id, "keys"))
_NO_INDEX = -1


def read_head(session: Reader) -> LogPosition | None:
    """Where the log ends; None without a clock, which only a damaged database lacks."""
    row = session.one(_HEAD)
    return None if row is None else LogPosition(nonce=row[0], seq=row[1], epoch=row[2] or "")


class SqlChangeLog:
    """`triptych_backends.index.ChangeLog` over a `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self) -> LogPosition:
        """The log's name, the greatest number that was committed, and its epoch."""
        position = read_head(self._database.known)
        if position is None:
            raise corrupt(self._database.where, "the clock is missing")
        return position

    def changes(self, dataset: str, after: int) -> Sequence[Change]:
        with self._database.reading() as session:
            rows = session.all(_CHANGES, dataset=dataset, after=after)
        return [Change(seq=seq, field=field or None, owner=owner) for seq, field, owner in rows]

    def owners(self, dataset: str, field: Field, after: int, limit: int) -> Sequence[int]:
        with self._database.reading() as session:
            rows = session.all(_OWNERS, dataset=dataset, of=field, after=after, most=limit)
        return [row[0] for row in rows]

    def units(self, dataset: str, field: Field, owners: Sequence[int]) -> Iterator[Unit]:
        """See `ChangeLog.units`. No snapshot stays open between two batches."""
        for start in range(0, len(owners), _OWNERS_AT_ONCE):
            some = [int(owner) for owner in owners[start : start + _OWNERS_AT_ONCE]]
            sparse: dict[int, bytes] = {}
            titled: dict[int, str] = {}
            with self._database.reading() as session:
                if field == "chunk":
                    rows = session.all(_CHUNKS, owners=some)
                    if rows and rows[0][-1]:
                        sparse = dict(session.all(_SPARSE, owners=some, of=rows[0][-1]))
                elif field == "document":
                    rows = session.all(_DOCUMENTS, owners=some)
                else:
                    rows = session.all(_LAYERS, owners=some, layer=str(LAYER_OF_FIELD[field]))
                if field not in LAYER_OF_FIELD:
                    titled = dict(session.all(_TITLED, owners=some))
            for row in rows:
                yield self._unit(field, row, sparse, titled)

    def _unit(
        self,
        field: Field,
        row: tuple[Any, ...],
        sparse: Mapping[int, bytes],
        titled: Mapping[int, str],
    ) -> Unit:
        try:
            title = title_in(titled.get(row[0], ""))
            if field == "chunk":
                owner, key, name, index, content, headings, data, width, vector_key, _ = row
                found = sparse.get(key)
                path = headings_of(headings)
                return Unit(
                    owner=owner,
                    key=key,
                    name=name,
                    index=index,
                    text=content.decode(),
                    label=label_of(name, title, path),
                    headings=path,
                    vector=self._vector(data, width),
                    vector_key=vector_key,
                    sparse=None
                    if found is None
                    else decode_further("sparse", found, self._database.where),
                )
            owner, key, name, content, *vector = row
            return Unit(
                owner=owner,
                key=key,
                name=name,
                index=_NO_INDEX,
                text=content.decode(),
                label="" if field in LAYER_OF_FIELD else label_of(name, title),
                vector=self._vector(*vector[:2]) if vector else None,
                vector_key=vector[2] if vector else None,
            )
        except DAMAGE as error:
            raise corrupt(self._database.where, f"the text of {name!r}: {error}") from error

    def _vector(self, data: bytes | None, width: int | None) -> NDArray[np.float32] | None:
        if data is None or width is None:
            return None
        return decode_vector(data, width, self._database.where)

    def vectors(self, dataset: str, keys: Sequence[int]) -> Rows:
        """See `ChangeLog.vectors`. Ids are unique over all datasets and spaces."""
        with self._database.reading() as session:
            rows = session.all(_VECTORS, keys=list(keys))
        return decode_vectors(rows, self._database.where)

    def profile(self, dataset: str) -> IndexConfig:
        """See `ChangeLog.profile`; without a configuration: English, no vectors."""
        with self._database.reading() as session:
            found = find_dataset(session, dataset)
        config = found.config if found else None
        if config is None:
            return IndexConfig(language="english", space="")
        return IndexConfig(
            language=config.language, space=config.embed_sig, sparse=config.sparse_sig
        )

    def epoch(self, seq: int) -> str | None:
        with self._database.reading() as session:
            row = session.one(EPOCH_AT, seq=seq)
        return None if row is None else str(row[0])

    def flush(self) -> None:
        self._database.flush()
