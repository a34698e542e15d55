"""The versions of documents that were replaced."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table, empty: what was replaced before is gone."""
    op.create_table(
        "document_version",
        sa.Column("document_id", _ID, sa.ForeignKey("document.id"), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("content_sha256", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("input_sig", sa.Text, nullable=False),
        sa.Column("original_sha256", sa.Text, nullable=False),
        sa.Column("parser_sig", sa.Text, nullable=False),
        sa.Column("metadata", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary),
        sa.PrimaryKeyConstraint("document_id", "version"),
    )
