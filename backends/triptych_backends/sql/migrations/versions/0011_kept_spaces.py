"""Vectors of a second embedding space, kept beside those that serve."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the mark of such a space, which none has yet, and who needs its vectors."""
    op.add_column("space", sa.Column("kept", sa.Boolean, nullable=False, server_default=sa.false()))
    op.create_table(
        "vector_use",
        sa.Column("space_id", _ID, sa.ForeignKey("space.id"), nullable=False),
        sa.Column("owner", sa.BigInteger, nullable=False),
        sa.Column("vector_id", _ID, sa.ForeignKey("vector.id"), nullable=False),
        sa.PrimaryKeyConstraint("space_id", "owner", "vector_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("vector_use_vector", "vector_use", ["vector_id"])
