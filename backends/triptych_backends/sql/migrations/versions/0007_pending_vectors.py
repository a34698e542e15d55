"""The dataset of each chunk set, by which sets without their vectors are counted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and its index, and fill the column from the documents."""
    op.add_column("derivation", sa.Column("dataset_id", sa.BigInteger))
    op.execute(
        "UPDATE derivation SET dataset_id = "
        "(SELECT dataset_id FROM document WHERE document.id = derivation.document_id)"
    )
    op.create_index("derivation_space", "derivation", ["dataset_id", "embed_sig", "chunks"])
