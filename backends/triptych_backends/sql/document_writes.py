"""Rows of documents that change, and writing them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import attrs

from triptych.records import (
    Metadata,
    SourceDocument,
    SystemData,
    copy_metadata,
)
from triptych.records.metadata import (
    dump_metadata,
    same_metadata,
    text_of,
)
from triptych.signatures import document_input_sig
from triptych_backends.sql.deferred import (
    bindparam,
    column_name,
    delete,
    in_list,
    insert,
    select,
    tables as t,
    update,
)
from triptych_backends.sql.document_rows import (
    COLUMNS,
    NO_SYSTEM,
    kept_in,
    micros_of,
    moment_of,
)
from triptych_backends.sql.metadata_entries import entries_of
from triptych_backends.sql.transaction import Dataset, Transaction

_d = t.document.c
_REPLACED = [column_name(column) for column in COLUMNS[2:]]
_BY_NAMES = select(*COLUMNS).where(
    _d.dataset_id == bindparam("dataset"), in_list(t.document.c.name, "names")
)
_ADD = insert(t.document)
_UPDATE, _UPDATE_INFO = (
    update(t.document)
    .where(_d.id == bindparam("pk"))
    .values({name: bindparam(f"new_{name}") for name in names})
    for names in ((*_REPLACED, "content"), _REPLACED)
)
_ADD_ENTRY = insert(t.document_meta)
_DROP_ENTRY = delete(t.document_meta).where(
    t.document_meta.c.dataset_id == bindparam("dataset"),
    t.document_meta.c.pair == bindparam("which"),
    t.document_meta.c.document_id == bindparam("document"),
)


@attrs.frozen
class Replaced:
    """A version that another replaced: its columns of `document_version` but the content.

    ``stored`` says that the content is the one in the database. Otherwise it is ``content``, or,
    where that is None, the next newer version's.
    """

    values: tuple[Any, ...]
    stored: bool
    content: bytes | None


@attrs.define
class DocumentRow:
    """A row of `document` without its content, in the order of `COLUMNS`.

    ``content`` is set when there is a new one to be written. ``stored_metadata`` is what the
    database holds, None when it has no such row yet, and ``stored_expiry`` its moment of expiry.
    ``replaced`` are the versions that were changed, oldest first.
    """

    id: int
    name: str
    version: int
    updated_at: int
    revision: int
    content_sha256: str
    size: int
    input_sig: str
    original_sha256: str
    parser_sig: str
    system: SystemData
    metadata: Metadata
    stored_metadata: Metadata | None = None
    stored_expiry: datetime | None = None
    content: bytes | None = None
    changed: bool = False
    replaced: list[Replaced] = attrs.field(factory=list)

    @classmethod
    def read(cls, row: Sequence[Any], where: str) -> DocumentRow:
        """From the first columns of ``row``."""
        parser_sig, system, metadata = kept_in(row, where)
        stored = (metadata, system.expires_at)
        values: tuple[Any, ...] = (*row[:9], parser_sig, system, metadata, *stored)
        return cls(*values)

    @classmethod
    def new(cls, tx: Transaction, name: str) -> DocumentRow:
        """A document that does not exist yet."""
        return cls(tx.ticks(1), name, 0, 0, 0, "", 0, "", "", "", NO_SYSTEM, {})

    def change(
        self, tx: Transaction, dataset: int, document: SourceDocument, content: bytes, digest: str
    ) -> None:
        """Take over a new state, ``content`` with its SHA-256 included; only new content and a new
        title concern the index, and a new version those who follow the store."""
        if self.version:
            same = digest == self.content_sha256
            self.replaced.append(
                Replaced(
                    (*self.values()[:2], *self.values()[3:]),
                    stored=not same and self.content is None,
                    content=None if same else self.content,
                )
            )
        searched = text_of(self.metadata, "title") != text_of(document.metadata, "title")
        if self.version and searched:
            tx.log(dataset, "chunk", self.id)
        if digest != self.content_sha256:
            self.content, self.content_sha256, self.size = content, digest, len(content)
            searched = True
        if searched:
            self.revision = tx.log(dataset, "document", self.id)
            tx.log_document(dataset, self.id, self.revision)
        elif document.version != self.version:
            tx.log_document(dataset, self.id, tx.ticks(1))
        self.metadata = copy_metadata(document.metadata)
        self.version = document.version
        self.updated_at = micros_of(document.updated_at)
        self.system = document.system
        self.input_sig = document_input_sig(
            self.name, digest, document.metadata, self.system.outline
        )
        self.original_sha256, self.parser_sig = document.original_sha256, document.parser_sig
        self.changed = True

    def load(self, tx: Transaction, dataset: int, document: SourceDocument) -> None:
        """Take over ``document`` just as it is."""
        content = document.content.encode()
        self.change(tx, dataset, document, content, hashlib.sha256(content).hexdigest())

    def is_of(self, dataset_id: str, document: SourceDocument) -> bool:
        """Whether ``document`` is just what is here."""
        digest = hashlib.sha256(document.content.encode()).hexdigest()
        same = self.content_sha256 == digest and same_metadata(self.metadata, document.metadata)
        return same and source_of(self, dataset_id, document.content) == document

    def values(self) -> tuple[Any, ...]:
        """The columns after id and name, as they are stored."""
        return (
            self.version,
            self.updated_at,
            self.revision,
            self.content_sha256,
            self.size,
            self.input_sig,
            self.original_sha256,
            write_system(self.parser_sig, self.system),
            dump_metadata(self.metadata),
        )


def read_rows(
    tx: Transaction, dataset: Dataset | None, names: Iterable[str], where: str
) -> dict[str, DocumentRow]:
    """Those of ``names`` that exist."""
    if dataset is None:
        return {}
    found = tx.all(_BY_NAMES, dataset=dataset.id, names=list(names))
    return {row[1]: DocumentRow.read(row, where) for row in found}


def write_rows(tx: Transaction, dataset: int, rows: Iterable[DocumentRow]) -> None:
    """Write what changed of ``rows``, what filters read included."""
    added, updated, informed = [], [], []
    new_entries: list[tuple[int, bytes, int]] = []
    old_entries: list[tuple[int, bytes, int]] = []
    expires = False
    for row in rows:
        if not row.changed:
            continue
        if row.stored_metadata is None:
            added.append((row.id, dataset, row.name, *row.values(), row.content))
        elif row.content is not None:
            updated.append((*row.values(), row.content, row.id))
        else:
            informed.append((*row.values(), row.id))
        if row.metadata or row.stored_metadata or row.system.expires_at or row.stored_expiry:
            old = entries_of(row.stored_metadata or {}, row.stored_expiry)
            new = entries_of(row.metadata, row.system.expires_at)
            new_entries += [(dataset, entry, row.id) for entry in sorted(new - old)]
            old_entries += [(dataset, entry, row.id) for entry in sorted(old - new)]
            expires = expires or row.system.expires_at != row.stored_expiry
    if expires:
        tx.ticks(1)  # what is kept of expired documents holds while the clock stands still
    tx.run_many(_ADD, added)
    tx.run_many(_UPDATE, updated)
    tx.run_many(_UPDATE_INFO, informed)
    tx.run_many(_DROP_ENTRY, old_entries)
    tx.run_many(_ADD_ENTRY, new_entries)


def source_of(row: DocumentRow, dataset_id: str, content: str) -> SourceDocument:
    """The document with its content."""
    return SourceDocument(
        dataset_id=dataset_id,
        name=row.name,
        content=content,
        metadata=copy_metadata(row.metadata),
        version=row.version,
        updated_at=moment_of(row.updated_at),
        original_sha256=row.original_sha256,
        parser_sig=row.parser_sig,
        system=row.system,
    )


def write_system(parser_sig: str, system: SystemData) -> str:
    """The column `system`."""
    expires_at = "" if system.expires_at is None else system.expires_at.isoformat()
    fields = {
        "parser_sig": parser_sig,
        "outline": system.outline,
        "sync_root": system.sync_root,
        "expires_at": expires_at,
    }
    held = {key: text for key, text in fields.items() if text}
    return json.dumps(held, ensure_ascii=False) if held else "{}"
