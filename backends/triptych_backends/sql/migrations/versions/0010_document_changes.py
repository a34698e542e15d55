"""The last change of each document, for who follows the store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the table, with the documents that are there: nobody has a cursor yet."""
    op.create_table(
        "document_change",
        sa.Column("seq", _ID, primary_key=True, autoincrement=False),
        sa.Column("document_id", sa.BigInteger, nullable=False),
        sa.Column("dataset_id", _ID, sa.ForeignKey("dataset.id"), nullable=False),
        sa.Column("name", _NAME),
        sa.Column("version", sa.BigInteger),
        sa.UniqueConstraint("document_id"),
    )
    deleted = sa.column("version").is_not(None)
    op.create_index(
        "document_change_deleted",
        "document_change",
        ["name", "dataset_id"],
        sqlite_where=deleted,
        postgresql_where=deleted,
    )
    op.execute(
        "INSERT INTO document_change (seq, document_id, dataset_id) "
        "SELECT revision, id, dataset_id FROM document"
    )
