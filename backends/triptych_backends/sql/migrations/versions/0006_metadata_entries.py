"""What filters read of metadata: entries that sort by their values, in place of digests of pairs.

Values were text until now, and stay text.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_AT_ONCE = 1000
_DOCUMENTS = sa.text(
    "SELECT id, dataset_id, metadata FROM document WHERE id > :after AND metadata <> '{}' "
    "ORDER BY id LIMIT :most"
)
_ADD = sa.text(
    "INSERT INTO document_meta (dataset_id, pair, document_id) VALUES (:dataset, :pair, :document)"
)


def upgrade() -> None:
    """Write the entries of all documents."""
    connection = op.get_bind()
    connection.execute(sa.text("DELETE FROM document_meta"))
    after = -(2**63)
    while page := connection.execute(_DOCUMENTS, {"after": after, "most": _AT_ONCE}).all():
        after = page[-1][0]
        rows = [
            {"dataset": dataset, "pair": entry, "document": pk}
            for pk, dataset, metadata in page
            for entry in _entries(metadata)
        ]
        if rows:
            connection.execute(_ADD, rows)


def _entries(metadata: Any) -> list[bytes]:
    # Damaged metadata has none: whoever reads it will name it.
    try:
        return [_entry(key, value) for key, value in json.loads(metadata).items()]
    except (ValueError, TypeError, AttributeError):
        return []


def _entry(key: str, value: str) -> bytes:
    data = value.encode()
    digest = hashlib.sha256(b"%d:" % len(data) + data).digest()[:16]
    return hashlib.sha256(key.encode()).digest()[:12] + b"s" + data[:16].ljust(16, b"\0") + digest
