"""Sparse vectors, who needs them, and the chunk sets that wait for theirs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the tables, which begin empty, and the column for the encoder."""
    op.add_column("dataset", sa.Column("sparse_sig", sa.Text))
    op.create_table(
        "sparse_space",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("sparse_sig", sa.Text, nullable=False),
        sa.UniqueConstraint("dataset_id", "sparse_sig"),
    )
    op.create_table(
        "sparse_vector",
        sa.Column("id", _ID, primary_key=True, autoincrement=False),
        sa.Column("space_id", _ID, sa.ForeignKey("sparse_space.id"), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("space_id", "digest"),
    )
    op.create_table(
        "sparse_use",
        sa.Column("document_id", _ID, sa.ForeignKey("derivation.document_id"), nullable=False),
        sa.Column("vector_id", _ID, sa.ForeignKey("sparse_vector.id"), nullable=False),
        sa.PrimaryKeyConstraint("document_id", "vector_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("sparse_use_vector", "sparse_use", ["vector_id"])
    op.create_table(
        "sparse_pending",
        sa.Column(
            "document_id",
            _ID,
            sa.ForeignKey("derivation.document_id"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
    )
    op.create_index("sparse_pending_dataset", "sparse_pending", ["dataset_id"])
