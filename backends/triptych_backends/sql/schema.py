"""The tables, in SQLAlchemy Core: what SQLite and PostgreSQL share.

Names compare by code point, content is UTF-8 bytes (it may hold NUL, which no text column of
PostgreSQL can), times are microseconds since 1970 in UTC. Every id, revision and sequence
number is a tick of one clock, so that none is ever used twice; on PostgreSQL only those of the logs
are, and ids and revisions are of a sequence.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

METADATA = MetaData()

# SQLite gives only INTEGER PRIMARY KEY the speed of a row id.
_ID = BigInteger().with_variant(Integer(), "sqlite")
# SQLite compares text by its UTF-8 bytes, which is the order of code points.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")


def _table(name: str, *parts: SchemaItem, **options: Any) -> Table:
    return Table(name, METADATA, *parts, **options)


def _required(type_: type[TypeEngine[Any]], *names: str) -> Iterator[Column[Any]]:
    """Columns of one type, in their order, that are never NULL."""
    return (Column(name, type_, nullable=False) for name in names)


meta = _table(
    "meta",
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Settings, and what the store says of itself: "schema", "created_with"."""

clock = _table(
    "clock",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("nonce", Text, nullable=False),
    Column("tick", BigInteger, nullable=False),
)
"""One row: the greatest tick ever used, and the name of the change log."""

epoch = _table(
    "epoch",
    Column("first", _ID, primary_key=True, autoincrement=False),
    Column("mark", Text, nullable=False),
)
"""Each row begins an epoch: its first tick, and a random name.

The ticks of one epoch are those that one connection gave out without any other write in between.
A connection that finds the log elsewhere than it left it begins a new epoch. Where copies of a
store part, by a backup that is restored (also beneath a live connection) or by commits that a
power cut undoes, the same ticks are therefore of different epochs."""

dataset = _table(
    "dataset",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("name", _NAME, nullable=False, unique=True),
    Column("live", Boolean, nullable=False),
    Column("deleted_version", BigInteger, nullable=False),
    Column("chunker_sig", Text),
    Column("embed_sig", Text),
    Column("language", Text),
    Column("sparse_sig", Text),
)
"""Rows are never removed: `deleted_version` outlives the dataset. Without a configuration its
four columns are NULL; `sparse_sig` also where there never were sparse vectors."""

document = _table(
    "document",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("name", _NAME, nullable=False),
    *_required(BigInteger, "version", "updated_at"),
    Column("revision", BigInteger, nullable=False, unique=True),
    Column("content_sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    *_required(Text, "input_sig", "original_sha256", "system", "metadata"),
    # Last, so that reading the columns before it never walks a long content's overflow pages.
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("dataset_id", "name"),
)
"""`revision` is the tick of the last change of content.

`system` is a JSON object of what Triptych itself keeps: `parser_sig`, and the fields of
`SystemData`. Empty ones are left out."""

document_meta = _table(
    "document_meta",
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("pair", LargeBinary, nullable=False),
    Column("document_id", ForeignKey("document.id"), nullable=False),
    PrimaryKeyConstraint("dataset_id", "pair", "document_id"),
    Index("document_meta_document", "document_id"),
    sqlite_with_rowid=False,
)
"""What filters read: `pair` is an entry of one key and its value
(`triptych_backends.sql.metadata_entries`)."""

document_version = _table(
    "document_version",
    Column("document_id", ForeignKey("document.id"), nullable=False),
    *_required(BigInteger, "version", "updated_at"),
    Column("content_sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    *_required(Text, "input_sig", "original_sha256", "system", "metadata"),
    Column("content", LargeBinary),
    PrimaryKeyConstraint("document_id", "version"),
)
"""What a document was before, compressed by zlib; NULL is the content of the next newer version,
kept or current."""

space = _table(
    "space",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    *_required(Text, "kind", "sig"),
    Column("dimension", Integer, nullable=False),
    UniqueConstraint("dataset_id", "kind", "sig"),
)
"""A `VectorSpace` within one dataset. `dimension` is 0 before the first vector of a dense space,
and of sparse ones."""

vector = _table(
    "vector",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("space_id", ForeignKey("space.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("space_id", "digest"),
)
"""Little-endian float32, or `SparseVector.to_bytes`. Every row is referenced by a chunk or a layer
of its dataset, or by `vector_use`."""

vector_use = _table(
    "vector_use",
    Column("space_id", ForeignKey("space.id"), nullable=False),
    Column("owner", BigInteger, nullable=False),
    Column("vector_id", ForeignKey("vector.id"), nullable=False),
    PrimaryKeyConstraint("space_id", "owner", "vector_id"),
    Index("vector_use_vector", "vector_id"),
    sqlite_with_rowid=False,
)
"""The vectors of sparse spaces that a document's chunk set has the text of: `owner` is its id."""

derivation = _table(
    "derivation",
    Column("document_id", ForeignKey("document.id"), primary_key=True, autoincrement=False),
    Column("source_version", BigInteger, nullable=False),
    *_required(Text, "chunker_sig", "prompt_sig", "embed_sig", "input_sig"),
    *_required(Integer, "chunks", "vectors"),
    Column("dataset_id", BigInteger),
    Index("derivation_space", "dataset_id", "embed_sig", "chunks"),
)
"""A document's chunk set: its signature, and how many chunks it has (with a vector).

`embed_sig` is "" while vectors are to come; those that are there may be of any space. `dataset_id`
is the document's: by it and `embed_sig` every search counts what lacks vectors."""

chunk = _table(
    "chunk",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("document_id", ForeignKey("document.id"), nullable=False),
    Column("position", Integer, nullable=False),
    *_required(BigInteger, "span_start", "span_end", "byte_offset", "start_line"),
    Column("window_start", BigInteger),
    Column("window_end", BigInteger),
    Column("locator", Text),
    Column("heading_path", Text),
    Column("input_sig", Text, nullable=False),
    Column("vector_id", ForeignKey("vector.id")),
    Column("content", LargeBinary, nullable=False),
    Column("checksum", BigInteger),
    Column("occurrence", BigInteger),
    UniqueConstraint("document_id", "position"),
    Index("chunk_vector", "vector_id"),
)

waiting = _table(
    "waiting",
    Column(
        "document_id", ForeignKey("derivation.document_id"), primary_key=True, autoincrement=False
    ),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Index("waiting_dataset", "dataset_id"),
)
"""The chunk sets that wait for vectors of their dataset's `sparse_sig`: a search of the lane counts
these rows, and no others. What waits for its `embed_sig` says so in `derivation.embed_sig`."""

layer = _table(
    "layer",
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("doc_name", _NAME, nullable=False),
    Column("layer", Text, nullable=False),
    Column("revision", BigInteger, nullable=False, unique=True),
    Column("source_version", BigInteger, nullable=False),
    *_required(Text, "chunker_sig", "prompt_sig", "embed_sig", "input_sig"),
    Column("vector_id", ForeignKey("vector.id")),
    Column("content", LargeBinary, nullable=False),
    Column("checksum", BigInteger),
    UniqueConstraint("dataset_id", "doc_name", "layer"),
    Index("layer_vector", "vector_id"),
)
"""`checksum`, here and in `chunk`: see `text_checksum`. Every row has one.

`chunk.occurrence` is how many chunks before it in its document have its `input_sig`."""

change = _table(
    "change",
    Column("seq", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("field", Text, nullable=False),
    Column("owner", BigInteger, nullable=False),
    UniqueConstraint("dataset_id", "field", "owner"),
    Index("change_dataset", "dataset_id", "seq"),
)
"""The last change of each owner of units; field "" and owner 0 void all that came before."""

document_change = _table(
    "document_change",
    Column("seq", _ID, primary_key=True, autoincrement=False),
    Column("document_id", BigInteger, nullable=False, unique=True),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("name", _NAME),
    Column("version", BigInteger),
    Column("added", BigInteger),
)
Index(
    "document_change_deleted",
    document_change.c.name,
    document_change.c.dataset_id,
    sqlite_where=document_change.c.version.is_not(None),
    postgresql_where=document_change.c.version.is_not(None),
)
"""The last change of each document, for who follows the store. `added` is the number of its first;
NULL where `document_id` tells that, since an id is a tick. `name` and `version` are those of a
deleted document, and NULL of one that is there. A version without a name says that deletions up to
`seq` are forgotten."""
