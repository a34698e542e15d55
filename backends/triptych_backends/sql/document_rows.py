"""A document's row between the database and the records, and what filters read of it: entries.

An entry is bytes: a digest of the key, the kind of the value, and the value. Entries of numbers and
times hold all of the value and sort by it. Those of text begin with its first bytes, by which they
sort, and end with a digest of all of it. A list has an entry of its own and one for each of its
items, so that `$contains` is found as equality is.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import attrs

from triptych.errors import CorruptStoreError
from triptych.records import (
    DocumentInfo,
    Metadata,
    MetadataValue,
    SourceDocument,
    SystemData,
    copy_metadata,
)
from triptych.records.filters import EXPIRES_AT
from triptych.records.metadata import (
    ComparisonKey,
    Kind,
    comparison_key,
    dump_metadata,
    metadata_from_plain,
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
from triptych_backends.sql.errors import DAMAGE, corrupt
from triptych_backends.sql.transaction import Dataset, Transaction


def prefix_end(prefix: str) -> str | None:
    """The least string above all that start with ``prefix``, by code point; None: there is none.

    Surrogates are no characters: U+D7FF is followed by U+E000.
    """
    kept = prefix.rstrip("\U0010ffff")
    if not kept:
        return None
    last = ord(kept[-1]) + 1
    return kept[:-1] + chr(0xE000 if last == 0xD800 else last)


TEXT_LENGTH = 16
"""How many bytes of a text an entry sorts by."""

_KINDS: dict[Kind, bytes] = {"text": b"s", "bool": b"b", "number": b"n", "time": b"t", "list": b"l"}
_ITEM = b"i"


def entries_of(metadata: Metadata, expires_at: datetime | None) -> set[bytes]:
    """All entries of a document."""
    found = set()
    if expires_at is not None:
        found.add(entry_of(EXPIRES_AT, comparison_key(expires_at)))
    for key, value in metadata.items():
        if key == EXPIRES_AT:
            continue  # as a field of filters it is the document's own
        compared = comparison_key(value)
        found.add(entry_of(key, compared))
        if compared[0] == "list":
            found.update(entry_of(key, item, item=True) for item in compared[1])
    return found


def entry_of(key: str, value: ComparisonKey, *, item: bool = False) -> bytes:
    """The entry of one value, or of one ``item`` of a list."""
    return kind_prefix(key, value[0], item=item) + _sorted(value)


def kind_prefix(key: str, kind: Kind, *, item: bool = False) -> bytes:
    """What all entries of this key begin with whose value is of this kind."""
    return key_digest(key) + (_ITEM if item else b"") + _KINDS[kind]


@lru_cache(maxsize=1024)
def key_digest(key: str) -> bytes:
    """What all entries of this key begin with, those of the items of its lists included."""
    # Before documents could expire, a metadata key of this name had entries: they are no UTF-8.
    text = b"\xff" + key.encode() if key == EXPIRES_AT else key.encode()
    return hashlib.sha256(text).digest()[:12]


def next_prefix(prefix: bytes) -> bytes:
    """What sorts after everything that begins with ``prefix``, and nothing else before it."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else b"\xff" * (len(prefix) + 64)


def _sorted(value: ComparisonKey) -> bytes:
    """The value's bytes, which sort as the values of its kind do."""
    kind, held = value
    if kind == "text":
        data: bytes = held.encode()
        return data[:TEXT_LENGTH].ljust(TEXT_LENGTH, b"\0") + _digest([data])
    if kind == "bool":
        return b"\1" if held else b"\0"
    if kind == "time":
        return struct.pack(">Q", held + (1 << 63))
    if kind == "number":
        return _number(held)
    return _digest([_KINDS[item[0]] + _sorted(item) for item in held])


def _number(value: float) -> bytes:
    """Big-endian, in the order of the numbers: the nearest float, and how far from it an int is."""
    near = float(value) or 0.0  # 0.0 and -0.0 are equal
    bits = struct.unpack(">Q", struct.pack(">d", near))[0]
    ordered = bits ^ ((1 << 64) - 1 if bits >> 63 else 1 << 63)
    rest = value - int(near) if isinstance(value, int) else 0
    return struct.pack(">QH", ordered, rest + (1 << 15))


def _digest(parts: Iterable[bytes]) -> bytes:
    joined = b"".join([b"%d:%b" % (len(part), part) for part in parts])
    return hashlib.sha256(joined).digest()[:16]


_d = t.document.c
COLUMNS = (
    _d.id,
    _d.name,
    _d.version,
    _d.updated_at,
    _d.revision,
    _d.content_sha256,
    _d.size,
    _d.input_sig,
    _d.original_sha256,
    _d.system,
    _d.metadata,
)
"""What `DocumentRow.read` takes, in its order."""

_REPLACED = [column_name(column) for column in COLUMNS[2:]]
_NO_SYSTEM = SystemData()
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
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
        parser_sig, system, metadata = _kept_in(row, where)
        stored = (metadata, system.expires_at)
        values: tuple[Any, ...] = (*row[:9], parser_sig, system, metadata, *stored)
        return cls(*values)

    @classmethod
    def new(cls, tx: Transaction, name: str) -> DocumentRow:
        """A document that does not exist yet."""
        return cls(tx.ticks(1), name, 0, 0, 0, "", 0, "", "", "", _NO_SYSTEM, {})

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


def info_in(row: Sequence[Any], dataset_id: str, where: str) -> DocumentInfo:
    """The document in the first columns of ``row``, in the order of `COLUMNS`."""
    metadata: dict[str, MetadataValue] = {}
    parser_sig, system = "", _NO_SYSTEM
    if row[9] != "{}" or row[10] != "{}":
        parser_sig, system, metadata = _kept_in(row, where)
    return DocumentInfo(
        dataset_id=dataset_id,
        name=row[1],
        metadata=metadata,
        version=row[2],
        updated_at=moment_of(row[3]),
        content_sha256=row[5],
        size=row[6],
        input_sig=row[7],
        original_sha256=row[8],
        parser_sig=parser_sig,
        system=system,
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


def read_system(text: str) -> tuple[str, SystemData]:
    """What `write_system` wrote.

    Raises:
        ValueError, TypeError, AttributeError: it is something else.
    """
    if text == "{}":
        return "", _NO_SYSTEM
    held = json.loads(text)
    parser_sig = held.pop("parser_sig", "")
    if "expires_at" in held:
        held["expires_at"] = datetime.fromisoformat(held["expires_at"])
    return parser_sig, SystemData(**held)


def _kept_in(row: Sequence[Any], where: str) -> tuple[str, SystemData, dict[str, MetadataValue]]:
    """The parser's signature, the system's data and the metadata in a row."""
    (kept, said), what = row[9:11], "what is kept"
    try:
        parser_sig, system = read_system(kept)
        what = "the metadata"
        metadata = metadata_from_plain(json.loads(said))
    except DAMAGE as error:
        raise corrupt(where, f"{what} of document {row[1]!r}: {error}") from error
    return parser_sig, system, metadata


def micros_of(time: datetime) -> int:
    """A column of microseconds since 1970; without a time zone it is of UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // MICROSECOND


@lru_cache(maxsize=64)
def moment_of(micros: int) -> datetime:  # a batch has one
    """The time of a column of microseconds."""
    try:
        return EPOCH + timedelta(microseconds=micros)
    except (OverflowError, TypeError) as error:
        raise CorruptStoreError(
            f"the store is damaged: {micros!r} is not a time that a document was put. Restore "
            "it from a backup; documents that can be read can be exported"
        ) from error
