"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from triptych_backends.sql.migrations import add_first_rows

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make every table of the first release, and the rows it starts with."""
    op.create_table(
        "meta",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.create_table(
        "clock",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("nonce", sa.Text, nullable=False),
        sa.Column("tick", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "epoch",
        sa.Column("first", _ID, primary_key=True, autoincrement=False),
        sa.Column("mark", sa.Text, nullable=False),
    )
    op.create_table(
        "dataset",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("name", _NAME, nullable=False, unique=True),
        sa.Column("live", sa.Boolean, nullable=False),
        sa.Column("deleted_version", sa.BigInteger, nullable=False),
        sa.Column("chunker_sig", sa.Text),
        sa.Column("embed_sig", sa.Text),
        sa.Column("language", sa.Text),
    )
    op.create_table(
        "document",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False, unique=True),
        sa.Column("content_sha256", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("input_sig", sa.Text, nullable=False),
        sa.Column("original_sha256", sa.Text, nullable=False),
        sa.Column("parser_sig", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("dataset_id", "name"),
    )
    op.create_table(
        "document_meta",
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("pair", sa.LargeBinary, nullable=False),
        sa.Column("document_id", _ID, sa.ForeignKey("document.id"), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "pair", "document_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("document_meta_document", "document_meta", ["document_id"])
    op.create_table(
        "space",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("embed_sig", sa.Text, nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.UniqueConstraint("dataset_id", "embed_sig"),
    )
    op.create_table(
        "vector",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("space_id", _ID, sa.ForeignKey("space.id"), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("space_id", "digest"),
    )
    op.create_table(
        "derivation",
        sa.Column(
            "document_id", _ID, sa.ForeignKey("document.id"), primary_key=True, autoincrement=False
        ),
        sa.Column("source_version", sa.BigInteger, nullable=False),
        sa.Column("chunker_sig", sa.Text, nullable=False),
        sa.Column("prompt_sig", sa.Text, nullable=False),
        sa.Column("embed_sig", sa.Text, nullable=False),
        sa.Column("input_sig", sa.Text, nullable=False),
        sa.Column("chunks", sa.Integer, nullable=False),
        sa.Column("vectors", sa.Integer, nullable=False),
    )
    op.create_table(
        "chunk",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("document_id", _ID, sa.ForeignKey("document.id"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("span_start", sa.BigInteger, nullable=False),
        sa.Column("span_end", sa.BigInteger, nullable=False),
        sa.Column("byte_offset", sa.BigInteger, nullable=False),
        sa.Column("start_line", sa.BigInteger, nullable=False),
        sa.Column("window_start", sa.BigInteger),
        sa.Column("window_end", sa.BigInteger),
        sa.Column("locator", sa.Text),
        sa.Column("heading_path", sa.Text),
        sa.Column("input_sig", sa.Text, nullable=False),
        sa.Column("vector_id", _ID, sa.ForeignKey("vector.id")),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("document_id", "position"),
    )
    op.create_index("chunk_vector", "chunk", ["vector_id"])
    op.create_table(
        "layer",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("doc_name", _NAME, nullable=False),
        sa.Column("layer", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False, unique=True),
        sa.Column("source_version", sa.BigInteger, nullable=False),
        sa.Column("chunker_sig", sa.Text, nullable=False),
        sa.Column("prompt_sig", sa.Text, nullable=False),
        sa.Column("embed_sig", sa.Text, nullable=False),
        sa.Column("input_sig", sa.Text, nullable=False),
        sa.Column("vector_id", _ID, sa.ForeignKey("vector.id")),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("dataset_id", "doc_name", "layer"),
    )
    op.create_index("layer_vector", "layer", ["vector_id"])
    op.create_table(
        "change",
        sa.Column("seq", _ID, primary_key=True, autoincrement=False),
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("field", sa.Text, nullable=False),
        sa.Column("owner", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("dataset_id", "field", "owner"),
    )
    op.create_index("change_dataset", "change", ["dataset_id", "seq"])
    add_first_rows(op.get_bind())
