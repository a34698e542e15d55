"""What making layers cost, what could not be made, and what was made half-way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the three tables of the journal, empty."""
    op.create_table(
        "layer_parked",
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("doc_name", _NAME, nullable=False),
        sa.Column("layer", sa.Text, nullable=False),
        sa.Column("input_sig", sa.Text, nullable=False),
        sa.Column("prompt_sig", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.LargeBinary, nullable=False),
        sa.Column("parked_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "doc_name", "layer"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "layer_usage",
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("calls", sa.BigInteger, nullable=False),
        sa.Column("failures", sa.BigInteger, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "model"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "layer_note",
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("doc_name", _NAME, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "doc_name", "digest"),
        sqlite_with_rowid=False,
    )
