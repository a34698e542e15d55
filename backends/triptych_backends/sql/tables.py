"""The tables, in SQLAlchemy Core: what SQLite and PostgreSQL share.

Names compare by code point, content is UTF-8 bytes (it may hold NUL, which no text column of
PostgreSQL can), times are microseconds since 1970 in UTC. Every id, revision and sequence
number is a tick of one clock, so that none is ever used twice.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
)

METADATA = MetaData()

# SQLite gives only INTEGER PRIMARY KEY the speed of a row id.
_ID = BigInteger().with_variant(Integer(), "sqlite")
# SQLite compares text by its UTF-8 bytes, which is the order of code points.
_NAME = Text().with_variant(Text(collation="C"), "postgresql")

meta = Table(
    "meta",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Settings, and what the store says of itself: "schema", "created_with"."""

clock = Table(
    "clock",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("nonce", Text, nullable=False),
    Column("tick", BigInteger, nullable=False),
)
"""One row: the greatest tick ever used, and the name of the change log."""

epoch = Table(
    "epoch",
    METADATA,
    Column("first", _ID, primary_key=True, autoincrement=False),
    Column("mark", Text, nullable=False),
)
"""Each row begins an epoch: its first tick, and a random name.

The ticks of one epoch are those that one connection gave out without any other write in between.
A connection that finds the log elsewhere than it left it begins a new epoch. Where copies of a
store part, by a backup that is restored (also beneath a live connection) or by commits that a
power cut undoes, the same ticks are therefore of different epochs."""

dataset = Table(
    "dataset",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("name", _NAME, nullable=False, unique=True),
    Column("live", Boolean, nullable=False),
    Column("deleted_version", BigInteger, nullable=False),
    Column("chunker_sig", Text),
    Column("embed_sig", Text),
    Column("language", Text),
    Column("sparse_sig", Text),
    Column("revision", Text),
)
"""Rows are never removed: `deleted_version` outlives the dataset. Without a configuration its
four columns are NULL; `sparse_sig` also where there never were sparse vectors. `revision` is
random, and another after each write that may change what a search returns; NULL before the
first."""

document = Table(
    "document",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("name", _NAME, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False, unique=True),
    Column("content_sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("input_sig", Text, nullable=False),
    Column("original_sha256", Text, nullable=False),
    Column("system", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    # Last, so that reading the columns before it never walks a long content's overflow pages.
    Column("content", LargeBinary, nullable=False),
    UniqueConstraint("dataset_id", "name"),
)
"""`revision` is the tick of the last change of content.

`system` is a JSON object of what Triptych itself keeps: `parser_sig`, and the fields of
`SystemData`. Empty ones are left out."""

document_meta = Table(
    "document_meta",
    METADATA,
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("pair", LargeBinary, nullable=False),
    Column("document_id", ForeignKey("document.id"), nullable=False),
    PrimaryKeyConstraint("dataset_id", "pair", "document_id"),
    Index("document_meta_document", "document_id"),
    sqlite_with_rowid=False,
)
"""What filters read: `pair` is an entry of one key and its value
(`triptych_backends.sql.document_rows`)."""

document_version = Table(
    "document_version",
    METADATA,
    Column("document_id", ForeignKey("document.id"), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("content_sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("input_sig", Text, nullable=False),
    Column("original_sha256", Text, nullable=False),
    Column("system", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("content", LargeBinary),
    PrimaryKeyConstraint("document_id", "version"),
)
"""What a document was before, compressed by zlib; NULL is the content of the next newer version,
kept or current."""

space = Table(
    "space",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("sig", Text, nullable=False),
    Column("dimension", Integer, nullable=False),
    Column("kept", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("dataset_id", "kind", "sig"),
)
"""A `VectorSpace` within one dataset. `dimension` is 0 before the first vector of a dense space,
and of sparse ones. A dense one that is `kept` has entries beside the space that serves."""

vector = Table(
    "vector",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("space_id", ForeignKey("space.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("space_id", "digest"),
)
"""Little-endian float32, or `SparseVector.to_bytes`; no bytes where the embedder makes no vector of
the text. Every row is referenced by a chunk or a layer of its dataset, or by `vector_use`."""

vector_use = Table(
    "vector_use",
    METADATA,
    Column("space_id", ForeignKey("space.id"), nullable=False),
    Column("owner", BigInteger, nullable=False),
    Column("vector_id", ForeignKey("vector.id"), nullable=False),
    PrimaryKeyConstraint("space_id", "owner", "vector_id"),
    Index("vector_use_vector", "vector_id"),
    sqlite_with_rowid=False,
)
"""The vectors, of sparse spaces and of dense ones that are kept, that a document's chunk set, or a
layer, has the text of: `owner` is the id of either, which no two rows share."""

derivation = Table(
    "derivation",
    METADATA,
    Column("document_id", ForeignKey("document.id"), primary_key=True, autoincrement=False),
    Column("source_version", BigInteger, nullable=False),
    Column("chunker_sig", Text, nullable=False),
    Column("prompt_sig", Text, nullable=False),
    Column("embed_sig", Text, nullable=False),
    Column("input_sig", Text, nullable=False),
    Column("chunks", Integer, nullable=False),
    Column("vectors", Integer, nullable=False),
    Column("dataset_id", BigInteger),
    Index("derivation_space", "dataset_id", "embed_sig", "chunks"),
)
"""A document's chunk set: its signature, and how many chunks it has (with a vector).

`embed_sig` is "" while vectors are to come; those that are there may be of any space. `dataset_id`
is the document's: by it and `embed_sig` every search counts what lacks vectors."""

chunk = Table(
    "chunk",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("document_id", ForeignKey("document.id"), nullable=False),
    Column("position", Integer, nullable=False),
    Column("span_start", BigInteger, nullable=False),
    Column("span_end", BigInteger, nullable=False),
    Column("byte_offset", BigInteger, nullable=False),
    Column("start_line", BigInteger, nullable=False),
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

waiting = Table(
    "waiting",
    METADATA,
    Column(
        "document_id", ForeignKey("derivation.document_id"), primary_key=True, autoincrement=False
    ),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Index("waiting_dataset", "dataset_id"),
)
"""The chunk sets that wait for vectors of their dataset's `sparse_sig`: a search of the lane counts
these rows, and no others. What waits for its `embed_sig` says so in `derivation.embed_sig`."""

layer = Table(
    "layer",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("doc_name", _NAME, nullable=False),
    Column("layer", Text, nullable=False),
    Column("revision", BigInteger, nullable=False, unique=True),
    Column("source_version", BigInteger, nullable=False),
    Column("chunker_sig", Text, nullable=False),
    Column("prompt_sig", Text, nullable=False),
    Column("embed_sig", Text, nullable=False),
    Column("input_sig", Text, nullable=False),
    Column("vector_id", ForeignKey("vector.id")),
    Column("content", LargeBinary, nullable=False),
    Column("checksum", BigInteger),
    UniqueConstraint("dataset_id", "doc_name", "layer"),
    Index("layer_vector", "vector_id"),
)
"""`checksum`, here and in `chunk`: see `text_checksum`. Every row has one.

`chunk.occurrence` is how many chunks before it in its document have its `input_sig`."""

layer_parked = Table(
    "layer_parked",
    METADATA,
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("doc_name", _NAME, nullable=False),
    Column("layer", Text, nullable=False),
    Column("input_sig", Text, nullable=False),
    Column("prompt_sig", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", LargeBinary, nullable=False),
    Column("parked_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("dataset_id", "doc_name", "layer"),
    sqlite_with_rowid=False,
)
"""Layers that could not be made: what broke the model, and how."""

layer_usage = Table(
    "layer_usage",
    METADATA,
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("model", Text, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", Float, nullable=False),
    PrimaryKeyConstraint("dataset_id", "model"),
    sqlite_with_rowid=False,
)
"""What making layers cost so far."""

layer_note = Table(
    "layer_note",
    METADATA,
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("doc_name", _NAME, nullable=False),
    Column("digest", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    PrimaryKeyConstraint("dataset_id", "doc_name", "digest"),
    sqlite_with_rowid=False,
)
"""What a model noted of the parts of an input too long to read at once."""

answer = Table(
    "answer",
    METADATA,
    Column("id", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", BigInteger, nullable=False),
    Column("request", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revisions", Text, nullable=False),
    Column("width", Integer, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Index("answer_dataset", "dataset_id"),
    Index("answer_request", "request"),
    Index("answer_time", "created_at"),
)
"""Answers of searches. `dataset_id` is 0 where an answer depends on several datasets; `revisions`
is a JSON object of the revision of each, by its name."""

answer_count = Table(
    "answer_count",
    METADATA,
    Column("kind", Text, primary_key=True),
    Column("count", BigInteger, nullable=False),
)
"""How many searches found an answer ("hits"), and how many found none ("misses")."""

change = Table(
    "change",
    METADATA,
    Column("seq", _ID, primary_key=True, autoincrement=False),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("field", Text, nullable=False),
    Column("owner", BigInteger, nullable=False),
    UniqueConstraint("dataset_id", "field", "owner"),
    Index("change_dataset", "dataset_id", "seq"),
)
"""The last change of each owner of units; field "" and owner 0 void all that came before, field
"vectors" and owner 0 say that all vectors are of another space."""

document_change = Table(
    "document_change",
    METADATA,
    Column("seq", _ID, primary_key=True, autoincrement=False),
    Column("document_id", BigInteger, nullable=False, unique=True),
    Column("dataset_id", ForeignKey("dataset.id"), nullable=False),
    Column("name", _NAME),
    Column("version", BigInteger),
)
Index(
    "document_change_deleted",
    document_change.c.name,
    document_change.c.dataset_id,
    sqlite_where=document_change.c.version.is_not(None),
    postgresql_where=document_change.c.version.is_not(None),
)
"""The last change of each document, for who follows the store; `document_id` tells when it was
added, since an id is a tick. `name` and `version` are those of a deleted document, and NULL of one
that is there. A version without a name says that deletions up to `seq` are forgotten."""
