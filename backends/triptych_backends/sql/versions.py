"""The versions that were replaced: kept with the write that replaces them, read, and cut."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Collection
from typing import Any

from triptych.records import DocumentInfo, SourceDocument
from triptych_backends.sql.deferred import (
    bindparam,
    delete,
    desc,
    in_list,
    insert,
    literal,
    select,
    tables as t,
    union_all,
)
from triptych_backends.sql.document_rows import COLUMNS, info_in
from triptych_backends.sql.document_writes import DocumentRow, Replaced, source_of, write_rows
from triptych_backends.sql.errors import corrupt
from triptych_backends.sql.transaction import Session, Transaction

_v = t.document_version.c
_CURRENT = (
    select(*COLUMNS)
    .join(t.dataset, t.dataset.c.id == t.document.c.dataset_id)
    .where(t.dataset.c.name == bindparam("dataset"), t.document.c.name == bindparam("name"))
)
_KEPT = _CURRENT.join(t.document_version, _v.document_id == t.document.c.id).with_only_columns(
    t.document.c.id,
    t.document.c.name,
    _v.version,
    _v.updated_at,
    literal(0),
    _v.content_sha256,
    _v.size,
    _v.input_sig,
    _v.original_sha256,
    _v.system,
    _v.metadata,
)
_VERSIONS = union_all(_CURRENT, _KEPT).order_by(desc("version"))
_ONE = _KEPT.where(_v.version == bindparam("wanted"))
# A version without content has that of the next newer one, which is cut later than itself.
_PACKED = (
    select(_v.content)
    .where(
        _v.document_id == bindparam("document"),
        _v.version >= bindparam("wanted"),
        _v.content.is_not(None),
    )
    .order_by(_v.version)
    .limit(1)
)
_CONTENT = select(t.document.c.content).where(t.document.c.id == bindparam("document"))
_CONTENTS = select(t.document.c.id, t.document.c.content).where(in_list(t.document.c.id, "ids"))
_ADD = insert(t.document_version)
_CUT = delete(t.document_version).where(
    _v.document_id == bindparam("document"),
    _v.version
    <= select(_v.version)
    .where(_v.document_id == bindparam("document"))
    .order_by(_v.version.desc())
    .limit(1)
    .offset(bindparam("most"))
    .correlate(None)
    .scalar_subquery(),
)
_DROP_BELOW = delete(t.document_version).where(
    _v.document_id == bindparam("document"), _v.version < bindparam("first")
)
_DROP = delete(t.document_version).where(_v.document_id == bindparam("document"))


def write_and_keep(
    tx: Transaction, dataset: int, changed: Collection[DocumentRow], history: int
) -> None:
    """`write_rows`, keeping the newest ``history`` versions of each document beside it."""
    needed = [row.id for row in changed if any(old.stored for old in _newest(row, history))]
    # Read before they are overwritten.
    found = tx.all(_CONTENTS, ids=list(needed)) if needed else []
    contents: dict[int, bytes] = {row[0]: row[1] for row in found}
    write_rows(tx, dataset, changed)
    added: list[tuple[Any, ...]] = []
    for row in changed:
        for old in _newest(row, history):
            content = contents[row.id] if old.stored else old.content
            packed = None if content is None else zlib.compress(content)
            added.append((row.id, *old.values, packed))
    tx.run_many(_ADD, added)
    for row in changed:
        if row.replaced:
            tx.run(_CUT, document=row.id, most=history)


def drop_versions(tx: Transaction, document: int, *, below: int | None = None) -> None:
    """Remove the kept versions of a document: those ``below`` a version, or all."""
    if below is None:
        tx.run(_DROP, document=document)
    else:
        tx.run(_DROP_BELOW, document=document, first=below)


def read_versions(session: Session, dataset_id: str, name: str, where: str) -> list[DocumentInfo]:
    """The current version and the kept ones, newest first, in one statement."""
    found = session.all(_VERSIONS, dataset=dataset_id, name=name)
    return [info_in(row, dataset_id, where) for row in found]


def read_version(
    session: Session, dataset_id: str, name: str, version: int, where: str
) -> SourceDocument | None:
    """A kept version, its content checked against its SHA-256. ``session`` is of one snapshot."""
    found = session.one(_ONE, dataset=dataset_id, name=name, wanted=version)
    if found is None:
        return None
    row = DocumentRow.read(found, where)
    packed = session.one(_PACKED, document=row.id, wanted=version)
    if packed is None:
        current = session.one(_CONTENT, document=row.id)
        content: bytes = current[0] if current else b""
    else:
        content = _unpacked(packed[0], row.size)
    if hashlib.sha256(content).hexdigest() != row.content_sha256:
        raise corrupt(where, f"version {version} of {name!r} of {dataset_id!r} fails its SHA-256")
    return source_of(row, dataset_id, content.decode())


def _unpacked(packed: bytes, size: int) -> bytes:
    """At most a byte more than ``size``; what is damaged comes back as something else."""
    try:
        return zlib.decompressobj().decompress(packed, size + 1)
    except zlib.error:
        return b"\0" * (size + 1)


def _newest(row: DocumentRow, history: int) -> list[Replaced]:
    return row.replaced[-history:] if history else []
