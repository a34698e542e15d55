"""A checksum beside the text of each chunk and each layer, and what a chunk's id is made of."""

from __future__ import annotations

import zlib

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_AT_ONCE = 1000
_CHUNKS = (
    "SELECT c.id, c.content, d.name, c.position, c.heading_path FROM chunk c "
    "JOIN document d ON d.id = c.document_id WHERE c.id > :after ORDER BY c.id LIMIT :most"
)
_LAYERS = "SELECT id, content, doc_name, layer FROM layer WHERE id > :after ORDER BY id LIMIT :most"


def upgrade() -> None:
    """Add the columns, and work out the checksums of what is there."""
    op.add_column("chunk", sa.Column("checksum", sa.BigInteger))
    op.add_column("chunk", sa.Column("occurrence", sa.BigInteger))
    op.add_column("layer", sa.Column("checksum", sa.BigInteger))
    op.execute(
        "UPDATE chunk SET occurrence = n.earlier FROM ("
        "SELECT id, row_number() OVER (PARTITION BY document_id, input_sig ORDER BY position) - 1"
        " AS earlier FROM chunk) n WHERE n.id = chunk.id"
    )
    for table, rows in (("chunk", _CHUNKS), ("layer", _LAYERS)):
        _add_checksums(table, sa.text(rows))


def _add_checksums(table: str, rows: sa.TextClause) -> None:
    connection = op.get_bind()
    write = sa.text(f"UPDATE {table} SET checksum = :checksum WHERE id = :id")
    after = -(2**63)
    while page := connection.execute(rows, {"after": after, "most": _AT_ONCE}).all():
        after = page[-1][0]
        connection.execute(write, [{"id": row[0], "checksum": _checksum(*row[1:])} for row in page])


def _checksum(content: object, name: str, *labels: object) -> int | None:
    # A value of another type is damage, which whoever reads it will name.
    if not isinstance(content, bytes):
        return None
    return zlib.crc32(content, zlib.crc32(f"{name}\0{labels}".encode()))
