"""Revisions of datasets, and the answers of searches that depend on them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and two empty tables."""
    op.add_column("dataset", sa.Column("revision", sa.Text))
    op.create_table(
        "answer",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            autoincrement=False,
        ),
        sa.Column("dataset_id", sa.BigInteger, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revisions", sa.Text, nullable=False),
        sa.Column("width", sa.Integer, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("answer_dataset", "answer", ["dataset_id"])
    op.create_index("answer_request", "answer", ["request"])
    op.create_index("answer_time", "answer", ["created_at"])
    op.create_table(
        "answer_count",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("count", sa.BigInteger, nullable=False),
    )
