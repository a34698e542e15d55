"""What Triptych itself keeps of a document leaves the user's metadata for a column of its own.

`parser_sig` becomes `system`, in place: a column that was added would come after the content, and
reading it would walk the overflow pages of every long document.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_AT_ONCE = 1000
_KEYS = {"triptych.outline": "outline", "triptych.sync_root": "sync_root"}
_DOCUMENTS = sa.text(
    "SELECT id, dataset_id, metadata, system FROM document WHERE id > :after AND "
    "(system <> '' OR metadata LIKE '%triptych.%') ORDER BY id LIMIT :most"
)
_VERSIONS = sa.text(
    "SELECT version, metadata, system FROM document_version WHERE document_id = :document AND "
    "(system <> '' OR metadata LIKE '%triptych.%')"
)
_DROP_PAIR = sa.text(
    "DELETE FROM document_meta WHERE dataset_id = :dataset AND pair = :pair "
    "AND document_id = :document"
)


def upgrade() -> None:
    """Rename the column, and move what belongs in it."""
    connection = op.get_bind()
    for table in ("document", "document_version"):
        op.execute(f"ALTER TABLE {table} RENAME COLUMN parser_sig TO system")
    write = sa.text("UPDATE document SET metadata = :metadata, system = :system WHERE id = :id")
    after = -(2**63)
    while page := connection.execute(_DOCUMENTS, {"after": after, "most": _AT_ONCE}).all():
        after = page[-1][0]
        for pk, dataset, metadata, parser_sig in page:
            own, system, pairs = _moved(metadata, parser_sig)
            connection.execute(write, {"metadata": own, "system": system, "id": pk})
            for pair in pairs:
                connection.execute(_DROP_PAIR, {"dataset": dataset, "pair": pair, "document": pk})
    write = sa.text(
        "UPDATE document_version SET metadata = :metadata, system = :system "
        "WHERE document_id = :document AND version = :version"
    )
    kept = connection.execute(sa.text("SELECT DISTINCT document_id FROM document_version")).all()
    for (document,) in kept:
        found = connection.execute(_VERSIONS, {"document": document}).all()
        for version, metadata, parser_sig in found:
            own, system, _ = _moved(metadata, parser_sig)
            values = {"metadata": own, "system": system}
            connection.execute(write, {**values, "document": document, "version": version})
    for table in ("document", "document_version"):
        op.execute(f"UPDATE {table} SET system = '{{}}' WHERE system = ''")


def _moved(metadata: Any, parser_sig: Any) -> tuple[Any, str, list[bytes]]:
    """Both columns, and the pairs that filters no longer read.

    Damaged metadata stays as it is: whoever reads it will name it.
    """
    own, pairs, system = metadata, [], {"parser_sig": parser_sig}
    try:
        held = json.loads(metadata)
        moved = {key: held.pop(key) for key in _KEYS if key in held}
        pairs = [_pair(key, value) for key, value in moved.items()]
        system |= {_KEYS[key]: value for key, value in moved.items()}
        own = json.dumps(held, ensure_ascii=False) if held else "{}"
    except (ValueError, TypeError, AttributeError):
        pass
    system = {key: value for key, value in system.items() if value}
    return own, json.dumps(system, ensure_ascii=False) if system else "{}", pairs


def _pair(key: str, value: str) -> bytes:
    data = key.encode()
    return hashlib.sha256(b"%d:%b%b" % (len(data), data, value.encode())).digest()[:16]
